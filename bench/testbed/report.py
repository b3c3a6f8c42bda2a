"""The result as JSON and as a table beside the published figures (PAPERS N5).

The paper's bars are the speed of learning: 40 % more speed is 29 % less time. So a gain is the worst case's time by a
choice's, per value and then as the mean over the values, with the lowest and highest value beside it. Times of runs
that were cut short are projected from the share of the bytes that had arrived; such a gain has a `~`. Where the worst
case never even connected there is no gain, and the table counts those apart.
"""

import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bench.testbed.cases import Choice, Impairment
from bench.testbed.experiment import Result, Row
from bench.testbed.training.worker import TOPOLOGIES

PUBLISHED: Final = {
    ("bandwidth", "cifar10"): 1.40,
    ("bandwidth", "notmnist"): 1.01,
    ("loss", "cifar10"): 1.50,
    ("loss", "notmnist"): 1.25,
    ("delay", "cifar10"): 1.21,
    ("delay", "notmnist"): 1.32,
}
"""(impairment, data set) → speed of the best choice by that of the worst case, mean over the steps of the sweep"""
_HEAD: Final = (
    *("impairment", "data set", "published"),
    *("ps: netgang", "ps: random", "ring: netgang", "ring: random"),
)


@dataclass(frozen=True, slots=True)
class Gain:
    """How many times as fast as the worst case a choice is, over the values of one impairment."""

    impairment: str
    dataset: str
    topology: str
    choice: str
    speed_ratio: float | None
    """Mean over the values; None: there is nothing to compare."""
    lowest: float | None
    highest: float | None
    values: int
    """How many values it is a mean over."""
    projected: bool
    """Whether a run was cut short."""
    never_began: int
    """Values without a gain, because a run never connected."""


def gains(rows: Sequence[Row]) -> list[Gain]:
    """All gains, in the order of the table."""
    found = []
    for impairment in Impairment:
        for dataset, topology in sorted({(row.dataset, row.topology) for row in rows}):
            for choice in (Choice.NETGANG, Choice.RANDOM):
                of = [r for r in rows if (r.impairment, r.dataset, r.topology) == (impairment, dataset, topology)]
                if of:
                    found.append(_gain(of, choice))
    return found


def _gain(rows: Sequence[Row], choice: Choice) -> Gain:
    ratios: list[float] = []
    projected, never = False, 0
    for value in sorted({row.value for row in rows}):
        worst = [row for row in rows if row.value == value and row.choice == Choice.WORST]
        ours = [row for row in rows if row.value == value and row.choice == choice]
        worst_s, ours_s = _mean_s(worst), _mean_s(ours)
        if worst_s is None or ours_s is None:
            never += 1
            continue
        ratios.append(worst_s / ours_s)
        projected |= any(not row.run.finished for row in (*worst, *ours))
    first = rows[0]
    return Gain(
        first.impairment,
        first.dataset,
        first.topology,
        choice.value,
        sum(ratios) / len(ratios) if ratios else None,
        min(ratios, default=None),
        max(ratios, default=None),
        len(ratios),
        projected,
        never,
    )


def _mean_s(rows: Iterable[Row]) -> float | None:
    times = [row.run.seconds for row in rows]
    known = [one for one in times if one is not None]
    return sum(known) / len(known) if known and len(known) == len(times) else None


def as_json(result: Result) -> dict[str, Any]:
    """The whole result with the machine it is of."""
    return {
        "machine": {"kernel": platform.release(), "python": platform.python_version(), "system": platform.system()},
        "seed": result.seed,
        "delay_by": result.delay_by,
        "congestion_control": result.congestion,
        "load": result.load,
        "cores": os.cpu_count(),
        "seconds": round(result.seconds, 1),
        "left_out": result.left_out,
        "probes": result.probes,
        "rows": [row.as_json() for row in result.rows],
        "gains": [{name: getattr(one, name) for name in one.__dataclass_fields__} for one in gains(result.rows)],
    }


def from_json(document: Mapping[str, Any]) -> Result:
    """The result that `as_json` wrote, for its table and picture."""
    return Result(
        seed=document["seed"],
        delay_by=document["delay_by"],
        congestion=document["congestion_control"],
        rows=[Row.from_json(one) for one in document["rows"]],
        probes=list(document["probes"]),
        left_out=list(document["left_out"]),
        load=list(document["load"]),
        seconds=document["seconds"],
    )


def table(result: Result) -> str:
    """For people, in Markdown."""
    lines = [
        f"Delay by {result.delay_by}; loss by iptables (TCP's retransmissions are real); {result.congestion}; "
        f"{len(result.rows)} runs in {result.seconds / 60.0:.1f} min. Speed by that of the worst case, mean over "
        "the values (lowest–highest). `~`: with projected runs.",
        "",
        f"| {' | '.join(_HEAD)} |",
        f"|{'---|' * len(_HEAD)}",
    ]
    by = {(one.impairment, one.dataset, one.topology, one.choice): one for one in gains(result.rows)}
    for (impairment, dataset), published in PUBLISHED.items():
        cells = [
            _cell(by.get((impairment, dataset, topology, choice)))
            for topology in TOPOLOGIES
            for choice in (Choice.NETGANG, Choice.RANDOM)
        ]
        lines.append(f"| {impairment} | {dataset} | {published:.2f} | {' | '.join(cells)} |")
    if result.load:
        lines += ["", f"Load of the machine meanwhile: {min(result.load):g} to {max(result.load):g}."]
    ours = [row for row in result.rows if row.choice == Choice.NETGANG]
    spoilt = sum(row.impaired > 0 for row in ours)
    lines += ["", f"Choices of netgang with an impaired node: {spoilt} of {len(ours)} runs."]
    if result.left_out:
        lines.append(f"Left out for want of time: {'; '.join(result.left_out)}.")
    return "\n".join(lines)


def _cell(gain: Gain | None) -> str:
    if gain is None:
        return "–"
    never = f" ({gain.never_began} never began)" if gain.never_began else ""
    if gain.speed_ratio is None or gain.lowest is None or gain.highest is None:
        return "–" + never
    spread = f" ({_times(gain.lowest)}–{_times(gain.highest)})" if gain.values > 1 else ""
    return f"{'~' if gain.projected else ''}{_times(gain.speed_ratio)}{spread}{never}"


def _times(ratio: float) -> str:
    return f"{ratio:.2f}" if ratio < 10 else f"{ratio:.0f}"
