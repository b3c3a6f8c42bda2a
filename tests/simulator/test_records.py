"""The figures of docs/simulator.md are those of the committed records.

`python -m tests.simulator.test_records` prints the tables as they must stand there.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
RECORDS = ROOT / "simulator" / "records"


def rows(name: str) -> list[dict[str, Any]]:
    """Rows of a record."""
    found: list[dict[str, Any]] = json.loads((RECORDS / f"{name}.json").read_text())["rows"]
    return found


def kod2() -> Iterator[str]:
    """Completion times and CPU of the KOD2 experiment."""
    cells: dict[tuple[str, int], dict[str, dict[str, Any]]] = {}
    for row in rows("kod2"):
        cells.setdefault((row["model"], row["batch"]), {})[row["policy"]] = row
    for (model, batch), of in cells.items():
        base, literal, ours = (of[policy] for policy in ("default", "kod2-literal", "netgang"))
        times = [f"{one['jct_mean_s']:.0f}" for one in (base, literal, ours)]
        faster = f"{ours['jct_mean_s'] / base['jct_mean_s'] - 1:+.0%}"
        busy = [f"{one['cpu_utilisation_ratio']:.0%}" for one in (base, literal, ours)]
        more = f"{ours['cpu_utilisation_ratio'] / base['cpu_utilisation_ratio'] - 1:+.0%}"
        yield f"| {model} | {batch} | {' | '.join(times)} | {faster} | {' | '.join(busy)} | {more} |"


def swept() -> Iterator[str]:
    """Means over the cells with one assumption changed."""
    cases: dict[tuple[str, float | None], list[str]] = {}
    for row in rows("kod2-sweep"):
        cases.setdefault((row["assumption"], row["value"]), []).append(f"{row['jct_mean_s']:.0f}")
    for (name, value), times in cases.items():
        shown = name if value is None else f"`{name}: {value:g}`"
        yield f"| {shown} | {' | '.join(times)} |"


def elastic() -> Iterator[str]:
    """The job whose workers change."""
    for row in rows("elastic"):
        k = "" if row["every_steps"] is None else f", k = {row['every_steps']}"
        kind = str(row["sync"]).removesuffix("chronous")
        workers = row["workers"] if len(row["workers"]) < 40 else f"3 → 6 → 9 → 12 → 3 …, {row['resizes']} changes"
        figures = f"{row['loss']} | {row['run_time_s']:.0f} | {row['stalled_s']:.0f}"
        yield f"| {kind} | {row['policy']}{k} | {workers} | {figures} |"


def traced() -> Iterator[str]:
    """The trace."""
    for row in rows("pollux"):
        times = [f"{row[name]:,.0f}" for name in ("jct_mean_s", "jct_p50_s", "jct_p99_s", "makespan_s")]
        gpus, slow = f"{row['gpu_requested_ratio']:.0%}", f"{row['slowdown_max']:.0f}"
        yield f"| {row['policy']} | {' | '.join(times)} | {gpus} | {slow} | {row['resizes']} |"


TABLES = {"kod2": kod2, "kod2-sweep": swept, "elastic": elastic, "pollux": traced}


@pytest.mark.parametrize("name", TABLES)
def test_the_tables_are_those_of_the_records(name: str) -> None:
    """Every line of a record's table stands in the document."""
    text = (ROOT / "docs" / "simulator.md").read_text()
    assert [line for line in TABLES[name]() if line not in text] == []


if __name__ == "__main__":
    for table in TABLES.values():
        print("\n".join(table()), end="\n\n")  # noqa: T201
