"""The command line of the comparison: `python -m lab.bench peers`.

Rule: the expected duration is said before anything starts; a goal that is missed ends with status 1 and is named; what
cannot be run is said in one line with status 2.
"""

from collections.abc import Sequence
from typing import Annotated

import typer
from msgspec.structs import replace
from rich.console import Console
from rich.table import Table

from lab.bench.command import JsonFile, build, outcome, output, write
from lab.bench.peers.compare import Found, Task, compared
from lab.bench.peers.figures import Figures, missed
from lab.bench.peers.ways import PEERS, WAYS, Way, peer
from lab.bench.peers.workloads import QUICK, WORKLOADS, Workload
from lab.testbed.errors import ControlPlaneError
from lab.testbed.programs.build import missing as missing_programs
from lab.testbed.programs.catalogue import KUBERNETES, Version, parse_version

EPILOG = """Examples:

python -m lab.bench peers --quick

python -m lab.bench peers --workload gangs --way none --way second --way second-gated --json lab/bench/out/gangs.json

Exit status: 0 all goals hold, 1 one is missed, 2 it cannot be run."""
_NOTHING = "–"
_HEADS = ("pods/s", "of the first (lowest–highest)", "partial gangs", "netgang ms CPU/pod")


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
    """Compare netgang with its peers on a real control plane; needs Go to build that once."""
    console = Console(stderr=True)
    table = QUICK if quick else WORKLOADS
    try:
        version = parse_version(kubernetes)
        if unknown := [name for name in workload or () if name not in table]:
            raise ValueError(f"{', '.join(unknown)}: not among {', '.join(table)}")
        loads = [one for name, one in table.items() if not workload or name in workload]
        tasks = [Task(one, _ways(one, way or (), version), 1 if quick else rounds) for one in loads]
        build(version)
    except (ControlPlaneError, ValueError) as wrong:
        console.print(f"[red]{wrong}[/red]", highlight=False)
        raise typer.Exit(2) from wrong
    console.print(f"expected to take {sum(task.expected_s for task in tasks) / 60:.0f} min")
    lines: list[Figures] = []
    failures: list[str] = []
    unmeasured: list[str] = []
    for task in tasks:
        found = outcome(compared(task, lambda words: console.print(words, highlight=False), quick=quick))
        if isinstance(found, ControlPlaneError):
            unmeasured.append(f"{task.workload.name}: {found}")
            continue
        lines += [*found.rows, *found.goals]
        failures += missed(found.goals)
        show(found, output(console))
    write(json_file, lines)
    for kind, words in (*(("not measured", one) for one in unmeasured), *(("missed", one) for one in failures)):
        console.print(f"[red]{kind}:[/red] {words}", highlight=False)
    raise typer.Exit(2 if unmeasured else 1 if failures else 0)


def _ways(workload: Workload, names: Sequence[str], version: Version) -> tuple[Way, ...]:
    """The ways of a workload; ValueError for an unknown name."""
    built = [name for name in workload.peers if not missing_programs(PEERS[name])]
    chosen = names or (*workload.ways, *built)
    return tuple(replace(WAYS[name] if name in WAYS else peer(name), kubernetes=version) for name in chosen)


def show(found: Found, console: Console) -> None:
    """A workload's rows side by side, and the goals."""
    table = Table("way", title=f"{found.rows[0]['workload']}: {found.rows[0]['load']}", title_justify="left")
    for head in _HEADS:
        table.add_column(head, justify="right")
    for row in found.rows:
        table.add_row(str(row["way"]), *cells(row))
    console.print(table)
    for goal in found.goals:
        console.print(f"{'holds' if goal['holds'] else '[red]misses[/red]'}: {goal['words']}", highlight=False)


def cells(row: Figures) -> list[str]:
    """What the table says of a row."""
    return [
        f"{row['pods_per_s']:.0f}" if row["pods_per_s"] else _NOTHING,
        f"{row['ratio']:.2f} ({row['ratio_min']:.2f}–{row['ratio_max']:.2f})" if "ratio" in row else _NOTHING,
        f"{row['partial_gangs']}" + (f", {row['unfinished']} pods unbound" if row["unfinished"] else ""),
        f"{row['cpu_ms_per_pod']:.2f}" if "cpu_ms_per_pod" in row else _NOTHING,
    ]
