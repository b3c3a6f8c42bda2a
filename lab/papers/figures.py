"""What a row of the papers' table says, and how it is printed."""

from collections.abc import Callable, Sequence
from statistics import fmean
from typing import Final

import msgspec

Tell = Callable[[str], None]
"""Progress, for people"""
_HEAD: Final = ("row", "figure", "published", "ours: mean", "lowest–highest", "runs", "command")


class Figure(msgspec.Struct, frozen=True):
    """One figure of a row: what the paper printed, and what each run of ours came to."""

    row: str
    what: str
    """With its unit"""
    published: str
    values: tuple[float, ...]


def table(figures: Sequence[Figure]) -> str:
    """In Markdown.

    >>> print(table([Figure("N4", "speed", "-", (1.0, 3.0))]).splitlines()[-1])
    | N4 | speed | - | 2 | 1–3 | 2 | `make papers ROWS=N4` |
    """
    lines = [f"| {' | '.join(_HEAD)} |", f"|{'---|' * len(_HEAD)}"]
    for one in figures:
        spread, mean = f"{min(one.values):.3g}–{max(one.values):.3g}", f"{fmean(one.values):.3g}"
        cells = (one.row, one.what, one.published, mean, spread, str(len(one.values)), f"`make papers ROWS={one.row}`")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)
