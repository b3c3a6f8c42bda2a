"""The command line of the comparison: `python -m lab.bench peers`.

Rule: the expected duration is said before anything starts; a goal that is missed ends with status 1 and is named; what
cannot be run is said in one line with status 2.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Annotated

import typer
from rich.console import Console

from lab.bench.command import PROGRAMS, Fresh, JsonFile, bar, outcome, output
from lab.bench.http import build_go_echo
from lab.bench.kept import Kept, broken_off_by_term
from lab.bench.peers import others
from lab.bench.peers.compare import Found, Task, compared, tasks
from lab.bench.peers.goals import missed
from lab.bench.peers.others import PEERS
from lab.bench.peers.tables import goal_table, process_table, workload_table
from lab.bench.peers.ways import WAYS, Extender, Way
from lab.bench.peers.workloads import QUICK, WORKLOADS, chosen
from lab.bench.record import Section
from lab.testbed.errors import ControlPlaneError
from lab.testbed.programs.build import ensure_all, missing
from lab.testbed.programs.catalogue import KUBERNETES, Version, parse_version
from lab.testbed.programs.progress import ShownProgress

EPILOG = """Examples:

python -m lab.bench peers --quick

python -m lab.bench peers --workload gangs --way none --way second --way second-gated --json lab/bench/out/gangs.json

python -m lab.bench peers --workload gangs --peer coscheduling

python -m lab.bench peers --workload large --peer mine=/opt/my-scheduler,my-config.yaml

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
        int | None, typer.Option(min=1, help="Rounds in which each way is measured. Default: the workload's.")
    ] = None,
    peer: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=BINARY,CONFIG",
            help=f"Another scheduler: a program with kube-scheduler's flags and its KubeSchedulerConfiguration; or one "
            f"that is built with Go: {', '.join(PEERS)}.",
        ),
    ] = None,
    kubernetes: Annotated[
        str, typer.Option(metavar="X.Y.Z", help="Version of the API server and of kube-scheduler.")
    ] = KUBERNETES,
    quick: Annotated[bool, typer.Option("--quick", help="Small loads, one round: does everything run?")] = False,
    json_file: JsonFile = None,
    fresh: Fresh = False,
) -> None:
    """Compare netgang with its peers on a real control plane; needs Go to build that once."""
    console = Console(stderr=True)
    try:
        given = [_peer(text, console) for text in peer or ()]
        own_choice = bool(way or peer or pairs or quick)
        built = [] if own_choice else [name for name, programs in PEERS.items() if not missing(programs)]
        present = [others.peer(name) for name in built]
        version = parse_version(kubernetes)
        todo = _todo(workload or [], way or [], pairs, given, present, version, quick=quick)
        kept = Kept(json_file, fresh=fresh)
        _build(todo, version, console)
    except (ControlPlaneError, ValueError) as wrong:
        console.print(f"[red]{wrong}[/red]", highlight=False)
        raise typer.Exit(2) from wrong
    command = _command(workload or [], way or [], pairs, peer or [], version, quick=quick)
    with broken_off_by_term():
        section, unmeasured = _run(todo, kept, command, console, quick=quick)
    goals = [dict(line) for line in section.lines if "bound" in line]
    failures = missed(goals)
    rows = [dict(line) for line in section.lines if "bound" not in line]
    show(Found(rows, goals), output(console))
    kept.finish([replace(section, ok=not (failures or unmeasured))], whole=not unmeasured)
    for words in unmeasured:
        console.print(f"[red]not measured:[/red] {words}", highlight=False)
    for words in failures:
        console.print(f"[red]missed:[/red] {words}", highlight=False)
    raise typer.Exit(2 if unmeasured else 1 if failures else 0)


def show(found: Found, console: Console) -> None:
    """The tables, one for each workload, and the goals."""
    for name in dict.fromkeys(row["workload"] for row in found.rows):
        rows = [row for row in found.rows if row["workload"] == name]
        console.print(workload_table(rows))
        console.print(process_table(rows))
    if found.goals:
        console.print(goal_table(found.goals))


def _todo(
    workloads: Sequence[str],
    ways: Sequence[str],
    pairs: int | None,
    others: Sequence[Way],
    present: Sequence[Way],
    version: Version,
    *,
    quick: bool,
) -> list[Task]:
    """What is to be done; `present` are peers that are built and not asked for. ValueError for unknown names."""
    table = QUICK if quick else WORKLOADS
    unknown = [name for name in workloads if name not in table]
    if unknown:
        raise ValueError(f"{', '.join(unknown)}: not among {', '.join(table)}")
    return tasks(
        chosen(workloads, quick=quick), ways=ways, pairs=pairs, peers=others, present=present, kubernetes=version
    )


def _peer(text: str, console: Console) -> Way:
    """The way of a peer; the programs of one of `PEERS` are built if need be."""
    if text in PEERS:
        with ShownProgress(console) as building:
            ensure_all(PEERS[text], reporter=building)
    return others.peer(text)


def _build(todo: Sequence[Task], version: Version, console: Console) -> None:
    """Build what is missing: minutes if nothing is built yet."""
    with ShownProgress(console) as building:
        ensure_all(PROGRAMS, version=version, reporter=building)
    if any(way.extender is Extender.ECHO for task in todo for way in task.ways):
        build_go_echo()


def _run(todo: Sequence[Task], kept: Kept, command: str, console: Console, *, quick: bool) -> tuple[Section, list[str]]:
    """Measure what is not kept, with a bar that moves by the expected seconds; what could not be measured, in words."""
    there = {line["workload"] for line in _so_far(kept, command).lines}
    left = [task for task in todo if task.workload.name not in there]
    if there:
        console.print(f"already measured, taken from {kept.part}: {', '.join(sorted(there))}", highlight=False)
    expected_s = sum(task.expected_s for task in left)
    halves = sum(task.halves for task in left)
    console.print(f"{halves} measurements on {len(left)} workloads, expected to take {expected_s / 60:.0f} min")
    unmeasured = []
    with bar(console) as progress:
        whole = progress.add_task("beside peers", total=expected_s)

        def report(words: str, seconds: float) -> None:
            progress.console.print(words, highlight=False)
            progress.advance(whole, seconds)

        for task in left:
            begun_s = perf_counter()
            found = outcome(compared(task, report, quick=quick))
            if isinstance(found, ControlPlaneError):
                unmeasured.append(f"{task.workload.name}: {found}")
                console.print(f"[red]{unmeasured[-1]}[/red]", highlight=False)
            else:
                kept.add("peers", command, (*found.rows, *found.goals), seconds=perf_counter() - begun_s)
    order = {task.workload.name: number for number, task in enumerate(todo)}
    section = _so_far(kept, command)
    lines = sorted(section.lines, key=lambda line: ("bound" in line, order.get(str(line["workload"]), len(order))))
    return replace(section, lines=tuple(lines)), unmeasured


def _so_far(kept: Kept, command: str) -> Section:
    return kept.found("peers", command) or Section("peers", command, (), 0.0)


def _command(
    workloads: Sequence[str],
    ways: Sequence[str],
    pairs: int | None,
    others: Sequence[str],
    version: Version,
    *,
    quick: bool,
) -> str:
    """The command that repeats this run; a peer's files are named without their directories."""
    words = ["python -m lab.bench peers"]
    words += [f"--workload {name}" for name in workloads]
    words += [f"--way {name}" for name in ways]
    words += [f"--pairs {pairs}"] if pairs else []
    words += [f"--peer {_bare(text)}" for text in others]
    words += [f"--kubernetes {version}"] if version != KUBERNETES else []
    return " ".join([*words, *(["--quick"] if quick else [])])


def _bare(text: str) -> str:
    """A peer without the directories of its files.

    >>> _bare("mine=/opt/bin/scheduler,conf/my.yaml"), _bare("coscheduling")
    ('mine=scheduler,my.yaml', 'coscheduling')
    """
    name, equals, rest = text.partition("=")
    return f"{name}={','.join(Path(one).name for one in rest.split(','))}" if equals else text
