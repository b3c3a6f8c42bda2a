"""From what was seen to figures and goals: rates, waits, gangs, netgang's CPU; medians over the rounds.

Rule: a half that left pods unbound has no rate; ratios compare halves of
one round, so that what disturbs the machine disturbs both; what is said of several rounds is their median, with the
lowest and the highest beside a ratio. A goal that was not measured is not judged.
"""

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from lab.bench.peers.ways import COSCHEDULING, VOLCANO
from lab.bench.peers.workloads import WORKLOADS, gang_of

Figures = dict[str, Any]
"""What is written to JSON and shown: name with unit → value."""
RATIO = "ratio"
"""The figure of a goal that holds the rate against another way's."""
API_CPU = "api_cpu_ratio"
"""The figure of a goal that holds the API server's CPU time per pod against another way's."""
PARTIAL = "partial_gangs"
"""The figure that is to be 0 for every way of netgang."""


class Half(msgspec.Struct, frozen=True):
    """One way, measured once. Times in seconds."""

    pods: int
    bound: int = 0
    """Pods that have a node at the end."""
    span_s: float = 0.0
    """First to last binding."""
    partial_gangs: int = 0
    """Gangs that ended with some but not all of their members bound."""
    cpu_s: float | None = None
    """netgang's CPU from the start of the load to its end; `None`: it did not run."""
    api_cpu_s: float | None = None
    """The same of the API server."""
    round: int = 0

    @property
    def rate(self) -> float:
        """Pods per second; 0.0 if some were never bound.

        >>> Half(pods=3, bound=3, span_s=2.0).rate, Half(pods=3, bound=1, span_s=2.0).rate
        (1.5, 0.0)
        """
        return self.pods / self.span_s if self.bound == self.pods and self.span_s > 0.0 else 0.0


def half(bound_s: Mapping[str, float], *, expected: Mapping[str, int], pods: int) -> Half:
    """What the times of pods say: pod → when it was bound. `expected` maps a gang to its size.

    >>> one = half({"g-worker-0": 3.0, "g-worker-1": 5.0}, expected={"g": 2, "h": 1}, pods=3)
    >>> one.bound, one.span_s, one.partial_gangs, one.rate
    (2, 2.0, 0, 0.0)
    """
    members = Counter(gang_of(name) for name in bound_s)
    return Half(
        pods=pods,
        bound=len(bound_s),
        span_s=max(bound_s.values(), default=0.0) - min(bound_s.values(), default=0.0),
        partial_gangs=sum(members[gang] < size for gang, size in expected.items() if gang in members),
    )


def summary(halves: Sequence[Half]) -> Figures:
    """The figures of one way over its rounds; what must not be is the worst of all. ValueError if there are none.

    >>> found = summary([Half(pods=2, bound=2, span_s=1.0, cpu_s=0.002)] * 2)
    >>> found["pods_per_s"], found["cpu_ms_per_pod"], found["unfinished"]
    (2.0, 1.0, 0)
    """
    if not halves:
        raise ValueError("no rounds")
    rates = [one.rate for one in halves]
    found: Figures = {
        "pairs": len(halves),
        "pods": halves[0].pods,
        "unfinished": max(one.pods - one.bound for one in halves),
        "partial_gangs": max(one.partial_gangs for one in halves),
        "pods_per_s": round(statistics.median(rates), 1),
        "pods_per_s_min": round(min(rates), 1),
        "pods_per_s_max": round(max(rates), 1),
    }
    for name in ("cpu", "api_cpu"):
        spent = [took_s / one.pods * 1e3 for one in halves if (took_s := getattr(one, f"{name}_s")) is not None]
        if spent:
            found[f"{name}_ms_per_pod"] = round(statistics.median(spent), 3)
    return found


def ratios(ours: Sequence[Half], theirs: Sequence[Half], of: str = "rate") -> tuple[float, float, float] | None:
    """Median, lowest and highest ratio of rates, or of `api_cpu_s`, round by round.

    `None`: no two are of one round, or one has none.

    >>> def one(span_s, round): return Half(pods=1, bound=1, span_s=span_s, round=round)
    >>> ratios([one(2.0, 0), one(2.0, 1), one(1.0, 2)], [one(1.0, 0), one(1.0, 1), one(1.0, 2)])
    (0.5, 0.5, 1.0)
    """
    rates = {one.round: getattr(one, of) or 0.0 for one in theirs}
    pairs = [(getattr(one, of) or 0.0, rates[one.round]) for one in ours if one.round in rates]
    if not pairs or any(theirs <= 0.0 for _, theirs in pairs):
        return None
    found = [mine / other for mine, other in pairs]
    return round(statistics.median(found), 3), round(min(found), 3), round(max(found), 3)


class Goal(msgspec.Struct, frozen=True):
    """`figure` of `way` on `workload` is to be at least, or at most, `bound`."""

    workload: str
    way: str
    figure: str
    bound: float
    reference: str = ""
    at_most: bool = False


GOALS: Sequence[Goal] = (
    Goal("gangs", "second", RATIO, 0.75, "none"),
    Goal("gangs", "second-gated", RATIO, 0.45, "none"),
    Goal("gangs", "second-gated", API_CPU, 2.0, "second", at_most=True),
    Goal("gangs", "second", RATIO, 1.0, COSCHEDULING),
    Goal("gangs", "second", RATIO, 1.2, VOLCANO),
    Goal("wide", "second-gated", RATIO, 2.5, "none"),
    Goal("wide", "second-gated", RATIO, 0.6, "none-sampled"),
    Goal("wide", "second-gated", RATIO, 10.0, VOLCANO),
    Goal("gangs", "beside", RATIO, 0.95, "none"),
    Goal("gangs", "beside", RATIO, 0.95, "idle-second"),
    Goal("gangs", "second", "cpu_ms_per_pod", 1.2, at_most=True),
    Goal("gangs", "second-gated", "cpu_ms_per_pod", 1.2, at_most=True),
    Goal("wide", "second-gated", "cpu_ms_per_pod", 1.2, at_most=True),
    *(Goal(load, way, PARTIAL, 0, at_most=True) for load in WORKLOADS for way in ("second", "second-gated", "default")),
)


def judged(halves: Mapping[tuple[str, str], Sequence[Half]], *, quick: bool) -> list[Figures]:
    """Every goal whose halves were measured, with what was found; (workload, way) → its halves.

    `quick`: only goals are judged that do not depend on how fast a small load went. A way that left pods unbound
    where all had room misses its goals of speed, because it has no rate, and has gangs that never finished.
    """
    return [
        _verdict(goal, halves)
        for goal in GOALS
        if all((goal.workload, way) in halves for way in (goal.way, goal.reference) if way)
        if not quick or goal.figure == PARTIAL
    ]


def _verdict(goal: Goal, halves: Mapping[tuple[str, str], Sequence[Half]]) -> Figures:
    figures = summary(halves[goal.workload, goal.way])
    value = figures.get(goal.figure)
    spread: tuple[float, float] | None = None
    if goal.figure in (RATIO, API_CPU):
        of = "rate" if goal.figure == RATIO else "api_cpu_s"
        found = ratios(halves[goal.workload, goal.way], halves[goal.workload, goal.reference], of)
        value, spread = (None, None) if found is None else (found[0], found[1:])
    unbound = figures["unfinished"] if goal.figure in (RATIO, PARTIAL) else 0
    holds = value is not None and not unbound and (value <= goal.bound if goal.at_most else value >= goal.bound)
    shown = "not known" if value is None else f"{value:g}"
    shown += f" ({spread[0]:g} to {spread[1]:g})" if spread else ""
    shown += f" with {unbound} pods unbound" if unbound else ""
    against = f" of {goal.reference}" if goal.reference else ""
    words = f"{goal.workload}, {goal.way}: {goal.figure} {shown}, goal {'≤' if goal.at_most else '≥'} {goal.bound:g}"
    return {
        "workload": goal.workload,
        "way": goal.way,
        "reference": goal.reference,
        "figure": goal.figure,
        "value": value,
        "spread": spread,
        "bound": goal.bound,
        "holds": holds,
        "words": words + against,
    }
