"""Run a scenario file: every policy on every one of its runs, and perhaps with one assumption after another changed.

Why apart from the command line: tests, records and plots want the rows. Rule: every policy sees the very same jobs, and
each run starts with a fresh policy.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from statistics import fmean
from typing import Any

from lab.simulator.policies import POLICIES, Choices
from lab.simulator.scenarios import Assume, ScenarioFile, scenarios
from lab.simulator.scenarios.jobs import RecordedJobs
from lab.simulator.summary import Row, row_of
from lab.simulator.world import Tuning, run

Told = Callable[[int, int, str], None]
"""jobs that ended, jobs in all, what runs"""
_AVERAGED = (
    "jct_mean_s",
    "jct_p50_s",
    "jct_p99_s",
    "makespan_s",
    "wait_p99_largest_tenth_s",
    "resizes",
    "suspensions",
)
BASE = "kod2-literal"
"""The policy beside which a sweep counts slower runs."""


@dataclass(frozen=True, slots=True)
class Report:
    """What a command shows and writes."""

    scenario: str
    seed: int
    about: str
    rows: tuple[Row, ...]
    more: Mapping[str, tuple[Row, ...]] = field(default_factory=dict)
    """title → rows of a further table"""

    def document(self) -> dict[str, Any]:
        """For JSON; the same run gives the same bytes."""
        further = {title: list(rows) for title, rows in self.more.items()}
        return {"scenario": self.scenario, "seed": self.seed, "rows": list(self.rows), **further}


def choices_of(assume: Assume, seed: int) -> Choices:
    """What the assumptions mean to policies."""
    return Choices(
        seed=seed,
        deadlock_s=assume.deadlock_s,
        resubmit=assume.resubmit,
        starve_limit_s=assume.starve_limit_s,
        kod2_starve_limit_s=assume.kod2_starve_limit_s,
        most_at_once=assume.most_at_once or None,
        cool_down_s=assume.cool_down_s,
        surplus=assume.surplus,
        condition=assume.condition,
    )


def tuning_of(assume: Assume) -> Tuning:
    """What the assumptions mean to the engine."""
    return Tuning(
        stall_factor=assume.stall_factor,
        unmeasured_bps=assume.unmeasured_bps,
        card_bps=assume.card_bps,
        least_interval_s=assume.decide_every_s,
    )


def compare(file: ScenarioFile, *, told: Told | None = None) -> Report:
    """All rows: by run, then by policy in the file's order."""
    runs = list(scenarios(file))
    total = sum(len(scenario.jobs) for _, scenario in runs) * len(file.policies)
    rows: list[Row] = []
    done = 0
    for labels, scenario in runs:
        for policy in file.policies:
            label = " ".join(str(part) for part in (policy, *labels.values()))
            ended = partial(_ended, told, before=done, total=total, label=label) if told is not None else None
            made = POLICIES[policy](choices_of(file.assume, scenario.seed))
            result = run(scenario, made, tuning=tuning_of(file.assume), progress=ended)
            done += len(scenario.jobs)
            if told is not None:
                told(done, total, label)
            rows.append(row_of(result, labels))
    more = {"means_over_workloads": means(rows)} if isinstance(file.workload, RecordedJobs) and len(runs) > 1 else {}
    return Report(file.name, file.seed, file.about, tuple(rows), more)


def means(rows: Sequence[Row], *, beside: str = "coscheduling") -> tuple[Row, ...]:
    """Each policy's means over its runs, and how its mean completion times compare with those of `beside`."""
    of: dict[str, list[Row]] = {}
    for row in rows:
        of.setdefault(str(row["policy"]), []).append(row)
    found: list[Row] = []
    for policy, mine in of.items():
        one: Row = {"policy": policy, "runs": len(mine)}
        for column in _AVERAGED:
            values = [float(value) for row in mine if (value := row[column]) is not None]
            one[column] = round(fmean(values), 1) if values else None
        found.append(one | (_compared(mine, of[beside]) if beside in of and policy != beside else {}))
    return tuple(found)


def _compared(rows: Sequence[Row], base: Sequence[Row]) -> Row:
    ratios = _ratios(rows, base)
    mean = sum(float(one["jct_mean_s"] or 0.0) for one in rows) / sum(float(one["jct_mean_s"] or 0.0) for one in base)
    return {
        "slower_runs": sum(ratio > 1.0 for ratio in ratios),
        "worst_ratio": round(max(ratios), 3),
        "ratio": round(mean, 3),
    }


def _ratios(rows: Sequence[Row], base: Sequence[Row]) -> list[float]:
    pairs = [(one["jct_mean_s"], other["jct_mean_s"]) for one, other in zip(rows, base, strict=True)]
    return [float(one) / float(other) for one, other in pairs if one and other]


def _ended(told: Told, number: int, *, before: int, total: int, label: str) -> None:
    """Jobs of the run that is going on have ended."""
    told(before + number, total, label)


def sweep(file: ScenarioFile, *, told: Told | None = None) -> Report:
    """The mean over all runs of each policy's figures: as assumed, one assumption after another changed, other cases.

    Beside KOD2 as published, each policy's row says in how many runs it is slower, and how its worst one compares.
    """
    cases = [("as assumed", None, file), *varied(file), *_cases(file)]
    known: dict[object, Sequence[Row]] = {}
    rows: list[Row] = []
    for place, (name, value, one) in enumerate(cases):
        if told is not None:
            told(place, len(cases), name)
        for policy in file.policies:
            if _key(one, policy) not in known:
                known[_key(one, policy)] = compare(one.model_copy(update={"policies": (policy,)})).rows
        base = known[_key(one, BASE)] if BASE in file.policies else ()
        for policy in file.policies:
            mine = known[_key(one, policy)]
            row = {"assumption": name, "value": value, "policy": policy, **_means(mine)}
            rows.append(row if policy == BASE or not base else {**row, **_beside(mine, base)})
    if told is not None:
        told(len(cases), len(cases), "")
    return Report(f"{file.name}-sweep", file.seed, f"Sensitivity of {file.name}: means over its runs.", tuple(rows))


Case = tuple[str, float | str | None, ScenarioFile]
"""What is changed, to what, and the scenario with it."""


def varied(file: ScenarioFile) -> Iterator[Case]:
    """One assumption at a time."""
    for name, values in file.sweep.items():
        for value in values:
            yield name, value, _changed(file, {name: value})


def _cases(file: ScenarioFile) -> Iterator[Case]:
    """Several assumptions at once."""
    for case in file.cases:
        words = (f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}" for name, value in case.items())
        yield ", ".join(words), None, _changed(file, case)


def _changed(file: ScenarioFile, fields: Mapping[str, float | str]) -> ScenarioFile:
    """The scenario with other assumptions, or drawn from another seed."""
    assumed = {name: value for name, value in fields.items() if name != "seed"}
    assume = Assume.model_validate({**file.assume.model_dump(), **assumed})
    return file.model_copy(update={"assume": assume, "seed": int(fields.get("seed", file.seed))})


def _key(file: ScenarioFile, policy: str) -> object:
    """Equal where the policy's rows are: without the assumptions that only others read."""
    read = {name: value for name, value in file.assume.model_dump().items() if reads(policy, name)}
    return policy, file.seed, tuple(read.items())


def reads(policy: str, assumption: str) -> bool:
    """Whether the assumption may change what the policy does."""
    match assumption:
        case "deadlock_s" | "resubmit":
            return policy == "default"
        case "kod2_starve_limit_s":
            return policy == BASE
        case "starve_limit_s" | "cool_down_s" | "surplus" | "condition":
            return policy.startswith(("netgang-elastic", "netgang-rigid"))
        case _:
            return True


def _beside(rows: Sequence[Row], base: Sequence[Row]) -> Row:
    """The policy's runs beside the same ones of `base`, by mean completion time."""
    ratios = _ratios(rows, base)
    return {
        "slower_runs": sum(ratio > 1.0 for ratio in ratios),
        "worst_ratio": round(max(ratios), 3) if ratios else None,
        "mean_ratio": round(fmean(ratios), 3) if ratios else None,
    }


def _means(rows: Sequence[Row]) -> Row:
    def numbers(column: str) -> list[float]:
        return [float(value) for row in rows if isinstance(value := row[column], int | float)]

    times = numbers("jct_mean_s")
    return {
        "jct_mean_s": round(fmean(times), 1) if times else None,
        "cpu_utilisation_ratio": round(fmean(numbers("cpu_utilisation_ratio")), 4),
        "completed": int(sum(numbers("completed"))),
        "resizes": int(sum(numbers("resizes"))),
    }
