"""Large sets of nodes: what is looked at of nodes that are alike, estimates of zones, and zones that are many."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from scoring import NodeName, ZoneName
from scoring.model.policy import Policy, Selection
from scoring.model.snapshot import Snapshot
from scoring.network.matrix import NetworkMatrix
from scoring.plan import PlannerCache, Run, begin_run, placement, plan
from scoring.plan.run import thinned
from scoring.selection.demand import ClassDemand, Demand, in_places
from tests.builders import gang, mesh, node, pod, snapshot
from tests.strategies import Case

POLICY = Policy(spill_wait_s=0.0)
NODES = [node(f"{zone}{i}", zone=zone, cpu="2") for zone in "abc" for i in range(3)]
ONE_ZONE = gang("one-zone", 3)
TWO_ZONES = gang("two-zones", 8, cpu="1", options={"zone-policy": "preferred"})
SLOW = {"a0": {"delay_ms": 20.0}, "c2": {"throughput_bps": 1e7}}


def large(measured: int, unmeasured: int, *, cpu: str = "2") -> tuple[Run, Snapshot]:
    """A run over one zone, in which the first nodes are measured."""
    nodes = [node(f"n{i:04}", zone="a", cpu=cpu) for i in range(measured + unmeasured)]
    far = {f"n{i:04}": {"delay_ms": 1.0 + i % 7} for i in range(measured)}
    found = snapshot(nodes, [gang("g", 6, cpu="1")], network=mesh(nodes[:measured], bad=far))
    return begin_run(found, POLICY, PlannerCache()), found


@pytest.mark.parametrize("measured", [0, 1, 40])
def test_of_many_nodes_that_are_alike_only_the_first_are_looked_at(measured: int) -> None:
    """The choice is that of a search over all 700 nodes with room."""
    run, found = large(measured, 700 - measured)
    asks = run.view.demand(next(iter(found.gangs.values())))
    members = run.view.member_set(asks.need, asks)
    chosen = run.search.place(members, (ZoneName("a"),))
    [(one, count)] = members.classes
    request = run.view.vector(one)
    demand = Demand((ClassDemand(one.role, request, run.capacity.mask(one), count),), True)
    rank = run.scores.links((ZoneName("a"),), POLICY.score).rank_among(None)
    whole = Case(demand, run.capacity.room.free, rank).select(Selection.SUBSET, POLICY.exact_zone_size)
    assert whole is not None
    assert chosen == [[*rows] for rows in whole.rows]


TAKEN = st.lists(st.tuples(st.sampled_from(["a", "b", "c"]), st.integers(0, 2), st.booleans()), max_size=6)
"""(zone, number of its node, whether room is given back as well) in turn"""


@pytest.mark.slow
@given(TAKEN)
def test_estimates_of_zones_are_those_made_from_nothing(taken: list[tuple[str, int, bool]]) -> None:
    """However room is taken between two looks: of some nodes, or everywhere and back again."""
    found = snapshot(NODES, [ONE_ZONE], network=mesh(NODES, bad=SLOW))
    run = begin_run(found, POLICY, PlannerCache())
    asks = run.view.demand(ONE_ZONE)
    members, zones = run.view.member_set(asks.need, asks), [ZoneName(zone) for zone in "abc"]
    for zone, number, back in [("a", 0, False), *taken]:
        run.capacity.take_rows(members.classes[0][0], [run.table.index[NodeName(f"{zone}{number}")]])
        if back:
            amounts = np.ones_like(run.capacity.room.free)
            run.capacity.room.shift(amounts)
            run.capacity.room.shift(-amounts)
        estimates = run.search.estimates(members, zones, score=POLICY.score)
        fresh = replace(found, used=run.table.allocatable - run.capacity.room.free)
        other = begin_run(fresh, POLICY, PlannerCache())
        assert estimates == {zone: other.search.estimate(members, zone, score=POLICY.score) for zone in zones}


def test_what_is_left_out_of_many_nodes() -> None:
    """Of 600 that hold two and 100 that hold one, as many as there are members and two more, beside measured ones."""
    run, _ = large(5, 700)
    links = run.scores.links((ZoneName("a"),), POLICY.score)
    room = np.array([2] * 605 + [1] * 100)
    assert thinned(*in_places(room, 4, all_reduce=True), links).tolist() == [*range(5 + 6), *range(605, 605 + 6)]
    near = np.zeros((1, 705))
    near[0, 300] = 7.0
    assert 300 in thinned(*in_places(room, 4, all_reduce=True, placed=near), links).tolist()
    few = np.where(np.arange(705) < 512, room, 0)
    assert thinned(*in_places(few, 4, all_reduce=True), links).tolist() == list(range(512))


def test_all_zones_together_are_not_more_nodes_than_can_be_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last resort of a spread: of more nodes than that the zones with most room, and none without room."""
    monkeypatch.setattr(placement, "_MOST_TOGETHER", 6)
    found = snapshot(NODES, [TWO_ZONES], pods=[pod("x", cpu="2", node="c0"), pod("y", cpu="1", node="a1")])
    run = begin_run(found, POLICY, PlannerCache())
    demand = run.view.demand(TWO_ZONES)
    fits = run.capacity.zone_fits(run.view.member_set(demand.need, demand))
    assert placement._together(run, run.zones, fits) == ("a", "b")
    assert placement._together(run, run.zones[:2], fits) == ("a", "b")
    monkeypatch.setattr(placement, "_MOST_TOGETHER", 9)
    assert placement._together(run, run.zones, fits) == ("a", "b", "c")


def test_equally_good_zones_are_chosen_by_name() -> None:
    """Nothing is measured between zones of different sizes: the first names win, whatever rounding would say."""
    sizes = {"a": 7, "b": 3, "c": 11, "d": 6}
    nodes = [node(f"{zone}{i:02}", zone=zone, cpu="1") for zone, size in sizes.items() for i in range(size)]
    busy = [pod(f"p-{one.name}", cpu="1", node=one.name) for one in nodes if not one.name.endswith(("00", "01"))]
    spread = gang("g", 4, cpu="1", created_s=-9.0, options={"zone-policy": "preferred", "ratios": "1:1:1"})
    made = plan(snapshot(nodes, [spread], network=NetworkMatrix(), pods=busy), POLICY, now_s=0.0)
    assert made.admitted[spread.key].zones == ("a", "b")
    assert set(made.node_of.values()) == {NodeName(name) for name in ("a00", "a01", "b00", "b01")}
