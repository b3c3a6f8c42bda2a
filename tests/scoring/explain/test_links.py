"""What people are told about the links that decided a gang's place: values, sources and ages."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scoring.explain.gang import explain
from scoring.explain.links import GangLinks, gang_links
from scoring.explain.running_network import NOTHING_PLANNED, network_of, running_network
from scoring.ids import EndpointId, NodeName, ZoneName
from scoring.model import Gang, Role
from scoring.model.policy import Policy, ScorePolicy, Ttl
from scoring.model.snapshot import Snapshot
from scoring.network.matrix import METRICS, Known, Measurement, MeasurementTable, Metric, NetworkMatrix, Zones
from scoring.plan import PlannerCache, begin_run, plan
from tests.builders import bound, gang, mesh, node, pod, snapshot

NOW_S = 1000.0
POLICY = Policy(score=ScorePolicy(soft_ttl_s=Ttl.same(100.0), hard_ttl_s=Ttl.same(200.0)))
NAMES = [f"n{i}" for i in range(4)]
NODES = [node(name, cpu="1") for name in NAMES]
Link = tuple[str, str, Metric, float, float]
"""From, to, metric, value, age."""


def merged(sources: Mapping[str, list[Link]], *, zones: bool = False, same: tuple[str, ...] = ()) -> NetworkMatrix:
    """A matrix of named sources; the nodes in `same` share their endpoint."""
    tables = {
        name: MeasurementTable.of(
            Measurement(EndpointId(a), EndpointId(b), metric, value, NOW_S - age_s)
            for a, b, metric, value, age_s in found
        )
        for name, found in sources.items()
    }
    ends = {NodeName(name): EndpointId(same[0] if name in same else name) for name in NAMES}
    return NetworkMatrix.merged(
        tables,
        endpoint_of=dict.fromkeys(METRICS, ends),
        now_s=NOW_S,
        zones=Zones({n.name: ZoneName("a") for n in NODES}, dict.fromkeys(METRICS, 200.0)) if zones else None,
    )


def links_of(state: Snapshot, wanted: Gang) -> GangLinks:
    found = explain(state, plan(state, POLICY, now_s=NOW_S), wanted, POLICY, now_s=NOW_S).links
    assert found is not None
    return found


def placed(*names: str, roles: str = "") -> Gang:
    """A gang with a member on each node; `roles`: a letter for each, `p` a ps, `w` a worker."""
    role = {"p": Role.PS, "w": Role.WORKER}
    members = [
        bound(pod(f"g-{i}", gang="g", **({"role": role[roles[i]]} if roles else {})), name)  # type: ignore[arg-type]
        for i, name in enumerate(names)
    ]
    return gang("g", members=members)


def test_values_sources_and_ages() -> None:
    """The freshest source of each direction is named with its value and age; the worse direction counts."""
    matrix = merged(
        {
            "maddash": [("n0", "n1", Metric.DELAY, 3.0, 60.0), ("n1", "n0", Metric.DELAY, 2.0, 60.0)],
            "archive": [("n0", "n1", Metric.DELAY, 5.0, 10.0), ("n0", "n1", Metric.LOSS, 0.01, 150.0)],
        }
    )
    wanted = placed("n0", "n1")
    found = links_of(snapshot(NODES, [wanted], network=matrix), wanted)
    assert (found.nodes, found.of_nodes, found.links) == (2, 2, 1)
    delay, loss, rate = (found.metrics[metric] for metric in (Metric.DELAY, Metric.LOSS, Metric.THROUGHPUT))
    assert (delay.worst, delay.oldest_s) == (5.0, 60.0)
    assert dict(delay.origins) == {"archive": 1, "maddash": 1}
    assert dict(delay.bases) == {"both directions": 1}
    assert (loss.worst, loss.oldest_s, dict(loss.origins)) == (0.01, 150.0, {"archive": 1})
    assert dict(loss.bases) == {"one direction": 1}
    assert (rate.worst, rate.oldest_s, dict(rate.origins), dict(rate.bases)) == (None, None, {}, {"nothing": 1})
    [link] = found.worst
    assert (link.source, link.target, link.pairs, link.stale) == ("n0", "n1", 1, True)
    part = link.parts[Metric.DELAY]
    assert part.there == Known(5.0, 10.0, "archive")
    assert part.back == Known(2.0, 60.0, "maddash")
    assert (part.counts, part.basis) == (5.0, "both directions")
    assert link.parts[Metric.THROUGHPUT].basis == "nothing"


def test_an_expired_value_is_shown_and_does_not_count() -> None:
    """It is in the link's parts with its age, and in no count of sources."""
    wanted = placed("n0", "n1")
    state = snapshot(NODES, [wanted], network=merged({"x": [("n0", "n1", Metric.DELAY, 3.0, 200.0)]}))
    found = links_of(state, wanted)
    assert (dict(found.metrics[Metric.DELAY].origins), dict(found.metrics[Metric.DELAY].bases)) == ({}, {"nothing": 1})
    assert found.worst[0].parts[Metric.DELAY].there == Known(3.0, 200.0, "x")
    assert found.worst[0].parts[Metric.DELAY].no_better_than == 3.0


def test_values_from_zones_and_shared_endpoints_are_told_apart() -> None:
    """The median of the zone stands for a link not measured; nodes at one endpoint have a perfect link."""
    matrix = merged({"x": [("n0", "n2", Metric.DELAY, 7.0, 5.0)]}, zones=True, same=("n0", "n1"))
    wanted = placed("n0", "n1", "n3")
    found = links_of(snapshot(NODES, [wanted], network=matrix), wanted)
    assert dict(found.metrics[Metric.DELAY].bases) == {"zones": 2, "same endpoint": 1}
    bases = {(link.source, link.target): link.parts[Metric.DELAY].basis for link in found.worst}
    assert bases == {("n0", "n1"): "same endpoint", ("n0", "n3"): "zones", ("n1", "n3"): "zones"}
    assert dict(found.metrics[Metric.DELAY].origins) == {}


ROLES = {  # case: (links with their pairs of members, nodes of the members, their roles)
    "all-reduce: every pair": ({("n0", "n1"): 1, ("n0", "n2"): 1, ("n1", "n2"): 1}, ("n0", "n1", "n2"), ""),
    "a ps: only its pairs": ({("n0", "n1"): 1, ("n0", "n2"): 1}, ("n0", "n1", "n2"), "pww"),
    "several members on a node": ({("n0", "n1"): 4}, ("n0", "n0", "n1", "n1"), ""),
    "ps and worker on one node": ({("n0", "n1"): 1}, ("n0", "n0", "n1"), "pww"),
    "all on one node": ({}, ("n0", "n0"), ""),
    "a member on a node that is gone": ({("n0", "n1"): 1}, ("n0", "n1", "gone"), ""),
}


@pytest.mark.parametrize(("want", "names", "roles"), ROLES.values(), ids=ROLES)
def test_which_links_count(want: dict[tuple[str, str], int], names: tuple[str, ...], roles: str) -> None:
    """Those over which members exchange data, each with how many pairs of members do."""
    wanted = placed(*names, roles=roles)
    nodes = [node(name, cpu="8") for name in NAMES]
    found = links_of(snapshot(nodes, [wanted], network=mesh(nodes)), wanted)
    assert {(link.source, link.target): link.pairs for link in found.worst} == want
    assert found.links == len(want)


def test_a_planned_gang_and_one_without_nodes() -> None:
    """Planned places count as real ones; who has no place has no links."""
    wanted, other = gang("g", 2, cpu="1"), gang("h", 9, cpu="1")
    state = snapshot(NODES, [wanted, other], network=mesh(NODES, bad={"n0": {"delay_ms": 30.0}}))
    found = links_of(state, wanted)
    assert [(link.source, link.target) for link in found.worst] == [("n1", "n2")]
    assert explain(state, plan(state, POLICY, now_s=NOW_S), other, POLICY, now_s=NOW_S).links is None


def test_the_worst_links_come_first_and_the_others_are_counted() -> None:
    """Of 28 links ten are named, beginning with those of the bad node."""
    nodes = [node(f"n{i}", cpu="1") for i in range(8)]
    wanted = placed(*(one.name for one in nodes))
    found = links_of(snapshot(nodes, [wanted], network=mesh(nodes, bad={"n5": {"delay_ms": 30.0}})), wanted)
    assert (found.links, len(found.worst)) == (28, 10)
    assert all("n5" in (link.source, link.target) for link in found.worst[:7])
    assert not any("n5" in (link.source, link.target) for link in found.worst[7:])


def test_a_very_large_gang_is_looked_at_in_part() -> None:
    nodes = [node(f"n{i:03}", cpu="1") for i in range(130)]
    wanted = placed(*(one.name for one in nodes))
    found = links_of(snapshot(nodes, [wanted]), wanted)
    assert (found.nodes, found.of_nodes, found.links, len(found.worst)) == (64, 130, 2016, 10)


LINKS = st.lists(
    st.tuples(
        st.sampled_from(NAMES),
        st.sampled_from(NAMES),
        st.sampled_from(METRICS),
        st.sampled_from([0.0, 0.25, 1.0]),
        st.sampled_from([0.0, 150.0, 200.0]),
    ),
    max_size=20,
)


@given(st.dictionaries(st.sampled_from("xyz"), LINKS, max_size=3), st.booleans())
def test_counts_agree_with_the_links_one_by_one(sources: dict[str, list[Link]], zones: bool) -> None:
    """For a gang on few nodes every link is shown, and the counts are those of counting them by hand."""
    wanted = placed(*NAMES)
    state = snapshot(NODES, [wanted], network=merged(sources, zones=zones))
    found = links_of(state, wanted)
    assert {(link.source, link.target) for link in found.worst} == set(combinations(NAMES, 2))
    assert [link.points for link in found.worst] == sorted(link.points for link in found.worst)
    for metric in METRICS:
        parts = [link.parts[metric] for link in found.worst]
        counts = [part.counts for part in parts if part.counts is not None]
        alive = [one for part in parts for one in (part.there, part.back) if one is not None and one.age_s < 200.0]
        one = found.metrics[metric]
        worst = min if metric is Metric.THROUGHPUT else max
        assert one.worst == worst(counts, default=None)
        assert one.oldest_s == max((known.age_s for known in alive), default=None)
        assert sum(one.bases.values()) == 6
        for basis in one.bases:
            assert one.bases[basis] == sum(part.basis == basis for part in parts)
        assert dict(one.origins) == {o: n for o in "xyz" if (n := sum(known.origin == o for known in alive))}


def test_points_are_those_of_the_zone() -> None:
    """The best rate of the zone is what rates are compared with, also where no member uses that link."""
    wanted = placed("n0", "n1")
    fast = mesh(NODES, throughput_bps=1e9, bad={name: {"throughput_bps": 1e8} for name in ("n0", "n1")})
    found = links_of(snapshot(NODES, [wanted], network=replace(fast, evaluated_at_s=0.0)), wanted)
    assert found.reference_bps == 1e9
    assert found.worst[0].points == pytest.approx(20.0 + 39.0 + 4.0)


def test_the_network_that_a_gang_has() -> None:
    bad = [("n0", "n2", Metric.DELAY, 9.0, 50.0), ("n2", "n0", Metric.DELAY, 8.0, 10.0)]
    good = [(a, b, Metric.DELAY, 1.0, 5.0) for a, b in (("n0", "n1"), ("n1", "n0"), ("n1", "n2"), ("n2", "n1"))]
    state = snapshot(NODES, gangs=[wanted := placed("n0", "n1", "n2")], network=merged({"owamp": [*bad, *good]}))
    found = running_network(begin_run(state, POLICY, PlannerCache()), wanted)
    assert found is not None
    assert (found.nodes, found.of_nodes, found.zones) == (("n0", "n1", "n2"), 3, ("a",))
    assert found.worst is not None
    assert (found.worst.source, found.worst.target) == ("n0", "n2")
    assert (found.worst.delay_ms, found.worst.oldest_s, found.worst.throughput_bps) == (9.0, 50.0, None)
    assert found.score is not None
    assert found.worst.points < found.score < 100.0


@given(st.lists(LINKS, max_size=2), st.lists(st.sampled_from(NAMES), min_size=1, max_size=6), st.booleans())
def test_the_network_of_a_gang_is_what_explain_shows_of_its_links(
    sources: list[list[Link]], names: list[str], zones: bool
) -> None:
    network = merged({str(number): links for number, links in enumerate(sources)}, zones=zones)
    state = snapshot(NODES, gangs=[wanted := placed(*names)], network=network)
    run = begin_run(state, POLICY, PlannerCache())
    links = gang_links(run, NOTHING_PLANNED, wanted, run.view.score(run.view.demand(wanted)))
    assert links is not None
    assert running_network(run, wanted) == network_of(links)


def test_the_score_is_that_of_the_plan() -> None:
    """Members on one node are pairs, too, as in `Admission.score`."""
    roomy = [node(name, cpu="2") for name in NAMES[:2]]
    state = snapshot(roomy, gangs=[waits := gang("g", 3)], network=mesh(NAMES[:2]))
    score = plan(state, POLICY, now_s=NOW_S).admitted[waits.key].score
    runs = placed("n0", "n0", "n1")
    found = running_network(
        begin_run(snapshot(roomy, gangs=[runs], network=state.network), POLICY, PlannerCache()), runs
    )
    assert found is not None
    assert score is not None
    assert found.score == pytest.approx(score, abs=0.001)


def test_members_on_one_node_have_no_worst_link() -> None:
    state = snapshot(NODES, gangs=[wanted := placed("n0")])
    run = begin_run(state, POLICY, PlannerCache())
    found = running_network(run, wanted)
    assert found is not None
    assert (found.score, found.worst) == (None, None)
    assert running_network(run, gang("w", 2)) is None
