"""Which node or zone is named for bad links, and when it is announced: virtual time, no cluster."""

from collections.abc import Callable, Iterable, Mapping
from itertools import permutations, product
from types import MappingProxyType
from typing import Any

import pytest

from scoring import METRICS, EndpointId, Metric, NodeName, ZoneName
from scoring.network import node_links as rules
from scoring.network.matrix import NetworkMatrix
from scoring.network.measurement import Measurement
from scoring.network.node_links import AlarmState, LinksLook
from scoring.records import DegradedLinks, Subject, SubjectKind

USUAL = {Metric.LOSS: 0.0, Metric.DELAY: 0.2, Metric.THROUGHPUT: 1e10}
FAR = {Metric.LOSS: 0.0, Metric.DELAY: 5.0, Metric.THROUGHPUT: 1e9}  # Between zones
Faults = Mapping[str, tuple[Metric, float]]


def zones(count: int, nodes: int) -> dict[NodeName, ZoneName]:
    return {NodeName(f"{zone}{i}"): ZoneName(zone) for zone in "abcdef"[:count] for i in range(nodes)}


def full_mesh(zone_of: Mapping[NodeName, ZoneName], value: Callable[[str, str, Metric], float]) -> LinksLook:
    ends = {metric: {node: EndpointId(node) for node in zone_of} for metric in METRICS}
    links = [(EndpointId(a), EndpointId(b), metric) for (a, b), metric in product(permutations(zone_of, 2), METRICS)]
    rows = [Measurement(*link, value(*link), 0.0) for link in links]
    return rules.degraded(
        NetworkMatrix.from_measurements(rows, endpoint_of=ends, now_s=0.0), zone_of, ages_s=dict.fromkeys(METRICS)
    )


def look(zone_of: Mapping[NodeName, ZoneName], faults: Faults = MappingProxyType({})) -> LinksLook:
    """A full mesh; a fault is of all links of a node, of a zone to others ("a>"), or inside it ("a")."""

    def value(one: str, other: str, metric: Metric) -> float:
        far = one[0] != other[0]
        for end in (one, other):
            of_zone = f"{end[0]}>" if far else end[0]
            for fault in (end, of_zone):
                if fault in faults and faults[fault][0] is metric:
                    return faults[fault][1]
        return (FAR if far else USUAL)[metric]

    return full_mesh(zone_of, value)


def named(found: LinksLook) -> list[tuple[SubjectKind, str, Metric]]:
    return sorted((*one.about, Metric(one.metric)) for one in found.degraded)


NODE_FAULTS: dict[str, tuple[Metric, float]] = {
    "1 % loss": (Metric.LOSS, 0.01),
    "+5 ms of the round trip": (Metric.DELAY, 2.7),
    "10 Mbit/s": (Metric.THROUGHPUT, 1e7),
}


@pytest.mark.parametrize("fault", NODE_FAULTS.values(), ids=NODE_FAULTS)
def test_a_bad_node_is_named_and_no_neighbour(fault: tuple[Metric, float]) -> None:
    found = look(zones(2, 4), {"a1": fault})
    assert named(found) == [(SubjectKind.NODE, "a1", fault[0])]
    assert [(one.bad, one.of, one.worst) for one in found.degraded] == [(6, 6, fault[1])]


def test_all_nodes_that_lose_what_they_send_are_named() -> None:
    """A link between two of them is explained by the first, and counts neither for nor against the other."""

    def value(one: str, other: str, metric: Metric) -> float:
        return 0.01 if one in ("a1", "a2", "a4") and metric is Metric.LOSS else USUAL[metric]

    found = full_mesh(zones(1, 9), value)
    assert [(one.name, one.bad, one.of) for one in found.degraded] == [("a1", 10, 16), ("a2", 8, 14), ("a4", 6, 12)]
    assert found.uncertain == frozenset()


def test_a_bad_link_alone_names_no_node() -> None:
    """Its fault may be at either end."""

    def value(one: str, other: str, metric: Metric) -> float:
        return 0.1 if {one, other} == {"a0", "a1"} and metric is Metric.LOSS else USUAL[metric]

    assert (look(zones(1, 3)).degraded, named(full_mesh(zones(1, 3), value))) == ((), [])


def test_a_zone_whose_inner_links_are_all_bad_is_named_once() -> None:
    assert named(look(zones(2, 6), {"a": (Metric.LOSS, 0.01)})) == [(SubjectKind.ZONE, "a", Metric.LOSS)]


def test_links_between_zones_name_nothing() -> None:
    """Distance makes them what they are; and gateways, which measure the bad node, too, are not bad for that."""
    found = look(zones(3, 3), {"b>": (Metric.LOSS, 0.5)})
    assert (found.degraded, found.uncertain) == ((), frozenset())
    assert named(look(zones(3, 3), {"a1": (Metric.LOSS, 0.01)})) == [(SubjectKind.NODE, "a1", Metric.LOSS)]


NODE = Subject(SubjectKind.NODE, "n1")


def seen(state: str) -> LinksLook:
    """What a look says of n1: bad, some (uncertain), good, delay (good, and loss is not measured), or nothing."""
    found = (DegradedLinks(*NODE, "loss", 4, 4, 0.1, "n1", "n2"),) if state == "bad" else ()
    metrics = {"nothing": set[str](), "delay": {"delay"}}.get(state, {"loss", "delay"})
    doubted = frozenset({NODE} if state == "some" else ())
    return LinksLook(found, {NODE: frozenset(metrics)}, frozenset({"n1"}), doubted)


def announced(looks: Iterable[tuple[float, str]], *, every_s: float = 5.0) -> list[tuple[float, bool]]:
    """When n1 is announced, and as bad or good; each look stands until the next, the last one for an hour."""
    found: list[tuple[float, bool]] = []
    states: dict[Subject, AlarmState] = {}
    sequence = [*looks]
    ends = [*(at_s for at_s, _ in sequence[1:]), sequence[-1][0] + 3600.0]
    for (now_s, state), end_s in zip(sequence, ends, strict=True):
        while now_s < end_s:
            states, alarms = rules.step(states, seen(state), now_s=now_s)
            found += [(now_s, states[one].announced_bad) for one in alarms]
            now_s += every_s
    return found


CASES: dict[str, tuple[list[tuple[float, str]], list[tuple[float, bool]]]] = {
    "bad, then good": ([(0.0, "bad"), (5000.0, "good")], [(rules.BAD_S, True), (5000.0 + rules.GOOD_S, False)]),
    "shorter than a minute": ([(0.0, "bad"), (50.0, "good")], []),
    "good again soon: at most one change an hour": (
        [(0.0, "bad"), (100.0, "good")],
        [(rules.BAD_S, True), (rules.BAD_S + rules.QUIET_S, False)],
    ),
    "good and bad again within the hour": (
        [(0.0, "bad"), (100.0, "good"), (300.0, "bad"), (5000.0, "good")],
        [(rules.BAD_S, True), (5000.0 + rules.GOOD_S, False)],
    ),
    "flaps each half minute": ([(30.0 * i, "bad" if i % 2 else "good") for i in range(41)], []),
    "uncertain for long": (
        [(0.0, "bad"), (100.0, "some"), (5000.0, "good")],
        [(rules.BAD_S, True), (5000.0 + rules.GOOD_S, False)],
    ),
    "uncertain from the start": ([(0.0, "some")], []),
    "only what was not bad is measured for an hour": ([(0.0, "bad"), (100.0, "delay")], [(60.0, True)]),
    "an hour without values": ([(0.0, "bad"), (100.0, "nothing"), (900.0, "nothing")], [(60.0, True), (3815.0, False)]),
}


def test_what_is_not_measured_says_so() -> None:
    _, words = rules.mark_words(NODE, AlarmState(False, 0.0, 0.0), seen("nothing")) or ("", "")
    assert words == "links are not measured any more"
    lossy = AlarmState(False, 0.0, 0.0, metrics=frozenset({"loss"}))
    reasons = [(rules.mark_words(NODE, lossy, seen(state)) or ("",))[0] for state in ("delay", "good")]
    assert reasons == ["NotMeasured", "GoodLinks"]


def test_a_bad_zone_hides_its_nodes() -> None:
    """Then nobody can tell whether a node that was bad by itself is so still."""
    found = look(zones(2, 6), {"a": (Metric.LOSS, 0.01)})
    assert {about.name for about in found.uncertain} == {f"a{i}" for i in range(6)}


@pytest.mark.parametrize(("looks", "expected"), CASES.values(), ids=CASES)
def test_when_it_is_announced(looks: list[tuple[float, str]], expected: list[tuple[float, bool]]) -> None:
    assert announced(looks) == expected


def test_many_at_once_are_announced_one_after_the_other_and_all_are_forgotten() -> None:
    many = [Subject(SubjectKind.NODE, f"n{i:03}") for i in range(3 * rules.MOST)]
    there = frozenset(one.name for one in many)
    found = tuple(DegradedLinks(*one, "loss", 4, 4, 0.1, "x", "y") for one in many)
    known = dict.fromkeys(many, frozenset({"loss"}))
    bad, good = LinksLook(found, known, there), LinksLook((), known, there)
    states: dict[Subject, Any] = {}
    alarms: list[Subject] = []
    for now_s, count in ((0.0, 0), (60.0, rules.MOST), (65.0, rules.MOST), (70.0, rules.MOST), (75.0, 0)):
        states, alarms = rules.step(states, bad, now_s=now_s)
        assert len(alarms) == count
    gone, _ = rules.step(states, LinksLook(bad.degraded, bad.known, frozenset()), now_s=80.0)
    assert gone == {}
    for now_s in (3800.0, 4000.0, 4005.0, 4010.0, 4015.0 + rules.QUIET_S):
        states, alarms = rules.step(states, good, now_s=now_s)
    assert (states, alarms) == ({}, [])
