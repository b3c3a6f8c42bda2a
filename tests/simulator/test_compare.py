"""Comparisons: the same bytes for the same seed, sweeps, and what the command line prints."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli.main import app
from lab.simulator.compare import Report, compare, sweep
from lab.simulator.elastic import COUNTS, unguarded
from lab.simulator.elastic import row as elastic_row
from lab.simulator.model import Sync
from lab.simulator.scenarios import load
from lab.simulator.summary import Row
from scoring.scaling.job import Wants
from tests.simulator.simulated import small

pytestmark = pytest.mark.slow  # seconds each: processes, simulations or many plans

RECORDS = Path(__file__).parents[2] / "lab" / "simulator" / "records"


def printed(report: Report) -> str:
    return json.dumps(report.document(), indent=2) + "\n"


def value(row: Row, column: str) -> float:
    found = row[column]
    assert isinstance(found, int | float)
    return found


def test_the_same_seed_gives_the_same_bytes_in_every_process() -> None:
    """Nothing depends on the order of sets or on the process."""
    policies = ("default", "kod2-literal", "netgang-elastic")
    asked = [word for policy in policies for word in ("--policy", policy)]
    command = [sys.executable, "-m", "cli.main", "simulate", str(_small_file()), "--json", *asked]
    running = [
        subprocess.Popen(command, env={**os.environ, "PYTHONHASHSEED": seed}, stdout=subprocess.PIPE)
        for seed in ("1", "2")
    ]
    first, second = (one.communicate()[0] for one in running)
    assert first == second
    assert {(row["policy"], row["jobs"]) for row in json.loads(first)["rows"]} == {(one, 6) for one in policies}


def _small_file() -> Path:
    return Path(__file__).parents[2] / "examples" / "simulate.yaml"


def test_another_seed_gives_another_workload() -> None:
    one, other = (
        compare(small(("netgang-elastic",), models=("vgg16",), batches=(64,)).model_copy(update={"seed": seed})).rows
        for seed in (1, 2)
    )
    assert one != other


def test_a_sweep_changes_one_assumption_at_a_time() -> None:
    """Its first rows are as assumed; no stall makes elastic policies faster, and leaves the default scheduler alone."""
    file = small(("default", "netgang-elastic"), models=("vgg16",), batches=(64,)).model_copy(
        update={"sweep": {"stall_factor": (0.0,)}, "cases": ()}
    )
    rows = {(row["assumption"], row["policy"]): row for row in sweep(file).rows}
    assert rows["stall_factor", "default"]["jct_mean_s"] == rows["as assumed", "default"]["jct_mean_s"]
    free, stalled = (value(rows[name, "netgang-elastic"], "jct_mean_s") for name in ("stall_factor", "as assumed"))
    assert free < stalled


def test_a_case_changes_several_assumptions_and_the_seed() -> None:
    """Its rows are those of the scenario with all of them, beside KOD2 as published under the same ones."""
    file = small(("kod2-literal", "netgang-elastic"), models=("vgg16",), batches=(64,))
    case = {"seed": 2.0, "starve_limit_s": 60.0}
    rows = sweep(file.model_copy(update={"sweep": {}, "cases": (case,)})).rows[2:]
    assume = file.assume.model_copy(update={"starve_limit_s": 60.0})
    changed = file.model_copy(update={"seed": 2, "assume": assume})
    literal, ours = (value(row, "jct_mean_s") for row in compare(changed).rows)
    assert {row["assumption"] for row in rows} == {"seed 2, starve_limit_s 60"}
    assert [row["jct_mean_s"] for row in rows] == [literal, ours]
    assert (rows[1]["slower_runs"], rows[1]["worst_ratio"]) == (int(ours > literal), round(ours / literal, 3))
    assert "worst_ratio" not in rows[0]


def test_jobs_that_cannot_run_are_said_and_not_averaged(tmp_path: Path) -> None:
    """A workload that fits nowhere has no completion times, in tables, JSON and sweeps alike."""
    path = tmp_path / "never.yaml"
    path.write_text(
        "name: never\nnodes: [{count: 1, cpu: 1, memory: 1Gi}]\nsweep: {stall_factor: [0]}\n"
        "workload: {kind: list, jobs: [{name: a, workers: 2, work: {model: lstm, batch: 1, samples: 1}}]}\n"
    )
    file = load(str(path))
    times = {row["policy"]: row["jct_mean_s"] for row in compare(file).rows}
    assert times.pop("default") == 20 * 1800.0, "given up for good after its twentieth deadlock"
    assert set(times.values()) == {None}
    assert {row["completed"] for row in sweep(file).rows} == {0}
    assert CliRunner().invoke(app, ["simulate", str(path)]).exit_code == 0


def test_elastic_rows_tell_the_story_of_the_paper() -> None:
    """E2, E3: 3 → 6 → 9 → 12 → 9 by the loss; changes every 50 steps cost more than they bring."""
    sync = Sync.ASYNCHRONOUS
    fixed = [elastic_row(sync, "fixed", None, Wants.OFF, None, count, 1) for count in COUNTS]
    times = [value(row, "run_time_s") for row in fixed]
    assert times == sorted(times, reverse=True)
    assert value(fixed[3], "loss") > value(fixed[2], "loss")
    by_loss = elastic_row(sync, "loss", unguarded(500), Wants.LOSS, 500, 3, 1)
    assert str(by_loss["workers"]).startswith("3 → 6 → 9 → 12 → 9")
    hasty = elastic_row(sync, "iterations", unguarded(50), Wants.ITERATIONS, 50, 3, 1)
    assert value(hasty, "run_time_s") > times[0], "slower than three workers that are left alone"
    calm = elastic_row(sync, "iterations", unguarded(1000), Wants.ITERATIONS, 1000, 3, 1)
    assert str(calm["workers"]).startswith("3 → 6 → 9 → 12 → 3")


def test_the_command_line(tmp_path: Path) -> None:
    """Tables, JSON, plots and a list; what is wrong is a sentence and exit code 2."""
    runner = CliRunner(env={"COLUMNS": "200"})
    example = str(_small_file())
    table = runner.invoke(app, ["simulate", example, "--policy", "netgang-elastic"])
    assert table.exit_code == 0
    assert "makespan" in table.output
    assert "netgang-elastic" in table.output
    plotted = runner.invoke(app, ["simulate", example, "--json", "--plot", str(tmp_path / "plots")])
    assert plotted.exit_code == 0
    assert {path.suffix for path in (tmp_path / "plots").iterdir()} == {".png", ".svg"}
    assert "elastic" in runner.invoke(app, ["simulate", "--list"]).output
    for wrong in (
        *(["nothing"], ["elastic", "--sweep"], [example, "--policy", "best"], [example, "--sweep"]),
        ["kod2", "--seeds", "2", "--sweep"],
    ):
        refused = runner.invoke(app, ["simulate", *wrong])
        assert refused.exit_code == 2, refused.output
        assert "error:" in refused.output
        assert "Traceback" not in refused.output


def test_the_record_of_the_example_is_what_it_prints() -> None:
    made = printed(compare(load(str(_small_file()))))
    assert made == (RECORDS / "example.json").read_text()
