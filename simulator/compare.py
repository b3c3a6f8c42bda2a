"""Run a scenario file: every policy on every one of its runs, and perhaps with one assumption after another changed.

Why apart from the command line: tests, records and plots want the rows. Rule: every policy sees the very same jobs, and
each run starts with a fresh policy.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from simulator.model import RunResult, Scenario
from simulator.policies import POLICIES, Choices
from simulator.scenarios import Assume, ScenarioFile, scenarios
from simulator.summary import Row, row_of
from simulator.world import Tuning, run

Engine = Callable[[Scenario, str, Assume], RunResult]
"""Runs a scenario under a policy of this name."""
Told = Callable[[int, int, str], None]
"""jobs that ended, jobs in all, what runs"""


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
    )


def tuning_of(assume: Assume) -> Tuning:
    """What the assumptions mean to the engine."""
    return Tuning(
        stall_factor=assume.stall_factor,
        unmeasured_bps=assume.unmeasured_bps,
        card_bps=assume.card_bps,
        least_interval_s=assume.decide_every_s,
    )


def compare(file: ScenarioFile, *, engine: Engine | None = None, told: Told | None = None) -> Report:
    """All rows: by run, then by policy in the file's order. `engine`: another one than that of whole jobs."""
    runs = list(scenarios(file))
    total = sum(len(scenario.jobs) for _, _, scenario in runs) * len(file.policies)
    rows: list[Row] = []
    done = 0
    for model, batch, scenario in runs:
        for policy in file.policies:
            label = " ".join(str(part) for part in (policy, model, batch) if part is not None)
            if engine is None:
                before = done
                result = run(
                    scenario,
                    POLICIES[policy](choices_of(file.assume, file.seed)),
                    tuning=tuning_of(file.assume),
                    progress=None if told is None else lambda ended: told(before + ended, total, label),  # noqa: B023
                )
            else:
                result = engine(scenario, policy, file.assume)
            done += len(scenario.jobs)
            if told is not None:
                told(done, total, label)
            rows.append(row_of(result, model=model, batch=batch))
    return Report(file.name, file.seed, file.about, tuple(rows))


def sweep(file: ScenarioFile, *, told: Told | None = None) -> Report:
    """The mean over all runs of each policy's figures, as assumed and with one assumption after another changed."""
    cases: list[tuple[str, float | None, ScenarioFile]] = [("as assumed", None, file)]
    for name, values in file.sweep.items():
        for value in values:
            changed = Assume.model_validate({**file.assume.model_dump(), name: value})
            cases.append((name, value, file.model_copy(update={"assume": changed})))
    rows: list[Row] = []
    for place, (name, varied, one) in enumerate(cases):
        if told is not None:
            told(place, len(cases), name)
        found = compare(one)
        for policy in file.policies:
            mine = [row for row in found.rows if row["policy"] == policy]
            rows.append({"assumption": name, "value": varied, "policy": policy, **_means(mine)})
    if told is not None:
        told(len(cases), len(cases), "")
    return Report(f"{file.name}-sweep", file.seed, f"Sensitivity of {file.name}: means over its runs.", tuple(rows))


def _means(rows: list[Row]) -> Row:
    def numbers(column: str) -> list[float]:
        return [float(value) for row in rows if isinstance(value := row[column], int | float)]

    times = numbers("jct_mean_s")
    return {
        "jct_mean_s": round(fmean(times), 1) if times else None,
        "cpu_utilisation_ratio": round(fmean(numbers("cpu_utilisation_ratio")), 4),
        "completed": int(sum(numbers("completed"))),
        "resizes": int(sum(numbers("resizes"))),
    }
