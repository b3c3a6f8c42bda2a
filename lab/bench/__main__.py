"""Command line of the benchmarks on a real control plane: `python -m lab.bench peers`, `… exam`.

The others are programs of their own that print JSON lines and say by their exit status whether their goals hold:
`lab.bench.http` (the verbs), `lab.bench.planner`, `lab.bench.scale`. Rules: what cannot be run is said in one line with
status 2; a goal of `peers` that is missed ends with status 1 and is named, a scenario of `exam` that is missed is a
result.
"""

import asyncio
import json
from collections.abc import Collection, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NoReturn, TypeVar

import aiohttp
import typer
from msgspec.structs import replace
from rich.console import Console
from rich.table import Table

from lab.bench.exam.run import taken
from lab.bench.exam.scenarios import SCENARIOS
from lab.bench.peers.compare import Task, compared
from lab.bench.peers.figures import Figures
from lab.bench.peers.ways import PEERS, WAYS, Way, peer
from lab.bench.peers.workloads import QUICK, WORKLOADS
from lab.testbed.errors import ControlPlaneError
from lab.testbed.programs.build import ensure_all, missing
from lab.testbed.programs.catalogue import KUBERNETES, Version, parse_version

app = typer.Typer(help="Measure netgang beside its peers; needs Go to build them once.", no_args_is_help=True)
R = TypeVar("R")
_PROGRAMS = ("etcd", "kube-apiserver", "kube-scheduler", "kwok")
_OUTSIDE = (ControlPlaneError, OSError, aiohttp.ClientError)
"""What a program that ends, or an API server that does not answer in time, is seen as; TimeoutError is an OSError."""
_SAYING = Console(stderr=True)
_NOTHING = "–"
_TAKERS = tuple(dict.fromkeys(name for one in SCENARIOS.values() for name in one.ways))
"""Ways of `peers` that take the exam."""

JsonFile = Annotated[Path | None, typer.Option("--json", dir_okay=False, help="Write the figures, a JSON object each.")]


@app.command(epilog="Example: python -m lab.bench peers --workload gangs --way none --way second-gated")
def peers(
    workload: Annotated[list[str] | None, typer.Option(help=f"Any of: {', '.join(WORKLOADS)}. Default: all.")] = None,
    way: Annotated[
        list[str] | None,
        typer.Option(help=f"Any of: {', '.join((*WAYS, *PEERS))}. Default: the workload's, and peers that are built."),
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, help="How often each way is measured.")] = 5,
    kubernetes: Annotated[
        str, typer.Option(metavar="X.Y.Z", help="Version of the API server and of kube-scheduler.")
    ] = KUBERNETES,
    quick: Annotated[bool, typer.Option("--quick", help="Small loads, one round: does everything run?")] = False,
    json_file: JsonFile = None,
) -> None:
    """Compare netgang with its peers. Exit status: 0 all goals hold, 1 one is missed, 2 it cannot be run."""
    table = QUICK if quick else WORKLOADS
    try:
        version = parse_version(kubernetes)
        loads = [table[name] for name in _chosen(workload, table)]
        tasks = [Task(one, _ways(way, one.ways, version), 1 if quick else rounds) for one in loads]
        ensure_all(_PROGRAMS, version=version)
    except (ControlPlaneError, ValueError) as wrong:
        _refuse(wrong)
    lines: list[Figures] = []
    late: list[str] = []
    unmeasured: list[str] = []
    for task in tasks:
        found = _outcome(compared(task, _say, quick=quick))
        if isinstance(found, ControlPlaneError):
            unmeasured.append(f"{task.workload.name}: {found}")
            continue
        rows, goals = found
        lines += [*rows, *goals]
        late += [goal["words"] for goal in goals if not goal["holds"]]
        _show(
            ("way", "pods/s", "of the first (lowest–highest)", "partial gangs", "netgang ms CPU/pod"),
            [(str(row["way"]), *_cells(row)) for row in rows],
            title=f"{rows[0]['workload']}: {rows[0]['load']}",
        )
        for goal in goals:
            _say(f"{'holds' if goal['holds'] else '[red]misses[/red]'}: {goal['words']}")
    _end(json_file, lines, {"not measured": unmeasured, "missed": late})
    raise typer.Exit(2 if unmeasured else 1 if late else 0)


@app.command(epilog="Example: python -m lab.bench exam --scenario T1 --scheduler second --scheduler none")
def exam(
    scenario: Annotated[list[str] | None, typer.Option(help=f"Any of: {', '.join(SCENARIOS)}. Default: all.")] = None,
    scheduler: Annotated[
        list[str] | None,
        typer.Option(help=f"Any of: {', '.join(_TAKERS)}. Default: all that are built and fit the scenario."),
    ] = None,
    runs_each: Annotated[int, typer.Option("--runs", min=1, help="Runs of each scheduler in each scenario.")] = 3,
    json_file: JsonFile = None,
) -> None:
    """Take knavigator's scheduling scenarios. Exit status: 0 everything was run, 2 something could not be run."""
    try:
        asked = [SCENARIOS[name] for name in _chosen(scenario, SCENARIOS)]
        todo = [(one, _ways(scheduler, one.ways)) for one in asked]
        ensure_all(_PROGRAMS)
    except (ControlPlaneError, ValueError) as wrong:
        _refuse(wrong)
    lines: list[Figures] = []
    unmeasured = []
    for one, ways in todo:
        found = _outcome(taken(one, ways, times=runs_each))
        if isinstance(found, ControlPlaneError):
            unmeasured.append(f"{one.name}: {found}")
        else:
            lines += found
    _show(
        ("scenario", "scheduler", "verdict", "seen", "run, s"),
        [(row["scenario"], row["way"], row["verdict"], "; ".join(row["misses"]), f"{row['run_s']:g}") for row in lines],
    )
    _end(json_file, lines, {"not run": unmeasured})
    raise typer.Exit(2 if unmeasured else 0)


def _chosen(names: Sequence[str] | None, known: Collection[str]) -> Sequence[str]:
    """The names, or all that are known. Errors: ValueError for an unknown one."""
    if unknown := [name for name in names or () if name not in known]:
        raise ValueError(f"{', '.join(unknown)}: not among {', '.join(known)}")
    return names or tuple(known)


def _ways(names: Sequence[str] | None, usual: Sequence[str], version: Version = KUBERNETES) -> tuple[Way, ...]:
    """The ways of these names, or the usual ones as far as they are built. Errors: ValueError for an unknown name."""
    chosen = names or [name for name in usual if name not in PEERS or not missing(PEERS[name])]
    return tuple(replace(WAYS[name] if name in WAYS else peer(name), kubernetes=version) for name in chosen)


def _outcome(work: Coroutine[Any, Any, R]) -> R | ControlPlaneError:
    """The result of `work` in an event loop of its own, or the error of a control plane that did not work.

    Other errors are bugs and are raised.
    """
    try:
        with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
            return runner.run(work)
    except (*_OUTSIDE, ExceptionGroup) as wrong:
        if isinstance(wrong, ExceptionGroup) and wrong.split(_OUTSIDE)[1] is not None:
            raise
        return ControlPlaneError(str(wrong) or "the API server did not answer in time")


def _cells(row: Figures) -> tuple[str, ...]:
    return (
        f"{row['pods_per_s']:.0f}" if row["pods_per_s"] else _NOTHING,
        f"{row['ratio']:.2f} ({row['ratio_min']:.2f}–{row['ratio_max']:.2f})" if "ratio" in row else _NOTHING,
        f"{row['partial_gangs']}" + (f", {row['unfinished']} pods unbound" if row["unfinished"] else ""),
        f"{row['cpu_ms_per_pod']:.2f}" if "cpu_ms_per_pod" in row else _NOTHING,
    )


def _say(words: str) -> None:
    _SAYING.print(words, highlight=False)


def _show(heads: Sequence[str], rows: Sequence[Sequence[str]], *, title: str | None = None) -> None:
    table = Table(*heads, title=title, title_justify="left")
    for row in rows:
        table.add_row(*row)
    Console(width=None if _SAYING.is_terminal else 150).print(table)


def _refuse(wrong: Exception) -> NoReturn:
    _say(f"[red]{wrong}[/red]")
    raise typer.Exit(2) from wrong


def _end(path: Path | None, lines: Sequence[Figures], failed: Mapping[str, Sequence[str]]) -> None:
    """Write JSON lines, if a file was asked for, and say what failed."""
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))
    for what, words in ((what, one) for what, of in failed.items() for one in of):
        _say(f"[red]{what}:[/red] {words}")


if __name__ == "__main__":
    app()
