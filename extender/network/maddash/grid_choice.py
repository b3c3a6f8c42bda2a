"""Which grids and checks of a MaDDash server count for which metric.

Why: every site names its grids itself, many have several dashboards, and a name may look like a pattern. Rule: a text
that is exactly a grid's name means that grid alone; any other text is a pattern in which `*`, `?` and `[…]` stand for
characters, upper and lower case distinguished. A metric that names grids uses these alone; one that names dashboards
uses the grids on these; one that names neither uses every grid whose messages show it. Of the server's lists only names
count, since a grid's address is rebuilt from its name (the server's own `uri` is wrong for names with `%` or `+`); an
entry that has no name is left out. An empty list is legal: the server gives one while it reloads.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Set
from fnmatch import fnmatchcase
from typing import Final

import msgspec

from extender.errors import NetworkSourceError
from extender.network.batches import decoded
from scoring.network.matrix import METRICS, Metric

_PATTERN: Final = re.compile(r"[*?\[]")
_JSON: Final = msgspec.json.Decoder()


class Places(msgspec.Struct, frozen=True):
    """What counts, in names of one moment; ask with `(metric, grid, check) in places`."""

    grids: Mapping[Metric, Set[str]]  # metric → its grids; a metric that is not here: every grid
    checks: Mapping[Metric, tuple[str, ...]]
    missing: tuple[str, ...] = ()  # Sentences: what was named and nothing is called so

    def __contains__(self, place: tuple[Metric, str, str]) -> bool:
        metric, grid, check = place
        if metric in self.grids and grid not in self.grids[metric]:
            return False
        return metric not in self.checks or bool(_matching(self.checks[metric], (check,)))

    def reads(self, grid: str) -> bool:
        """Whether any metric may come from this grid."""
        return any(metric not in self.grids or grid in self.grids[metric] for metric in METRICS)

    @property
    def named(self) -> frozenset[str]:
        """Grids that are meant by name or pattern."""
        return frozenset[str]().union(*self.grids.values())


class Wanted(msgspec.Struct, frozen=True):
    """Names or patterns by metric, as an operator gives them."""

    grids: Mapping[Metric, tuple[str, ...]] = {}
    checks: Mapping[Metric, tuple[str, ...]] = {}

    @property
    def plain(self) -> frozenset[str]:
        """Grids that are named without any sign of a pattern: they are read even if the server does not list them."""
        return frozenset(name for names in self.grids.values() for name in names if not _PATTERN.search(name))

    @property
    def needs_grids(self) -> bool:
        """Whether the server must be asked for its grids: some metric has none, or a name that may be a pattern."""
        return any(metric not in self.grids or any(map(_PATTERN.search, self.grids[metric])) for metric in METRICS)

    def among(self, listed: Collection[str]) -> Places:
        """What the names mean among these grids; a plain name counts unlisted. O(names · grids)."""
        grids: dict[Metric, Set[str]] = {}
        missing: dict[str, None] = {}
        for metric, names in self.grids.items():
            grids[metric] = _matching(names, listed) | {name for name in names if not _PATTERN.search(name)}
            unmet = [name for name in names if _PATTERN.search(name) and not _matching((name,), listed)]
            missing.update(dict.fromkeys(f"no grid is called {name!r}" for name in unmet))
        return Places(grids, self.checks, tuple(missing))


def _matching(names: Iterable[str], present: Iterable[str]) -> set[str]:
    known = set(present)
    found: set[str] = set()
    for name in names:
        found |= {name} if name in known else {one for one in known if fnmatchcase(one, name)}
    return found


def read_grids(body: bytes | bytearray, *, where: str) -> tuple[str, ...]:
    """Names of the grids, sorted, each once. Errors: NetworkSourceError when the body is no list of grids."""
    document = decoded(_JSON, body.removeprefix(b"\xef\xbb\xbf"), f"{where} is not a list of grids")
    entries = document.get("grids") if isinstance(document, dict) else None
    if not isinstance(entries, list):
        raise NetworkSourceError(f"{where} is not a list of grids: it has no 'grids'")
    names = [entry.get("name") for entry in entries if isinstance(entry, dict)]
    return tuple(sorted({name for name in names if isinstance(name, str) and name}))
