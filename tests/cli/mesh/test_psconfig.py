"""The pSConfig template: exact for a small site, and what the published schema accepts for any."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.mesh.mesh import Kind, site_of
from cli.mesh.plan import LatencyTest, MeshPlan
from cli.mesh.psconfig import psconfig_template
from extender.errors import ConfigError
from tests.cli.mesh.sites import at, two_zones
from tests.contract.manifests.psconfig_rules import problems


def measured(template: dict[str, Any], kind: str) -> list[tuple[str, str]]:
    """Directions that pSConfig's agents make of the template, as (key, key); a pair in two groups is there twice."""
    found = []
    for task in template["tasks"].values():
        if task["test"] != kind:
            continue
        group = template["groups"][task["group"]]
        names = [one["name"] for one in group["addresses"]]
        excluded = {
            (pair["local-address"]["name"], target["name"])
            for pair in group.get("excludes", [])
            for target in pair["target-addresses"]
        }
        found += [(a, b) for a in names for b in names if a != b and (a, b) not in excluded]
    return sorted(found)


def test_the_template_of_a_small_site() -> None:
    nodes = [at("a1", "A", "192.0.2.1"), at("a2", "A", "192.0.2.2"), at("b1", "B", "2001:db8::1")]
    template = psconfig_template(site_of(nodes), MeshPlan(name="lab"), archive="https://archive.example.org")
    assert template["_meta"] == {"display-name": "lab"}
    assert template["addresses"]["b1"] == {"address": "2001:db8::1", "_meta": {"display-name": "b1"}}
    inside = {"type": "mesh", "addresses": [{"name": "a1"}, {"name": "a2"}]}
    between = {"type": "mesh", "addresses": [{"name": "a1"}, {"name": "b1"}]}
    groups = {f"{kind}-zone-A": inside for kind in ("latency", "throughput")}
    assert template["groups"] == groups | {"latency-gateways": between, "throughput-gateways": between}
    ends = {"source": "{% address[0] %}", "dest": "{% address[1] %}"}
    packets = {"packet-count": 600, "packet-interval": 0.1, "bucket-width": 0.001}
    assert template["tests"] == {
        "latency": {"type": "latencybg", "spec": {**ends, **packets}},
        "throughput": {"type": "throughput", "spec": {**ends, "duration": "PT20S"}},
    }
    assert template["schedules"] == {"throughput": {"repeat": "PT14400S", "slip": "PT14400S", "sliprand": True}}
    archive = template["archives"]["archive"]
    assert (archive["data"]["_url"], archive["data"]["verify-ssl"]) == ("https://archive.example.org/logstash", True)
    assert archive["_meta"] == {"esmond_url": "https://archive.example.org/esmond/perfsonar/archive/"}
    assert template["tasks"].keys() == template["groups"].keys()
    assert template["tasks"]["throughput-gateways"] == {
        "group": "throughput-gateways",
        "test": "throughput",
        "tools": ["iperf3"],
        "reference": {"display-task-name": "lab - between zones - throughput", "display-task-group": ["lab"]},
        "_meta": {"display-name": "between zones - throughput"},
        "schedule": "throughput",
        "archives": ["archive"],
    }


TESTS = {  # test → (tool, spec without its ends, schedule)
    LatencyTest.LATENCYBG: ("powstream", {"packet-count": 3000, "packet-interval": 0.1, "bucket-width": 0.00001}, None),
    LatencyTest.LATENCY: ("owping", {"packet-count": 600, "packet-interval": 0.1, "bucket-width": 0.00001}, "PT300S"),
    LatencyTest.RTT: ("ping", {"count": 60, "interval": "PT1S"}, "PT300S"),
}


@pytest.mark.parametrize(("test", "expected"), TESTS.items(), ids=[str(test) for test in TESTS])
def test_latency_tests(test: LatencyTest, expected: tuple[str, dict[str, Any], str | None]) -> None:
    """A background test gives a result per interval; the others send for a minute of each."""
    tool, spec, repeat = expected
    plan = MeshPlan(latency=test, latency_interval_s=300, bucket_width_ms=0.01)
    template = psconfig_template(site_of(two_zones()), plan)
    found = template["tests"]["latency"]
    assert found["type"] == test.value
    assert {key: value for key, value in found["spec"].items() if key not in ("source", "dest")} == spec
    assert template["tasks"]["latency-zone-A"]["tools"] == [tool]
    schedule = template["tasks"]["latency-zone-A"].get("schedule")
    assert (None if schedule is None else template["schedules"][schedule]["repeat"]) == repeat
    assert problems(template) == []


def test_nothing_is_measured_twice() -> None:
    template = psconfig_template(site_of(two_zones(), gateways=2), MeshPlan())
    a, b = ("a1", "a2", "a3"), ("b1", "b2")
    inside = [(x, y) for zone in (a, b) for x in zone for y in zone if x != y]
    between = [(x, y) for x in a[:2] for y in b] + [(y, x) for x in a[:2] for y in b]
    assert measured(template, "latency") == measured(template, "throughput") == sorted(inside + between)


def test_without_an_archive_each_testpoint_decides() -> None:
    assert "archive" not in json.dumps(psconfig_template(site_of(two_zones()), MeshPlan()))


def test_two_endpoints_of_a_node_are_two_addresses() -> None:
    nodes = [at("n1", "A", "192.0.2.1", annotations={"netgang.io/endpoint-throughput": "198.51.100.1"}), at("n2", "A")]
    template = psconfig_template(site_of(nodes), MeshPlan())
    assert [one["name"] for one in template["groups"]["latency-zone-A"]["addresses"]] == ["192.0.2.1", "n2"]
    assert [one["name"] for one in template["groups"]["throughput-zone-A"]["addresses"]] == ["198.51.100.1", "n2"]
    labels = {key: one["_meta"]["display-name"] for key, one in template["addresses"].items()}
    assert labels == {"192.0.2.1": "n1", "198.51.100.1": "n1", "n2": "n2"}


def test_zones_that_psconfig_cannot_name() -> None:
    """Labels of Kubernetes cannot have such a value; a file can."""
    with pytest.raises(ConfigError, match="zone 'Zürich': pSConfig names have"):
        psconfig_template(site_of([at("a", "Zürich"), at("b", "Zürich")]), MeshPlan())


LABEL = st.from_regex(r"([A-Za-z0-9]([A-Za-z0-9_.-]{0,6}[A-Za-z0-9])?)?", fullmatch=True)


@given(
    st.lists(st.tuples(LABEL, st.ip_addresses()), min_size=2, max_size=12, unique_by=lambda one: one[1]),
    st.integers(0, 3),
    st.sampled_from(LatencyTest),
    st.booleans(),
)
def test_any_site_is_a_template_that_the_schema_accepts(
    places: list[tuple[str, Any]], gateways: int, test: LatencyTest, archived: bool
) -> None:
    nodes = [at(f"n{number}", zone, str(address)) for number, (zone, address) in enumerate(places)]
    try:
        site = site_of(nodes, gateways=gateways)
    except ConfigError:
        assert len({zone for zone, _ in places}) == len(places)  # every node is alone in its zone
        assert gateways == 0
        return
    plan = MeshPlan(latency=test, latency_interval_s=300)
    template = psconfig_template(site, plan, archive="https://archive.example.org" if archived else None)
    assert problems(json.loads(json.dumps(template))) == []
    pairs = measured(template, "latency")
    assert len(set(pairs)) == len(pairs) == site.meshes[Kind.LATENCY].pairs


WRONG = {  # case: (what is said, path to the change, value)
    "no such collection": ("speeds is no collection", ("speeds",), {}),
    "field that no address has": ("addresses.a1: zone is no field", ("addresses", "a1", "zone"), "A"),
    "address with a blank": ("addresses.a1: a b", ("addresses", "a1", "address"), "a b"),
    "name with a slash": ("addresses.a/1: name", ("addresses", "a/1"), {"address": "192.0.2.1"}),
    "tool that is no list": (
        "tasks.latency-zone-A: tools is of another type",
        ("tasks", "latency-zone-A", "tools"),
        "x",
    ),
    "no such archive": ("tasks.latency-zone-A: no archives other", ("tasks", "latency-zone-A", "archives"), ["other"]),
    "no duration": ("schedules.throughput: duration", ("schedules", "throughput", "repeat"), "4h"),
    "slip as a number": ("schedules.throughput: sliprand is of", ("schedules", "throughput", "sliprand"), 1),
    "another kind of group": ("groups.latency-zone-A: type", ("groups", "latency-zone-A", "type"), "list"),
    "member that is no address": (
        "groups.latency-zone-A: {'name': 'x'}",
        ("groups", "latency-zone-A", "addresses"),
        [{"name": "x"}],
    ),
}


@pytest.mark.parametrize(("said", "path", "value"), WRONG.values(), ids=WRONG)
def test_the_rules_notice_what_the_schema_would(said: str, path: tuple[str, ...], value: object) -> None:
    template = json.loads(json.dumps(psconfig_template(site_of(two_zones()), MeshPlan(), archive="https://a.example")))
    assert problems(template) == []
    at = template
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    assert any(problem.startswith(said) for problem in problems(template)), problems(template)
