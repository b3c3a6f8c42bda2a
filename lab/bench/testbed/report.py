"""The result as JSON and as a table beside the published figures (PAPERS N5).

A row of the table is a job and a worst case; what its gains are is in `result`. Times of runs that were cut short are
projected from the share of the bytes that had arrived; such a gain has a `~`. Where the worst case never even connected
there is no gain, and the table counts those apart.
"""

from typing import Final

from lab.bench.testbed.cases import Choice
from lab.bench.testbed.result import COMPARED, Gain, Result, gains

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
    *("impairment", "data set", "published", "job"),
    *("netgang", "over runs", "over values", "random", "over runs"),
)


def table(result: Result) -> str:
    """For people, in Markdown."""
    found = gains(result.rows)
    runs = max((one.runs for one in found), default=0)
    lines = [
        f"Delay by relay, loss by iptables (TCP's retransmissions are real); "
        f"{len(result.rows)} runs in {result.seconds / 60.0:.1f} min. Speed by that of the worst case: median of "
        f"{runs} runs' means over values, with the lowest and highest run and, apart, value. `~`: with projected ones.",
        "",
        f"| {' | '.join(_HEAD)} |",
        f"|{'---|' * len(_HEAD)}",
    ]
    by = {(one.impairment, one.dataset, job(one), one.choice): one for one in found}
    for impairment, dataset, name in dict.fromkeys(key[:3] for key in by):
        ours, chance = (by[impairment, dataset, name, choice] for choice in COMPARED)
        spread = _range(ours.lowest_value, ours.highest_value)
        cells = [_ratio(ours), _runs(ours), spread, _ratio(chance), _runs(chance)]
        published = PUBLISHED[impairment, dataset]
        lines.append(f"| {impairment} | {dataset} | {published:.2f} | {name} | {' | '.join(cells)} |")
    if result.load:
        lines += ["", f"Load of the machine meanwhile: {min(result.load):g} to {max(result.load):g}."]
    stale = [row.staleness for row in result.rows if row.staleness is not None]
    if stale:
        lines.append(f"Mean staleness of the asynchronous runs: {min(stale):.1f} to {max(stale):.1f} updates.")
    if result.left_out:
        lines.append(f"Left out for want of time: {'; '.join(result.left_out)}.")
    return "\n".join(lines)


def job(gain: Gain) -> str:
    """What ran, for people: topology, and where the worst case's server is."""
    return f"{gain.topology}, {gain.worst}" if gain.worst == Choice.CLEAN_PS else gain.topology


def _ratio(gain: Gain) -> str:
    never = f" ({gain.never_began} never began)" if gain.never_began else ""
    if gain.speed_ratio is None:
        return "–" + never
    return f"{'~' if gain.projected else ''}{_times(gain.speed_ratio)}{never}"


def _runs(gain: Gain) -> str:
    return "one run" if gain.runs == 1 else _range(gain.lowest_run, gain.highest_run)


def _range(lowest: float | None, highest: float | None) -> str:
    return "–" if lowest is None or highest is None else f"{_times(lowest)}–{_times(highest)}"


def _times(ratio: float) -> str:
    return f"{ratio:.2f}" if ratio < 10 else f"{ratio:.0f}"
