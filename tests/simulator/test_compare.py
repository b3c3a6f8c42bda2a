"""Comparisons: the same bytes for the same seed, what the command line prints, and the page's figures."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli.main import app
from lab.simulator import page
from lab.simulator.compare import compare
from lab.simulator.scenarios import ScenarioFile, load

ROOT = Path(__file__).parents[2]
EXAMPLE = str(ROOT / "examples" / "simulate.yaml")
KOD2 = load("kod2")
PAGE = page.PAGE.read_text()


def small(policies: tuple[str, ...], **work: object) -> ScenarioFile:
    workload = KOD2.workload.model_copy(update={"models": ("cnn-rand",), "batches": (128,), **work})
    return KOD2.model_copy(update={"policies": policies, "workload": workload})


@pytest.mark.slow
def test_the_same_seed_gives_the_same_bytes_in_every_process() -> None:
    """Nothing depends on the order of sets or on the process."""
    command = [sys.executable, "-m", "lab.simulator", EXAMPLE, "--json", "--set", "elastic.condition=lighter"]
    running = [
        subprocess.Popen(command, env={**os.environ, "PYTHONHASHSEED": seed}, stdout=subprocess.PIPE, cwd=ROOT)
        for seed in ("1", "2")
    ]
    first, second = (one.communicate()[0] for one in running)
    assert first == second
    assert b"netgang elastic.condition=lighter" in first


def test_the_command_line() -> None:
    runner = CliRunner(env={"COLUMNS": "200"})
    table = runner.invoke(app, ["simulate", EXAMPLE, "--policy", "netgang", "--set", "queue.order=fifo"])
    assert table.exit_code == 0
    assert "netgang queue.order=fifo" in table.output
    assert "installed" in runner.invoke(app, ["simulate"]).output
    for wrong in (["nothing"], ["installed", "--seeds=2"], [EXAMPLE, "--policy", "best"], ["kod2", "--set=luck=1"]):
        refused = runner.invoke(app, ["simulate", *wrong])
        assert refused.exit_code == 2, refused.output
        assert "error:" in refused.output
        assert "Traceback" not in refused.output


@pytest.mark.slow
def test_a_cell_of_the_page_is_what_is_simulated() -> None:
    assert page.cells(compare(small(KOD2.policies), seeds=page.SEEDS)).splitlines()[2] in PAGE.splitlines()


@pytest.mark.slow
def test_netgang_as_installed_has_the_page_s_figures_on_recorded_workloads() -> None:
    rows = compare(load("pollux", changes={"policies": ["coscheduling", "netgang"]})).more["over_all_runs"]
    assert page.workloads(rows).splitlines()[3] in PAGE.splitlines()
