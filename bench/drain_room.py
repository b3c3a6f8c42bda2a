"""From freed room to a bound gang: how long, while three hundred gangs wait at their gates.

Why: a queue of waiting gangs must not slow down the one whose turn it is. Rule: every node is full; the pods of one
gang's worth of nodes in one zone are deleted together, and the clock runs from the moment the first deletion is sent
until a watch shows that as many of the waiting pods are bound. Each round adds a gang to those that wait, so that the
queue stays as long as it was.
"""

import asyncio
from contextlib import AsyncExitStack
from time import perf_counter
from typing import Any

from bench.drain_bed import GATE, NAMESPACE, Bed, Shape
from bench.drain_figures import percentile
from bench.drain_watch import PodTimes, pod_times
from testbed.objects import pod

SHAPE = Shape(nodes=100, zones=4, node_cpu=2, gangs=300, size=4)
_CPU = "2"
"""A member fills a node."""
_ROUND_LIMIT_S = 30.0


async def freed_rooms(bed: Bed, *, rounds: int, goal_s: float) -> dict[str, Any]:
    """Free room for one gang so many times; figures in seconds, with the goal for p99 and `met`."""
    shape = bed.shape
    blocks = _blocks(shape)
    await bed.api.create_all(
        [
            {**one, "spec": {**one["spec"], "nodeName": node}}
            for nodes in blocks
            for node in nodes
            for one in [pod(f"filler-{node}", namespace=NAMESPACE, cpu=_CPU)]
        ]
    )
    waiting = [one for number in range(shape.gangs) for one in shape.gang(number, gates=(GATE,), cpu=_CPU)]
    await bed.api.create_all(waiting)
    took_s: list[float] = []
    try:
        async with AsyncExitStack() as stack:
            times = await stack.enter_async_context(pod_times(bed.cluster.kubeconfig(), NAMESPACE))
            meter = await bed.start_gangs(stack, netgang_first=True)
            begun_s = perf_counter()
            occupants = [[f"filler-{node}" for node in nodes] for nodes in blocks]
            for number in range(rounds):
                members = shape.gang(shape.gangs + number, gates=(GATE,), cpu=_CPU)
                await bed.api.create_all(members)
                await times.until(lambda: False, limit_s=_pause_s(number))
                bound = await _one(bed, times, occupants[number % len(blocks)])
                if bound is None:
                    break
                round_s, occupants[number % len(blocks)] = bound
                took_s.append(round_s)
            cpu_s = meter.at(perf_counter()) - meter.at(begun_s)
    finally:
        await bed.clear()
    return _figures(took_s, rounds=rounds, goal_s=goal_s, waiting=shape.gangs) | {
        "cpu_ms_per_pod": round(cpu_s / max(len(took_s) * shape.size, 1) * 1e3, 2)
    }


async def _one(bed: Bed, times: PodTimes, occupants: list[str]) -> tuple[float, list[str]] | None:
    """Delete these pods; seconds until as many others are bound, and their names. `None`: not in time."""
    before = set(times.bound_s)
    begun_s = perf_counter()
    await asyncio.gather(*(bed.api.delete("Pod", name, namespace=NAMESPACE, grace_s=0) for name in occupants))
    size = len(occupants)
    if not await times.until(lambda: len(times.bound_s) >= len(before) + size, limit_s=_ROUND_LIMIT_S):
        return None
    new = sorted(times.bound_s.keys() - before)
    return max(times.bound_s[name] for name in new) - begun_s, new


def _blocks(shape: Shape) -> list[list[str]]:
    """Names of nodes, a gang's worth of one zone at a time; what is left of a zone stays full."""
    by_zone: dict[str, list[str]] = {}
    for node in shape.node_objects():
        labels = node["metadata"]["labels"]
        by_zone.setdefault(labels["topology.kubernetes.io/zone"], []).append(node["metadata"]["name"])
    size = shape.size
    return [names[at : at + size] for names in by_zone.values() for at in range(0, len(names) - size + 1, size)]


def _pause_s(number: int) -> float:
    """Between two rounds, seconds: long enough for quiet, and never in step with the planner's interval."""
    return 0.3 + 0.037 * (number % 7)


def _figures(took_s: list[float], *, rounds: int, goal_s: float, waiting: int) -> dict[str, Any]:
    """The figures of the rounds that ended in time."""
    figures: dict[str, Any] = {"rounds": len(took_s), "unfinished": rounds - len(took_s), "waiting_gangs": waiting}
    if took_s:
        figures |= {f"p{round(at * 100)}_s": round(percentile(took_s, at), 3) for at in (0.5, 0.9, 0.99)}
    met = len(took_s) == rounds and percentile(took_s, 0.99) <= goal_s
    return figures | {"goal_p99_s": goal_s, "met": met}
