"""What commands print: lists and JSON, and sentences on standard error with an exit code, never a traceback."""

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Final, NoReturn

import typer
from rich.console import Console, RenderableType
from rich.table import Column, Table
from rich.text import Text

from extender.errors import ConfigError, NetgangError

_ANY_WIDTH: Final = 10_000
NONE: Final = "–"  # A cell without a value
_LEAST_LAST: Final = 12  # Cells of the last column, however narrow the terminal is
_GAP: Final = 2


def option(text: str, without: str, *names: str, **more: Any) -> Any:
    """An option with its help text, and in words what counts without it."""
    return typer.Option(*names, help=text, show_default=without, **more)


def _wide(value: str | None) -> str | None:
    if value not in (None, "wide"):
        raise typer.BadParameter("accepted: wide")
    return value


ConfigFile = Annotated[Path | None, option("Settings file, YAML or JSON.", "none", "--config")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the document, JSON.")]
Wide = Annotated[
    str | None,
    option(
        "More columns, and whole lines.", "as wide as the terminal", "--output", "-o", metavar="wide", callback=_wide
    ),
]
Only = Annotated[str | None, option("Only this namespace.", "all", "--namespace", "-n")]


def print_json(document: Any) -> None:
    """A document of plain values, indented."""
    json.dump(document, sys.stdout, indent=2)
    sys.stdout.write("\n")


def print_answer(body: bytes, draw: Callable[[], None], *, as_json: bool) -> None:
    """A document that came as JSON, indented; else what `draw` prints of it for people."""
    if as_json:
        print_json(json.loads(body))
    else:
        draw()


def print_list(draw: Callable[[Console], RenderableType], output: str | None = None) -> None:
    """A list for people; lines are cut only where a terminal shows their end, and `output` asks for no more."""
    console = Console()
    console = console if console.is_terminal and output is None else Console(width=_ANY_WIDTH)
    print_lines(console, draw(console))


@contextmanager
def clear_errors(*, refused: int = 1) -> Iterator[None]:
    """Show what went wrong as a sentence: exit code 2 for wrong use and files, `refused` for what others answered."""
    try:
        yield
    except BrokenPipeError:
        raise  # typer ends without a word
    except (ConfigError, OSError) as error:
        fail(str(error), code=2)
    except NetgangError as error:
        fail(str(error), code=refused)
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


def fail(text: str, *, code: int) -> NoReturn:
    """Say why, and end with `code`."""
    say("error: ", "red", text)
    raise typer.Exit(code)


def say(kind: str, style: str, text: str) -> None:
    """One sentence after a coloured word, on standard error."""
    errors = Console(stderr=True)
    errors.print(Text.assemble((kind, style), safe(errors, text)), soft_wrap=True)


def safe(console: Console, text: str) -> Text:
    """What a server said, without control characters; the lines stay."""
    return Text("\n".join(plain(line, console.encoding) for line in text.split("\n")))


def print_lines(console: Console, shown: RenderableType) -> None:
    """Print a list that is not empty; where programs read it, without the blanks that fill its last column."""
    if not shown:
        return
    if console.is_terminal:
        console.print(shown, crop=False)
        return
    with console.capture() as text:
        console.print(shown, crop=False)
    console.file.writelines(f"{line.rstrip()}\n" for line in text.get().splitlines())
    console.file.flush()


def columns(
    console: Console,
    names: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    cut: bool = True,
    styles: Mapping[str, str] = {},
) -> RenderableType:
    """A list as kubectl prints it: a line for each of `rows`, below `names`, columns aligned by blanks, no frames.

    A cell whose text is in `styles` has that style; line breaks in it become "; ". Only the last cell is ever cut, by
    an ellipsis where the console's line ends, because names are copied; without `cut` the terminal breaks long lines.
    """
    if not rows:
        return Text()
    cells = [[safe(console, "; ".join(cell.split("\n")) or NONE) for cell in row] for row in rows]
    for row in cells:
        for cell in row:
            cell.stylize(styles.get(cell.plain, ""))
    titles = [safe(console, name) for name in names]
    widths = [max(title.cell_len, *(row[at].cell_len for row in cells)) for at, title in enumerate(titles)]
    gaps = _GAP * (len(widths) - 1)
    room = max(console.width - sum(widths[:-1]) - gaps, _LEAST_LAST)  # rich would cut names as well
    room = room if cut else widths[-1]
    for row in cells:
        row[-1].truncate(room, overflow="ellipsis")
    widths[-1] = min(widths[-1], room)
    table = Table(
        *(Column(title, no_wrap=True, width=width) for title, width in zip(titles, widths, strict=True)),
        width=sum(widths) + gaps,
        box=None,
        pad_edge=False,
        padding=(0, _GAP, 0, 0),
        header_style="",
    )
    for row in cells:
        table.add_row(*row)
    return table


def plain(text: str, encoding: str) -> str:
    r"""Make a text from a server safe to print: no control characters, nothing that the terminal cannot encode.

    >>> plain("s5 Zürich\x1b[2J\n", "utf-8"), plain("Zürich", "ascii")
    ('s5 Zürich�[2J�', 'Z?rich')
    """
    shown = "".join(letter if letter.isprintable() else "�" for letter in text)
    return shown.encode(encoding, "replace").decode(encoding, "replace")
