"""The comparison's figures and goals: a rate is never better than what was seen, and a miss is never hidden."""

import os
from dataclasses import replace
from time import perf_counter
from typing import Any

import pytest

from lab.bench.peers import workloads
from lab.bench.peers.figures import Half, half, percentile, ratios, summary
from lab.bench.peers.goals import GOALS, RATIO, judged, missed
from lab.bench.peers.meters import Meters, Used
from lab.bench.peers.tables import cells, goal_cells, goal_table, process_table, workload_table

FAST = Half(pods=2, waits_s=(0.0, 1.0), span_s=1.0)
SLOW = replace(FAST, span_s=2.0)
LEFT = replace(FAST, waits_s=(0.0,))


def seen(**bound_s: float) -> dict[str, float]:
    return {f"{name[0]}-worker-{name[1:]}": at_s for name, at_s in bound_s.items()}


def test_the_rate_counts_from_first_to_last_binding() -> None:
    bound_s = seen(g0=12.0, g1=10.0, g2=11.0)
    assert half(bound_s, bound_s, expected={"g": 3}, pods=3, live=False).rate == pytest.approx(1.5)
    for some in ({}, seen(g0=0.0), seen(g0=0.0, g1=1.0)):
        assert half(some, some, expected={"g": 3}, pods=3, live=False).rate == 0.0


def test_a_gang_with_some_members_bound_is_partial() -> None:
    bound_s = seen(g0=1.0, g1=2.0, h0=3.0)
    found = half(bound_s, bound_s, expected={"g": 2, "h": 2, "i": 2}, pods=6, live=False)
    assert (found.partial_gangs, len(found.gangs_s)) == (1, 1)
    assert found.spreads_s == (1.0,)


WAITS = {  # case: (live, expected waits)
    "in a backlog from the first binding": (False, (0.0, 4.0)),
    "live from when the pod was there": (True, (1.0, 2.0)),
}


@pytest.mark.parametrize(("live", "waits_s"), WAITS.values(), ids=WAITS)
def test_waits(live: bool, waits_s: tuple[float, ...]) -> None:
    """Pods seen at 0 and 3, bound at 1 and 5."""
    found = half(seen(g0=0.0, g1=3.0), seen(g0=1.0, g1=5.0), expected={"g": 2}, pods=2, live=live)
    assert found.waits_s == waits_s


def test_only_counted_pods_have_waits_but_all_gangs_are_looked_at() -> None:
    bound_s = {"single1": 4.0, **seen(g0=3.0)}
    found = half(bound_s, bound_s, expected={"g": 2}, pods=1, live=True, counted=["single1"])
    assert (found.bound, found.partial_gangs) == (1, 1)


def test_ratios_are_of_the_same_round() -> None:
    """A machine that is slow in one round slows both halves: every ratio is 0.5, though rates differ fourfold."""
    ours = [replace(FAST, span_s=2.0, round=0), replace(FAST, span_s=8.0, round=1)]
    theirs = [replace(FAST, span_s=4.0, round=1), replace(FAST, span_s=1.0, round=0)]
    assert ratios(ours, theirs) == (0.5, 0.5, 0.5)
    assert ratios(ours, theirs[:1]) == (0.5, 0.5, 0.5), "what has no other in its round has no ratio"
    assert ratios(ours[:1], theirs[:1]) is None


def test_ratios_are_to_the_nearest_of_a_round() -> None:
    """A machine that becomes four times as slow within a round: what was measured just before or after counts."""
    ours = [replace(FAST, span_s=2.0, place=1), replace(FAST, span_s=8.0, place=6)]
    theirs = [replace(FAST, span_s=1.0, place=0), replace(FAST, span_s=4.0, place=5), replace(FAST, place=9)]
    assert ratios(ours, theirs) == ratios(ours, theirs[::-1]) == (0.5, 0.5, 0.5)
    assert ratios([FAST], [LEFT]) is None


def test_the_summary_keeps_the_worst_of_what_must_not_be() -> None:
    """Medians would hide one partial gang among five rounds."""
    found = summary([FAST, FAST, replace(LEFT, partial_gangs=1)])
    assert (found["unfinished"], found["partial_gangs"], found["pods_per_s"], found["pods_per_s_min"]) == (1, 1, 2.0, 0)


def test_processes_are_medians_by_name() -> None:
    one = replace(FAST, processes={"etcd": Used(1.0, 2**20)})
    two = replace(FAST, processes={"etcd": Used(3.0, 3 * 2**20), "echo": Used(5.0, 0)})
    found = summary([one, two])["processes"]
    assert found == {"etcd": {"cpu_s": 2.0, "rss_mib": 2.0}, "echo": {"cpu_s": 5.0, "rss_mib": 0.0}}


def test_the_99th_of_fifty_is_the_largest() -> None:
    """With fewer than a hundred values p99 leaves none out."""
    assert percentile([float(n) for n in range(50)], 0.99) == 49.0


async def test_meters_read_this_very_process() -> None:
    begin_s = perf_counter()
    async with Meters(lambda: {"this": os.getpid(), "gone": 2**22 + 1}) as running:
        sum(number * number for number in range(300_000))
    async with running:
        pass
    used = running.used(begin_s, perf_counter())
    assert used.keys() == {"this"}
    assert used["this"].cpu_s >= 0.0
    assert used["this"].rss_bytes > 2**20
    assert running.cpu_s("gone", perf_counter()) == 0.0


def verdicts(**ways: list[Half]) -> list[dict[str, Any]]:
    rows = {("gangs", name.replace("_", "-")): found for name, found in ways.items()}
    return judged(rows, {key: summary(found) for key, found in rows.items()}, quick=False)


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
    found = verdicts(second=[ours], none=[theirs])
    assert [one["figure"] for one in found if not one["holds"]] == late
    assert len(missed(found)) == len(late)


def test_what_was_not_measured_is_not_judged() -> None:
    assert RATIO not in {one["figure"] for one in verdicts(second=[FAST])}
    assert verdicts(none=[FAST]) == []


def test_a_goal_beside_a_peer_decides_and_its_stretch_goal_fails_nothing() -> None:
    for half_of_it, words in ((SLOW, ["gangs, second: ratio 0.5, goal ≥ 1 of coscheduling"]), (FAST, [])):
        found = [one for one in verdicts(second=[half_of_it], coscheduling=[FAST]) if one["figure"] == RATIO]
        assert [one["stretch_holds"] for one in found] == [False]
        assert missed(found) == words


def test_a_goal_that_is_a_stretch_goal_alone_is_shown_as_in_older_records() -> None:
    [goal] = [one for one in verdicts(second=[SLOW], coscheduling=[FAST]) if one["figure"] == RATIO]
    assert "misses the stretch goal" in goal_cells({**goal, "only_stretch": True})


def test_a_quick_run_judges_no_speed() -> None:
    """Small loads in one round say nothing about speed, but partial gangs are wrong at any size."""
    rows = {("gangs", "second"): [replace(SLOW, partial_gangs=1)], ("gangs", "none"): [FAST]}
    found = judged(rows, {key: summary(halves) for key, halves in rows.items()}, quick=True)
    assert [one["figure"] for one in found] == ["partial_gangs"]
    assert len(missed(found)) == 1


def test_every_goal_is_of_something_that_is_measured() -> None:
    """A goal whose load does not measure its way or its reference would never be judged, but for peers from outside."""
    for goal in GOALS:
        load = workloads.WORKLOADS[goal.workload]
        known = {*load.ways, *load.peers}
        if goal.figure != "partial_gangs":
            assert {goal.way, goal.reference or goal.way} <= known, goal


def test_tables_show_every_row() -> None:
    bare = {"workload": "w", "load": "words", "way": "a", **summary([LEFT])}
    full = summary([replace(FAST, filter_calls=3, rooms_s=(0.5,), gangs_s=(1.0,), spreads_s=(0.1,), cpu_s=0.1)])
    rich = {**bare, "way": "b", **full, "ratio": 0.5, "ratio_min": 0.4, "ratio_max": 0.6}
    assert len(cells(bare)) == len(cells(rich))
    assert "1 pods unbound" in cells(bare)[4]
    assert workload_table([bare, rich]).row_count == process_table([bare, rich]).row_count == 2
    assert len(workload_table([bare]).columns) < len(workload_table([bare, rich]).columns)
    assert goal_table(verdicts(second=[FAST], none=[FAST])).row_count == 3
    with pytest.raises(ValueError, match="no rows"):
        workload_table([])
