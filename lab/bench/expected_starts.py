"""How many gangs of a simulated cluster start inside the interval of 80 % that they were given first.

Why: an interval is worth what its hit rate says, so it is measured, with lengths that were learned in the run alone.
Rule: each seed is a workload of its own (`simulator.expected`), and the same on every machine; beside the intervals of
the service stand those that the lengths alone give. The goal, 75 to 85 %, is that of all seeds together.

    python -m lab.bench.expected_starts [--first 11] [--seeds 10] [--jobs 400] [--mode easy] [--plot FILE.svg]
"""

import argparse
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import chain
from pathlib import Path
from statistics import median
from typing import Final

from lab.simulator.expected import Coverage, Start, coverage
from lab.simulator.plots import need_matplotlib
from scoring.model.policy import Backfill
from scoring.plan.expected import Result

GOAL: Final = (0.75, 0.85)
_HEADS: Final = ("seed", "intervals", "early", "inside", "late", "inside by lengths alone", "width", "wait")


def measured(seed: int, jobs: int, mode: Backfill) -> Coverage:
    """One workload, with both kinds of intervals."""
    return coverage(seed, jobs=jobs, mode=mode)


def ratio(starts: Sequence[Start], result: Result = Result.INSIDE) -> float:
    """Share of the starts with this result; of none 0."""
    return sum(one.result is result for one in starts) / max(len(starts), 1)


def row(name: str, moved: Sequence[Start], plain: Sequence[Start]) -> str:
    """A line of the table: shares, and the medians of the intervals' widths and of the waits, in minutes."""
    shares = [ratio(moved, result) for result in Result]
    cells = [f"{share:.1%}" for share in (*shares, ratio(plain))]
    widths = (median(one.high_s - one.low_s for one in moved), median(one.waited_s for one in moved)) if moved else ()
    return f"| {' | '.join((name, str(len(moved)), *cells, *(f'{one_s / 60:.0f} min' for one_s in widths)))} |"


def table(found: Sequence[Coverage]) -> list[str]:
    """One line a seed, and all together."""
    lines = [f"| {' | '.join(_HEADS)} |", "|" + "---|" * len(_HEADS)]
    lines += [row(str(one.seed), one.starts, one.plain) for one in found]
    if len(found) > 1:
        lines.append(row("all", *(_all(found, plain=plain) for plain in (False, True))))
    return lines


def draw(found: Sequence[Coverage], target: Path) -> None:
    """The hit rate of each seed beside the goal, and each start of the first seed beside its interval."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context({"svg.hashsalt": "netgang", "svg.fonttype": "none"}):
        figure = Figure(figsize=(9, 4), layout="constrained")
        shares, starts = figure.subplots(1, 2)
        names = [str(one.seed) for one in found]
        shares.axhspan(*GOAL, color="0.9", label="goal")
        shares.plot(names, [ratio(one.starts) for one in found], "o", color="C0", label="netgang")
        shares.plot(names, [ratio(one.plain) for one in found], "x", color="C1", label="lengths alone")
        shares.set(ylim=(0.5, 1.0), xlabel="seed", ylabel="starts inside their interval", title="Hit rate")
        shares.legend(loc="lower right")
        first = sorted(found[0].starts, key=lambda one: one.expected_s)
        places = range(len(first))
        low, high = ([one.low_s / 60 for one in first], [one.high_s / 60 for one in first])
        starts.fill_between(places, low, high, color="0.85", label="interval of 80 %", linewidth=0)
        starts.plot(places, [one.waited_s / 60 for one in first], ".", markersize=3, color="C0", label="start")
        starts.set(xlabel="gangs, by expected start", ylabel="minutes from the first look", title=f"Seed {names[0]}")
        starts.set_yscale("symlog", linthresh=10)
        starts.legend(loc="upper left")
        figure.savefig(target, metadata={"Date": None})


def main(words: Sequence[str] | None = None) -> int:
    """Exit code: 0 the goal holds, 1 it does not."""
    asked = argparse.ArgumentParser(prog="python -m lab.bench.expected_starts", description=__doc__)
    asked.add_argument("--first", type=int, default=11)
    asked.add_argument("--seeds", type=int, default=10)
    asked.add_argument("--jobs", type=int, default=400)
    asked.add_argument("--mode", type=Backfill, choices=(Backfill.EASY, Backfill.CONSERVATIVE), default=Backfill.EASY)
    asked.add_argument("--plot", type=Path)
    asked.add_argument("--at-once", type=int, default=1)
    given = asked.parse_args(words)
    if given.plot is not None:
        need_matplotlib()
    seeds = range(given.first, given.first + given.seeds)
    many = (list(seeds), [given.jobs] * len(seeds), [given.mode] * len(seeds))
    with ProcessPoolExecutor(given.at_once) as workers:
        found = list(workers.map(measured, *many))
    sys.stdout.write("\n".join(table(found)) + "\n")
    if given.plot is not None:
        draw(found, given.plot)
    low, high = GOAL
    return 0 if low <= ratio(_all(found, plain=False)) <= high else 1


def _all(found: Sequence[Coverage], *, plain: bool) -> list[Start]:
    return list(chain.from_iterable(one.plain if plain else one.starts for one in found))


if __name__ == "__main__":
    sys.exit(main())
