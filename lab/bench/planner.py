"""How long the planner takes: one large gang on a large cluster, and a long queue in full and after one event.

The clusters are empty and the gangs equal; unlike gangs are in tests/contract/test_largest_objects.py. Goals: a gang
of 64 on 5,000 nodes in 40 zones ≤ 30 ms; 1,000 waiting gangs of 10 on 1,000 nodes: full plan ≤ 300 ms, after one
pod's event ≤ 30 ms, with room for 100 of them (8 CPU a member) as with room for 800 (1 CPU a member). Medians of
`--rounds`, one JSON line each; ends with status 1 when a goal is missed.

    python -m lab.bench.planner [--rounds 5]
"""

import argparse
import functools
import json
import statistics
import sys
from collections.abc import Callable
from time import perf_counter

from msgspec.structs import replace

from lab.bench.bed import gang, mesh, nodes, snapshot
from scoring.model import Node
from scoring.model.pod import CPU
from scoring.model.policy import Policy
from scoring.model.snapshot import Snapshot
from scoring.network.matrix import NetworkMatrix
from scoring.plan import Plan, PlannerCache, plan

POLICY = Policy()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Times of the planner")
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    missed = False
    for name, goal_ms, measure in CASES:
        times_ms = [measure() for _ in range(rounds)]
        spread = [round(min(times_ms), 2), round(max(times_ms), 2)]
        missed |= _missed(name, goal_ms, statistics.median(times_ms), "median_ms", spread_ms=spread)
    sys.exit(missed)


def _missed(name: str, goal_ms: float | None, took_ms: float, figure: str, **more: object) -> bool:
    """Print a line; whether it misses its goal."""
    line = {"bench": "planner", "case": name, figure: round(took_ms, 2), **more, "goal_ms": goal_ms}
    print(json.dumps(line), flush=True)
    return goal_ms is not None and took_ms > goal_ms


def _timed(make: Callable[[], Plan]) -> tuple[float, Plan]:
    began_s = perf_counter()
    made = make()
    return (perf_counter() - began_s) * 1e3, made


@functools.cache
def _cluster(count: int, *, zones: int, measured: int) -> tuple[list[Node], NetworkMatrix]:
    listed = nodes(count, zones=zones)
    return listed, mesh(listed, measured_per_zone=measured)


LARGE = functools.partial(_cluster, 5000, zones=40, measured=30)
MEDIUM = functools.partial(_cluster, 1000, zones=20, measured=50)


def large_gang(*, warm: bool) -> float:
    """One gang of 64, one member per node, on 5,000 nodes in 40 zones; `warm`: pair scores of this data are there."""
    cache, (listed, links) = PlannerCache(), LARGE()
    state = snapshot(listed, [gang("big", 64, cpu=8)], links)
    if warm:
        plan(snapshot(listed, [gang("other", 3, cpu=8)], links), POLICY, now_s=0.0, cache=cache)
    took_ms, made = _timed(lambda: plan(state, POLICY, now_s=0.0, cache=cache))
    assert len(made.node_of) == 64
    return took_ms


def queue(*, cpu: int) -> float:
    """A full plan of 1,000 gangs without anything to reuse but pair scores."""
    cache, (listed, links) = PlannerCache(), MEDIUM()
    plan(snapshot(listed, [gang("other", 3)], links), POLICY, now_s=0.0, cache=cache)
    state = _queue_state(cpu)
    took_ms, _ = _timed(lambda: plan(state, POLICY, now_s=0.0, cache=cache))
    return took_ms


def after_one_event(*, cpu: int, length_s: float | None = None) -> float:
    """The plan after a foreign pod took one CPU of a node that a gang was to have; `length_s`: all say how long."""
    cache = PlannerCache()
    state = _queue_state(cpu)
    state = replace(state, gangs={key: replace(gang, length_s=length_s) for key, gang in state.gangs.items()})
    first = plan(state, POLICY, now_s=0.0, cache=cache)
    first = plan(state, POLICY, now_s=0.0, cache=cache, previous=first)
    used = state.used.copy()
    used[0, state.table.axis.index(CPU)] += 1000
    changed = replace(state, version=2, used=used)
    took_ms, _ = _timed(lambda: plan(changed, POLICY, now_s=0.0, cache=cache, previous=first))
    return took_ms


def _queue_state(cpu: int) -> Snapshot:
    gangs = [gang(f"g{number:04d}", 10, cpu=cpu, created_s=float(number)) for number in range(1000)]
    listed, links = MEDIUM()
    return snapshot(listed, gangs, links)


CASES: tuple[tuple[str, float | None, Callable[[], float]], ...] = (
    ("gang of 64 on 5,000 nodes in 40 zones", 30.0, lambda: large_gang(warm=True)),
    ("the same with new network data", None, lambda: large_gang(warm=False)),
    ("1,000 gangs, room for 100: full plan", 300.0, lambda: queue(cpu=8)),
    ("1,000 gangs, room for 800: full plan", 300.0, lambda: queue(cpu=1)),
    ("1,000 gangs, room for 100: after one pod event", 30.0, lambda: after_one_event(cpu=8)),
    ("1,000 gangs, room for 800: after one pod event", 30.0, lambda: after_one_event(cpu=1)),
    (
        "1,000 gangs with a length, room for 100: after one pod event",
        30.0,
        lambda: after_one_event(cpu=8, length_s=36e2),
    ),
)

if __name__ == "__main__":
    main()
