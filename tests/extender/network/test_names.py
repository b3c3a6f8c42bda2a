"""Endpoints made from node names: what a rule says, what goes before it, and what a pattern may cost."""

import re
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from extender.errors import ConfigError
from extender.network.mapping import NodeMapping, map_nodes, matching, ruled
from extender.ports import EndpointInfo
from extender.settings.network import PATTERN_LIMIT, EndpointRule, NetworkSettings, why_not
from extender.settings.settings import Settings
from scoring.ids import EndpointId, NodeName, ZoneName
from scoring.model import Node
from scoring.network.matrix import METRICS, Metric
from tests.builders import node


def rule(pattern: str, endpoint: str, metrics: Sequence[Metric] = METRICS) -> EndpointRule:
    return EndpointRule(pattern=pattern, endpoint=endpoint, metrics=tuple(metrics))


PS = rule(r"node(\d+)", r"ps-node\1.example.org")


def mapped(
    rules: Sequence[EndpointRule], *nodes: Node | str, ends: Sequence[str], config: NetworkSettings | None = None
) -> NodeMapping:
    return map_nodes(
        [node(one) if isinstance(one, str) else one for one in nodes],
        [EndpointInfo(EndpointId(end), ()) for end in ends],
        replace(config or NetworkSettings(), rules=tuple(rules)),
    )


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
    found = ruled(rules, NodeName(name), Metric.DELAY)
    assert want == (None if found is None else found[1])


def test_rules_for_some_metrics() -> None:
    rules = [rule("n(.)", r"bw\1", [Metric.THROUGHPUT]), rule("n(.)", r"lat\1", [Metric.DELAY, Metric.THROUGHPUT])]
    found = mapped(rules, "n1", ends=["bw1", "lat1", "n1"])
    assert [found.endpoint_of[metric] for metric in METRICS] == [{"n1": "n1"}, {"n1": "lat1"}, {"n1": "bw1"}]


def test_what_goes_before_a_rule_and_what_behind() -> None:
    config = NetworkSettings(
        mapping={NodeName("node1"): dict.fromkeys(METRICS, "table")},
        zone_mapping={ZoneName("a"): dict.fromkeys(METRICS, "zone")},
    )
    noted = node("node2", annotations=(("netgang.io/endpoint", "noted"),))
    ends = ["table", "noted", "zone", "ps-node1.example.org", "ps-node2.example.org", "ps-node3.example.org", "gw"]
    found = mapped([PS], "node1", noted, "node3", "gw", ends=ends, config=config)
    assert found.endpoint_of[Metric.LOSS] == {
        "node1": "table",
        "node2": "noted",
        "node3": "ps-node3.example.org",
        "gw": "zone",
    }


def test_a_rule_that_makes_a_name_nobody_has() -> None:
    found = mapped([rule("x", "y"), PS], "node7", ends=["node7"])
    assert found.unmapped[Metric.LOSS] == ("node7",)
    assert found.unknown[0] == "node node7: the rule 1 names 'ps-node7.example.org': no endpoint of loss has this name"


def test_a_rule_whose_name_two_endpoints_have() -> None:
    ends = [EndpointInfo(EndpointId(end), ("ps-node7.example.org",)) for end in ("a", "b")]
    found = map_nodes([node("node7")], ends, NetworkSettings(rules=(PS,)))
    assert found.endpoint_of[Metric.LOSS] == {}
    assert found.ambiguous[0].candidates == ("a", "b")


def test_the_settings_reach_the_mapping() -> None:
    written = {"pattern": r"node(\d+)", "endpoint": r"ps\1", "metrics": ["delay"]}
    config = Settings().changed({"network": {"rules": [written]}}).network
    assert config.rules == (rule(r"node(\d+)", r"ps\1", (Metric.DELAY,)),)


REFUSED = {  # case: (beginning of the sentence, rule)
    "no pattern": ("network.rules.0.pattern: must be given", {"endpoint": "ps"}),
    "no regular expression": ("network.rules.0.pattern = 'n(' (from the command line): must be a regular expr", "n("),
    "repeated group": ("network.rules.0.pattern = '(a+)+' (from the command line): must not repeat a group", "(a+)+"),
    "repeated choice": ("network.rules.0.pattern = '(a|aa)*b' (from the command line): must not repeat", "(a|aa)*b"),
    "group a fixed number of times": (
        "network.rules.0.pattern = '(a*){9}' (from the command line): must not",
        "(a*){9}",
    ),
    "refers back": ("network.rules.0.pattern = '(a)\\\\1' (from the command line): must not refer back", r"(a)\1"),
    "refers back by name": ("network.rules.0.pattern = ", "(?P<x>a)(?P=x)"),
    "looks ahead": ("network.rules.0.pattern = '(?=a)a' (from the command line): must have no groups but", "(?=a)a"),
    "many repeats": ("network.rules.0.pattern = 'a*b*c*d*' (from the command line): must have at most 3", "a*b*c*d*"),
    "many choices": ("network.rules.0.pattern = ", "a?" * 9),
    "long": ("network.rules.0.pattern = ", "a" * (PATTERN_LIMIT + 1)),
    "no such group": (
        "network.rules.0 (from the command line): endpoint 'ps\\\\2' does not go with pattern 'n(.)': inv",
        {"pattern": "n(.)", "endpoint": r"ps\2"},
    ),
    "no group of this name": ("network.rules.0 (from the", {"pattern": "n(.)", "endpoint": r"ps\g<x>"}),
    "no such metric": (
        "network.rules.0.metrics.0 = 'jitter' (from the command line): must be 'loss', 'delay' or 'throughput'",
        {"pattern": "n", "endpoint": "ps", "metrics": ["jitter"]},
    ),
    "no metrics": ("network.rules.0.metrics = [] (from", {"pattern": "n", "endpoint": "ps", "metrics": []}),
    "misspelt": (
        "network.rules.0.endpiont (from the command line): no such setting; did you mean endpoint?",
        {"pattern": "n", "endpoint": "ps", "endpiont": "x"},
    ),
}


@pytest.mark.parametrize(("said", "rule"), REFUSED.values(), ids=REFUSED)
def test_a_rule_that_is_refused(said: str, rule: str | dict[str, object]) -> None:
    written = {"pattern": rule, "endpoint": "ps"} if isinstance(rule, str) else rule
    with pytest.raises(ConfigError) as caught:
        Settings.load(overrides={"network.rules": [written]})
    assert said in str(caught.value)


ACCEPTED = [
    r"node(\d+)",
    r"rack(\d+)-node(\d+)\.(.*)",
    r"(gpu|cpu|mem)-[a-z]{2}-(?P<n>\d{1,3})",
    r"[()*+?{}|]+",
    r"a\(b\)*",
    r"node(\d+)(\.lab)?",
    r"[]^-]x",
    "a{3}b",
]


@pytest.mark.parametrize("pattern", ACCEPTED)
def test_patterns_that_are_usual(pattern: str) -> None:
    assert why_not(pattern) is None


WORST = ["a*a*a*b", "[a-z]+[a-z]+[a-z]+1", "(a*)(a*)(a*)b", ".*.*.*b", "a?a?a?a?a?a?a?a?a*b"]


@pytest.mark.parametrize("pattern", WORST)
def test_the_worst_that_is_accepted(pattern: str) -> None:
    """The dearest patterns and the longest name end before the test's limit, which a refused one would not."""
    assert why_not(pattern) is None
    assert ruled([rule(pattern, "ps")], NodeName("a" * 253), Metric.LOSS) is None


def test_a_name_is_matched_once() -> None:
    rules, name = [rule("c*[a-c]*[a-c]*d", "ps")], NodeName("c" * 253)
    ruled(rules, name, Metric.LOSS)
    matched = matching.cache_info().misses
    for metric in METRICS * 100:
        assert ruled(rules, name, metric) is None
    assert matching.cache_info().misses == matched


@given(st.text(alphabet="ab(|)*+?{}12,\\.[]^$:P<>=", max_size=24), st.text(alphabet="ab12.", max_size=12))
def test_no_text_can_break_the_check(pattern: str, name: str) -> None:
    problem = why_not(pattern)
    if problem is None:
        re.compile(pattern).fullmatch(name)
    else:
        assert problem.startswith("must ")
