"""What the pages of the reference are made of: Markdown tables, and the words that the code says about itself."""

import ast
import inspect
import json
import textwrap
from collections.abc import Iterable, Sequence
from enum import Enum
from functools import cache
from typing import Any, NamedTuple


class Told(NamedTuple):
    name: str
    group: str  # the comment line above it, which begins a group; empty: there is none
    paragraphs: tuple[str, ...]


@cache
def told(cls: type) -> tuple[Told, ...]:
    """The attributes of a class that are assigned in its body, with the comment beside or the docstring below each."""
    source = textwrap.dedent(inspect.getsource(cls))
    lines = source.splitlines()
    [tree] = ast.parse(source).body
    assert isinstance(tree, ast.ClassDef)
    found: list[Told] = []
    group = ""
    for place, statement in enumerate(tree.body):
        if not isinstance(statement, ast.Assign) or not isinstance(statement.targets[0], ast.Name):
            continue
        above = lines[statement.lineno - 2].strip()
        group = above.removeprefix("# ").rstrip(".") if above.startswith("# ") else group
        below = tree.body[place + 1] if place + 1 < len(tree.body) else None
        beside = tuple(filter(None, [lines[statement.lineno - 1].partition("  # ")[2]]))
        found.append(Told(statement.targets[0].id, group, beside or _paragraphs(below)))
    return tuple(found)


def _paragraphs(statement: ast.stmt | None) -> tuple[str, ...]:
    if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Constant):
        return ()
    return tuple(" ".join(part.split()) for part in inspect.cleandoc(str(statement.value.value)).split("\n\n"))


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
