"""How each kind of load is measured once: what is created when, what is waited for, and what counts.

Rule: every half is bounded in time; what is not bound by then stays so and counts as unfinished. A half that has ended
leaves the control plane as it was.
"""

import asyncio
import math
from collections.abc import Collection, Sequence
from dataclasses import replace
from time import perf_counter

from lab.bench.peers.bed import Bed, Running
from lab.bench.peers.figures import Half, half
from lab.bench.peers.watch import PodTimes
from lab.bench.peers.ways import OURS, Way
from lab.bench.peers.workloads import CHURN_PER_S, NAMESPACE, Arrival, Workload, gang_of
from lab.testbed.api import Object
from lab.testbed.objects import pod
from lab.testbed.parts.kueue_jobs import pod_names

_WARM_S = 1.0
"""How long everything runs without work before a burst."""
_CHURN_LIFE_S = 2.0
_CHURN_LIMIT_S = 20.0
_ROOM_LIMIT_S = 30.0


async def measured(bed: Bed[Workload], way: Way) -> Half:
    """Measure the bed's workload once, this way."""
    match bed.workload.arrival:
        case Arrival.BACKLOG:
            return await _backlog(bed, way)
        case Arrival.LIVE:
            return await _live(bed, way)
        case Arrival.NEVER:
            return await _never(bed, way)
        case Arrival.ROOMS:
            return await _rooms(bed, way)


async def _backlog(bed: Bed[Workload], way: Way) -> Half:
    """Everything waits already when what schedules is started."""
    objects, oversized = bed.workload.backlog(way), bed.workload.never_fitting(way)
    await _create(bed, oversized)
    await _create(bed, objects)
    async with bed.run(way) as running:
        async with bed.slowed():
            await _until_bound(running.times, names_of(objects), limit_s=_limit_s(bed.workload))
        begun_s = running.begun_s
        if way.gated and running.times.let_in_s:  # from the moment at which the first pod could be admitted
            begun_s = min(begun_s, *running.times.let_in_s.values())
        return await _seen(bed, way, running, names_of(objects), begun_s=begun_s, waiting=names_of(oversized))


async def _live(bed: Bed[Workload], way: Way) -> Half:
    """What schedules is there and idle when all pods are created."""
    objects = bed.workload.backlog(way)
    async with bed.run(way) as running:
        await running.times.until(lambda: False, limit_s=_WARM_S)
        begun_s = perf_counter()
        await _create(bed, objects)
        await _until_bound(running.times, names_of(objects), limit_s=_limit_s(bed.workload))
        return await _seen(bed, way, running, names_of(objects), begun_s=begun_s)


async def _never(bed: Bed[Workload], way: Way) -> Half:
    """Single pods come at an even pace beside a gang that has no room, and go soon after they are bound."""
    gang = bed.workload.backlog(way)
    await _create(bed, gang)
    async with bed.run(way) as running:
        await running.times.until(lambda: False, limit_s=2 * _WARM_S)
        begun_s = perf_counter()
        before = await bed.filter_calls(way, running) or 0
        async with asyncio.TaskGroup() as group:
            for number in range(bed.workload.rounds):
                group.create_task(_come_and_go(bed, way, running.times, f"single{number:05d}"))
                await asyncio.sleep(1.0 / CHURN_PER_S)
        singles = [f"single{number:05d}" for number in range(bed.workload.rounds)]
        found = await _seen(bed, way, running, singles, begun_s=begun_s, waiting=names_of(gang), live=True)
        calls = None if found.filter_calls is None else found.filter_calls - before
        return replace(found, filter_calls=calls, span_s=0.0)  # how fast they came says nothing


async def _rooms(bed: Bed[Workload], way: Way) -> Half:
    """Free room for one gang again and again; each round adds a gang, so that as many wait as before."""
    workload = bed.workload
    blocks = _blocks(workload)
    await _create(bed, [_filler(workload, node) for nodes in blocks for node in nodes])
    await _create(bed, workload.backlog(way))
    took_s: list[float] = []
    async with bed.run(way) as running:
        begun_s = perf_counter()
        occupants = [[f"filler-{node}" for node in nodes] for nodes in blocks]
        for number in range(workload.rounds):
            await _create(bed, workload.gang(workload.gangs + number, way))
            await running.times.until(lambda: False, limit_s=_pause_s(number))
            place = number % len(blocks)
            taken = await _freed(bed, running.times, occupants[place])
            if taken is None:
                break
            round_s, occupants[place] = taken
            took_s.append(round_s)
        found = await _seen(bed, way, running, [], begun_s=begun_s, waiting=running.times.seen_s.keys())
        return replace(
            found,
            pods=workload.rounds * workload.size,
            moved_in=len(took_s) * workload.size,
            gangs_s=(),
            spreads_s=(),
            rooms_s=tuple(sorted(took_s)),
        )


async def _seen(
    bed: Bed[Workload],
    way: Way,
    running: Running,
    names: Sequence[str],
    *,
    begun_s: float,
    waiting: Collection[str] = (),
    live: bool | None = None,
) -> Half:
    """What the watch and the meters saw; `waiting` names pods that belong to gangs but whose waits do not count."""
    calls = await bed.filter_calls(way, running)
    end_s = await bed.settle(running)
    times, meters = running.times, running.meters
    gangs = {gang_of(name) for name in (*names, *waiting)} - {""} if bed.workload.size > 1 else set[str]()
    expected = {gang: bed.workload.size_of(gang) for gang in gangs}
    is_live = bed.workload.arrival is Arrival.LIVE if live is None else live
    found = half(times.seen_s, times.bound_s, expected=expected, pods=len(names), live=is_live, counted=names)
    ran = OURS in bed.cluster.parts
    return replace(
        found,
        filter_calls=calls,
        cpu_s=meters.cpu_s(OURS, end_s) - meters.cpu_s(OURS, begun_s) if ran else None,
        cpu_before_s=meters.cpu_s(OURS, begun_s) if ran else None,
        processes=meters.used(begun_s, end_s),
    )


async def _create(bed: Bed[Workload], objects: Sequence[Object]) -> None:
    """Workloads, which PodGroups must name, then groups, then pods, or Jobs that make them, in order."""
    for kind in ("Workload", "PodGroup", "Pod", "Job"):
        await bed.api.create_all([one for one in objects if one["kind"] == kind])


async def _until_bound(times: PodTimes, names: Sequence[str], *, limit_s: float) -> bool:
    wanted = set(names)
    return await times.until(
        lambda: len(times.bound_s) >= len(wanted) and times.bound_s.keys() >= wanted, limit_s=limit_s
    )


async def _come_and_go(bed: Bed[Workload], way: Way, times: PodTimes, name: str) -> None:
    """One single pod's life; one that is not bound in time stays until the end of the half."""
    await _create(bed, bed.workload.single(name, way))
    if await times.until(lambda: name in times.bound_s, limit_s=_CHURN_LIMIT_S):
        await asyncio.sleep(_CHURN_LIFE_S)
        await bed.api.delete("Pod", name, namespace=NAMESPACE, grace_s=0)


async def _freed(bed: Bed[Workload], times: PodTimes, occupants: Sequence[str]) -> tuple[float, list[str]] | None:
    """Delete these pods; seconds until as many others are bound, and their names. `None`: not in time."""
    before = set(times.bound_s)
    begun_s = perf_counter()
    await asyncio.gather(*(bed.api.delete("Pod", name, namespace=NAMESPACE, grace_s=0) for name in occupants))
    size = len(occupants)
    if not await times.until(lambda: len(times.bound_s) >= len(before) + size, limit_s=_ROOM_LIMIT_S):
        return None
    new = sorted(times.bound_s.keys() - before)
    return max(times.bound_s[name] for name in new) - begun_s, new


def names_of(objects: Sequence[Object]) -> list[str]:
    """Names of the pods among some objects, and of those that Jobs among them make."""
    pods = [one["metadata"]["name"] for one in objects if one["kind"] == "Pod"]
    return [*pods, *(name for one in objects if one["kind"] == "Job" for name in pod_names(one))]


def _filler(workload: Workload, node: str) -> Object:
    """A pod that fills a node and is there from the start."""
    one = pod(f"filler-{node}", namespace=NAMESPACE, cpu=str(workload.cpu))
    return {**one, "spec": {**one["spec"], "nodeName": node}}


def _blocks(workload: Workload) -> list[list[str]]:
    """Names of nodes, a gang's worth of one zone at a time; what is left of a zone stays full."""
    by_zone: dict[str, list[str]] = {}
    for node in workload.node_objects():
        labels = node["metadata"]["labels"]
        by_zone.setdefault(labels["topology.kubernetes.io/zone"], []).append(node["metadata"]["name"])
    size = workload.size
    return [names[at : at + size] for names in by_zone.values() for at in range(0, len(names) - size + 1, size)]


def _pause_s(number: int) -> float:
    """Between two rounds, seconds: long enough for quiet, and never in step with the planner's interval."""
    return 0.3 + 0.037 * (number % 7)


def _limit_s(workload: Workload) -> float:
    """Seconds for a load; more on many nodes, because some schedulers look at all of them for each pod."""
    return 30.0 + workload.pods / 20.0 / math.sqrt(workload.api_share) + workload.pods * workload.nodes / 2e4
