"""Which endpoint a node is measured at: what is stated, what rules say and cost, and what is found when nothing is."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from extender.errors import ConfigError
from extender.network.mapping import NodeMapping, map_nodes, ruled
from extender.ports import EndpointInfo
from extender.schemas import LeftOut
from extender.settings.network import PATTERN_LIMIT, EndpointRule, NetworkSettings, why_not
from extender.settings.settings import Settings
from scoring import EndpointId, NodeName
from scoring.model import Node
from scoring.network.matrix import METRICS, Measurement, MeasurementTable, Metric
from tests.builders import node


def end(name: str, *aliases: str) -> EndpointInfo:
    return EndpointInfo(EndpointId(name), aliases)


def machine(
    name: str, *addresses: str, annotations: Mapping[str, str] | None = None, labels: Mapping[str, str] | None = None
) -> Node:
    return node(name, addresses=addresses, annotations=tuple((annotations or {}).items()), labels=labels)


def endpoint(one: Node, *endpoints: EndpointInfo, config: NetworkSettings | None = None) -> str | None:
    return map_nodes([one], endpoints, config or NetworkSettings()).endpoint_of[Metric.LOSS].get(one.name)


AUTOMATIC = {  # case: (expected endpoint, node, endpoints)
    "same name": ("node1", machine("node1"), [end("node1"), end("node2")]),
    "other case and a trailing dot": ("Node1.Lab.", machine("node1.lab"), [end("Node1.Lab.")]),
    "alias is the name": ("ps1", machine("node1"), [end("ps1", "rack 3", "node1")]),
    "id is an address": ("10.0.0.1", machine("node1", "10.0.0.1"), [end("10.0.0.1"), end("10.0.0.2")]),
    "alias is an address": ("ps1", machine("node1", "10.0.0.1"), [end("ps1", "10.0.0.1")]),
    "alias is a host name": ("ps1", machine("n", "node1.lab.example"), [end("ps1", "node1.lab.example")]),
    "IPv6 in another form": ("x", machine("n", "2001:db8:c::2"), [end("x", "2001:0DB8:000c:0:0:0:0:2")]),
    "IPv6 in brackets": ("[2001:db8::1]", machine("n", "2001:db8::1"), [end("[2001:db8::1]")]),
    "IPv4 inside IPv6": ("::ffff:192.0.2.7", machine("n", "192.0.2.7"), [end("::ffff:192.0.2.7")]),
    "endpoint has a domain": ("node1.lab.example", machine("node1"), [end("node1.lab.example")]),
    "node has a domain": ("node1", machine("node1.lab.example"), [end("node1")]),
    "alias has a domain": ("ps1", machine("node1"), [end("ps1", "node1.lab.example")]),
    "name goes before host name": ("node1", machine("node1"), [end("node1"), end("node1.lab.example")]),
    "two domains are two machines": (None, machine("ps1.zone-a.example"), [end("ps1.zone-b.example")]),
    "host names are whole": (None, machine("node1"), [end("node10"), end("node1x.lab.example")]),
    "addresses have no host name": (None, machine("n", "10.0.0.1"), [end("10.1.2.3"), end("10")]),
    "no endpoint": (None, machine("node1"), []),
}


@pytest.mark.parametrize(("wanted", "one", "endpoints"), AUTOMATIC.values(), ids=AUTOMATIC)
def test_automatic(wanted: str | None, one: Node, endpoints: list[EndpointInfo]) -> None:
    assert wanted == endpoint(one, *endpoints)


AMBIGUOUS = {  # case: (candidates, node, endpoints)
    "alias of two": (["a", "b"], machine("node1"), [end("b", "node1"), end("a", "node1")]),
    "another's address": (["node1", "x"], machine("node1", "10.0.0.1"), [end("node1"), end("x", "10.0.0.1")]),
    "twins": (["v4", "v6"], machine("n", "10.0.0.1", "fd00::1"), [end("v6", "fd00::1"), end("v4", "10.0.0.1")]),
    "twins by a rule": (["a", "b"], machine("ruled"), [end("a", "twin"), end("b", "twin")]),
    "two domains": (["ps1.a.example", "ps1.b.example"], machine("ps1"), [end("ps1.b.example"), end("ps1.a.example")]),
}


@pytest.mark.parametrize(("candidates", "one", "endpoints"), AMBIGUOUS.values(), ids=AMBIGUOUS)
def test_ambiguous(candidates: list[str], one: Node, endpoints: list[EndpointInfo]) -> None:
    found = map_nodes([one], endpoints, NetworkSettings(mapping=(rule("ruled", "twin"),)))
    assert (found.endpoint_of[Metric.LOSS], found.unmapped[Metric.LOSS]) == ({}, ())
    assert [tuple(candidates)] * 3 == [doubt.candidates for doubt in found.ambiguous]


def test_host_names_that_two_nodes_claim_or_whose_endpoint_is_taken() -> None:
    nodes = [machine("ps1.a.example"), machine("ps1.b.example")]
    found = map_nodes(nodes, [end("ps1")], NetworkSettings())
    assert found.endpoint_of[Metric.DELAY] == {}
    assert {"ps1.a.example", "ps1.b.example"} == {doubt.node for doubt in found.ambiguous}
    found = map_nodes(nodes, [end("ps1", "ps1.a.example")], NetworkSettings())
    assert found.endpoint_of[Metric.LOSS] == {"ps1.a.example": "ps1"}
    assert (found.unmapped[Metric.LOSS], found.ambiguous) == (("ps1.b.example",), ())


KEY = "netgang.io/endpoint"
STATED = {  # case: (loss, throughput, rules, annotations, labels)
    "annotation before rule": ("c", "c", [("n", "b")], {KEY: "c"}, {KEY: "d"}),
    "label before rule": ("d", "d", [("n", "b")], {}, {KEY: "d"}),
    "annotation for one metric": ("c", "d", [], {f"{KEY}-loss": "c"}, {KEY: "d"}),
    "the metric's own before the general": ("d", "c", [], {f"{KEY}-loss": "d", KEY: "c"}, {}),
    "blank says nothing": ("n", "n", [], {KEY: "  "}, {KEY: ""}),
    "by an alias": ("b", "b", [], {KEY: "B.Lab.Example"}, {}),
    "an unknown name": (None, "n", [], {f"{KEY}-loss": "nobody"}, {}),
}


@pytest.mark.parametrize(("loss", "throughput", "rules", "annotations", "labels"), STATED.values(), ids=STATED)
def test_stated(
    loss: str | None, throughput: str | None, rules: Any, annotations: dict[str, str], labels: dict[str, str]
) -> None:
    """Annotation, label, rule: the first that says something decides, also when the name would match another."""
    endpoints = [end("n"), end("b", "b.lab.example"), end("c"), end("d")]
    config = NetworkSettings(mapping=tuple(rule(*one) for one in rules))
    found = map_nodes([machine("n", annotations=annotations, labels=labels)], endpoints, config)
    named = [found.endpoint_of[metric].get(NodeName("n")) for metric in (Metric.LOSS, Metric.THROUGHPUT)]
    assert [loss, throughput] == named


def test_hosts_for_delay_and_for_throughput() -> None:
    values = [("n-lat", Metric.LOSS), ("n-bw", Metric.THROUGHPUT)]
    tables = [
        MeasurementTable.from_measurements(Measurement(EndpointId(e), EndpointId(e), m, 0.0, 0.0) for e, m in values)
    ]
    endpoints = [end("n-lat", "10.0.0.1"), end("n-bw", "10.0.0.1")]
    found = map_nodes([machine("n", "10.0.0.1")], endpoints, NetworkSettings(), tables)
    assert [found.endpoint_of[metric] for metric in METRICS] == [{"n": "n-lat"}, {}, {"n": "n-bw"}]
    assert (found.ambiguous, found.unused) == ((), ())


NAMES = st.sampled_from(["n1", "n2", "n1.a", "n1.b", "N2.", "10.0.0.1", "fd00::1", "fd00:0::1"])
LISTED = st.lists(st.tuples(NAMES, st.lists(NAMES, max_size=2)), max_size=5, unique_by=lambda one: one[0])


@given(LISTED, LISTED)
def test_order_is_irrelevant(machines: list[tuple[str, list[str]]], ends: list[tuple[str, list[str]]]) -> None:
    nodes = [machine(name, *addresses) for name, addresses in machines]
    endpoints = [end(name, *aliases) for name, aliases in ends]
    found = map_nodes(nodes, endpoints, NetworkSettings())
    assert found == map_nodes(nodes[::-1], endpoints[::-1], NetworkSettings())
    for metric in METRICS:
        doubtful = [doubt.node for doubt in found.ambiguous if doubt.metric is metric]
        listed = [*found.endpoint_of[metric], *found.unmapped[metric], *doubtful]
        assert sorted(one.name for one in nodes) == sorted(listed)


def test_nodes_are_in_one_list_each() -> None:
    nodes = [node(f"n{i:02}") for i in range(30)]
    ends = [*(end(f"n{i:02}") for i in range(5)), *(end(f"twin{k:02}", "n05") for k in range(12))]
    found = map_nodes(nodes, ends, NetworkSettings()).document(most=10)
    assert found.nodes["loss"] == {"mapped": 5, "unmapped": 24, "ambiguous": 1}
    assert found.unmapped[Metric.LOSS] == tuple(f"n{i:02}" for i in range(6, 16))
    assert [one.node for one in found.ambiguous] == ["n05"] * 3
    assert found.ambiguous[0].candidates == found.unused == tuple(f"twin{k:02}" for k in range(10))
    assert found.ambiguous[0].more_candidates == 2
    assert found.left_out == LeftOut({metric.value: 14 for metric in METRICS}, ambiguous=0, unknown=0, unused=2)


@pytest.mark.slow
def test_a_document_of_thousands_of_nodes_is_short() -> None:
    wrong = {"netgang.io/endpoint": "x" * 200_000}
    nodes = [node(f"a{i:04}", annotations=wrong) for i in range(5000)]
    nodes += [node(f"b{i:04}", addresses=("shared",)) for i in range(5000)]
    mapping = map_nodes(nodes, [end(f"end{k:04}", "shared") for k in range(5000)], NetworkSettings())
    for most in (10, 100):
        found = mapping.document(most=most)
        assert len(msgspec.json.encode(found)) < 2000 * most
        assert len(found.unknown) + found.left_out.unknown == len(mapping.unknown) == 15_000
        assert len(found.ambiguous) + found.left_out.ambiguous == len(mapping.ambiguous) == 15_000


def rule(pattern: str, endpoint: str, metrics: Sequence[Metric] = METRICS) -> EndpointRule:
    return EndpointRule(node=pattern, endpoint=endpoint, metrics=tuple(metrics))


PS = rule(r"node(\d+)", r"ps-node\1.example.org")


def mapped(rules: Sequence[EndpointRule], *nodes: Node, ends: Sequence[str]) -> NodeMapping:
    return map_nodes(nodes, [end(name) for name in ends], NetworkSettings(mapping=tuple(rules)))


RULED = {  # case: (endpoint's name, node, rules)
    "group by number": ("ps-node7.example.org", "node7", [PS]),
    "group by name": ("ps-7", "rack3-7", [rule(r"rack\d+-(?P<n>\d+)", r"ps-\g<n>")]),
    "the whole name": (None, "node7b", [PS]),
    "not only its end": (None, "gpunode7", [PS]),
    "no group": ("gateway", "edge-1", [rule("edge-.*", "gateway")]),
    "the first that matches": ("one", "node7", [rule("node.*", "one"), rule(r"node\d", "two")]),
    "a group that matched nothing": ("ps-x", "x", [rule(r"(\d+)?x", r"ps-\1x")]),
    "nothing is left": (None, "x", [rule(r"(\d+)?x", r"\1")]),
    "longer than any node's name": (None, "n" * 254, [rule("n.*", "ps")]),
}


@pytest.mark.parametrize(("want", "name", "rules"), RULED.values(), ids=RULED)
def test_what_rules_make_of_a_name(want: str | None, name: str, rules: list[EndpointRule]) -> None:
    found = ruled(rules, node(name), Metric.DELAY)
    assert want == (None if found is None else found[1])


def test_rules_for_some_metrics() -> None:
    rules = [rule("n(.)", r"bw\1", [Metric.THROUGHPUT]), rule("n(.)", r"lat\1", [Metric.DELAY, Metric.THROUGHPUT])]
    found = mapped(rules, node("n1"), ends=["bw1", "lat1", "n1"])
    assert [found.endpoint_of[metric] for metric in METRICS] == [{"n1": "n1"}, {"n1": "lat1"}, {"n1": "bw1"}]


def site(zone: str, endpoint: str) -> EndpointRule:
    return EndpointRule(zone=zone, endpoint=endpoint)


MESH = ["us-west site-12", "us-west site-3", "eu site-1"]
SITES = [node(name, zone=zone) for zone in ("west-12", "west-3", "eu-1") for name in (f"{zone}-a", f"{zone}-b")]


def test_one_rule_maps_a_mesh_of_sites() -> None:
    """A zone's nodes share the host that measures for the site; a node without a zone is of no site."""
    rules = [site(r"west-(\d+)", r"us-west site-\1"), site("eu.*", "eu site-1")]
    found = mapped(rules, *SITES, node("x", zone=""), ends=MESH)
    assert [found.endpoint_of[Metric.LOSS][one.name] for one in SITES] == [end for end in MESH for _ in "ab"]
    assert (found.unmapped[Metric.LOSS], found.unused, found.rules) == (("x",), (), ())


def test_the_first_rule_that_matches_decides_whether_it_is_of_nodes_or_of_zones() -> None:
    nodes, ends = [node("gw"), node("node1"), node("node2", zone="b")], ["gw", "zone", "ps-node2.example.org"]
    found = mapped([rule("gw", "gw"), site("a", "zone"), PS], *nodes, ends=ends)
    assert found.endpoint_of[Metric.LOSS] == {"gw": "gw", "node1": "zone", "node2": "ps-node2.example.org"}


THREE, TWO = ["ps.eu-1.lab", "ps.west-12.lab", "ps.west-3.lab"], [node("n1"), node("n2")]
ADD = {  # case: (rule for the first endpoint that no node has, nodes, endpoints)
    "zones by a pattern": (r"{zone: '(.+)', endpoint: 'ps.\1.lab'}", SITES, THREE),
    "a pattern takes z": ("{zone: 'eu\\-1', endpoint: 'ps.eu-1.lab'}", [*SITES, node("z", zone="z")], [*THREE, "z"]),
    "nodes by a pattern": (r"{node: '(n\d+)', endpoint: 'ps-\1.lab'}", TWO, ["ps-n1.lab", "ps-n2.lab"]),
    "a zone of which a node has its own endpoint": ("{node: 'NODE', endpoint: 'ps.a'}", [*TWO], ["ps.a", "n2"]),
    "no name in it": ("{node: 'NODE', endpoint: 'it''s 7'}", [node("n1")], ["it's 7"]),
}  # fmt: skip


@pytest.mark.parametrize(("want", "nodes", "ends"), ADD.values(), ids=ADD)
def test_the_rule_to_add(want: str, nodes: list[Node], ends: list[str]) -> None:
    found = mapped([], *nodes, ends=ends)
    assert dict(zip(found.unused, found.rules, strict=True))[EndpointId(ends[0])] == want
    if "NODE" not in want:
        added = Settings.changed(Settings(), {"network": {"mapping": [yaml.safe_load(want)]}}).network
        assert ends[0] not in map_nodes(nodes, [end(name) for name in ends], added).unused


UNKNOWN = {  # case: (what is said, node)
    "annotation": ("annotation netgang.io/endpoint-loss names 'm'", machine("n", annotations={f"{KEY}-loss": "m"})),
    "rule": ("rule 1 names 'ps-node7.example.org'", machine("node7")),
}


@pytest.mark.parametrize(("said", "one"), UNKNOWN.values(), ids=UNKNOWN)
def test_a_stated_name_that_nobody_has_is_said(said: str, one: Node) -> None:
    found = mapped([rule("x", "y"), PS], one, ends=[one.name])
    assert found.unmapped[Metric.LOSS] == (one.name,)
    assert found.unknown[0] == f"node {one.name}: the {said}: no endpoint of loss has this name"


PLAIN: dict[str, object] = {"node": "n(.)", "endpoint": "ps"}
REFUSED = {  # case: (words of the sentence after `network.mapping.0`, rule)
    "no regular expression": (".node = 'n(' (from the command line): must be a regular expr", "n("),
    "repeated group": (".node = '(a+)+' (from the command line): must not repeat a group", "(a+)+"),
    "repeated choice": (".node = '(a|aa)*b' (from the command line): must not repeat", "(a|aa)*b"),
    "group a fixed number of times": (".node = '(a*){9}' (from the command line): must not", "(a*){9}"),
    "refers back": (".node = '(a)\\\\1' (from the command line): must have no groups but", r"(a)\1"),
    "refers back by name": (".node = ", "(?P<x>a)(?P=x)"),
    "looks ahead": (".node = '(?=a)a' (from the command line): must have no groups but", "(?=a)a"),
    "many repeats": (".node = 'a*b*c*d*' (from the command line): must have at most 3", "a*b*c*d*"),
    "no metrics": (".metrics = [] (from", PLAIN | {"metrics": []}),
    "many choices": (".node = ", "a?" * 9),
    "long": (".node = ", "a" * (PATTERN_LIMIT + 1)),
    "no such group": (" (from the command line): endpoint 'ps\\\\2' does not go with", PLAIN | {"endpoint": r"ps\2"}),
    "a zone, too": (" (from the command line): must have one of node and zone", PLAIN | {"zone": "a"}),
    "no group of this name": (" (from the", PLAIN | {"endpoint": r"ps\g<x>"}),
}


@pytest.mark.parametrize(("said", "rule"), REFUSED.values(), ids=REFUSED)
def test_a_rule_that_is_refused(said: str, rule: str | dict[str, object]) -> None:
    written = PLAIN | {"node": rule} if isinstance(rule, str) else rule
    with pytest.raises(ConfigError) as caught:
        Settings.load(overrides={"network.mapping": [written]})
    assert f"network.mapping.0{said}" in str(caught.value)


WORST = ["a*a*a*b", "[a-z]+[a-z]+[a-z]+1", "(a*)(a*)(a*)b", ".*.*.*b", "a?a?a?a?a?a?a?a?a*b"]


@pytest.mark.parametrize("pattern", WORST)
def test_the_worst_that_is_accepted(pattern: str) -> None:
    """The dearest patterns and the longest name end before the test's limit, which a refused one would not."""
    assert why_not(pattern) is None
    assert ruled([rule(pattern, "ps")], node("a" * 253), Metric.LOSS) is None


@given(st.text(alphabet="ab(|)*+?{}12,\\.[]^$:P<>=", max_size=24), st.text(alphabet="ab12.", max_size=12))
def test_no_text_can_break_the_check(pattern: str, name: str) -> None:
    if (problem := why_not(pattern)) is None:
        re.compile(pattern).fullmatch(name)
    else:
        assert problem.startswith("must ")
