"""The comparison: every way of every workload, round after round, on one control plane per workload.

Rule: in a round every way is measured, and two ways of which a goal speaks together are measured one right after the
other: a machine's speed changes within a minute. Every second round goes backwards, and the ways without such a goal
turn, so that none is always measured on the same footing. One half per workload is thrown away first, because it finds
a cold API server.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from lab.bench.peers.bed import bed
from lab.bench.peers.figures import Figures, Half, ratios, summary
from lab.bench.peers.goals import judged, pairs_with_goals, with_goals
from lab.bench.peers.halves import measured
from lab.bench.peers.ways import WAYS, Way
from lab.bench.peers.workloads import FEW, Arrival, Workload, expected_s
from lab.testbed.programs.catalogue import KUBERNETES, Version

Report = Callable[[str, float], None]
"""Called for each half: what happened, and how many of the expected seconds it stands for."""


@dataclass(frozen=True, slots=True)
class Task:
    """One workload with its ways, each measured so many times."""

    workload: Workload
    ways: tuple[Way, ...]
    pairs: int
    few: frozenset[str] = frozenset()
    """Names of ways that are measured in the first `FEW` rounds only."""

    def ways_of(self, number: int) -> tuple[Way, ...]:
        """The ways of round `number`, in the order in which they are measured; some more than once."""
        ways = {way.name: way for way in self.ways if number < FEW or way.name not in self.few}
        pairs = [pair for pair in pairs_with_goals(self.workload.name) if ways.keys() >= set(pair)]
        together = side_by_side(pairs)
        order = [*together, *turned([name for name in ways if name not in together], number)]
        return tuple(ways[name] for name in (reversed(order) if number % 2 else order))

    @property
    def halves(self) -> int:
        """How many measurements it is."""
        return sum(len(self.ways_of(number)) for number in range(self.pairs))

    @property
    def expected_s(self) -> float:
        """How long it takes, seconds, on two cores."""
        return expected_s(self.workload, halves=self.halves)


@dataclass(frozen=True, slots=True)
class Found:
    """What a run found: a line per workload and way, and one per goal that could be judged."""

    rows: list[Figures]
    goals: list[Figures]


def tasks(
    workloads: Sequence[Workload],
    *,
    ways: Sequence[str],
    pairs: int | None,
    peers: Sequence[Way] = (),
    present: Sequence[Way] = (),
    kubernetes: Version = KUBERNETES,
) -> list[Task]:
    """What is to be done; without `ways` each workload's own and all peers. ValueError for an unknown name.

    A peer that is given takes part wherever gangs are measured, one that is merely present where the load names it.
    The reference of a goal is not added by itself.
    Without `ways` and `pairs` the ways of which no goal speaks are measured less often.
    """
    known = {**WAYS, **{one.name: one for one in (*present, *peers)}}
    unknown = [name for name in ways if name not in known]
    if unknown:
        raise ValueError(f"{', '.join(unknown)}: not among {', '.join(known)}")
    found = []
    for workload in workloads:
        joining = [one.name for one in peers if _joins(one, workload)]
        joining += [one.name for one in present if one.name in workload.peers]
        names = [name for name in known if name in (ways or (*workload.ways, *joining))]
        judged_ways = with_goals(workload.name)
        few = frozenset(names) - judged_ways if judged_ways and not (ways or pairs) else frozenset[str]()
        if refused := [name for name in names if known[name].kueue and not _joins(known[name], workload)]:
            raise ValueError(f"{', '.join(refused)}: schedules gangs of Jobs only, and {workload.name} has other pods")
        chosen = tuple(replace(known[name], kubernetes=kubernetes) for name in names)
        found.append(Task(workload, chosen, pairs or workload.pairs, few))
    return found


def _joins(peer: Way, workload: Workload) -> bool:
    """Whether a peer that is asked for without a load can be measured on this one."""
    if peer.kueue:  # its quota counts gangs alone, so nothing else may use nodes
        return workload.size > 1 and workload.arrival in (Arrival.BACKLOG, Arrival.LIVE)
    return workload.size > 1 and workload.arrival is not Arrival.ROOMS


def turned(names: Sequence[str], number: int) -> Sequence[str]:
    """The order of round `number`: over as many rounds as names, each is once at each place.

    >>> turned(["none", "echo", "second"], 1)
    ['echo', 'second', 'none']
    """
    at = number % max(len(names), 1)
    return [*names[at:], *names[:at]]


def side_by_side(pairs: Sequence[tuple[str, str]]) -> list[str]:
    """The names of all pairs in an order in which the two of each pair are neighbours; few names are there twice.

    >>> side_by_side([("a", "none"), ("b", "none"), ("c", "none"), ("a", "d")])
    ['b', 'none', 'a', 'd', 'c', 'none']
    """
    left = list(pairs)
    order: list[str] = []
    while left:
        following = next((pair for pair in left if order and order[-1] in pair), None)
        if following is not None:
            left.remove(following)
            order += [name for name in following if name != order[-1]]
        else:  # begin at an end, so that the walk through the pairs is a long one
            count = Counter(name for pair in left for name in pair)
            order.append(min(count, key=lambda name: count[name]))
    return order


async def compare(todo: Sequence[Task], report: Report, *, quick: bool) -> Found:
    """Measure all workloads and judge them."""
    found = [await compared(task, report, quick=quick) for task in todo]
    return Found([row for one in found for row in one.rows], [goal for one in found for goal in one.goals])


async def compared(task: Task, report: Report, *, quick: bool) -> Found:
    """Measure one workload and judge it."""
    name = task.workload.name
    halves = {(name, way): found for way, found in (await _rounds(task, report)).items()}
    figures = {key: summary(found) for key, found in halves.items()}
    rows = [_row(task.workload, way, figures, halves) for way in task.ways]
    return Found(rows, judged(halves, figures, quick=quick))


async def _rounds(task: Task, report: Report) -> dict[str, list[Half]]:
    """What every way did in all rounds, by name."""
    workload = task.workload
    halves: dict[str, list[Half]] = {way.name: [] for way in task.ways}
    async with bed(workload, task.ways) as place:
        report(f"{workload.name}: {workload.nodes} nodes are there", task.expected_s - _measuring_s(task))
        if workload.warms_up:
            await measured(place, task.ways[0])
            report(f"{workload.name}: warm", workload.half_s)
        for number in range(task.pairs):
            for at, way in enumerate(task.ways_of(number)):
                one = replace(await measured(place, way), round=number, place=at)
                halves[way.name].append(one)
                report(f"{workload.name}, {way.name}: {_words(one)}", workload.half_s)
    return halves


def _measuring_s(task: Task) -> float:
    return (task.halves + (1 if task.workload.warms_up else 0)) * task.workload.half_s


def _words(one: Half) -> str:
    spent = "" if one.cpu_ms_per_pod is None else f", netgang {one.cpu_ms_per_pod:.2f} ms CPU per pod"
    partial = f", {one.partial_gangs} partial gangs" if one.partial_gangs else ""
    speed = f"{len(one.rooms_s)} rooms used" if one.rooms_s else f"{one.bound} of {one.pods} bound, {one.rate:.0f}/s"
    return f"{speed}{partial}{spent}"


def _row(
    workload: Workload,
    way: Way,
    figures: Mapping[tuple[str, str], Figures],
    halves: Mapping[tuple[str, str], Sequence[Half]],
) -> Figures:
    """The line of one workload and way; `ratio` is to the workload's first way, if that was measured."""
    line: Figures = {
        "workload": workload.name,
        "load": workload.words,
        "way": way.name,
        "words": way.words,
        **figures[workload.name, way.name],
    }
    reference = workload.ways[0]
    if way.name != reference and (workload.name, reference) in halves and workload.arrival is Arrival.BACKLOG:
        found = ratios(halves[workload.name, way.name], halves[workload.name, reference])
        if found is not None:
            line |= {"reference": reference, "ratio": found[0], "ratio_min": found[1], "ratio_max": found[2]}
    return line
