"""The comparison with peers: the same pods for every way, a rate never better than what was seen, no hidden miss."""

import asyncio
import os
from collections import Counter
from dataclasses import replace
from time import perf_counter
from typing import Any

import pytest

from lab.bench.peers.figures import GOALS, PARTIAL, RATIO, Half, half, judged, missed, ratios, summary
from lab.bench.peers.meters import cpu_meter
from lab.bench.peers.watch import PodTimes, WatchLost
from lab.bench.peers.ways import GATE, VOLCANO, WAYS, Way, peer
from lab.bench.peers.workloads import NAMESPACE, QUICK, WORKLOADS, Workload
from lab.testbed.parts.volcano import GROUP_ANNOTATION

SMALL = Workload("small", "3 gangs of 2", 8, 2, 4, 3, 2, ways=tuple(WAYS))
FAST = Half(pods=2, bound=2, span_s=1.0)
SLOW = replace(FAST, span_s=2.0)
LEFT = replace(FAST, bound=1)


def pods_of(load: Workload, way: Way) -> list[dict[str, Any]]:
    return [one for one in load.backlog(way) if one["kind"] == "Pod"]


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_every_way_has_the_same_load(way: Way) -> None:
    pods = pods_of(SMALL, way)
    names = [one["metadata"]["name"] for one in pods]
    assert names == [one["metadata"]["name"] for one in pods_of(SMALL, WAYS["none"])]
    assert len(pods) == SMALL.pods == 6
    assert {one["metadata"]["namespace"] for one in pods} == {NAMESPACE}
    assert {one["spec"]["schedulerName"] for one in pods} == {way.scheduler_name}
    assert all(bool(one["metadata"]["labels"]) == way.grouped for one in pods)
    assert all(("schedulingGates" in one["spec"]) == way.gated for one in pods)
    assert all(("schedulingGroup" in one["spec"]) == way.native for one in pods)


def test_volcanos_gangs_are_in_groups_of_its_own() -> None:
    objects = SMALL.backlog(peer(VOLCANO))
    groups = [one for one in objects if one["kind"] == "PodGroup"]
    sizes = Counter(one["metadata"]["annotations"][GROUP_ANNOTATION] for one in objects if one["kind"] == "Pod")
    assert sizes == {one["metadata"]["name"]: one["spec"]["minMember"] for one in groups}


@pytest.mark.parametrize(
    "load", [*WORKLOADS.values(), *QUICK.values()], ids=lambda load: f"{load.name} of {len(load.ways)}"
)
def test_every_load_fits_its_nodes(load: Workload) -> None:
    """What cannot be bound would say nothing about how fast it is."""
    assert load.pods <= load.nodes * load.node_cpu
    assert {*load.ways} <= WAYS.keys()
    assert len(load.node_objects()) == load.nodes


def seen(**bound_s: float) -> dict[str, float]:
    return {f"{name[0]}-worker-{name[1:]}": at_s for name, at_s in bound_s.items()}


def test_the_rate_counts_from_first_to_last_binding() -> None:
    bound_s = seen(g0=12.0, g1=10.0, g2=11.0)
    assert half(bound_s, expected={"g": 3}, pods=3).rate == pytest.approx(1.5)
    for some in ({}, seen(g0=0.0), seen(g0=0.0, g1=1.0)):
        assert half(some, expected={"g": 3}, pods=3).rate == 0.0


def test_a_gang_with_some_members_bound_is_partial() -> None:
    bound_s = seen(g0=1.0, g1=2.0, h0=3.0)
    found = half(bound_s, expected={"g": 2, "h": 2, "i": 2}, pods=6)
    assert (found.partial_gangs, found.bound) == (1, 3)


def test_ratios_are_of_the_same_round() -> None:
    """A machine that is slow in one round slows both halves: every ratio is 0.5, though rates differ fourfold."""
    ours = [replace(FAST, span_s=2.0, round=0), replace(FAST, span_s=8.0, round=1)]
    theirs = [replace(FAST, span_s=4.0, round=1), replace(FAST, span_s=1.0, round=0)]
    assert ratios(ours, theirs) == (0.5, 0.5, 0.5)
    assert ratios(ours, theirs[:1]) == (0.5, 0.5, 0.5), "what has no other in its round has no ratio"
    assert ratios(ours[:1], theirs[:1]) is None
    assert ratios([FAST], [LEFT]) is None


def test_the_summary_keeps_the_worst_of_what_must_not_be() -> None:
    """Medians would hide one partial gang among five rounds."""
    found = summary([FAST, FAST, replace(LEFT, partial_gangs=1)])
    assert (found["unfinished"], found["partial_gangs"], found["pods_per_s"], found["pods_per_s_min"]) == (1, 1, 2.0, 0)


async def test_the_meter_reads_this_very_process() -> None:
    begin_s = perf_counter()
    async with cpu_meter(os.getpid) as meter, cpu_meter(lambda: None) as idle:
        while (meter.cpu_s(begin_s, perf_counter()) or 0.0) == 0.0:
            sum(number * number for number in range(100_000))
            await asyncio.sleep(0.0)
    assert idle.cpu_s(begin_s, perf_counter()) is None


CHEAP = replace(FAST, cpu_s=0.002)  # of two pods: 1 ms each
JUDGED = {  # case: (what is missed, netgang's half, the reference's)
    "all kept": ([], CHEAP, FAST),
    "too slow": (["ratio"], replace(CHEAP, span_s=1.4), FAST),
    "too much CPU": (["cpu_ms_per_pod"], replace(FAST, cpu_s=0.003), FAST),
    "CPU not known": (["cpu_ms_per_pod"], FAST, FAST),
    "a partial gang": (["partial_gangs"], replace(CHEAP, partial_gangs=1), FAST),
    "pods unbound": (["ratio", "partial_gangs"], replace(LEFT, cpu_s=0.002), FAST),
    "reference unbound": (["ratio"], CHEAP, LEFT),
}


@pytest.mark.parametrize(("late", "ours", "theirs"), JUDGED.values(), ids=JUDGED)
def test_goals_are_judged(late: list[str], ours: Half, theirs: Half) -> None:
    found = judged({("gangs", "second"): [ours], ("gangs", "none"): [theirs]}, quick=False)
    assert [one["figure"] for one in found if not one["holds"]] == late
    assert len(missed(found)) == len(late)


def test_a_quick_run_judges_no_speed_and_what_was_not_measured_is_not_judged() -> None:
    halves = {("gangs", "second"): [replace(SLOW, partial_gangs=1)], ("gangs", "none"): [FAST]}
    found = judged(halves, quick=True)
    assert [one["figure"] for one in found] == [PARTIAL]
    assert len(missed(found)) == 1
    alone = judged({("gangs", "second"): [FAST]}, quick=False)
    assert RATIO not in {one["figure"] for one in alone}


def test_every_goal_is_of_something_that_is_measured() -> None:
    for goal in GOALS:
        load = WORKLOADS[goal.workload]
        if goal.figure != PARTIAL:
            assert {goal.way, goal.reference or goal.way} <= {*load.ways, *load.peers}, goal


def pod(name: str, *, node: str = "", gates: tuple[str, ...] = ()) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"nodeName": node, "schedulingGates": [{"name": g} for g in gates]}}


def test_a_pod_is_timed_by_its_first_events() -> None:
    times = PodTimes()
    times.take("ADDED", pod("p", gates=(GATE,)), now_s=1.0)
    times.take("MODIFIED", pod("p"), now_s=2.0)
    for now_s in (3.0, 4.0):
        times.take("MODIFIED", pod("p", node="n1"), now_s=now_s)
    assert (times.let_in_s, times.bound_s) == ({"p": 2.0}, {"p": 3.0})


def test_a_watch_that_lost_events_is_an_error() -> None:
    """Times after a gap would be wrong, so there are none."""
    with pytest.raises(WatchLost, match="too old"):
        PodTimes().take("ERROR", {"message": "too old resource version"}, now_s=1.0)
