"""The comparison with peers: the same pods for every way, a rate never better than what was seen, no hidden miss."""

from typing import Any

import pytest
from msgspec.structs import replace

from lab.bench.peers.figures import Half, half, judged, ratios, summary
from lab.bench.peers.ways import PEERS, WAYS, Way
from lab.bench.peers.workloads import QUICK, WORKLOADS, Workload

SMALL = Workload("small", "3 gangs of 2", 8, 2, 4, 3, 2, ways=tuple(WAYS))
FAST = Half(pods=2, bound=2, span_s=1.0)
LEFT = replace(FAST, bound=1)


def pods_of(load: Workload, way: Way) -> list[dict[str, Any]]:
    return [one for one in load.backlog(way) if one["kind"] == "Pod"]


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_every_way_has_the_same_load(way: Way) -> None:
    pods = pods_of(SMALL, way)
    names = [one["metadata"]["name"] for one in pods]
    assert names == [one["metadata"]["name"] for one in pods_of(SMALL, WAYS["none"])]
    assert {one["spec"]["schedulerName"] for one in pods} == {way.scheduler_name}
    assert all(bool(one["metadata"]["labels"]) == way.grouped for one in pods)
    assert all(("schedulingGates" in one["spec"]) == way.gated for one in pods)
    assert all(("schedulingGroup" in one["spec"]) == way.native for one in pods)


@pytest.mark.parametrize("load", [*WORKLOADS.values(), *QUICK.values()], ids=lambda load: str(load.pods))
def test_every_load_fits_its_nodes(load: Workload) -> None:
    """What cannot be bound would say nothing about how fast it is."""
    assert load.pods <= load.nodes * load.node_cpu
    assert {*load.ways} <= {*WAYS, *PEERS}


def test_the_rate_counts_from_first_to_last_binding_and_is_none_in_part() -> None:
    bound_s = {"g-worker-0": 12.0, "g-worker-1": 10.0, "g-worker-2": 11.0}
    assert half(bound_s, expected={"g": 3}, pods=3).rate == pytest.approx(1.5)
    found = half({"g-worker-0": 1.0, "g-worker-1": 2.0, "h-worker-0": 3.0}, expected={"g": 2, "h": 2, "i": 2}, pods=6)
    assert (found.partial_gangs, found.bound, found.rate) == (1, 3, 0.0)


def test_ratios_are_of_the_same_round() -> None:
    """A machine that is slow in one round slows both halves: every ratio is 0.5, though rates differ fourfold."""
    ours = [replace(FAST, span_s=2.0, round=0), replace(FAST, span_s=8.0, round=1)]
    theirs = [replace(FAST, span_s=4.0, round=1), replace(FAST, span_s=1.0, round=0)]
    assert ratios(ours, theirs) == (0.5, 0.5, 0.5)
    assert ratios(ours[:1], theirs[:1]) is None
    assert ratios([FAST], [LEFT]) is None


def test_the_summary_keeps_the_worst_of_what_must_not_be() -> None:
    """Medians would hide one partial gang among five rounds."""
    found = summary([FAST, FAST, replace(LEFT, partial_gangs=1)])
    assert (found["unfinished"], found["partial_gangs"], found["pods_per_s"], found["pods_per_s_min"]) == (1, 1, 2.0, 0)


CHEAP = replace(FAST, cpu_s=0.002)  # of two pods: 1 ms each
JUDGED = {  # case: (what is missed, netgang's half, the reference's)
    "all kept": ([], CHEAP, FAST),
    "too slow": (["ratio"], replace(CHEAP, span_s=1.4), FAST),
    "CPU not known": (["cpu_ms_per_pod"], FAST, FAST),
    "a partial gang": (["partial_gangs"], replace(CHEAP, partial_gangs=1), FAST),
    "pods unbound": (["ratio", "partial_gangs"], replace(LEFT, cpu_s=0.002), FAST),
    "reference unbound": (["ratio"], CHEAP, LEFT),
}


@pytest.mark.parametrize(("late", "ours", "theirs"), JUDGED.values(), ids=JUDGED)
def test_goals_are_judged(late: list[str], ours: Half, theirs: Half) -> None:
    halves = {("gangs", "second"): [ours], ("gangs", "none"): [theirs]}
    assert [one["figure"] for one in judged(halves, quick=False) if not one["holds"]] == late
    assert [one["figure"] for one in judged(halves, quick=True)] == ["partial_gangs"]
