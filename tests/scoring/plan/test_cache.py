"""The planner's cache: it saves time and nothing else, and it stays bounded."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from scoring import NodeName, ZoneName
from scoring.model import Gang, HostPort
from scoring.model.policy import Policy, QueuePolicy, Ratios, ScorePolicy, Selection, ZonePolicy
from scoring.model.snapshot import Snapshot, remember
from scoring.plan import PlannerCache, plan
from scoring.plan.cache import Layout, OfNetwork
from scoring.plan.run import warmed
from scoring.score.pairs import Links, among
from tests.builders import gang, mesh, node, pod, snapshot
from tests.example_counts import FEW
from tests.scoring.plan.planned import POLICY, clusters, dressed

WEB = HostPort("TCP", "0.0.0.0", 80)


def at(state: Snapshot, version: int) -> Snapshot:
    """The snapshot with its own table version, as the cache would give it."""
    return replace(state, version=version, table=replace(state.table, version=version))


NODES = [node(f"a{i}", zone="a", cpu="2") for i in range(3)] + [node(f"b{i}", zone="b", cpu="2") for i in range(3)]
NET = mesh(NODES, bad={"a0": {"delay_ms": 20.0}, "b2": {"loss_ratio": 0.01}})
OTHER_NET = replace(mesh(NODES, bad={"b1": {"delay_ms": 30.0}}), version=2)
WANTED = gang("g", 3, created_s=-1000.0)
PART_LOST = gang("g", members=[replace(WANTED.members[0], node=NodeName("b0")), *WANTED.members[1:]], min_member=2)
PORTED = gang("g", members=[dressed(one, host_ports=(WEB,)) for one in WANTED.members])
CLASS = WANTED.members[0].member_class


def state(wanted: Gang = WANTED, **fields: object) -> Snapshot:
    return snapshot(NODES, [wanted], network=NET, **fields)  # type: ignore[arg-type]


def excluding(*names: str) -> dict[str, Any]:
    return {"exclusions": {CLASS: frozenset(NodeName(n) for n in names)}}


CHANGES: dict[str, tuple[Snapshot, Policy]] = {  # what differs from (state(), POLICY)
    "one node refused": (state(**excluding("b0")), POLICY),
    "all nodes of a zone refused": (state(**excluding("b0", "b1", "b2")), POLICY),
    "all nodes refused": (state(**excluding(*(n.name for n in NODES))), POLICY),
    "host ports taken": (state(PORTED, host_ports=dict.fromkeys((NodeName("b0"), NodeName("b1")), frozenset({WEB}))),
        POLICY),
    "host ports free": (state(PORTED), POLICY),
    "room taken": (state(pods=[pod("x", cpu="2", node="b1")]), POLICY),
    "other network data": (replace(state(), network=OTHER_NET), POLICY),
    "the same demand with other ratios": (state(replace(WANTED, options=(("ratios", "1:0:0"),))), POLICY),
    "the operator's ratios": (state(), Policy(score=ScorePolicy(ratios=Ratios(0.0, 1.0, 0.0)))),
    "another selection": (state(), Policy(selection=Selection.PACK)),
    "near": (state(replace(WANTED, options=(("near", "a"),))), POLICY),
    "near a configured place": (state(replace(WANTED, options=(("near", "office"),))),
        Policy(zone_distance_ms={ZoneName("office"): {ZoneName("a"): 1.0}})),
    "near the same place, configured otherwise": (state(replace(WANTED, options=(("near", "office"),))),
        Policy(zone_distance_ms={ZoneName("office"): {ZoneName("b"): 1.0}})),
    "allowed zones": (state(replace(WANTED, options=(("zones", "a"),))), POLICY),
    "only one zone exists": (at(snapshot(NODES[:3], [WANTED], network=NET), 2), POLICY),
    "more members": (state(gang("g", 5, created_s=-1000.0)), POLICY),
    "too many for one zone": (state(gang("g", 7, created_s=-1000.0)), POLICY),
    "too many for one zone, may be spread": (state(gang("g", 7, created_s=-1000.0)),
        Policy(zone_policy=ZonePolicy.PREFERRED)),
    "exact search switched off": (state(), Policy(exact_zone_size=0)),
    "a member's node is gone": (at(snapshot(NODES[:3], [PART_LOST], network=NET), 3), POLICY),
}  # fmt: skip


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_whatever_changes_between_two_runs(change: tuple[Snapshot, Policy]) -> None:
    cache, before = PlannerCache(), (state(), POLICY)
    for now in (before, change, before):
        assert plan(*now, now_s=0.0, cache=cache) == plan(*now, now_s=0.0)


PARTS = [("table", "used"), ("gangs",), ("commitments",), ("exclusions",), ("host_ports",), ("network",)]


@pytest.mark.slow
@FEW
@given(clusters(), clusters(), st.lists(st.sampled_from(PARTS), max_size=12), st.sampled_from([1e9, 300.0]))
def test_a_changing_cluster_is_planned_as_without_a_cache(
    one: Snapshot, other: Snapshot, changes: list[tuple[str, ...]], starve_limit_s: float
) -> None:
    """Plan after plan, as one cluster becomes another part by part, and back: the same places, reasons and words."""
    policy = Policy(queue=QueuePolicy(starve_limit_s=starve_limit_s, reserve_after_s=0.0))
    other = replace(at(other, 2), network=replace(other.network, version=2))
    now, cache, before, theirs = at(one, 1), PlannerCache(), None, set[str]()
    for number, parts in enumerate([(), *changes]):
        theirs.symmetric_difference_update(parts)
        source = {name: other if name in theirs else one for name in parts}
        now = replace(now, version=number, **{name: getattr(of, name) for name, of in source.items()})
        made = plan(now, policy, now_s=1000.0 + number, previous=before, cache=cache)
        assert made == plan(now, policy, now_s=1000.0 + number, previous=before)
        before = made


def test_equal_classes_are_one_key() -> None:
    """Objects differ, content is what counts, also of a copy with a part replaced."""
    one, equal, other = pod("a").member_class, pod("b").member_class, pod("c", cpu="2").member_class
    assert one is not equal
    assert {one: 1, other: 2}[equal] == 1
    assert replace(other, requests=one.requests) in {one}
    assert replace(one, constraints=replace(one.constraints, claims=("c",))) not in {one}


def test_tables_are_emptied_at_their_limit() -> None:
    table: dict[int, int] = {}
    for i in range(5):
        assert remember(table, i, lambda i=i: i * i, limit=3) == i * i  # type: ignore[misc]
    assert table == {3: 9, 4: 16}
    assert remember(table, 4, lambda: -1, limit=3) == 16


def test_scores_count_by_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scores are kept until their pairs exceed the bound; one larger block is kept alone."""
    monkeypatch.setattr("scoring.plan.cache.MOST_PAIRS", 20)
    cache = OfNetwork()

    def links(size: int) -> Links:
        nodes = [node(f"n{i}") for i in range(size)]
        return cache.links(cache.scores, size, lambda: among(mesh(nodes), [one.name for one in nodes], POLICY.score))

    links(2), links(4)
    assert (set(cache.scores), cache.pairs) == ({2, 4}, 20)
    assert links(4) is links(4)
    links(1)
    assert (set(cache.scores), cache.pairs) == ({1}, 1)
    links(9)
    assert (set(cache.scores), cache.pairs) == ({9}, 81)


def test_older_network_data_is_dropped() -> None:
    cache = PlannerCache()
    plan(state(), POLICY, now_s=0.0, cache=cache)
    before = cache.network
    assert before.pairs == sum(links.points.size for links in before.scores.values()) > 0
    plan(replace(state(), network=replace(NET, version=9)), POLICY, now_s=0.0, cache=cache)
    assert (cache.network.version, cache.network is before) == (9, False)


def test_what_is_kept_of_gangs_goes_with_them() -> None:
    cache = PlannerCache()
    filler: dict[Any, Any] = {f"default/{i}": None for i in range(100)}
    cache.demands.known, cache.urgencies = dict(filler), dict(filler)
    first = plan(state(), POLICY, now_s=0.0, cache=cache)
    plan(state(), POLICY, now_s=0.0, cache=cache, previous=first)
    assert set(cache.demands.known) == set(cache.urgencies) == {WANTED.key}


def test_a_demand_is_derived_again_only_when_it_can_differ() -> None:
    cache = PlannerCache()
    index, fewer = state().table.index, snapshot(NODES[:3]).table.index
    known = cache.demands.of_gang(WANTED, POLICY, index)
    assert cache.demands.of_gang(WANTED, POLICY, fewer) is known
    assert cache.demands.of_gang(WANTED, Policy(), fewer) is not known
    runs = gang("g", members=[replace(WANTED.members[0], node=NodeName("b0")), WANTED.members[1]])
    there = cache.demands.of_gang(runs, POLICY, index)
    assert cache.demands.of_gang(runs, POLICY, fewer).lost == {"b0"}
    assert cache.demands.of_gang(runs, POLICY, index) == there


def test_a_layout_stands_for_nodes_and_zones_whatever_else_changes() -> None:
    table = state().table
    layout = Layout(table.names, table.zones)
    assert {layout, Layout(table.names, table.zones)} == {layout}
    assert layout not in {Layout(table.names[:-1], table.zones), Layout(table.names, dict(table.zones))}


def test_warmed_scores_are_those_of_the_plan() -> None:
    """A cache warmed with new network data gives the same plan as none, and the plan computes no pair score itself."""
    after = replace(state(), network=OTHER_NET)
    cache = PlannerCache(network=warmed(replace(after, network=NET), OTHER_NET, POLICY))
    scores = dict(cache.network.scores)
    assert plan(after, POLICY, now_s=0.0, cache=cache) == plan(after, POLICY, now_s=0.0)
    assert cache.network.scores.keys() == scores.keys()
    assert list(cache.network.crossings) == [Layout(after.table.names, after.table.zones)]
    assert all(cache.network.scores[key] is value for key, value in scores.items())
