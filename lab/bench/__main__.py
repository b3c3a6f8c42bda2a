"""Command line of the benchmarks: `python -m lab.bench all`, `… peers`, `… exam`, `… results`, `… list`.

Each benchmark is a program of its own that prints JSON lines and says by its exit status whether its goals hold; `all`
runs them one after the other, so that none disturbs another, and keeps their lines in one record. What is measured is
written at once (`lab.bench.kept`), and an interrupted run goes on there.
"""

import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from time import perf_counter
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from lab.bench.command import FRESH, Fresh, JsonFile
from lab.bench.exam.command import EPILOG as EXAM_EPILOG
from lab.bench.exam.command import exam
from lab.bench.kept import Kept, broken_off_by_term
from lab.bench.peers.command import EPILOG, peers
from lab.bench.programs import BENCHES, Bench, lines_of
from lab.bench.record import Section, read
from lab.bench.results.pages import results

app = typer.Typer(help="Measure netgang, beside its peers where there are some.", no_args_is_help=True)
app.command(epilog=EPILOG)(peers)
app.command(epilog=EXAM_EPILOG)(exam)
app.command(epilog="Examples:\n\npython -m lab.bench results\n\npython -m lab.bench results lab/bench/out/bench.json")(
    results
)


@app.command(name="list")
def show() -> None:
    """Say which benchmarks there are, what they measure and how long they take."""
    table = Table("name", "measures", "minutes", "command", caption="(in brackets: only where --only names it)")
    for one in BENCHES:
        name = f"({one.name})" if one.on_request else one.name
        table.add_row(name, one.words, f"{one.minutes:g}", one.command(quick=False))
    Console().print(table)


@app.command(
    name="all",
    epilog="Examples:\n\npython -m lab.bench all --json out/today.json\n\npython -m lab.bench all --only http --quick",
)
def run(
    only: Annotated[
        list[str] | None,
        typer.Option(
            help=f"Any of: {', '.join(one.name for one in BENCHES)}. "
            f"Default: all but {', '.join(one.name for one in BENCHES if one.on_request)}."
        ),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="The short form of those that have one.")] = False,
    json_file: JsonFile = None,
    fresh: Fresh = False,
) -> None:
    """Run the benchmarks one after the other; ends with status 1 if a goal of one is missed."""
    console = Console(stderr=True)
    unknown = [name for name in only or () if name not in {one.name for one in BENCHES}]
    if unknown:
        raise typer.BadParameter(f"{', '.join(unknown)}: not among {', '.join(one.name for one in BENCHES)}")
    selected = [one for one in BENCHES if (one.name in only if only else not one.on_request)]
    try:
        kept = Kept(json_file, fresh=fresh)
    except ValueError as wrong:
        console.print(f"[red]{wrong}[/red]; {FRESH} begins without it", highlight=False)
        raise typer.Exit(2) from wrong
    left = [one for one in selected if kept.found(one.name, one.command(quick=quick)) is None]
    if len(left) < len(selected):
        there = ", ".join(one.name for one in selected if one not in left)
        console.print(f"already measured, taken from {kept.part}: {there}", highlight=False)
    minutes = sum(one.quick_minutes if quick else one.minutes for one in left)
    console.print(f"{len(left)} benchmarks, expected to take {minutes:.0f} min", highlight=False)
    unmeasured = []
    for number, one in enumerate(left, start=1):
        console.rule(f"{number}/{len(left)} {one.command(quick=quick)}")
        with broken_off_by_term():
            section = measured(one, json_file, quick=quick, fresh=fresh)
        if section is None:
            unmeasured.append(one.name)
        else:
            kept.keep(section)
    found = [kept.found(one.name, one.command(quick=quick)) for one in selected]
    sections = [section for section in found if section is not None]
    kept.finish(sections, whole=not unmeasured)
    if json_file is not None:
        console.print(f"written to {json_file}", highlight=False)
    missed = [one.bench for one in sections if not one.ok]
    for words, names in (("goals missed", missed), ("not measured", unmeasured)):
        if names:
            console.print(f"[red]{words}: {', '.join(names)}[/red]", highlight=False)
    if unmeasured or missed:
        raise typer.Exit(2 if unmeasured else 1)


def measured(one: Bench, json_file: Path | None, *, quick: bool, fresh: bool) -> Section | None:
    """Run one benchmark. `None`: it came to no end, or could not measure everything; status 1 is a missed goal."""
    command = one.command(quick=quick)
    begun_s = perf_counter()
    with tempfile.TemporaryDirectory() as place, ExitStack() as stack:
        file = Path(place) / "record.json" if json_file is None else json_file.with_suffix(f".{one.name}.json")
        options = ["--json", str(file), *([FRESH] if fresh else [])] if one.writes_record else []
        output = None if one.writes_record else subprocess.PIPE
        process = subprocess.Popen([*_argv(command), *options], stdout=output, text=True)
        stack.callback(_ended, process)
        lines = lines_of(_told(process.stdout)) if process.stdout is not None else ()
        status = process.wait()
        seconds: float = round(perf_counter() - begun_s)
        if one.writes_record and file.exists():
            parts = read(file).sections
            lines = tuple(line for part in parts for line in part.lines)
            seconds = round(sum(part.seconds or 0.0 for part in parts))
            file.unlink()
    return Section(one.name, command, lines, seconds, ok=status == 0) if lines and status in (0, 1) else None


def _ended(process: subprocess.Popen[str]) -> None:
    """Let a benchmark that is broken off stop what it has started."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    if process.stdout is not None:
        process.stdout.close()


def _told(output: Iterable[str]) -> Iterator[str]:
    """Each line as it comes, printed too."""
    for line in output:
        print(line, end="", flush=True)
        yield line


def _argv(command: str) -> list[str]:
    return [sys.executable, *command.split()[1:]]


if __name__ == "__main__":
    app()
