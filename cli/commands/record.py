"""`netgang record` and `netgang replay`: fetch the decisions of a running netgang, and run them again."""

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from cli.output import clear_errors, option, print_json
from cli.reach import Reach, progress, reaching, run
from extender.errors import ConfigError

if TYPE_CHECKING:
    from extender.decision_log.replay import Again

_SHOWN = 20


@reaching
def record(
    reach: Reach,
    out: Annotated[Path, typer.Option("--out", "-o", help="File to write.")] = Path("decisions.log.gz"),
    as_json: Annotated[bool, typer.Option("--json", help="Print what was written as JSON.")] = False,
) -> None:
    """Fetch the decision log of a running netgang (its settings must have record.enabled).

    Exit code: 0 written; 1 no answer, or nothing is kept there; 2 wrong use.
    """
    from client.documents import fetch_record

    with clear_errors():
        door = reach.door()
        with progress("record") as on_read:
            content = run(fetch_record(door, progress=on_read))
        out.write_bytes(content)
    if as_json:
        print_json({"file": str(out), "bytes": len(content)})
    else:
        Console(stderr=True).print(
            f"{out}: {len(content):,} bytes; netgang replay {out}", highlight=False, soft_wrap=True
        )


def replay(
    log: Annotated[Path, typer.Argument(help="A decision log, as `netgang record` writes it.")],
    instead: Annotated[
        Path | None,
        option("Settings to compare with: what would have been decided.", "none", "--with"),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Run recorded decisions again: the same must come out; with other settings, show what would be different.

    Exit code: 0 all as recorded; 1 some are not; 2 wrong use, or this is no decision log.
    """
    from extender.decision_log.entries import BadLogError, read
    from extender.decision_log.replay import replay as run_again
    from extender.settings.settings import Settings

    found = _Found()
    with clear_errors():
        policy = None if instead is None else Settings.load(instead, {}).policy()
        content = log.read_bytes()
        try:
            with progress("replay") as on_entry:
                for number, again in enumerate(run_again(read(content), instead=policy), start=1):
                    found.add(again)
                    on_entry(number)
        except BadLogError as error:
            raise ConfigError(f"{log}: {error}") from error
    if as_json:
        print_json(asdict(found))
    else:
        _print(found, compared=policy is not None)
    if found.different:
        raise typer.Exit(1)


@dataclass(slots=True)
class _Found:
    runs: int = 0
    steps: int = 0
    missing: int = 0  # Entries that were not written when it was recorded
    different: list[int] = field(default_factory=list)
    would_differ: int = 0  # Planner runs that other settings would have decided differently
    examples: list[dict[str, object]] = field(default_factory=list)

    def add(self, again: "Again") -> None:
        from extender.decision_log.replay import Gap, RunAgain

        if isinstance(again, Gap):
            self.missing += again.entries
            return
        if not again.same:
            self.different.append(again.number)
        if not isinstance(again, RunAgain):
            self.steps += 1
            return
        self.runs += 1
        self.would_differ += bool(again.differences)
        for one in again.differences:
            if len(self.examples) < _SHOWN and all(kept["gang"] != one.gang for kept in self.examples):
                self.examples.append({"entry": again.number, "at_s": again.at_s, **asdict(one)})


def _print(found: _Found, *, compared: bool) -> None:
    console = Console()
    console.print(f"{found.runs} planner runs and {found.steps} steps of gangs at bind were run again", highlight=False)
    if found.missing:
        console.print(f"{found.missing} entries had not been written: the recorder did not keep up", style="yellow")
    if found.different:
        shown = ", ".join(map(str, found.different[:_SHOWN]))
        console.print(f"{len(found.different)} came out differently (entries {shown})", style="red", highlight=False)
    else:
        console.print("all came out as recorded", style="green")
    if compared:
        console.print(f"{found.would_differ} runs would have been decided differently", highlight=False)
    if found.examples:
        table = Table("entry", "gang", "was", "would be")
        for one in found.examples:
            table.add_row(*(escape(str(one[name])) for name in ("entry", "gang", "was", "would_be")))
        console.print(table)
