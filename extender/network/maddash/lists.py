"""Read MaDDash's lists of grids and dashboards, entry by entry.

Rule: only names count, since a grid's address is rebuilt from its name (the server's own `uri` is wrong for names with
`%` or `+`); an entry that has no name is left out. An empty list is legal: the server gives one while it reloads.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from extender.errors import NetworkSourceError


def read_grids(body: bytes | bytearray, *, where: str) -> tuple[str, ...]:
    """Names of the grids, sorted, each once. Errors: NetworkSourceError when the body is no list of grids."""
    return tuple(sorted(set(_names(_listed(body, "grids", where)))))


def read_dashboards(body: bytes | bytearray, *, where: str) -> dict[str, frozenset[str]]:
    """Dashboards with the names of their grids, which may not exist. Errors: NetworkSourceError, as `read_grids`."""
    found: dict[str, frozenset[str]] = {}
    for entry in _listed(body, "dashboards", where):
        for name in _names([entry]):
            grids = entry.get("grids")
            found[name] = found.get(name, frozenset()) | frozenset(_names(grids if isinstance(grids, list) else []))
    return found


def _listed(body: bytes | bytearray, kind: str, where: str) -> list[Any]:
    try:
        document = msgspec.json.decode(body.removeprefix(b"\xef\xbb\xbf"))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise NetworkSourceError(f"{where} is not a list of {kind}: {error}") from error
    entries = document.get(kind) if isinstance(document, dict) else None
    if not isinstance(entries, list):
        raise NetworkSourceError(f"{where} is not a list of {kind}: it has no {kind!r}")
    return entries


def _names(entries: list[Any]) -> Iterator[str]:
    for entry in entries:
        name = entry.get("name") if isinstance(entry, dict) else None
        if isinstance(name, str) and name:
            yield name
