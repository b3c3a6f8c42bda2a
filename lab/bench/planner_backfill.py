"""What back-fill by end times costs the planner: 1,000 gangs wait, 2,000 run on 5,000 nodes, and all say how long.

Why beside `bench.planner_load`: there the queue is looked at gang by gang; here starts are promised by the ends of all
that runs, and that is other work. Goals, with `easy` as with `conservative`: a plan after one event ≤ 30 ms (p99), a
full plan ≤ 400 ms, no step above 20 ms. Nothing is random, so the same happens in each of `--rounds`; of each plan the
fastest round counts. Times are CPU of this process.

    python -m lab.bench.planner_backfill [--events 240] [--rounds 3]
"""

import argparse
import gc
import heapq
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from time import process_time

import numpy as np

from lab.bench.bed import nodes
from scoring.ids import GangKey, Namespace, NodeName, PodName, PodUid, gang_key
from scoring.lengths import LengthSource, exact
from scoring.model import Constraints, Gang, GangSource, MemberClass, Phase, Pod, Role
from scoring.model.policy import Backfill, Policy, QueuePolicy
from scoring.model.resources import CPU, Resources
from scoring.model.snapshot import NodeTable, Snapshot
from scoring.plan import Plan, PlannerCache, plan_in_steps

_NODES, _ZONES, _WAITING = 5000, 40, 1000
_RUNNING_SIZE = 5
_SHAPES = ((16, 8), (5, 8), (5, 4), (2, 1))
"""Members and GPUs of each, of the gangs that wait, one after the other: two cannot start while nodes are shared"""
_NOW_S = 1_800_000_000.0
_STEP_S = 0.5
_ENDS_EVERY = 20
"""Of so many events one is the end of a gang: with those steps one in 10 s"""
_WARM = 60
EVENT_MS, FULL_MS, STEP_MS = 30.0, 400.0, 20.0


@dataclass(slots=True)
class Times:
    """CPU milliseconds of plans, each after an event, and of the longest step of each."""

    plans_ms: list[float] = field(default_factory=list)
    steps_ms: list[float] = field(default_factory=list)


class Cluster:
    """Nodes of 8 GPUs, each shared by two of the gangs that run; and the plan after each event."""

    def __init__(self, mode: Backfill) -> None:
        self.now_s = _NOW_S
        self.plan: Plan | None = None
        self.policy = Policy(queue=QueuePolicy(backfill=mode))
        self._table = NodeTable.of(nodes(_NODES, zones=_ZONES))
        self._used = np.zeros_like(self._table.allocatable)
        self._gangs: dict[GangKey, Gang] = {}
        self._ends: list[tuple[float, GangKey]] = []
        self._version, self._next = 0, 0
        self._cache = PlannerCache()
        self._fill()

    def full(self) -> tuple[float, float]:
        """CPU milliseconds of a plan with nothing to reuse, and of its longest step."""
        _, steps_ms = self._planned(PlannerCache(), None)
        return sum(steps_ms), max(steps_ms)

    def events(self, count: int) -> Times:
        """A plan after each event, once the first ones have filled what was free."""
        times = Times()
        for number in range(count + _WARM):
            self.now_s += _STEP_S
            if number % _ENDS_EVERY == _ENDS_EVERY - 1:
                self._gang_ends()
            else:
                self._pod_comes_or_goes(number)
            self.plan, steps_ms = self._planned(self._cache, self.plan)
            for key, admission in self.plan.admitted.items():
                self._starts(self._gangs[key], dict(admission.members), self.now_s)
            if number >= _WARM:
                times.plans_ms.append(sum(steps_ms))
                times.steps_ms.append(max(steps_ms))
        return times

    # -- what happens -------------------------------------------------------------------------------------------------

    def _pod_comes_or_goes(self, number: int) -> None:
        """A pod of others takes a tenth of a CPU, or leaves."""
        self._used[number // 2 * 31 % _NODES, self._table.axis.index(CPU)] += 100 if number % 2 == 0 else -100

    def _gang_ends(self) -> None:
        """The next one; another one queues up."""
        _, key = heapq.heappop(self._ends)
        gone = self._gangs.pop(key)
        self._take(gone, -1)
        self._waits(self.now_s)

    # -- inside -------------------------------------------------------------------------------------------------------

    def _fill(self) -> None:
        rows = [[row for row in range(_NODES) if row % _ZONES == zone] for zone in range(_ZONES)]
        for zone in rows:
            for begin in range(0, len(zone) - _RUNNING_SIZE + 1, _RUNNING_SIZE):
                for _ in range(2):
                    self._next += 1
                    made = _gang(self._next, _RUNNING_SIZE, 4, created_s=_NOW_S - 86_400.0)
                    at = zone[begin : begin + _RUNNING_SIZE]
                    on = {pod.uid: self._table.names[row] for pod, row in zip(made.members, at, strict=True)}
                    self._starts(made, on, _NOW_S - _length_s(self._next) * (self._next * 61 % 1000) / 1000)
        for number in range(_WAITING):
            self._waits(_NOW_S - (900.0 + number if number % 20 == 0 else number % 300))

    def _waits(self, created_s: float) -> None:
        self._next += 1
        made = _gang(self._next, *_SHAPES[self._next % len(_SHAPES)], created_s=created_s)
        self._gangs[made.key] = made

    def _starts(self, waits: Gang, on: Mapping[PodUid, NodeName], at_s: float) -> None:
        members = [replace(pod, node=on[pod.uid], phase=Phase.RUNNING, scheduled_s=at_s) for pod in waits.members]
        runs = self._gangs[waits.key] = replace(waits, members=tuple(members))
        assert waits.length is not None
        heapq.heappush(self._ends, (at_s + waits.length.at_s(0.5), waits.key))
        self._take(runs, 1)

    def _take(self, runs: Gang, sign: int) -> None:
        rows, amounts = self._table.footprint(list(runs.members))
        np.add.at(self._used, rows, sign * amounts)

    def _planned(self, cache: PlannerCache, previous: Plan | None) -> tuple[Plan, list[float]]:
        """A plan, and the CPU milliseconds of its steps."""
        self._version += 1
        state = Snapshot(self._version, self._table, self._used.copy(), gangs=dict(self._gangs))
        steps_ms: list[float] = []
        steps = plan_in_steps(state, self.policy, now_s=self.now_s, previous=previous, cache=cache)
        while True:
            begun_s = process_time()
            try:
                next(steps)
            except StopIteration as done:
                steps_ms.append((process_time() - begun_s) * 1e3)
                made: Plan = done.value
                return made, steps_ms
            steps_ms.append((process_time() - begun_s) * 1e3)


def _length_s(number: int) -> float:
    """From ten minutes to half a day; all are different."""
    return 600.0 + number * 7919 % 42_600


def _gang(number: int, size: int, gpus: int, *, created_s: float) -> Gang:
    """Unlike all others in its memory."""
    mib = 1024 * gpus + number * 7919 % 997
    request = Resources.parse({"cpu": "1", "memory": f"{mib}Mi", "nvidia.com/gpu": gpus, "pods": 1})
    name, member_class = f"job-{number:06d}", MemberClass(Role.WORKER, request, Constraints())
    key = gang_key("team-a", name)
    members = tuple(
        Pod(
            PodUid(f"{name}-{index}"),
            Namespace("team-a"),
            PodName(f"{name}-{index}"),
            member_class,
            created_s=created_s,
            index=index,
        )
        for index in range(size)
    )
    length = exact(_length_s(number), LengthSource.DECLARED)
    return Gang(key, GangSource.LABELS, size, members, 0, created_s, length=length)


def cases(modes: Sequence[Backfill], *, events: int, rounds: int) -> Iterator[tuple[str, float | None, float]]:
    """Name, goal and CPU milliseconds."""
    gc.collect()
    gc.disable()  # as the service does (`extender.runtime.memory`)
    for mode in modes:
        full_ms, step_ms, event_ms = (None, None, None) if mode is Backfill.NONE else (FULL_MS, STEP_MS, EVENT_MS)
        full: list[tuple[float, float]] = []
        times: list[Times] = []
        for _ in range(rounds):
            cluster = Cluster(mode)
            full += [cluster.full(), cluster.full()]
            times.append(cluster.events(events))
        plans = sorted(map(min, zip(*(one.plans_ms for one in times), strict=True)))
        steps = map(min, zip(*(one.steps_ms for one in times), strict=True))
        yield f"{mode}: full plan", full_ms, min(one for one, _ in full)
        yield f"{mode}: longest step of a full plan", step_ms, min(one for _, one in full)
        yield f"{mode}: after an event, p50", None, plans[len(plans) // 2]
        yield f"{mode}: after an event, p99", event_ms, plans[int(0.99 * (len(plans) - 1))]
        yield f"{mode}: longest step after an event", step_ms, max(steps)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print; ends with status 1 when a goal is missed."""
    parser = argparse.ArgumentParser(description="Times of the planner with back-fill by end times")
    parser.add_argument("--mode", action="append", choices=list(Backfill), help="may be repeated; default: all")
    parser.add_argument("--events", type=int, default=240)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args(arguments)
    modes = [Backfill(one) for one in options.mode or Backfill]
    missed = False
    for name, goal_ms, value_ms in cases(modes, events=options.events, rounds=options.rounds):
        line = {"bench": "planner-backfill", "case": name, "cpu_ms": round(value_ms, 2), "goal_ms": goal_ms}
        print(json.dumps(line), flush=True)
        missed |= goal_ms is not None and value_ms > goal_ms
    sys.exit(missed)


if __name__ == "__main__":
    main()
