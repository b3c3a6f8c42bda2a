"""A scenario drawn from many seeds: median and range of each of its runs, beside plain gangs and KOD2 as published.

Why: one draw of ten jobs says little; between two seeds the same cell may differ by a factor. Rules: seeds follow one
another from the file's on; a policy is compared with another one on the same jobs, seed by seed, and the median is that
of these ratios; rules for deadlocked jobs, which only `default` has, are varied with it (the values of `sweep`).
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from statistics import fmean, median
from types import MappingProxyType

from lab.simulator.compare import Report, Told, compare, reads, varied
from lab.simulator.policies import POLICIES
from lab.simulator.scenarios import ScenarioFile, scenarios
from lab.simulator.summary import Row

BESIDE: Mapping[str, str] = MappingProxyType({"gangs": "coscheduling", "kod2": "kod2-literal"})
"""name in columns → the policy beside which all are set"""
_DRAWN: Mapping[str, str] = MappingProxyType({"jct": "jct_mean_s", "cpu": "cpu_utilisation_ratio"})
"""name in columns → column of a run"""
_RULED = "default"
Draws = Sequence[Row]
"""Rows of one run under one policy, seed by seed."""


def over_seeds(file: ScenarioFile, count: int, *, told: Told | None = None) -> Report:
    """Rows by run, then by policy; and over all runs, by policy.

    `told` hears how many of the seeds' parts are done. Cost: that of `compare`, `count` times.
    """
    cases = [("", file), *_rules(file)]
    drawn: dict[tuple[int, str, str], list[Row]] = {}
    parts = [(seed, *case) for seed in range(file.seed, file.seed + count) for case in cases]
    labelled = [labels for labels, _ in scenarios(file)]
    for place, (seed, rule, case) in enumerate(parts):
        part = partial(_part_told, told, place=place, parts=len(parts), seed=seed) if told is not None else None
        rows = compare(case.model_copy(update={"seed": seed}), told=part).rows
        for number, row in enumerate(rows):
            drawn.setdefault((number // len(case.policies), str(row["policy"]), rule), []).append(row)
    found = [
        {"policy": policy, **({"rule": rule} if rule else {}), **labelled[run], **_drawn(draws, _bases(drawn, run))}
        for (run, policy, rule), draws in sorted(drawn.items(), key=lambda one: one[0][0])
    ]
    about = f"{file.about} Seeds {file.seed} to {file.seed + count - 1}: median, least and most.".strip()
    return Report(file.name, file.seed, about, tuple(found), {"over_all_runs": tuple(_over_all(drawn))})


def _rules(file: ScenarioFile) -> Iterator[tuple[str, ScenarioFile]]:
    """`default` alone with each other rule for deadlocked jobs."""
    if _RULED not in file.policies:
        return
    for name, value, case in varied(file):
        if not any(reads(policy, name) for policy in POLICIES if policy != _RULED):
            yield f"{name}: {value:g}", case.model_copy(update={"policies": (_RULED,)})


def _part_told(told: Told, done: int, total: int, label: str, *, place: int, parts: int, seed: int) -> None:
    told(place * total + done, parts * total, f"seed {seed} {label}")


def _bases(drawn: Mapping[tuple[int, str, str], Draws], run: int) -> dict[str, Draws]:
    """The same run under the policies beside which all are set, by their names in columns."""
    return {name: drawn[run, policy, ""] for name, policy in BESIDE.items() if (run, policy, "") in drawn}


def _drawn(draws: Draws, bases: Mapping[str, Draws]) -> Row:
    """One run under one policy over all seeds."""
    found: Row = {"seeds": len(draws), "completed": int(sum(_numbers(draws, "completed")))}
    for name, column in _DRAWN.items():
        if values := _numbers(draws, column):
            unit, places = column.rpartition("_")[2], 1 if column.endswith("_s") else 4
            for word, number in (("median", median(values)), ("least", min(values)), ("most", max(values))):
                found[f"{name}_{word}_{unit}"] = round(number, places)
    for name, base in bases.items():
        if ratios := _ratios(draws, base):
            found[f"beside_{name}_ratio"] = round(median(ratios), 3)
            found[f"beside_{name}_most_ratio"] = round(max(ratios), 3)
    return found


def _over_all(drawn: Mapping[tuple[int, str, str], Draws]) -> Iterator[Row]:
    """Each policy's mean over all runs and seeds, and in how many runs its median ratio is above 1."""
    for policy, rule in dict.fromkeys((policy, rule) for _, policy, rule in drawn):
        mine = {run: draws for (run, *one), draws in drawn.items() if one == [policy, rule]}
        times = [value for draws in mine.values() for value in _numbers(draws, "jct_mean_s")]
        row: Row = {"policy": policy, **({"rule": rule} if rule else {})}
        row["jct_mean_s"] = round(fmean(times), 1) if times else None
        for name, other in BESIDE.items():
            pairs = [_ratios(draws, drawn[run, other, ""]) for run, draws in mine.items() if (run, other, "") in drawn]
            if not any(pairs) or other == policy:
                continue
            medians = [median(ratios) for ratios in pairs if ratios]
            row[f"beside_{name}_ratio"] = round(fmean(ratio for ratios in pairs for ratio in ratios), 3)
            row[f"slower_than_{name}"] = sum(ratio > 1.0 for ratio in medians)
            row[f"worst_beside_{name}_ratio"] = round(max(medians), 3)
        yield row


def _numbers(rows: Draws, column: str) -> list[float]:
    return [float(value) for row in rows if isinstance(value := row[column], int | float)]


def _ratios(rows: Draws, base: Draws) -> list[float]:
    """Mean completion times beside those of the same seeds."""
    pairs = [(one["jct_mean_s"], other["jct_mean_s"]) for one, other in zip(rows, base, strict=True)]
    return [float(one) / float(other) for one, other in pairs if one and other]
