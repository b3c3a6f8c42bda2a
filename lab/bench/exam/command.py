"""The command line of the exam: `python -m lab.bench exam`.

Rule: a scenario that netgang misses is a result, not a failure: status 0 says that everything asked for was run.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from time import perf_counter
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from lab.bench.command import PROGRAMS, Fresh, JsonFile, bar, outcome, output
from lab.bench.exam.questions import Scenario
from lab.bench.exam.run import Run, runs
from lab.bench.exam.scenarios import SCENARIOS
from lab.bench.exam.verdict import verdict
from lab.bench.kept import Kept, broken_off_by_term
from lab.bench.peers import others
from lab.bench.peers.others import PEERS
from lab.bench.peers.ways import WAYS, Way
from lab.bench.record import Section
from lab.testbed.errors import ControlPlaneError
from lab.testbed.programs.build import ensure_all, missing
from lab.testbed.programs.progress import ShownProgress

SCHEDULERS = tuple(dict.fromkeys(name for one in SCENARIOS.values() for name in one.ways))
"""Ways of `bench peers` that take the exam."""
EPILOG = """Examples:

python -m lab.bench exam

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
    fresh: Fresh = False,
) -> None:
    """Take knavigator's scheduling scenarios with netgang and others; needs Go to build those once."""
    console = Console(stderr=True)
    command = " ".join(
        [
            "python -m lab.bench exam",
            *(f"--scenario {name}" for name in scenario or ()),
            *(f"--scheduler {name}" for name in scheduler or ()),
            *([f"--runs {runs_each}"] if runs_each != 3 else []),
        ]
    )
    try:
        todo = [(one, _ways(one, scheduler or [])) for one in _named(scenario or [])]
        kept = Kept(json_file, fresh=fresh)
        with ShownProgress(console) as building:
            ensure_all(PROGRAMS, reporter=building)
    except (ControlPlaneError, ValueError) as wrong:
        console.print(f"[red]{wrong}[/red]", highlight=False)
        raise typer.Exit(2) from wrong
    there = {line["scenario"] for line in (kept.found("exam", command) or _empty(command)).lines}
    failed = []
    with broken_off_by_term(), bar(console) as progress:
        whole = progress.add_task("exam", total=sum(len(ways) * runs_each for _, ways in todo))
        for one, ways in todo:
            if one.name in there:
                progress.console.print(f"{one.name}: taken from {kept.part}", highlight=False)
                progress.advance(whole, len(ways) * runs_each)
                continue

            def report(run: Run, name: str = one.name) -> None:
                seen = "; ".join(one for one in (run.miss or "passed", run.counts) if one)
                words = f"{name}, {run.way}: {seen} ({run.seconds:g} s)"
                progress.console.print(words, highlight=False)
                progress.advance(whole)

            begun_s = perf_counter()
            lines = outcome(taken(one, ways, times=runs_each, report=report))
            if isinstance(lines, ControlPlaneError):
                failed.append(f"{one.name}: {lines}")
            else:
                kept.add("exam", command, lines, seconds=perf_counter() - begun_s)
    section = kept.found("exam", command) or _empty(command)
    output(console).print(_table(section.lines))
    kept.finish([replace(section, ok=not failed)], whole=not failed)
    for words in failed:
        console.print(f"[red]not run:[/red] {words}", highlight=False)
    raise typer.Exit(2 if failed else 0)


async def taken(
    scenario: Scenario, ways: Sequence[Way], *, times: int, report: Callable[[Run], None]
) -> list[dict[str, Any]]:
    """Run a scenario with all ways; one line for each way."""
    found: dict[str, list[Run]] = {way.name: [] for way in ways}
    async for run in runs(scenario, ways, times=times):
        found[run.way].append(run)
        report(run)
    return [line(scenario, name, made) for name, made in found.items()]


def line(scenario: Scenario, way: str, made: Sequence[Run]) -> dict[str, Any]:
    """The line of a record: the verdict, the misses in words and the time of one run, seconds (the longest)."""
    misses = [run.miss for run in made]
    return {
        "scenario": scenario.name,
        "source": scenario.source,
        "words": scenario.words,
        "passes_if": scenario.passed,
        "way": way,
        "verdict": verdict(misses),
        "misses": sorted({one for one in misses if one is not None}),
        "counts": sorted({run.counts for run in made} - {""}),
        "runs": len(made),
        "run_s": max(run.seconds for run in made),
    }


def _empty(command: str) -> Section:
    return Section("exam", command, (), 0.0)


def _named(names: Sequence[str]) -> list[Scenario]:
    unknown = [name for name in names if name not in SCENARIOS]
    if unknown:
        raise ValueError(f"{', '.join(unknown)}: not among {', '.join(SCENARIOS)}")
    return [one for name, one in SCENARIOS.items() if not names or name in names]


def _ways(scenario: Scenario, names: Sequence[str]) -> list[Way]:
    unknown = [name for name in names if name not in SCHEDULERS]
    if unknown:
        raise ValueError(f"{', '.join(unknown)}: not among {', '.join(SCHEDULERS)}")
    chosen = names or [name for name in scenario.ways if name not in PEERS or not missing(PEERS[name])]
    return [WAYS[name] if name in WAYS else others.peer(name) for name in chosen]


def _table(lines: Sequence[Any]) -> Table:
    table = Table("scenario", "scheduler", "verdict", "seen", "run, s")
    for one in lines:
        table.add_row(
            one["scenario"],
            one["way"],
            one["verdict"],
            "; ".join([*one["misses"], *one["counts"]]),
            f"{one['run_s']:g}",
        )
    return table
