"""The figures of docs/research/simulator.md and docs/research/simulator-kod2.md are those of the committed records.

`python -m tests.simulator.test_records` prints the tables as they must stand there.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.simulator.compare import compare
from lab.simulator.elastic import row, unguarded
from lab.simulator.model import Sync
from lab.simulator.scenarios import load, scenarios
from lab.simulator.summary import alone_s
from scoring.scaling.job import Wants
from scoring.scaling.options import Options

pytestmark = pytest.mark.slow  # seconds each: processes, simulations or many plans

ROOT = Path(__file__).parents[2]
RECORDS = ROOT / "lab" / "simulator" / "records"


def rows(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((RECORDS / f"{name}.json").read_text())["rows"]
    return found


_POLICIES = ("default", "coscheduling", "kod2-literal", "netgang", "netgang-elastic-levels")


def over_seeds() -> Iterator[str]:
    """The KOD2 experiment: median completion times of each cell with their range; beside gangs and KOD2; CPU."""
    cells: dict[tuple[str, int], dict[str, dict[str, Any]]] = {}
    for one in rows("kod2-seeds"):
        if "rule" not in one:
            cells.setdefault((one["model"], one["batch"]), {})[one["policy"]] = one
    for (model, batch), of in cells.items():
        shown = [of[policy] for policy in _POLICIES]
        times = [f"{one['jct_median_s']:.0f} ({one['jct_least_s']:.0f}–{one['jct_most_s']:.0f})" for one in shown]
        yield f"| {model} | {batch} | {' | '.join(times)} |"
    for (model, batch), of in cells.items():
        gangs = [_percent(of[policy]["beside_gangs_ratio"]) for policy in _POLICIES[2:]]
        kod2 = [_percent(of[policy]["beside_kod2_ratio"]) for policy in _POLICIES[3:]]
        busy = [f"{of[policy]['cpu_median_ratio']:.0%}" for policy in _POLICIES]
        yield f"| {model} | {batch} | {' | '.join(gangs)} | {' | '.join(kod2)} | {' | '.join(busy)} |"
    record: dict[str, list[dict[str, Any]]] = json.loads((RECORDS / "kod2-seeds.json").read_text())
    for one in record["over_all_runs"]:
        name = f"`{one['policy']}`" + (f", `{one['rule']}`" if "rule" in one else "")
        beside = [
            f"{_percent(one[f'beside_{base}_ratio'])} | {one[f'slower_than_{base}']} of 20, "
            f"{_percent(one[f'worst_beside_{base}_ratio'])}"
            if f"beside_{base}_ratio" in one
            else "– | –"
            for base in ("gangs", "kod2")
        ]
        yield f"| {name} | {one['jct_mean_s']:,.0f} | {' | '.join(beside)} |"


def _percent(ratio: float) -> str:
    """More or less than the other."""
    return f"{ratio - 1:+.1%}" if abs(ratio - 1) < 1 else f"× {ratio:.1f}"


def swept() -> Iterator[str]:
    cases: dict[tuple[str, float | str | None], list[str]] = {}
    for one in rows("kod2-sweep"):
        cells = cases.setdefault((one["assumption"], one["value"]), [])
        cells.append(f"{one['jct_mean_s']:.0f}")
        if one["policy"] == "netgang-elastic":
            cells += [_percent(one["mean_ratio"]), f"{one['slower_runs']} of 20", _percent(one["worst_ratio"])]
    for (name, value), cells in cases.items():
        text = f"{value:g}" if isinstance(value, float) else value
        yield f"| {name if value is None else f'`{name}: {text}`'} | {' | '.join(cells)} |"


def elastic() -> Iterator[str]:
    for one in rows("elastic"):
        k = "" if one["every_steps"] is None else f", k = {one['every_steps']}"
        kind = str(one["sync"]).removesuffix("chronous")
        workers = one["workers"] if len(one["workers"]) < 40 else f"3 → 6 → 9 → 12 → 3 …, {one['resizes']} changes"
        figures = f"{one['loss']} | {one['run_time_s']:.0f} | {one['stalled_s']:.0f}"
        yield f"| {kind} | {one['policy']}{k} | {workers} | {figures} |"


def traced() -> Iterator[str]:
    for one in rows("generated"):
        times = [f"{one[name]:,.0f}" for name in ("jct_mean_s", "jct_p50_s", "jct_p99_s", "makespan_s")]
        gpus, slow = f"{one['gpu_requested_ratio']:.0%}", f"{one['slowdown_max']:.0f}"
        yield f"| {one['policy']} | {' | '.join(times)} | {gpus} | {slow} | {one['resizes']} |"


def recorded() -> Iterator[str]:
    found: list[dict[str, Any]] = json.loads((RECORDS / "pollux.json").read_text())["means_over_workloads"]
    for one in found:
        names = ("jct_mean_s", "jct_p50_s", "jct_p99_s", "wait_p99_largest_tenth_s", "resizes", "suspensions")
        slower = f"{one['slower_runs']} of {one['runs']}, × {one['worst_ratio']:.2f}" if "slower_runs" in one else "–"
        yield f"| {one['policy']} | {' | '.join(f'{one[name]:,.0f}' for name in names)} | {slower} |"


TABLES = {
    "kod2-seeds": over_seeds,
    "kod2-sweep": swept,
    "elastic": elastic,
    "generated": traced,
    "pollux": recorded,
}


@pytest.mark.parametrize("name", TABLES)
def test_the_tables_are_those_of_the_records(name: str) -> None:
    pages = ("research/simulator.md", "research/simulator-kod2.md", "how-to/which-policy.md")
    text = "".join((ROOT / "docs" / page).read_text() for page in pages)
    assert [line for line in TABLES[name]() if line not in text] == []


def test_the_page_of_policies_has_rows_of_the_records() -> None:
    """Every row of a measured table in docs/how-to/which-policy.md is a line of a record's table."""
    text = (ROOT / "docs/how-to/which-policy.md").read_text()
    shown = [line for line in text[text.index("## ") :].splitlines() if line.startswith("| ")]
    known = {line for table in TABLES.values() for line in table()}
    assert [line for line in shown if line not in known and not line.startswith(("| policy", "| changed"))] == []
    assert len(shown) > 10


REMADE = [
    *(("generated", policy) for policy in ("coscheduling", "shortest-first", "netgang-elastic")),
    *(("pollux", policy) for policy in ("coscheduling", "tiresias", "srpt", "service-levels")),
]


@pytest.mark.parametrize(("name", "policy"), REMADE)
def test_rows_are_what_their_record_says(name: str, policy: str) -> None:
    """`netgang simulate NAME --json > lab/simulator/records/NAME.json`; these rows are made again here."""
    made = compare(load(name, changes={"policies": [policy]})).rows
    assert list(made) == [row for row in rows(name) if row["policy"] == policy]


def test_nine_jobs_need_most_of_the_trace() -> None:
    """What docs/research/simulator.md explains the means by: 1,214 of 1,342 GPU hours, each job alone."""
    [(_, made)] = scenarios(load("generated"))
    hours = {one: one.workers * alone_s(one) / 3600.0 for one in made.jobs}
    long = [hours[one] for one in made.jobs if one.work.model in ("yolov3", "resnet50-imagenet")]
    text = " ".join((ROOT / "docs/research/simulator.md").read_text().split())
    assert len(long) == 9
    assert f"nine jobs need {sum(long):,.0f} of the {sum(hours.values()):,.0f} GPU hours" in text


ROWS_OF_ELASTIC = {
    # row of the record → how it is made
    "fixed 9": (None, Wants.OFF, None, 9),
    "iterations": (unguarded(1000), Wants.ITERATIONS, 1000, 3),
    "loss": (unguarded(500), Wants.LOSS, 500, 3),
    "curve, guarded": (Options(), Wants.CURVE, 500, 3),
}


@pytest.mark.parametrize("name", ROWS_OF_ELASTIC)
def test_elastic_training_is_what_its_record_says(name: str) -> None:
    """`netgang simulate elastic --json > lab/simulator/records/elastic.json`; these rows of it are made again here."""
    options, wants, every, workers = ROWS_OF_ELASTIC[name]
    made = row(Sync.ASYNCHRONOUS, name, options, wants, every, workers, 1)
    kept = (one for one in rows("elastic") if (one["policy"], one["sync"]) == (name, "asynchronous"))
    assert made == next(one for one in kept if one["every_steps"] == every)


if __name__ == "__main__":
    for table in TABLES.values():
        print("\n".join(table()), end="\n\n")  # noqa: T201
