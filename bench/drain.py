"""How fast a backlog of gangs is bound on a real control plane, beside as many plain pods without netgang.

Why beside: pods per second say more about the machine than about netgang; the ratio of two halves of one round does
not. Rule: nodes and pods exist first, then the schedulers start; the rate is pods by the time from first to last
binding. Every way of a cluster is measured once per round, in an order that turns from round to round. One JSON line
per case; status 1 if one misses its goal. kube-scheduler's limit of API calls is raised alike for all (qps 5000).

    python -m bench.drain [--case a --case d] [--pairs 5]
"""

import argparse
import asyncio
import json
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from bench import drain_room
from bench.drain_bed import Shape, Way, bed
from bench.drain_figures import CPU_GOAL_MS, Drain, compared
from testbed.build import ensure_all
from testbed.progress import ShownProgress

SMALL = Shape(nodes=100, zones=4, node_cpu=12, gangs=100, size=10)
MIDDLE = Shape(nodes=500, zones=4, node_cpu=8, gangs=300, size=3)
LARGE = Shape(nodes=5000, zones=40, node_cpu=8, gangs=100, size=4)
ROOM_CASE = "f"
_ROOM_GOAL_S = 1.0


@dataclass(frozen=True, slots=True)
class Case:
    """One comparison: the ratio of `way` to `reference` has to reach `goal`, if there is one."""

    name: str
    shape: Shape
    way: Way
    reference: Way = Way.PLAIN
    goal: float | None = None
    cpu_goal_ms: float | None = CPU_GOAL_MS


CASES = (
    Case("a", SMALL, Way.UNGATED, goal=0.75),
    Case("b", SMALL, Way.GATED, goal=0.4),
    Case("c", MIDDLE, Way.UNGATED, cpu_goal_ms=None),
    Case("c", MIDDLE, Way.GATED, cpu_goal_ms=None),
    Case("d", LARGE, Way.GATED, goal=2.5),
    Case("d", LARGE, Way.GATED, reference=Way.SAMPLED, goal=0.6),
    Case("e", SMALL, Way.BESIDE, goal=0.95, cpu_goal_ms=None),
    Case("e", SMALL, Way.BESIDE, reference=Way.SECOND, goal=0.95, cpu_goal_ms=None),
    Case("e", SMALL, Way.SECOND, cpu_goal_ms=None),
)
NAMES = (*dict.fromkeys(case.name for case in CASES), ROOM_CASE)


def ways_of(cases: Sequence[Case]) -> tuple[Way, ...]:
    """What a round measures so that every case has both its halves, each way once.

    >>> [str(way) for way in ways_of(CASES[4:6])]
    ['plain', 'sampled', 'gated']
    """
    needed = {way for case in cases for way in (case.reference, case.way)}
    return tuple(way for way in Way if way in needed)


def turned(ways: Sequence[Way], number: int) -> tuple[Way, ...]:
    """The order of round `number`: each way is first in turn, so that none is always measured on the same footing.

    >>> [str(way) for way in turned([Way.PLAIN, Way.GATED], 1)]
    ['gated', 'plain']
    """
    at = number % len(ways)
    return (*ways[at:], *ways[:at])


async def run(chosen: Sequence[str], *, pairs: int, rooms: int, progress: Progress) -> bool:
    """Measure the chosen cases and print their lines; whether all goals are met."""
    all_met = True
    for shape in dict.fromkeys(case.shape for case in CASES):
        cases = [case for case in CASES if case.shape == shape and case.name in chosen]
        if cases:
            halves = await _rounds(shape, ways_of(cases), pairs=pairs, progress=progress)
            for case in cases:
                all_met &= _print(_line(case, halves))
    if ROOM_CASE in chosen:
        task = progress.add_task("room for one gang, 300 waiting", total=None)
        async with bed(drain_room.SHAPE) as place:
            figures = await drain_room.freed_rooms(place, rounds=rooms, goal_s=_ROOM_GOAL_S)
        progress.update(task, total=1, completed=1)
        all_met &= _print({"case": ROOM_CASE, "figure": "freed room to gang bound"} | figures)
    return all_met


async def _rounds(shape: Shape, ways: Sequence[Way], *, pairs: int, progress: Progress) -> dict[Way, list[Drain]]:
    """Every way once per round, after one that is thrown away: the first half finds a cold API server."""
    halves: dict[Way, list[Drain]] = {way: [] for way in ways}
    limit_s = 30.0 + shape.pods / 20.0
    task = progress.add_task(_words(shape), total=pairs * len(ways) + 1)
    async with bed(shape) as place:
        await place.drain(ways[0], limit_s=limit_s)
        progress.advance(task)
        for number in range(pairs):
            for way in turned(ways, number):
                half = await place.drain(way, limit_s=limit_s)
                halves[way].append(half)
                spent = "" if half.cpu_ms_per_pod is None else f", {half.cpu_ms_per_pod:.2f} ms CPU per pod"
                progress.console.print(f"{_words(shape)}: {way} {half.bound} at {half.rate:.0f}/s{spent}")
                progress.advance(task)
    return halves


def _line(case: Case, halves: dict[Way, list[Drain]]) -> dict[str, Any]:
    """What is printed of a case."""
    figures = compared(halves[case.way], halves[case.reference], goal=case.goal, cpu_goal_ms=case.cpu_goal_ms)
    return {"case": case.name, "load": _words(case.shape), "way": case.way, "reference": case.reference} | figures


def _print(line: dict[str, Any]) -> bool:
    print(json.dumps(line), flush=True)
    return bool(line["met"])


def _words(shape: Shape) -> str:
    return f"{shape.gangs} x {shape.size} on {shape.nodes} nodes in {shape.zones} zones"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print; a missed goal ends with status 1."""
    parser = argparse.ArgumentParser(prog="python -m bench.drain", description="Backlog drain beside plain pods")
    parser.add_argument("--case", action="append", choices=NAMES, help="one of the cases; again for more; default: all")
    parser.add_argument("--pairs", type=int, default=5, help="rounds per case")
    parser.add_argument("--rooms", type=int, default=60, help="how often case f frees room")
    given = parser.parse_args(arguments)
    if given.pairs < 1 or given.rooms < 1:
        parser.error("--pairs and --rooms must be at least 1")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # stop the control plane, as Ctrl-C does
    console = Console(stderr=True)
    with ShownProgress(console) as building:  # minutes if nothing is built yet
        ensure_all(["etcd", "kube-apiserver", "kube-scheduler", "kwok"], reporter=building)
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console) as progress:
        all_met = asyncio.run(run(given.case or NAMES, pairs=given.pairs, rooms=given.rooms, progress=progress))
    sys.exit(0 if all_met else 1)


if __name__ == "__main__":
    main()
