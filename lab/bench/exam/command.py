"""The command line of the exam: `python -m lab.bench exam`.

Rule: a scenario that netgang misses is a result, not a failure: status 0 says that everything asked for was run.
"""

from collections.abc import Collection, Sequence
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from lab.bench.command import JsonFile, build, outcome, output, write
from lab.bench.exam.run import runs, verdict
from lab.bench.exam.scenarios import SCENARIOS, Scenario
from lab.bench.peers.ways import PEERS, WAYS, Way, peer
from lab.testbed.errors import ControlPlaneError
from lab.testbed.programs.build import missing

SCHEDULERS = tuple(dict.fromkeys(name for one in SCENARIOS.values() for name in one.ways))
"""Ways of `bench peers` that take the exam."""
EPILOG = """Examples:

python -m lab.bench exam --scenario T1 --scheduler second --scheduler none --json lab/bench/out/exam.json

Exit status: 0 everything was run, 2 something could not be run."""


def exam(
    scenario: Annotated[list[str] | None, typer.Option(help=f"Any of: {', '.join(SCENARIOS)}. Default: all.")] = None,
    scheduler: Annotated[
        list[str] | None,
        typer.Option(help=f"Any of: {', '.join(SCHEDULERS)}. Default: all that are built and fit the scenario."),
    ] = None,
    runs_each: Annotated[int, typer.Option("--runs", min=1, help="Runs of each scheduler in each scenario.")] = 3,
    json_file: JsonFile = None,
) -> None:
    """Take knavigator's scheduling scenarios with netgang and others; needs Go to build those once."""
    console = Console(stderr=True)
    try:
        _check(scenario or (), SCENARIOS)
        _check(scheduler or (), SCHEDULERS)
        asked = [one for name, one in SCENARIOS.items() if not scenario or name in scenario]
        todo = [(one, _ways(one, scheduler or ())) for one in asked]
        build()
    except (ControlPlaneError, ValueError) as wrong:
        console.print(f"[red]{wrong}[/red]", highlight=False)
        raise typer.Exit(2) from wrong
    lines: list[dict[str, Any]] = []
    failed = []
    for one, ways in todo:
        found = outcome(taken(one, ways, times=runs_each))
        if isinstance(found, ControlPlaneError):
            failed.append(f"{one.name}: {found}")
        else:
            lines += found
    table = Table("scenario", "scheduler", "verdict", "seen", "run, s")
    for row in lines:
        table.add_row(row["scenario"], row["way"], row["verdict"], "; ".join(row["misses"]), f"{row['run_s']:g}")
    output(console).print(table)
    write(json_file, lines)
    for words in failed:
        console.print(f"[red]not run:[/red] {words}", highlight=False)
    raise typer.Exit(2 if failed else 0)


async def taken(scenario: Scenario, ways: Sequence[Way], *, times: int) -> list[dict[str, Any]]:
    """Run a scenario with all ways; a line for each: the verdict, the misses in words, seconds of the longest run."""
    made = [run async for run in runs(scenario, ways, times=times)]
    return [
        {
            "scenario": scenario.name,
            "source": scenario.source,
            "words": scenario.words,
            "passes_if": scenario.passed,
            "way": way.name,
            "verdict": verdict([run.miss for run in made if run.way == way.name]),
            "misses": sorted({run.miss for run in made if run.way == way.name and run.miss is not None}),
            "runs": times,
            "run_s": max(run.seconds for run in made if run.way == way.name),
        }
        for way in ways
    ]


def _check(names: Sequence[str], known: Collection[str]) -> None:
    if unknown := [name for name in names if name not in known]:
        raise ValueError(f"{', '.join(unknown)}: not among {', '.join(known)}")


def _ways(scenario: Scenario, names: Sequence[str]) -> list[Way]:
    chosen = names or [name for name in scenario.ways if name not in PEERS or not missing(PEERS[name])]
    return [WAYS[name] if name in WAYS else peer(name) for name in chosen]
