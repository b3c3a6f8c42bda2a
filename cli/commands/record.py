"""`netgang record` and `netgang replay`: fetch the decisions of a running netgang, and run them again."""

import sys
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.console import Console

from cli.listing import Found, Listing, Output, show_found
from cli.output import clear_errors, json_body, option
from cli.service_options import Reach, having, progress, reaching, run
from extender.errors import ConfigError

if TYPE_CHECKING:
    from cli.rendering.replayed import Replayed
    from extender.decision_log.replay import Again

_USUAL: Final = Path("decisions.log.gz")


@reaching
def record(
    reach: Reach,
    out: Annotated[
        Path | None, option("File to write; -: standard output.", str(_USUAL), "--out", metavar="FILE")
    ] = None,
    output: Annotated[
        str | None,
        option(
            "Print the file's name and size in this form, or its name alone; another word is the file, as with --out.",
            "a sentence on standard error",
            "--output",
            "-o",
            metavar="json|yaml|name",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was written; as -o json.")] = False,
) -> None:
    """Fetch the decision log of a running netgang (its settings must have record.enabled), for `netgang replay`.

    Exit code: 0 written; 1 no answer, or nothing is kept there; 2 wrong use.
    """
    from client.documents import fetch_record

    with clear_errors():
        form = _form(output)
        file = _file(out, output if form is None else None)
        listing = Listing(form, as_json=as_json)
        if str(file) == "-" and listing.form is not None:
            raise ConfigError("--out - prints the log itself: leave -o and --json away")
        door = reach.door()
        with progress("record") as on_read:
            content = run(fetch_record(door, progress=on_read))
        if str(file) == "-":
            sys.stdout.buffer.write(content)
            return
        file.write_bytes(content)
    if listing.form is None:
        said = f"{file}: {len(content):,} bytes; netgang replay {file}"
        Console(stderr=True).print(said, highlight=False, markup=False, soft_wrap=True)
        return
    show_found(listing, Found(json_body({"file": str(file), "bytes": len(content)}), [str(file)], lambda _: ""))


def _form(output: str | None) -> Output | None:
    """The form that -o names; `None`: none, or a file. Errors: ConfigError for one that has no meaning here."""
    if output == Output.WIDE:
        raise ConfigError("-o wide: there is one file; write json, yaml or name")
    return Output(output) if output in list(Output) else None


def _file(out: Path | None, given: str | None) -> Path:
    if out is not None and given is not None:
        raise ConfigError(f"--out {out} and -o {given}: name one file")
    return out if out is not None else _USUAL if given is None else Path(given)


@having("listing", Listing)
def replay(
    listing: Listing,
    log: Annotated[Path, typer.Argument(metavar="LOG", help="A decision log, as `netgang record` writes it.")],
    instead: Annotated[
        Path | None,
        option("Settings to compare with: what would have been decided.", "none", "--with"),
    ] = None,
) -> None:
    """Run recorded decisions again: the same must come out; with other settings, show what would be different.

    With --with one line a gang that would have been decided differently, the first 20; -o wide shows when, and
    whole lines.

    Exit code: 0 all as recorded; 1 some are not; 2 wrong use, or this is no decision log.
    """
    from cli.rendering.replayed import Replayed, replayed_table
    from extender.decision_log.entries import BadLogError, read
    from extender.decision_log.replay import replay as run_again
    from extender.settings.settings import Settings

    found = Replayed()
    with clear_errors():
        policy = None if instead is None else Settings.load(instead, {}).policy()
        content = log.read_bytes()
        try:
            with progress("replay") as on_entry:
                for number, again in enumerate(run_again(read(content), instead=policy), start=1):
                    _add(found, again)
                    on_entry(number)
        except BadLogError as error:
            raise ConfigError(f"{log}: {error}") from error
    draw = partial(replayed_table, found=found, compared=policy is not None, wide=listing.wide, heads=listing.heads)
    show_found(listing, Found(json_body(_document(found)), [one.gang for one in found.examples], draw))
    if found.different:
        raise typer.Exit(1)


def _add(found: "Replayed", again: "Again") -> None:
    from cli.rendering.replayed import MOST_SHOWN, Example
    from extender.decision_log.replay import Gap, RunAgain

    if isinstance(again, Gap):
        found.missing += again.entries
        return
    if not again.same:
        found.different.append(again.number)
    if not isinstance(again, RunAgain):
        found.steps += 1
        return
    found.runs += 1
    found.would_differ += bool(again.differences)
    for one in again.differences:
        if len(found.examples) < MOST_SHOWN and all(kept.gang != one.gang for kept in found.examples):
            found.examples.append(Example(again.number, again.at_s, one.gang, one.was, one.would_be))


def _document(found: "Replayed") -> dict[str, Any]:
    return asdict(found) | {"examples": [one._asdict() for one in found.examples]}
