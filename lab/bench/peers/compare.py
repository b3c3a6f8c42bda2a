"""The comparison: every way of every workload, round after round, on one control plane per workload.

Rule: in a round every way is measured, every second round backwards, so that none is always measured on the same
footing. One half per workload is thrown away first, because it finds a cold API server. Every half is bounded in time;
what is not bound by then counts as unfinished.
"""

from collections.abc import Callable, Sequence

import msgspec
from msgspec.structs import replace

from lab.bench.peers.bed import Bed, bed
from lab.bench.peers.figures import Figures, Half, half, judged, ratios, summary
from lab.bench.peers.ways import Way
from lab.bench.peers.workloads import Workload, gang_of
from lab.testbed.api import Object

Report = Callable[[str], None]
"""Called for each half: what happened."""


class Task(msgspec.Struct, frozen=True):
    """One workload with its ways, each measured so many times."""

    workload: Workload
    ways: tuple[Way, ...]
    rounds: int


async def compared(task: Task, report: Report, *, quick: bool) -> tuple[list[Figures], list[Figures]]:
    """Measure one workload and judge it: a line for each way, and one for each goal that could be judged."""
    workload = task.workload
    halves: dict[tuple[str, str], list[Half]] = {(workload.name, way.name): [] for way in task.ways}
    async with bed(workload.node_objects(), task.ways) as place:
        report(f"{workload.name}: {workload.nodes} nodes are there")
        await measured(place, workload, task.ways[0])
        for number in range(task.rounds):
            for way in task.ways if number % 2 == 0 else task.ways[::-1]:
                one = replace(await measured(place, workload, way), round=number)
                halves[workload.name, way.name].append(one)
                spent = "" if one.cpu_s is None else f", netgang {one.cpu_s / one.pods * 1e3:.2f} ms CPU per pod"
                spent += "" if one.api_cpu_s is None else f", the API server {one.api_cpu_s / one.pods * 1e3:.2f}"
                bound = f"{one.bound} of {one.pods} bound, {one.rate:.0f}/s"
                partial = f", {one.partial_gangs} partial gangs" if one.partial_gangs else ""
                report(f"{workload.name}, {way.name}: {bound}{partial}{spent}")
    reference = halves[workload.name, task.ways[0].name]
    rows = []
    for way in task.ways:
        row: Figures = {"workload": workload.name, "load": workload.words, "way": way.name, "words": way.words}
        row |= summary(halves[workload.name, way.name])
        beside = ratios(halves[workload.name, way.name], reference)
        if beside is not None and way is not task.ways[0]:
            row |= {"reference": task.ways[0].name, "ratio": beside[0], "ratio_min": beside[1], "ratio_max": beside[2]}
        rows.append(row)
    return rows, judged(halves, quick=quick)


async def measured(place: Bed, workload: Workload, way: Way) -> Half:
    """Measure the workload once, this way."""
    objects = workload.backlog(way)
    names = [one["metadata"]["name"] for one in objects if one["kind"] == "Pod"]
    await _create(place, objects)
    async with place.run(way) as running:
        times, begun_s = running.times, running.begun_s
        # more on many nodes, because some schedulers look at all of them for each pod
        limit_s = 30.0 + workload.pods / 20.0 + workload.pods * workload.nodes / 2e4
        wanted = set(names)
        await times.until(lambda: len(times.bound_s) >= len(wanted) and times.bound_s.keys() >= wanted, limit_s=limit_s)
        if way.gated and times.let_in_s:  # from the moment at which the first pod could be admitted
            begun_s = min(begun_s, *times.let_in_s.values())
        end_s = await running.settle()
        expected = dict.fromkeys(map(gang_of, names), workload.size)
        found = half(times.bound_s, expected=expected, pods=len(names))
        return replace(found, cpu_s=running.cpu.cpu_s(begun_s, end_s), api_cpu_s=running.api_cpu.cpu_s(begun_s, end_s))


async def _create(place: Bed, objects: Sequence[Object]) -> None:
    """Workloads, which PodGroups must name, then groups, then pods, in order."""
    for kind in ("Workload", "PodGroup", "Pod"):
        await place.api.create_all([one for one in objects if one["kind"] == kind])
