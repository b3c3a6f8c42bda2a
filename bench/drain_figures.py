"""What the drain benchmark says: rates, ratios of halves of one run, and whether the goals hold.

Why apart: the figures can then be tested without a control plane. Rule: a ratio compares two halves of the same round,
so that what disturbs the machine disturbs both; the median of the rounds' ratios is held against the goal, and the
smallest and largest say how far rounds differ. A half that did not bind every pod has no rate and misses every goal.
"""

import statistics
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

CPU_GOAL_MS = 1.2
"""Most CPU of netgang per pod it binds: filter, bind, patch, Binding and planning."""


@dataclass(frozen=True, slots=True)
class Drain:
    """One half of a round: how a backlog was bound."""

    pods: int
    bound: int
    span_s: float
    """First to last binding, as a watch saw them."""
    cpu_s: float | None = None
    """Netgang's CPU from the start of the drain to its end; `None`: it did not run."""
    cpu_before_s: float | None = None
    """Netgang's CPU before that: start of the interpreter, reading the cluster, the first plan."""

    @property
    def rate(self) -> float:
        """Pods per second; 0.0 if some were never bound.

        >>> Drain(pods=1000, bound=1000, span_s=2.0).rate, Drain(pods=1000, bound=999, span_s=2.0).rate
        (500.0, 0.0)
        """
        return self.pods / self.span_s if self.bound == self.pods and self.span_s > 0.0 else 0.0

    @property
    def cpu_ms_per_pod(self) -> float | None:
        """Netgang's CPU per pod in milliseconds, from the start of the drain."""
        return None if self.cpu_s is None else self.cpu_s / self.pods * 1e3


def drained(arrivals_s: Collection[float], *, pods: int) -> Drain:
    """The drain that bindings at these times make.

    >>> drained([3.0, 1.0, 2.0], pods=3).rate
    1.5
    """
    span_s = max(arrivals_s) - min(arrivals_s) if arrivals_s else 0.0
    return Drain(pods=pods, bound=len(arrivals_s), span_s=span_s)


def compared(
    measured: Sequence[Drain], reference: Sequence[Drain], *, goal: float | None, cpu_goal_ms: float | None
) -> dict[str, Any]:
    """The figures of one case: both rates, the median of the ratios with its spread, CPU per pod, goals, `met`.

    The n-th half of one is compared with the n-th of the other. ValueError if there are none, or a reference is
    unfinished: then nothing can be said.

    >>> plain, ours = [Drain(100, 100, 1.0)] * 3, [Drain(100, 100, s, cpu_s=0.1) for s in (1.0, 2.0, 4.0)]
    >>> figures = compared(ours, plain, goal=0.4, cpu_goal_ms=1.2)
    >>> figures["ratio"], figures["ratio_min"], figures["ratio_max"], figures["cpu_ms_per_pod"], figures["met"]
    (0.5, 0.25, 1.0, 1.0, True)
    """
    rounds = list(zip(measured, reference, strict=False))
    if not rounds or any(plain.rate <= 0.0 for _, plain in rounds):
        raise ValueError("no finished round of the reference")
    ratios = [one.rate / plain.rate for one, plain in rounds]
    spent_ms = [one.cpu_ms_per_pod for one in measured if one.cpu_ms_per_pod is not None]
    before_s = [one.cpu_before_s for one in measured if one.cpu_before_s is not None]
    figures: dict[str, Any] = {
        "pairs": len(rounds),
        "pods": measured[0].pods,
        "unfinished": sum(one.bound < one.pods for one in measured),
        "pods_per_s": round(statistics.median(one.rate for one in measured)),
        "reference_pods_per_s": round(statistics.median(plain.rate for _, plain in rounds)),
        "ratio": round(statistics.median(ratios), 3),
        "ratio_min": round(min(ratios), 3),
        "ratio_max": round(max(ratios), 3),
        "goal": goal,
        "cpu_ms_per_pod": round(statistics.median(spent_ms), 3) if spent_ms else None,
        "cpu_goal_ms": cpu_goal_ms,
        "cpu_before_s": round(statistics.median(before_s), 2) if before_s else None,
    }
    return figures | {"met": met(figures)}


def met(figures: Mapping[str, Any]) -> bool:
    """Whether nothing that has a goal misses it. Unrounded differences do not count: what is printed decides."""
    if figures["unfinished"]:
        return False
    if figures["goal"] is not None and figures["ratio"] < figures["goal"]:
        return False
    spent_ms, most_ms = figures["cpu_ms_per_pod"], figures["cpu_goal_ms"]
    return most_ms is None or (spent_ms is not None and spent_ms <= most_ms)


def percentile(values: Sequence[float], ratio: float) -> float:
    """The smallest value that at least this share of the values does not exceed. ValueError if there are none.

    >>> percentile([4.0, 1.0, 3.0, 2.0], 0.5), percentile([4.0, 1.0, 3.0, 2.0], 0.99)
    (2.0, 4.0)
    """
    if not values:
        raise ValueError("no values")
    ordered = sorted(values)
    rank = -(-len(ordered) * round(ratio * 1000) // 1000)  # rounded up, in whole thousandths
    return ordered[max(int(rank), 1) - 1]
