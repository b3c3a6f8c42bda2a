"""Workloads that were recorded on real clusters: a CSV file of jobs, and perhaps one of measured step times.

Jobs: `job, submit_s, gpus, run_s` (seconds alone on the GPUs asked for), and `application, batch_size` where step times
are looked up. Step times: `application, batch_size, gpus, step_s`. A worker has one GPU. What is wrong in a file is
reported with its line and column.
"""

import csv
from collections.abc import Mapping
from importlib.resources import files
from math import ceil, floor
from pathlib import Path
from random import Random

from lab.simulator.model import Recorded, SimJob, Sync, Work
from lab.simulator.scenarios.document import ScenarioError
from lab.simulator.scenarios.jobs import RecordedJobs

_MOST = 1e9
_WORKLOADS = files("lab.simulator") / "workloads"


Steps = Mapping[tuple[str, int], Mapping[int, float]]
"""(application, batch size) → GPUs → seconds of a step"""


def text_of(name: str) -> str:
    """A file that comes with the simulator, by its name, or any other, by its path. Errors: ScenarioError."""
    source = _WORKLOADS / name
    try:
        return (source if "/" not in name and source.is_file() else Path(name)).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ScenarioError(f"{name}: {getattr(error, 'strerror', None) or error}") from error


def steps_of(name: str) -> Steps:
    """Measured step times. Errors: ScenarioError names the line."""
    found: dict[tuple[str, int], dict[int, float]] = {}
    for line, row in _rows(name, ("application", "batch_size", "gpus", "step_s")):
        key = row["application"], int(_number(name, line, row, "batch_size"))
        found.setdefault(key, {})[int(_number(name, line, row, "gpus"))] = _number(name, line, row, "step_s")
    return found


def jobs_of(name: str, given: RecordedJobs, *, steps: Steps, seed: int) -> tuple[SimJob, ...]:
    """The jobs of a file in the order of arrival. Errors: ScenarioError names the line.

    A job without step times keeps its size; no job has fewer or more workers than were measured.
    """
    jobs: list[SimJob] = []
    worker = given.worker.requests()
    for line, row in _rows(name, ("job", "submit_s", "gpus", "run_s")):
        gpus, batch = int(_number(name, line, row, "gpus")), int(row.get("batch_size") or 0)
        known = steps.get((row.get("application", ""), batch), {})
        known = known if gpus in known else {gpus: 1.0}
        declares = Random(f"{seed} {row['job']}").random() < given.declaring  # noqa: S311 - drawn workloads, no secrets
        jobs.append(
            SimJob(
                name=row["job"],
                arrival_s=_number(name, line, row, "submit_s"),
                work=Work(
                    row.get("application") or "recorded",
                    batch,
                    _number(name, line, row, "run_s"),
                    Sync.SYNCHRONOUS,
                    Recorded(gpus, known),
                ),
                worker=worker,
                workers=gpus,
                min_workers=max(ceil(gpus * given.min_ratio), min(known)) if declares else gpus,
                max_workers=min(floor(gpus * given.max_ratio), max(known)) if declares else gpus,
                suspendable=declares,
            )
        )
    if not jobs:
        raise ScenarioError(f"{name}: no jobs")
    if len({job.name for job in jobs}) < len(jobs):
        raise ScenarioError(f"{name}: two jobs have the same name")
    return tuple(sorted(jobs, key=lambda one: one.arrival_s))


def _rows(name: str, columns: tuple[str, ...]) -> list[tuple[int, dict[str, str]]]:
    reader = csv.DictReader(text_of(name).splitlines())
    missing = [one for one in columns if one not in (reader.fieldnames or ())]
    if missing:
        raise ScenarioError(f"{name}: column {missing[0]} is missing: the first line names {', '.join(columns)}")
    return [(reader.line_num, row) for row in reader]


def _number(name: str, line: int, row: Mapping[str, str], column: str) -> float:
    """A finite number, above 0 but for a moment. Errors: ScenarioError."""
    try:
        value = float(row[column])
    except (TypeError, ValueError):
        value = -1.0
    if not (0.0 <= value <= _MOST) or (value == 0.0 and column != "submit_s"):
        raise ScenarioError(f"{name}, line {line}: {column} is {row[column]!r}")
    return value
