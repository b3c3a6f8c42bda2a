"""The goals of each way, and whether a run meets them.

Why attached to rows: a goal that stands in a document only is never missed. Rule: a goal names a workload, a way and a
figure; a speed is held against another way's of the same rounds. What was not measured is not judged, and said so. A
stretch goal is reported and never fails a run. What is printed decides: unrounded differences do not count.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from lab.bench.peers.figures import Figures, Half, ratios
from lab.bench.peers.others import COSCHEDULING, VOLCANO, VOLCANO_SAMPLED

RATIO = "ratio"
"""The figure of a goal that holds the rate against another way's."""
PARTIAL = "partial_gangs"
"""The figure that is to be 0 for every way of netgang."""


@dataclass(frozen=True, slots=True)
class Goal:
    """`figure` of `way` on `workload` is to be at least, or at most, `bound`."""

    workload: str
    way: str
    figure: str
    bound: float
    reference: str = ""
    at_most: bool = False
    stretch: float | None = None
    """What we would like beyond it."""


def _ratio(workload: str, way: str, bound: float, *, reference: str = "none", stretch: float | None = None) -> Goal:
    return Goal(workload, way, RATIO, bound, reference=reference, stretch=stretch)


def _at_most(workload: str, way: str, figure: str, bound: float, *, stretch: float | None = None) -> Goal:
    return Goal(workload, way, figure, bound, at_most=True, stretch=stretch)


_GANG_LOADS = ("gangs", "trios", "large", "volcano", "burst", "oversized", "never", "slow", "wide")
_GANG_WAYS = ("second", "second-gated", "default")

GOALS: Sequence[Goal] = (
    _ratio("gangs", "second", 0.75),
    _ratio("gangs", "second-gated", 0.4),
    _ratio("gangs", "second", 1.0, reference=COSCHEDULING, stretch=1.5),
    _ratio("gangs", "second", 1.2, reference=VOLCANO),
    _ratio("trios", "second", 2.0, reference=VOLCANO),
    _ratio("wide", "second-gated", 2.5, stretch=3.0),
    _ratio("wide", "second-gated", 0.6, reference="none-sampled"),
    _ratio("wide", "second-gated", 2.5, reference=VOLCANO_SAMPLED),
    _ratio("wide", "second-gated", 10.0, reference=VOLCANO),
    _ratio("plain", "default", 0.6),
    _ratio("gangs", "beside", 0.95),
    _ratio("gangs", "beside", 0.95, reference="idle-second"),
    _at_most("gangs", "second", "cpu_ms_per_pod", 1.2, stretch=0.8),
    _at_most("gangs", "second-gated", "cpu_ms_per_pod", 1.2, stretch=0.8),
    _at_most("wide", "second-gated", "cpu_ms_per_pod", 1.2, stretch=0.8),
    _at_most("rooms", "second-gated", "room_p99_s", 1.0),
    *(_at_most(load, way, PARTIAL, 0) for load in _GANG_LOADS for way in _GANG_WAYS),
)
_ABSOLUTE = (PARTIAL,)
"""Figures that mean as much in a small run as in a long one."""


def with_goals(workload: str) -> frozenset[str]:
    """The ways of a load whose speed, CPU or waits a goal speaks of, or that it is held against.

    >>> sorted(with_goals("plain"))
    ['default', 'none']
    """
    found = [goal for goal in GOALS if goal.workload == workload and goal.figure not in _ABSOLUTE]
    return frozenset(name for goal in found for name in (goal.way, goal.reference) if name)


def pairs_with_goals(workload: str) -> list[tuple[str, str]]:
    """The ways of a load whose speed is held against another's, each with that one.

    >>> pairs_with_goals("trios"), pairs_with_goals("plain")
    ([('second', 'volcano')], [('default', 'none')])
    """
    return [(goal.way, goal.reference) for goal in GOALS if goal.workload == workload and goal.figure == RATIO]


def judged(
    rows: Mapping[tuple[str, str], Sequence[Half]], figures: Mapping[tuple[str, str], Figures], *, quick: bool
) -> list[Figures]:
    """Every goal whose rows were measured, with what was found; both maps: (workload, way) → its halves, its figures.

    `quick`: only goals are judged that do not depend on how fast a small load went. A way that left pods unbound
    where all had room misses its speed goals, because it has no rate, and has gangs that never finished.
    """
    return [_verdict(goal, rows, figures) for goal in GOALS if _is_measured(goal, rows, quick=quick)]


def missed(verdicts: Iterable[Figures]) -> list[str]:
    """The goals that a run fails for, in words.

    >>> missed([{"holds": False, "words": "a"}, {"holds": True}])
    ['a']
    """
    return [str(one["words"]) for one in verdicts if not one["holds"]]


def _is_measured(goal: Goal, rows: Mapping[tuple[str, str], Sequence[Half]], *, quick: bool) -> bool:
    needed = [goal.way, *([goal.reference] if goal.reference else [])]
    return all((goal.workload, way) in rows for way in needed) and (not quick or goal.figure in _ABSOLUTE)


def _verdict(
    goal: Goal, rows: Mapping[tuple[str, str], Sequence[Half]], figures: Mapping[tuple[str, str], Figures]
) -> Figures:
    spread: tuple[float, float] | None = None
    value: float | None
    if goal.figure == RATIO:
        found = ratios(rows[goal.workload, goal.way], rows[goal.workload, goal.reference])
        value, spread = (None, None) if found is None else (found[0], (found[1], found[2]))
    else:
        value = figures[goal.workload, goal.way].get(goal.figure)
    unbound = figures[goal.workload, goal.way]["unfinished"] if goal.figure in (RATIO, PARTIAL) else 0
    sign = "≤" if goal.at_most else "≥"
    against = f" of {goal.reference}" if goal.reference else ""
    shown = "not known" if value is None else f"{value:g}"
    shown += f" with {unbound} pods unbound" if unbound else ""
    return {
        "workload": goal.workload,
        "way": goal.way,
        "reference": goal.reference,
        "figure": goal.figure,
        "value": value,
        "lowest": spread[0] if spread else None,
        "highest": spread[1] if spread else None,
        "at_most": goal.at_most,
        "bound": goal.bound,
        "stretch": goal.stretch,
        "unbound": unbound,
        "holds": not unbound and _keeps(value, goal.bound, at_most=goal.at_most),
        "stretch_holds": None if goal.stretch is None else _keeps(value, goal.stretch, at_most=goal.at_most),
        "words": f"{goal.workload}, {goal.way}: {goal.figure} {shown}, goal {sign} {goal.bound:g}{against}",
    }


def _keeps(value: float | None, bound: float, *, at_most: bool) -> bool:
    """Whether a figure is on the right side; what was not measured is not."""
    return value is not None and (value <= bound if at_most else value >= bound)
