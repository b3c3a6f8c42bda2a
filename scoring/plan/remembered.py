"""A table of results that is emptied when it is full: it saves time, and costs no more memory than its limit."""

from collections.abc import Callable, Hashable
from typing import TypeVar

T = TypeVar("T")
_UNKNOWN = object()
"""What no table holds: `None` is a value too."""


def remember(table: dict[Hashable, T], key: Hashable, make: Callable[[], T], *, limit: int = 4096) -> T:
    """Look `key` up, or make and keep its value; the table is emptied when it holds `limit` entries."""
    known = table.get(key, _UNKNOWN)
    if known is not _UNKNOWN:
        return known  # type: ignore[return-value]
    value = make()
    if len(table) >= limit:
        table.clear()
    table[key] = value
    return value
