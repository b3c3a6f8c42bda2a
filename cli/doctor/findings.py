"""What a check says: one thing that is wrong, how bad it is, and what to do about it."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from scoring.explain import words

_NAMED: Final = 5


class Severity(StrEnum):
    """How bad it is; in this order findings are shown."""

    ERROR = "error"
    """Gangs do not start, or start broken, or the control plane suffers."""
    WARNING = "warning"
    """It works, worse than it could, or will not for long."""
    NOTE = "note"
    """A choice that one should know of; nothing is wrong."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong. `id` is constant, `what` says where and what, `fix` what to change."""

    id: str
    severity: Severity
    what: str
    fix: str


def error(id_: str, what: str, fix: str) -> Finding:
    """A finding that stops gangs."""
    return Finding(id_, Severity.ERROR, what, fix)


def warning(id_: str, what: str, fix: str) -> Finding:
    """A finding that costs something."""
    return Finding(id_, Severity.WARNING, what, fix)


def note(id_: str, what: str, fix: str) -> Finding:
    """Something to know."""
    return Finding(id_, Severity.NOTE, what, fix)


def in_order(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The worst first, then by id; the same one once.

    >>> [one.id for one in in_order([note("c", "", ""), error("b", "", ""), note("c", "", ""), error("a", "", "")])]
    ['a', 'b', 'c']
    """
    ranks = list(Severity)
    return tuple(sorted(set(findings), key=lambda one: (ranks.index(one.severity), one.id, one.what)))


def some(names: Iterable[str]) -> str:
    """The first names, in order, and how many more there are."""
    return words.some(sorted(names), _NAMED)
