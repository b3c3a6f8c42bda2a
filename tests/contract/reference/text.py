"""What the pages of the reference are made of: Markdown tables, and the words that the code says about itself."""

import inspect
import json
from collections.abc import Iterable, Sequence
from enum import Enum
from functools import cache
from typing import Any, NamedTuple

from extender.api.openapi import texts_of_fields


class Told(NamedTuple):
    name: str
    group: str  # the comment line above it, which begins a group; empty: there is none
    paragraphs: tuple[str, ...]


@cache
def told(cls: type[Enum]) -> tuple[Told, ...]:
    """The members of an enumeration, with the comment beside or the docstring below each."""
    texts, groups, group = dict(texts_of_fields(cls)), dict[str, str](), ""
    for line in map(str.strip, inspect.getsource(cls).splitlines()):
        group = line.removeprefix("# ").rstrip(".") if line.startswith("# ") else group
        groups[line.partition(" = ")[0]] = group
    paragraphs = {name: tuple(" ".join(part.split()) for part in text.split("\n\n")) for name, text in texts.items()}
    return tuple(Told(name, groups[name], paragraphs.get(name, ())) for name in cls.__members__)


def members(cls: type[Enum]) -> Iterable[tuple[str, str]]:
    for one in told(cls):
        yield str(cls[one.name].value), " ".join(one.paragraphs)


def first_paragraph(text: str | None) -> str:
    return " ".join((text or "").split("\n\n")[0].split())


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table; a cell may hold anything but a line end.

    >>> print(table(("a", "b"), [("1", "2")]), end="")
    | a | b |
    |---|---|
    | 1 | 2 |
    """
    lines = [_row(head), "|" + "---|" * len(head), *(_row([cell.replace("|", "\\|") for cell in row]) for row in rows)]
    return "\n".join(lines) + "\n"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def code(text: str) -> str:
    return f"`{text}`" if text else ""


def json_block(value: Any) -> str:
    return f"```json\n{json.dumps(value, indent=2, ensure_ascii=False)}\n```\n"
