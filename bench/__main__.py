"""Command line of the benchmarks: `python -m bench all`, `… peers`, `… results`, `… list`.

Each benchmark is a program of its own that prints JSON lines and says by its exit status whether its goals hold; `all`
runs them one after the other, so that none disturbs another, and keeps their lines in one record.
"""

import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from time import perf_counter
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from bench.peers.command import EPILOG, peers
from bench.programs import BENCHES, Bench, lines_of
from bench.record import Section, here, read, write
from bench.results import results

app = typer.Typer(help="Measure netgang, beside its peers where there are some.", no_args_is_help=True)
app.command(epilog=EPILOG)(peers)
app.command(epilog="Examples:\n\npython -m bench results\n\npython -m bench results bench/out/bench.json")(results)


@app.command(name="list")
def show() -> None:
    """Say which benchmarks there are, what they measure and how long they take."""
    table = Table("name", "measures", "minutes", "command")
    for one in BENCHES:
        table.add_row(one.name, one.words, f"{one.minutes:g}", one.command(quick=False))
    Console().print(table)


@app.command(
    name="all",
    epilog="Examples:\n\npython -m bench all --json bench/out/today.json\n\npython -m bench all --only http --quick",
)
def run(
    only: Annotated[
        list[str] | None, typer.Option(help=f"Any of: {', '.join(one.name for one in BENCHES)}. Default: all.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="The short form of those that have one.")] = False,
    json_file: Annotated[
        Path | None, typer.Option("--json", dir_okay=False, help="Write a record that `bench results` reads.")
    ] = None,
) -> None:
    """Run the benchmarks one after the other; ends with status 1 if a goal of one is missed."""
    console = Console(stderr=True)
    unknown = [name for name in only or () if name not in {one.name for one in BENCHES}]
    if unknown:
        raise typer.BadParameter(f"{', '.join(unknown)}: not among {', '.join(one.name for one in BENCHES)}")
    selected = [one for one in BENCHES if not only or one.name in only]
    minutes = sum(one.quick_minutes if quick else one.minutes for one in selected)
    console.print(f"{len(selected)} benchmarks, expected to take {minutes:.0f} min", highlight=False)
    sections = list(_sections(selected, console, quick=quick))
    if json_file is not None:
        write(json_file, here(sections))
        console.print(f"written to {json_file}", highlight=False)
    failed = [one.bench for one in sections if not one.ok]
    if failed:
        console.print(f"[red]goals missed, or failed: {', '.join(failed)}[/red]", highlight=False)
        raise typer.Exit(1)


def _sections(selected: Sequence[Bench], console: Console, *, quick: bool) -> Iterator[Section]:
    for number, one in enumerate(selected, start=1):
        command = one.command(quick=quick)
        console.rule(f"{number}/{len(selected)} {command}")
        begun_s = perf_counter()
        if one.writes_record:
            with tempfile.TemporaryDirectory() as place:
                file = Path(place) / "record.json"
                status = subprocess.run([*_argv(command), "--json", str(file)]).returncode
                lines = tuple(line for part in read(file).sections for line in part.lines) if file.exists() else ()
        else:
            with subprocess.Popen(_argv(command), stdout=subprocess.PIPE, text=True) as process:
                assert process.stdout is not None
                lines = lines_of(_told(process.stdout))
            status = process.returncode
        yield Section(one.name, command, lines, round(perf_counter() - begun_s), ok=status == 0)


def _told(output: Iterator[str]) -> Iterator[str]:
    """Each line as it comes, printed too."""
    for line in output:
        print(line, end="", flush=True)
        yield line


def _argv(command: str) -> list[str]:
    return [sys.executable, *command.split()[1:]]


if __name__ == "__main__":
    app()
