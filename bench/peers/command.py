"""The command line of the comparison: `python -m bench peers`.

Rule: the expected duration is said before anything starts; a goal that is missed ends with status 1 and is named; what
cannot be run is said in one line with status 2.
"""

import asyncio
import signal
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn

from bench.http import build_go_echo
from bench.peers import ways as ways_table
from bench.peers.compare import Found, Task, compare, tasks
from bench.peers.goals import missed
from bench.peers.tables import goal_table, process_table, workload_table
from bench.peers.ways import COSCHEDULING, WAYS, Extender, Way
from bench.peers.workloads import QUICK, WORKLOADS, chosen
from bench.record import Section, here, write
from testbed.build import ensure_all
from testbed.errors import ControlPlaneError
from testbed.progress import ShownProgress

_WIDTH = 150
"""Of tables that go to a file."""
PROGRAMS = ("etcd", "kube-apiserver", "kube-scheduler", "kwok")
EPILOG = """Examples:

python -m bench peers --quick

python -m bench peers --workload gangs --way none --way second --way second-gated --pairs 5 --json bench/out/gangs.json

python -m bench peers --workload gangs --peer coscheduling

python -m bench peers --workload large --peer mine=/opt/my-scheduler,my-config.yaml

Exit status: 0 all goals hold, 1 one is missed, 2 it cannot be run."""


def peers(
    workload: Annotated[list[str] | None, typer.Option(help=f"Any of: {', '.join(WORKLOADS)}. Default: all.")] = None,
    way: Annotated[
        list[str] | None,
        typer.Option(
            help=f"Any of: {', '.join(WAYS)}, or a peer's name. Default: those of the workload, and all peers."
        ),
    ] = None,
    pairs: Annotated[
        int | None, typer.Option(min=1, help="Rounds in which each way is measured once. Default: the workload's.")
    ] = None,
    peer: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=BINARY,CONFIG",
            help=f"Another scheduler: a program with kube-scheduler's flags and its KubeSchedulerConfiguration; or "
            f"`{COSCHEDULING}`, which is built with Go.",
        ),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Small loads, one round: does everything run?")] = False,
    json_file: Annotated[
        Path | None, typer.Option("--json", dir_okay=False, help="Write a record that `bench results` reads.")
    ] = None,
) -> None:
    """Compare netgang with its peers on a real control plane; needs Go to build that once."""
    console = Console(stderr=True)
    try:
        others = [_peer(text, console) for text in peer or ()]
        todo = _todo(workload or [], way or [], pairs, others, quick=quick)
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # stop the control plane, as Ctrl-C does
        _build(todo, console)
        begun_s = perf_counter()
        found = _run(todo, console, quick=quick)
    except (ControlPlaneError, ValueError, TimeoutError) as wrong:  # the last: the API server of a busy machine
        console.print(f"[red]{str(wrong) or 'the API server did not answer in time'}[/red]", highlight=False)
        raise typer.Exit(2) from wrong
    failures = missed(found.goals)
    show(found, Console() if console.is_terminal else Console(width=_WIDTH))
    if json_file is not None:
        lines = (*found.rows, *found.goals)
        command = _command(workload or [], way or [], pairs, peer or [], quick=quick)
        section = Section("peers", command, lines, round(perf_counter() - begun_s), ok=not failures)
        write(json_file, here([section]))
    for words in failures:
        console.print(f"[red]missed:[/red] {words}", highlight=False)
    raise typer.Exit(1 if failures else 0)


def show(found: Found, console: Console) -> None:
    """The tables, one for each workload, and the goals."""
    for name in dict.fromkeys(row["workload"] for row in found.rows):
        rows = [row for row in found.rows if row["workload"] == name]
        console.print(workload_table(rows))
        console.print(process_table(rows))
    if found.goals:
        console.print(goal_table(found.goals))


def _todo(
    workloads: Sequence[str], ways: Sequence[str], pairs: int | None, others: Sequence[Way], *, quick: bool
) -> list[Task]:
    """What is to be done. ValueError for names that nobody has."""
    table = QUICK if quick else WORKLOADS
    unknown = [name for name in workloads if name not in table]
    if unknown:
        raise ValueError(f"{', '.join(unknown)}: not among {', '.join(table)}")
    return tasks(chosen(workloads, quick=quick), ways=ways, pairs=pairs, peers=others)


def _peer(text: str, console: Console) -> Way:
    """The way of a peer; coscheduling's program is built if need be."""
    if text == COSCHEDULING:
        with ShownProgress(console) as building:
            ensure_all([COSCHEDULING], reporter=building)
    return ways_table.peer(text)


def _build(todo: Sequence[Task], console: Console) -> None:
    """Build what is missing: minutes if nothing is built yet."""
    with ShownProgress(console) as building:
        ensure_all(PROGRAMS, reporter=building)
    if any(way.extender is Extender.ECHO for task in todo for way in task.ways):
        build_go_echo()


def _run(todo: Sequence[Task], console: Console, *, quick: bool) -> Found:
    """Measure with a bar that moves by the expected seconds of what is done."""
    expected_s = sum(task.expected_s for task in todo)
    halves = sum(len(task.ways) * task.pairs for task in todo)
    console.print(f"{halves} measurements on {len(todo)} workloads, expected to take {expected_s / 60:.0f} min")
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console) as progress:
        bar = progress.add_task("beside peers", total=expected_s)

        def report(words: str, seconds: float) -> None:
            progress.console.print(words, highlight=False)
            progress.advance(bar, seconds)

        return asyncio.run(compare(todo, report, quick=quick))


def _command(
    workloads: Sequence[str], ways: Sequence[str], pairs: int | None, others: Sequence[str], *, quick: bool
) -> str:
    """The command that repeats this run; a peer's files are named without their directories."""
    words = ["python -m bench peers"]
    words += [f"--workload {name}" for name in workloads]
    words += [f"--way {name}" for name in ways]
    words += [f"--pairs {pairs}"] if pairs else []
    words += [f"--peer {_bare(text)}" for text in others]
    return " ".join([*words, *(["--quick"] if quick else [])])


def _bare(text: str) -> str:
    """A peer without the directories of its files.

    >>> _bare("mine=/opt/bin/scheduler,conf/my.yaml"), _bare("coscheduling")
    ('mine=scheduler,my.yaml', 'coscheduling')
    """
    name, equals, rest = text.partition("=")
    return f"{name}={','.join(Path(one).name for one in rest.split(','))}" if equals else text
