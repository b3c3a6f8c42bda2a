"""Which ends measure each other: all of a zone, gateways between zones, at the endpoint that a node is mapped to."""

import json
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.mesh.mesh import Kind, Site, site_of
from cli.mesh.nodes import Selector, SiteNode, nodes_of_list
from cli.mesh.plan import LatencyTest, MeshPlan, archive_base, check_notes, round_notes
from extender.errors import ConfigError
from extender.network.mapping import MappingConfig, Rule
from scoring.ids import NodeName, ZoneName
from scoring.network.matrix import METRICS, Metric
from tests.cli.mesh.sites import at, two_zones


def zones(site: Site, kind: Kind = Kind.LATENCY) -> dict[str, list[str]]:
    """Zone → addresses of its ends."""
    return {zone: [end.address for end in ends] for zone, ends in site.meshes[kind].zones.items()}


def gateways(site: Site) -> dict[str, list[str]]:
    """Zone → keys of its gateways."""
    return {zone: [end.key for end in ends] for zone, ends in site.meshes[Kind.LATENCY].gateways.items()}


def test_a_small_site() -> None:
    site = site_of(two_zones())
    assert zones(site) == {
        "A": ["a1.lab.example", "a2.lab.example", "a3.lab.example"],
        "B": ["b1.lab.example", "b2.lab.example"],
    }
    assert gateways(site) == {"A": ["a1"], "B": ["b1"]}
    assert site.meshes[Kind.LATENCY] == site.meshes[Kind.THROUGHPUT]
    assert [(end.key, end.label) for end in site.ends] == [(name, name) for name in ("a1", "a2", "a3", "b1", "b2")]
    assert site.notes == ()


def test_measured_directions() -> None:
    """Three nodes are 6 directions, two are 2, and two pairs of two gateways are 8; each end counts its own."""
    mesh = site_of(two_zones(), gateways=2).meshes[Kind.LATENCY]
    assert mesh.pairs == 6 + 2 + 8
    a1, _, a3 = mesh.zones[ZoneName("A")]
    assert (mesh.directions(ZoneName("A"), a1), mesh.directions(ZoneName("A"), a3)) == (4 + 4, 4)


def test_gateways_can_be_chosen() -> None:
    nodes = [*two_zones(), at("a9", "A", labels={"edge": "yes"})]
    assert gateways(site_of(nodes, gateway_selector=Selector("edge=yes"))) == {"A": ["a9"], "B": ["b1"]}
    assert gateways(site_of(nodes, gateways=2, gateway_selector=Selector("edge"))) == {
        "A": ["a1", "a9"],
        "B": ["b1", "b2"],
    }


def test_one_zone_has_no_gateways() -> None:
    assert gateways(site_of(two_zones()[:3])) == {"A": []}


BW = {"netgang.io/endpoint-throughput": "bw1"}
LAT = {"netgang.io/endpoint-delay": "lat1"}
RULES = MappingConfig(
    rules=[Rule("n", "bw2", [Metric.THROUGHPUT])], zones={ZoneName("A"): dict.fromkeys(METRICS, "za")}
)
STATED = {  # case (`tests/extender/network` has all): (node, config, address of latency tests, of throughput tests)
    "nothing": (at("n", "A", "192.0.2.1", "2001:db8::1"), MappingConfig(), "192.0.2.1", "192.0.2.1"),
    "one metric": (at("n", "A", "192.0.2.1", annotations=BW), MappingConfig(), "192.0.2.1", "bw1"),
    "delay alone is loss too": (at("n", "A", "192.0.2.1", annotations=LAT), MappingConfig(), "lat1", "192.0.2.1"),
    "rule before zone": (at("n", "A"), RULES, "za", "bw2"),
}


@pytest.mark.parametrize(("node", "config", "latency", "throughput"), STATED.values(), ids=STATED)
def test_where_a_node_is_measured(node: SiteNode, config: MappingConfig, latency: str, throughput: str) -> None:
    site = site_of([node, at("other", "B")], config=config)
    assert zones(site)["A"] == [latency]
    assert zones(site, Kind.THROUGHPUT)["A"] == [throughput]
    keys = {end.address: end.key for end in site.ends}
    assert (keys[latency] == "n") == (latency == throughput)  # two addresses of one node need two names


def test_one_endpoint_per_zone() -> None:
    shared = {ZoneName(zone): {metric: f"ps-{zone.lower()}.example.org" for metric in METRICS} for zone in "AB"}
    site = site_of(two_zones(), config=MappingConfig(zones=shared))
    assert zones(site) == {"A": ["ps-a.example.org"], "B": ["ps-b.example.org"]}
    assert [(end.key, end.label) for end in site.ends] == [("ps-a.example.org",) * 2, ("ps-b.example.org",) * 2]
    assert gateways(site) == {"A": ["ps-a.example.org"], "B": ["ps-b.example.org"]}


def test_nodes_that_cannot_be_measured_are_named() -> None:
    lost = SiteNode(NodeName("lost"), ZoneName("A"), ())
    site = site_of([lost, *two_zones(), at("x1", ""), at("x2", "")])
    assert zones(site)[""] == ["x1.lab.example", "x2.lab.example"]
    assert site.notes == (
        "left out, with neither InternalIP nor endpoint: lost",
        "without a zone label, taken for one zone: x1, x2",
    )


REFUSED = {  # case: (nodes, selector, part of the sentence)
    "no nodes": ([], "", "there are no nodes"),
    "none selected": (two_zones(), "gpu", "none of 5 nodes has the labels gpu"),
    "one node": ([at("a1", "A")], "", "no two nodes"),
    "one address": ([at("a1", "A", "192.0.2.1"), at("a2", "A", "192.0.2.1")], "", "no two nodes"),
    "an endpoint in two zones": (
        [at("a1", "A", "192.0.2.1"), at("b1", "B", "192.0.2.1")],
        "",
        "of zone A and of zone B",
    ),
    "not an address": ([at("a1", "A", "Node A"), at("a2", "A")], "", "'Node A' is neither an address nor a host name"),
    "two endpoints of one test": (
        [at("a1", "A", annotations={"netgang.io/endpoint-loss": "x", "netgang.io/endpoint-delay": "y"}), at("a2", "A")],
        "",
        "node a1: one test measures loss and delay, but their endpoints are x and y",
    ),
    "a name for two": (
        [at("a1", "A", "ps1", labels={"netgang.io/endpoint-throughput": "a2"}), at("a2", "A", "192.0.2.2")],
        "",
        "a2 is the name of a node and of another node's endpoint",
    ),
}


@pytest.mark.parametrize(("nodes", "selector", "sentence"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_a_mesh(nodes: Sequence[SiteNode], selector: str, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        site_of(nodes, selector=Selector(selector))


SELECTORS = {  # case: (selector, whether a node with labels a=1, b= is taken)
    "empty": ("", True),
    "key": ("a", True),
    "value": ("a=1", True),
    "as kubectl's ==": ("a==1", True),
    "empty value": ("b=", True),
    "both": ("a=1, b", True),
    "other value": ("a=2", False),
    "no key": ("a,c", False),
}


@pytest.mark.parametrize(("text", "taken"), SELECTORS.values(), ids=SELECTORS)
def test_selectors(text: str, taken: bool) -> None:
    assert Selector(text).takes(at("n", "A", labels={"a": "1", "b": ""})) is taken


@pytest.mark.parametrize("text", ["a!=1", "a in (1)", ",", "a,"])
def test_selectors_that_are_not_understood(text: str) -> None:
    with pytest.raises(ConfigError, match="key=value"):
        Selector(text)


def test_internal_addresses_only() -> None:
    node = {
        "kind": "Node",
        "metadata": {"name": "n", "labels": {"topology.kubernetes.io/zone": "A"}},
        "status": {"addresses": [{"type": kind, "address": kind} for kind in ("ExternalIP", "Hostname", "InternalIP")]},
    }
    body = json.dumps({"kind": "List", "items": [{"kind": "Pod"}, node]}).encode()
    (read,) = nodes_of_list(body, where="c.json", zone_label="topology.kubernetes.io/zone")
    assert (read.name, read.zone, read.addresses) == ("n", "A", ("InternalIP",))


NO_FILES = {
    "a page": b"<html>",
    "no name": b'{"kind":"List","items":[{"kind":"Node","metadata":{}}]}',
    "no text": b'{"kind":"List","items":[{"kind":"Node","metadata":{"name":"\xff"}}]}',
    "deep": b"[" * 100_000,
}


@pytest.mark.parametrize("body", NO_FILES.values(), ids=NO_FILES)
def test_files_that_cannot_be_read(body: bytes) -> None:
    with pytest.raises(ConfigError, match=r"^c\.json: "):
        nodes_of_list(body, where="c.json", zone_label="z")


def test_a_round_that_takes_too_long_is_said() -> None:
    """Node a1 takes part in 4 directions of its zone and 2 to the other gateway: 6 slots of 30 s."""
    site = site_of(two_zones())
    assert round_notes(site, MeshPlan(throughput_interval_s=180)) == ()
    assert round_notes(site, MeshPlan(throughput_interval_s=179)) == (
        "throughput tests do not fit into 179 s on 1 of 5 hosts; a1 needs 180 s for one round",
    )


def test_checks_that_are_too_many_are_said() -> None:
    """130 nodes are 16,770 directions and twice as many checks: at 12 a second 2,795 s."""
    site = site_of([at(f"n{number}", "A") for number in range(130)])
    assert check_notes(site, interval_s=2795) == ()
    assert check_notes(site, interval_s=2794) == (
        "MaDDash runs about 12 checks a second: 33540 checks do not fit into 2794 s",
    )


PLANS = {  # case: settings of a plan that cannot be
    "name with a slash": {"name": "a/b"},
    "empty name": {"name": " "},
    "interval of latencybg": {"latency_interval_s": 59},
    "interval of owping": {"latency": LatencyTest.LATENCY, "latency_interval_s": 119},
    "throughput": {"throughput_interval_s": 29},
}


@pytest.mark.parametrize("given_plan", PLANS.values(), ids=PLANS)
def test_plans_that_cannot_be(given_plan: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        MeshPlan(**given_plan)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "url", ["archive.example.org", "https://", "https://h/x", "ftp://h", "https://u:p@h", "http://h:x"]
)
def test_archives_are_hosts(url: str) -> None:
    with pytest.raises(ConfigError, match="must be the archive's host"):
        archive_base(url)


@given(st.permutations(two_zones()), st.integers(0, 3))
def test_order_is_irrelevant(nodes: list[SiteNode], count: int) -> None:
    assert site_of(nodes, gateways=count) == site_of(two_zones(), gateways=count)
