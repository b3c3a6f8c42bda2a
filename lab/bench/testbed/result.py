"""The result: a row for each run, and how many times as fast as the worst case each choice is.

Two spreads are kept apart: over the runs and over the values.

The paper's bars are the speed of learning: 40 % more speed is 29 % less time. A gain is the worst case's time by a
choice's, of the same run, value and job; the published figure is a mean over the values. So of each run the mean over
the values is taken, and of these means the median and their range; apart from that, of each value the median over the
runs and their range, which is no uncertainty but shows how the gain depends on the impairment's strength.
"""

import os
import platform
from collections.abc import Iterable, Sequence
from itertools import product
from statistics import fmean, median
from typing import Final

import msgspec

from lab.bench.testbed.cases import Choice, Impairment
from lab.bench.testbed.running_job import TOPOLOGIES, Run

COMPARED: Final = (Choice.NETGANG, Choice.RANDOM)
"""Choices that are compared with a worst case."""


class Row(Run, frozen=True, kw_only=True):
    """One run of one job."""

    dataset: str
    topology: str
    impairment: str
    value: float
    choice: str
    nodes: tuple[str, ...]
    impaired: int
    """How many of the three impaired nodes are among them."""
    round: int = 0


class Result(msgspec.Struct):
    """What came of an experiment. As JSON it is what `table` reads again."""

    seed: int
    rows: list[Row] = []
    left_out: list[str] = []
    load: list[float] = []
    """Runnable processes of the whole machine at each setting (mean of a minute): what else there was to wait for."""
    seconds: float = 0.0
    machine: dict[str, str] = msgspec.field(
        default_factory=lambda: {"kernel": platform.release(), "cores": str(os.cpu_count())}
    )


class Gain(msgspec.Struct, frozen=True):
    """The speed of one choice by that of one worst case, over the values of one impairment."""

    impairment: str
    dataset: str
    topology: str
    worst: str
    """The worst case: its ps on an impaired node, or on a clean one."""
    choice: str
    speed_ratio: float | None
    """Median over the runs of the mean over the values; None: there is nothing to compare."""
    lowest_run: float | None
    highest_run: float | None
    """Of the runs' means."""
    lowest_value: float | None
    highest_value: float | None
    """Of the values' medians over the runs."""
    runs: int
    """Whole runs: those that have each value."""
    values: int
    projected: bool
    """Whether a run was cut short, so that its time is projected."""
    never_began: int
    """Pairs of run and value without a gain, because one of the two never connected; their value is left out."""


def gains(rows: Sequence[Row]) -> list[Gain]:
    """All gains, in the order of the table."""
    datasets = sorted({row.dataset for row in rows})
    jobs = product(Impairment, datasets, TOPOLOGIES)
    return [
        _gain(of, worst, choice)
        for job in jobs
        if (of := [row for row in rows if (row.impairment, row.dataset, row.topology) == job])
        for worst in (Choice.WORST, Choice.CLEAN_PS)
        if any(row.choice == worst for row in of)
        for choice in COMPARED
    ]


def _gain(rows: Sequence[Row], worst: Choice, choice: Choice) -> Gain:
    ratios: dict[tuple[int, float], float | None] = {}
    compared = [row for row in rows if row.choice in (worst, choice)]
    for place in sorted({(row.round, row.value) for row in compared}):
        of = [row for row in compared if (row.round, row.value) == place]
        theirs, ours = ([row for row in of if row.choice == one] for one in (worst, choice))
        if theirs and ours:
            worst_s, ours_s = _mean_s(theirs), _mean_s(ours)
            ratios[place] = None if worst_s is None or ours_s is None else worst_s / ours_s
    values = {value for _, value in ratios}
    runs = [run for run in sorted({run for run, _ in ratios}) if all((run, value) in ratios for value in values)]
    known = {place: ratio for place, ratio in ratios.items() if ratio is not None and place[0] in runs}
    kept = sorted(value for value in values if all((run, value) in known for run in runs)) if runs else []
    means = [fmean(known[run, value] for value in kept) for run in runs] if kept else []
    medians = [median(known[run, value] for run in runs) for value in kept]
    first = rows[0]
    return Gain(
        impairment=first.impairment,
        dataset=first.dataset,
        topology=first.topology,
        worst=worst.value,
        choice=choice.value,
        speed_ratio=median(means) if means else None,
        lowest_run=min(means, default=None),
        highest_run=max(means, default=None),
        lowest_value=min(medians, default=None),
        highest_value=max(medians, default=None),
        runs=len(runs),
        values=len(kept),
        projected=any(not row.finished for row in compared if row.round in runs and row.value in kept),
        never_began=sum(place[0] in runs and ratio is None for place, ratio in ratios.items()),
    )


def _mean_s(rows: Iterable[Row]) -> float | None:
    times = [row.seconds for row in rows]
    known = [one for one in times if one is not None]
    return fmean(known) if known and len(known) == len(times) else None
