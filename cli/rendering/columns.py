"""Lists as kubectl prints them: one line an item, columns aligned by blanks, no frames.

Rule: no cell but the last is ever cut, because names are copied from lists; the last one ends in an ellipsis where the
console's line does. Control characters of what a server said are replaced.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from rich.console import Console, RenderableType
from rich.table import Column, Table
from rich.text import Text

from cli.output import safe

NONE: Final = "–"
"""A cell without a value"""
_LEAST_LAST: Final = 12  # Cells of the last column, however narrow the terminal is
_GAP: Final = 2


def columns(
    console: Console,
    names: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    cut: bool = True,
    styles: Mapping[str, str] | None = None,
) -> RenderableType:
    """One line for each of `rows`, below `names`; a cell whose text is in `styles` has that style.

    Line breaks in cells become "; ". Without `cut` the terminal breaks long lines. Without rows: an empty text.
    """
    if not rows:
        return Text()
    cells = [[safe(console, "; ".join(cell.split("\n")) or NONE) for cell in row] for row in rows]
    for row in cells:
        for cell in row:
            cell.stylize((styles or {}).get(cell.plain, ""))
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
