"""Workloads that were recorded on real clusters: a CSV file of jobs, and perhaps one of measured step times.

Jobs: `job, submit_s, gpus, run_s` (seconds alone on the GPUs asked for), and `application, batch_size` where step times
are looked up. Step times: `application, batch_size, gpus, step_s`. A worker has one GPU. What is wrong in a file is
reported with its line and column.
"""

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from math import ceil, floor
from pathlib import Path
from random import Random

from lab.simulator.model import SimJob, Sync, Work
from lab.simulator.recorded import Recorded
from lab.simulator.scenarios.document import ScenarioError
from scoring.model.resources import Resources

_MOST_BYTES = 64 * 2**20
_MOST = 1_000_000
"""GPUs, or samples of a batch"""
_WORKLOADS = files("lab.simulator") / "workloads"


@dataclass(frozen=True, slots=True)
class Sizes:
    """How far from the size asked for a job may be, and how many may be suspended."""

    min_ratio: float = 1.0
    max_ratio: float = 1.0
    suspendable: float = 0.0
    """Share of the jobs, drawn from the seed."""


Steps = Mapping[tuple[str, int], Mapping[int, float]]
"""(application, batch size) → GPUs → seconds of a step"""


def text_of(name: str) -> str:
    """A file that comes with the simulator, by its name, or any other, by its path. Errors: ScenarioError."""
    source = _WORKLOADS / name
    if "/" not in name and source.is_file():
        return source.read_text("utf-8")
    path = Path(name)
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise ScenarioError(f"{name}: larger than {_MOST_BYTES} bytes")
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ScenarioError(f"{name}: {getattr(error, 'strerror', None) or error}") from error


def steps_of(name: str) -> Steps:
    """Measured step times. Errors: ScenarioError names the line."""
    found: dict[tuple[str, int], dict[int, float]] = {}
    for line, row in _rows(name, ("application", "batch_size", "gpus", "step_s")):
        key = row["application"], _count(name, line, row, "batch_size")
        found.setdefault(key, {})[_count(name, line, row, "gpus")] = _number(name, line, row, "step_s")
    return found


def jobs_of(name: str, *, steps: Steps, sizes: Sizes, worker: Resources, seed: int) -> tuple[SimJob, ...]:
    """The jobs of a file in the order of arrival. Errors: ScenarioError names the line.

    A job without step times keeps its size; no job has fewer or more workers than were measured.
    """
    jobs: list[SimJob] = []
    for line, row in _rows(name, ("job", "submit_s", "gpus", "run_s")):
        gpus = _count(name, line, row, "gpus")
        batch = int(row.get("batch_size") or 0)
        known = steps.get((row.get("application", ""), batch), {})
        if gpus not in known:
            known = {gpus: 1.0}
        chance = Random(f"{seed} {row['job']}")  # noqa: S311 - drawn workloads, no secrets
        jobs.append(
            SimJob(
                name=row["job"],
                arrival_s=_number(name, line, row, "submit_s", least=0.0),
                work=Work(
                    row.get("application") or "recorded",
                    batch,
                    _number(name, line, row, "run_s"),
                    Sync.SYNCHRONOUS,
                    Recorded(gpus, known),
                ),
                worker=worker,
                workers=gpus,
                min_workers=max(ceil(gpus * sizes.min_ratio), min(known)),
                max_workers=min(floor(gpus * sizes.max_ratio), max(known)),
                suspendable=chance.random() < sizes.suspendable,
            )
        )
    if not jobs:
        raise ScenarioError(f"{name}: no jobs")
    names = [job.name for job in jobs]
    if twice := sorted({one for one in names if names.count(one) > 1} if len(set(names)) < len(names) else ()):
        raise ScenarioError(f"{name}: two jobs are named {', '.join(twice[:3])}")
    return tuple(sorted(jobs, key=lambda one: one.arrival_s))


def _rows(name: str, columns: tuple[str, ...]) -> list[tuple[int, dict[str, str]]]:
    reader = csv.DictReader(text_of(name).splitlines())
    missing = [one for one in columns if one not in (reader.fieldnames or ())]
    if missing:
        raise ScenarioError(f"{name}: column {missing[0]} is missing: the first line names {', '.join(columns)}")
    rows = [(reader.line_num, row) for row in reader]
    for line, row in rows:
        if None in row or None in row.values():
            raise ScenarioError(f"{name}, line {line}: {len(reader.fieldnames or ())} fields are expected")
    return rows


def _count(name: str, line: int, row: Mapping[str, str], column: str) -> int:
    value = _number(name, line, row, column, least=1)
    if value != int(value) or value > _MOST:
        raise ScenarioError(f"{name}, line {line}: {column} {row[column]!r} is no whole number from 1 to {_MOST}")
    return int(value)


def _number(name: str, line: int, row: Mapping[str, str], column: str, *, least: float | None = None) -> float:
    text = row[column]
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not value < float("inf") or value < (least if least is not None else 0.0) or (least is None and value == 0.0):
        wanted = "above 0" if least is None else f"at least {least:g}"
        raise ScenarioError(f"{name}, line {line}: {column} {text!r} is no number {wanted}")
    return value
