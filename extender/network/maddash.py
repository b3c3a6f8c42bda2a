"""Read loss, delay and throughput from a MaDDash server: one GET per grid, last good data per grid.

Why: a grid holds all pairs at once, while a GET per pair would make the server build the whole grid each time. The
server reloads its configuration hourly and then answers with errors, empty lists or half a grid for seconds. Rule: a
grid that fails or comes back with clearly fewer checks keeps its last good values, with their old times, and is named
in `Batch.problems`; only a server that never gave anything is an error.

Which grids: those named in the settings; for metrics that name none, every grid whose messages show that metric.
Grids that show nothing of use are looked at again every `rediscover_s`.
"""

import asyncio
from collections import Counter
from collections.abc import Generator
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

import httpx
import msgspec

from extender.errors import NetworkSourceError
from extender.network.maddash_client import MaddashClient, MaddashServer, grid_path
from extender.network.maddash_grid import GridReading, read_grid_in_slices
from extender.network.maddash_values import METRIC_OF, Wanted, choose_in_slices
from extender.ports import Batch, EndpointInfo
from scoring.ids import EndpointId
from scoring.network import METRICS

COMPLETE_RATIO: Final = 0.8
"""A grid with fewer than this share of its last checks is taken for one in the middle of a reload."""
SAME_POLLS: Final = 3
"""… unless it has shown the same number of checks this many times in a row: then it did shrink."""
_MAX_PROBLEMS: Final = 20

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class MaddashOptions:
    """Which grids are read, and how long decisions about them are kept."""

    wanted: Wanted = field(default_factory=Wanted)
    rediscover_s: float = 600.0
    """How often grids that showed nothing of use are looked at again."""
    forget_s: float = 3600.0
    """How long a grid that is no longer listed keeps its last good data."""


@dataclass(slots=True)
class _Grid:
    """What is known of one grid."""

    reading: GridReading | None = None
    digest: bytes = b""
    read_at_s: float = 0.0
    listed_at_s: float = 0.0
    partial_cells: int = -1
    partial_polls: int = 0


class _ListedGrid(msgspec.Struct):
    name: str


class _GridList(msgspec.Struct):
    grids: list[_ListedGrid]


class MaddashSource:
    """A NetworkSource over one MaDDash server. `fetch` is called by one task at a time."""

    def __init__(
        self,
        server: MaddashServer,
        options: MaddashOptions | None = None,
        *,
        name: str = "maddash",
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        """Prepare; nothing is sent. Errors: ConfigError for a bad address or CA file."""
        self._name = name
        self._options = options or MaddashOptions()
        self._client = MaddashClient(server, transport=transport)
        self._grids: dict[str, _Grid] = {}
        self._told: tuple[object, ...] | None = None
        self._good_at_s = 0.0

    @property
    def name(self) -> str:
        """Name for metrics and messages."""
        return self._name

    async def aclose(self) -> None:
        """End all connections."""
        await self._client.aclose()

    async def fetch(self, *, now_s: float) -> Batch | None:
        """Read all grids of use; `None`: every one is byte for byte as before.

        `fetched_at_s` is the last moment at which any grid answered well. Errors: NetworkSourceError when nothing
        answered and no grid ever did.
        """
        problems: list[str] = []
        # 1. which grids
        names = await self._names(now_s, problems)
        # 2. one GET each, two at a time (the client's own limit)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._refresh(name, now_s)) for name in names]
        problems += [problem for problem in (task.result() for task in tasks) if problem is not None]
        # 3. what all grids say together
        readings = [grid.reading for _, grid in sorted(self._grids.items()) if grid.reading is not None]
        if not readings:
            reason = "; ".join(problems) or f"{self._client.shown_url} has no grids"
            raise NetworkSourceError(f"{self._name}: {reason}")
        told = (tuple(problems), *((name, grid.digest) for name, grid in sorted(self._grids.items())))
        if told == self._told and self._good_at_s == now_s:
            return None
        chosen = await _in_slices(choose_in_slices(readings, self._options.wanted, now_s=now_s))
        self._told = told
        rejected = Counter[str](chosen.rejected)
        for reading in readings:
            rejected.update({str(reason): count for reason, count in reading.rejected.items()})
        return Batch(
            measurements=chosen.measurements,
            endpoints=_endpoints(readings),
            fetched_at_s=self._good_at_s,
            problems=_bounded((*problems, *chosen.problems)),
            rejected=dict(rejected),
        )

    async def _names(self, now_s: float, problems: list[str]) -> list[str]:
        """Names of the grids to read now, sorted."""
        configured = {name for names in self._options.wanted.grids.values() for name in names}
        for name in configured:
            self._grids.setdefault(name, _Grid()).listed_at_s = now_s
        if set(self._options.wanted.grids) >= set(METRICS):
            return sorted(configured)
        try:
            for name in await self._listed():
                self._grids.setdefault(name, _Grid()).listed_at_s = now_s
        except NetworkSourceError as error:
            problems.append(str(error))
            for grid in self._grids.values():  # the list is unknown: nothing is forgotten for it
                grid.listed_at_s = now_s
        self._grids = {n: g for n, g in self._grids.items() if now_s - g.listed_at_s <= self._options.forget_s}
        return sorted(n for n, g in self._grids.items() if n in configured or self._is_due(n, g, now_s))

    def _is_due(self, name: str, grid: _Grid, now_s: float) -> bool:
        reading = grid.reading
        if reading is None or now_s - grid.read_at_s >= self._options.rediscover_s:
            return True
        return any(
            (METRIC_OF[kind], name, check) in self._options.wanted
            for check, kinds in reading.shows.items()
            for kind in kinds
        )

    async def _listed(self) -> list[str]:
        document = await self._client.get("/grids")
        try:
            listed = msgspec.json.decode(document.body, type=_GridList)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise NetworkSourceError(f"{self._client.shown_url}/grids is not a list of grids: {error}") from error
        return [grid.name for grid in listed.grids]

    async def _refresh(self, name: str, now_s: float) -> str | None:
        """Read one grid; a sentence when its last good data had to stay."""
        grid = self._grids[name]
        try:
            document = await self._client.get(grid_path(name))
            if document.digest == grid.digest and grid.reading is not None:
                self._accepted(grid, now_s)
                return None
            reading = await _in_slices(read_grid_in_slices(document.body, name=name))
        except NetworkSourceError as error:
            return f"grid {name!r} failed{_kept(grid)}: {error}"
        if _looks_partial(grid, reading):
            old = grid.reading.cells if grid.reading is not None else 0
            return f"grid {name!r} has only {reading.cells} of {old} checks, perhaps a reload{_kept(grid)}"
        grid.reading = _with_waiting(reading, grid.reading)
        grid.digest = document.digest
        self._accepted(grid, now_s)
        return None

    def _accepted(self, grid: _Grid, now_s: float) -> None:
        grid.partial_cells, grid.partial_polls = -1, 0
        self._good_at_s = grid.read_at_s = now_s


def _kept(grid: _Grid) -> str:
    return "" if grid.reading is None else ", its last good values stay"


def _looks_partial(grid: _Grid, reading: GridReading) -> bool:
    if grid.reading is None or reading.cells >= COMPLETE_RATIO * grid.reading.cells:
        return False
    grid.partial_polls = grid.partial_polls + 1 if grid.partial_cells == reading.cells else 1
    grid.partial_cells = reading.cells
    return grid.partial_polls < SAME_POLLS


def _with_waiting(reading: GridReading, last: GridReading | None) -> GridReading:
    """Checks that the server made anew and has not run keep their last value: it says nothing about their links."""
    if last is None or not reading.waiting:
        return reading
    carried = {key: last.values[key] for key in reading.waiting if key in last.values}
    if not carried:
        return reading
    shows = {check: set(kinds) for check, kinds in reading.shows.items()}
    for key, value in carried.items():
        shows.setdefault(key.check, set()).add(value.kind)
    return replace(
        reading,
        values={**reading.values, **carried},
        shows={check: frozenset(kinds) for check, kinds in shows.items()},
    )


def _bounded(problems: tuple[str, ...]) -> tuple[str, ...]:
    more = len(problems) - _MAX_PROBLEMS
    return problems if more <= 0 else (*problems[:_MAX_PROBLEMS], f"and {more} more")


def _endpoints(readings: list[GridReading]) -> tuple[EndpointInfo, ...]:
    aliases: dict[EndpointId, dict[str, None]] = {}  # id → names in any grid, in order
    for reading in readings:
        for endpoint in reading.endpoints:
            aliases.setdefault(endpoint.id, {}).update(dict.fromkeys(endpoint.aliases))
    return tuple(EndpointInfo(one, tuple(names)) for one, names in sorted(aliases.items()))


async def _in_slices(work: Generator[None, None, _T]) -> _T:
    """Run a generator to its end, letting other tasks run between its steps."""
    while True:
        try:
            next(work)
        except StopIteration as done:
            result: _T = done.value
            return result
        await asyncio.sleep(0)
