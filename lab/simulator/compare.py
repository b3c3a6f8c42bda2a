"""Run a scenario file: every policy on every one of its runs, over one seed or several.

Rules: every policy sees the very same jobs, and each run starts with a fresh policy. Seeds follow one another from the
file's on; a policy is compared with another one on the same jobs, run by run and seed by seed.
"""

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean, median
from typing import Any

import msgspec

from lab.simulator.policies import made
from lab.simulator.scenarios import ScenarioFile, scenarios
from lab.simulator.summary import Row, row_of
from lab.simulator.world import run

BESIDE: Mapping[str, str] = {"gangs": "coscheduling", "kod2": "kod2-literal"}
"""name in columns → the policy beside which all are set"""
_AVERAGED = ("jct_p50_s", "jct_p99_s", "makespan_s", "cpu_utilisation_ratio", "wait_p99_largest_tenth_s", "resizes",
             "suspensions", "deadlocks")  # fmt: skip
Drawn = Mapping[tuple[int, str], Sequence[Row]]
"""(number of the run, policy) → its rows, seed by seed"""


class Report(msgspec.Struct, frozen=True):
    """What a command shows and writes."""

    scenario: str
    seed: int
    about: str
    rows: tuple[Row, ...]
    more: Mapping[str, tuple[Row, ...]] = {}
    """title → rows of a further table"""

    def document(self) -> dict[str, Any]:
        """For JSON; the same run gives the same bytes."""
        further = {title: list(rows) for title, rows in self.more.items()}
        return {"scenario": self.scenario, "seed": self.seed, "rows": list(self.rows), **further}


def compare(file: ScenarioFile, *, seeds: int = 1) -> Report:
    """A row for each run and policy (of several seeds: median, least and most), and one for each policy over all."""
    drawn: dict[tuple[int, str], list[Row]] = {}
    for number in range(seeds):
        seed = file.seed + number
        for (place, policy), row in _rows(file.model_copy(update={"seed": seed})):
            drawn.setdefault((place, policy), []).append(row)
    rows = tuple(draws[0] if seeds == 1 else _over_seeds(draws, place, drawn) for (place, _), draws in drawn.items())
    several = len({place for place, _ in drawn}) > 1 or seeds > 1
    more = {"over_all_runs": tuple(_over_all(drawn))} if several else {}
    words = f" Seeds {file.seed} to {file.seed + seeds - 1}: median, least and most." if seeds > 1 else ""
    return Report(file.name, file.seed, file.about + words, rows, more)


def _rows(file: ScenarioFile) -> Iterator[tuple[tuple[int, str], Row]]:
    """Each run's row under each policy, of one seed."""
    for place, (labels, scenario) in enumerate(scenarios(file)):
        for policy in file.policies:
            yield (place, policy), row_of(run(scenario, made(policy, file.seed)), labels)


def _over_seeds(draws: Sequence[Row], place: int, drawn: Drawn) -> Row:
    """One run under one policy."""
    row = {name: value for name, value in draws[0].items() if name in ("policy", "model", "batch", "workload", "load")}
    times, busy = _numbers(draws, "jct_mean_s"), _numbers(draws, "cpu_utilisation_ratio")
    row |= {"seeds": len(draws), "completed": int(sum(_numbers(draws, "completed")))}
    if times:
        row |= {"jct_median_s": round(median(times), 1), "jct_least_s": min(times), "jct_most_s": max(times)}
    row["cpu_median_ratio"] = round(median(busy), 4)
    for name, other in BESIDE.items():
        if other != row["policy"] and (ratios := _ratios(draws, drawn.get((place, other), ()))):
            row[f"beside_{name}_ratio"] = round(median(ratios), 3)
    return row


def _over_all(drawn: Drawn) -> Iterator[Row]:
    """Each policy's means over all runs and seeds; in how many runs its median ratio to another is above 1."""
    for policy in dict.fromkeys(policy for _, policy in drawn):
        mine = {place: draws for (place, name), draws in drawn.items() if name == policy}
        every = [row for draws in mine.values() for row in draws]
        times = _numbers(every, "jct_mean_s")
        row: Row = {"policy": policy, "runs": len(mine), "completed": int(sum(_numbers(every, "completed")))}
        row["jct_mean_s"] = round(fmean(times), 1) if times else None
        for column in _AVERAGED:
            if values := _numbers(every, column):
                row[column] = round(fmean(values), 4 if column.endswith("_ratio") else 1)
        for name, other in BESIDE.items():
            pairs = [_ratios(draws, drawn.get((place, other), ())) for place, draws in mine.items()]
            medians = [median(ratios) for ratios in pairs if ratios]
            if other == policy or not medians:
                continue
            base = [row for (_, one), draws in drawn.items() if one == other for row in draws]
            row[f"beside_{name}_ratio"] = round(fmean(times) / fmean(_numbers(base, "jct_mean_s")), 3)
            row[f"slower_than_{name}"] = sum(ratio > 1.0 for ratio in medians)
            row[f"worst_beside_{name}_ratio"] = round(max(medians), 3)
        yield row


def _numbers(rows: Sequence[Row], column: str) -> list[float]:
    return [float(value) for row in rows if isinstance(value := row.get(column), int | float)]


def _ratios(rows: Sequence[Row], base: Sequence[Row]) -> list[float]:
    """Mean completion times beside those of the same seeds."""
    pairs = [(one["jct_mean_s"], other["jct_mean_s"]) for one, other in zip(rows, base, strict=False)]
    return [float(one) / float(other) for one, other in pairs if one and other]
