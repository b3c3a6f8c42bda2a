"""Read loss, delay and throughput from a MaDDash server: one GET per grid, last good data per grid.

Why: a grid holds all pairs at once, while a GET per pair would make the server build the whole grid each time. The
server reloads its configuration hourly and then answers with errors, empty lists or half a grid for seconds. Rule: a
grid that fails, comes back with clearly fewer checks or has lost all its values keeps its last good ones, with their
old times, and is named in `Batch.problems`; only a round in which nothing at all answered well is an error.

Which grids: those that the settings name; for metrics that name none, every grid whose messages show that metric.
Grids that show nothing of use are looked at again every `REDISCOVER_S`. A grid that is slow to answer, or only times
out, is asked less often and last, so that it costs neither the server nor the other grids their time.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

import httpx

from extender.errors import NetworkSourceError
from extender.network.batches import FUTURE_TIME, bounded, merged
from extender.network.maddash.client import IN_FLIGHT, MaddashClient
from extender.network.maddash.grid import CheckKey, GridReading, read_grid_in_slices
from extender.network.maddash.messages import Rejection
from extender.network.maddash.times import TOLERANCE_S, clock_problem, date_in_slices
from extender.network.maddash.values import METRIC_OF, NOTHING, Chosen, choose_in_slices
from extender.network.maddash.wanted import Listed, Places, Wanted, read_dashboards, read_grids
from extender.network.sources.http import HttpServer
from extender.ports import Batch
from extender.runtime.slices import in_slices

COMPLETE_RATIO: Final = 0.8
"""A grid with fewer than this share of its last checks is taken for one in the middle of a reload."""
SAME_POLLS: Final = 3
"""… unless it has shown the same number of checks this many times in a row …"""
SAME_FOR_S: Final = 30.0
"""… and for so long, twice the longest reload that was measured: then it did shrink."""
SLOW_S: Final = 5.0
"""A grid that takes longer rests for `REST_RATIO` times as long before it is asked again."""
REST_RATIO: Final = 4.0
MAX_GRIDS: Final = 500
REDISCOVER_S: Final = 600.0
"""How often grids that showed nothing of use are looked at again."""
FORGET_S: Final = 3600.0
"""How long a grid that is no longer listed keeps its last good data."""

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class MaddashOptions:
    """Which grids are read, and for how long."""

    wanted: Wanted = field(default_factory=Wanted)
    round_s: float = 120.0
    """Longest time for the grids of one fetch; those not reached by then keep their last good data."""
    on_read: Callable[[int, int], None] = lambda done, due: None
    """Called after each grid: how many of the round are read, and of how many."""


@dataclass(slots=True)
class _Grid:
    """What is known of one grid."""

    reading: GridReading | None = None
    digest: bytes = b""
    etag: str = ""
    parsed: int = 0
    """How often a new body was accepted."""
    read_at_s: float = 0.0
    listed_at_s: float = 0.0
    partial_cells: int = -1
    partial_polls: int = 0
    partial_from_s: float = 0.0
    failed: bool = False
    tried_at_s: float = 0.0
    rests: tuple[float, float] = (0.0, 0.0)
    """Not asked from … to …, in Unix seconds; a clock that was set back ends the rest."""
    first_seen_s: dict[tuple[CheckKey, float], float] = field(default_factory=dict)
    future: int = 0
    note: str | None = None
    """What there is to say about the reading."""

    def is_resting(self, now_s: float) -> bool:
        """Whether the grid took so long that it is not asked now."""
        start_s, end_s = self.rests
        return start_s <= now_s < end_s


class MaddashSource:
    """A NetworkSource over one MaDDash server. `fetch` is called by one task at a time."""

    def __init__(
        self,
        server: HttpServer,
        options: MaddashOptions | None = None,
        *,
        name: str = "maddash",
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        """Prepare; nothing is sent. Errors: ConfigError for a bad address or CA file."""
        self.name = name
        self._options = options or MaddashOptions()
        self._client = MaddashClient(server, transport=transport)
        self._parsing = asyncio.Lock()
        """One grid at a time: each turn of the event loop then waits for one slice of work only."""
        self._grids: dict[str, _Grid] = {}
        self._boards: dict[str, tuple[frozenset[str], float]] = {}  # dashboard → its grids, when it was listed last
        self._ahead_s: float | None = None
        self._clock = (0.0, 0.0)
        """Wall clock and the loop's time at the last fetch."""
        self._good_at_s = 0.0
        self._answered = False
        self._said: tuple[object, ...] | None = None
        self._seen: tuple[object, ...] | None = None
        self._chosen = NOTHING

    @property
    def readings(self) -> tuple[GridReading, ...]:
        """What each grid said last, by name of the grid."""
        return tuple(grid.reading for _, grid in sorted(self._grids.items()) if grid.reading is not None)

    @property
    def chosen(self) -> Chosen:
        """What the last fetch made of the readings."""
        return self._chosen

    @property
    def places(self) -> Places:
        """Which grids and checks count, as of the last fetch."""
        boards = {board: grids for board, (grids, _) in self._boards.items()}
        return self._options.wanted.among(Listed(tuple(self._grids), boards))

    async def aclose(self) -> None:
        """End all connections."""
        await self._client.http.aclose()

    async def fetch(self, *, now_s: float) -> Batch | None:
        """Read all grids of use; `None`: nothing is new.

        Errors: NetworkSourceError when nothing answered well; what was read before stays with the caller.
        """
        self._forget_dates_if_clock_was_set(now_s)
        # 1. which grids
        problems = await self._list(now_s)
        places = self.places
        due = self._due(places, now_s)
        # 2. one GET each, two at a time (the client's own limit), those that failed last time after the others
        self._answered = False
        problems += await self._read_all(due, now_s)
        # 3. what all grids say together
        readings = self.readings
        if not readings or (due and not self._answered):
            reason = "; ".join(bounded(problems, most=3)) or f"{self._client.http.url} has no grids"
            raise NetworkSourceError(f"{self.name}: {reason}")
        future = sum(grid.future for grid in self._grids.values())
        clock = clock_problem(self._ahead_s, future)
        problems += [*places.missing, *([clock] if clock is not None else [])]
        seen = (places, *((name, grid.parsed) for name, grid in sorted(self._grids.items())))
        if seen != self._seen:
            self._chosen = await in_slices(choose_in_slices(readings, places))
            self._seen = seen
        elif tuple(problems) == self._said:
            return None
        self._said = tuple(problems)
        return Batch(
            measurements=self._chosen.measurements,
            endpoints=merged(end for reading in readings for end in reading.endpoints),
            fetched_at_s=self._good_at_s,
            problems=bounded((*problems, *self._chosen.problems)),
            rejected=_rejected(readings, self._chosen, future),
        )

    def _forget_dates_if_clock_was_set(self, now_s: float) -> None:
        """Times that lay in the future may have done so for our own clock's sake: judge them again when it was set."""
        loop_s = asyncio.get_running_loop().time()
        last_now_s, last_loop_s = self._clock
        self._clock = (now_s, loop_s)
        if abs((now_s - last_now_s) - (loop_s - last_loop_s)) > TOLERANCE_S:
            for grid in self._grids.values():
                if grid.first_seen_s:
                    grid.first_seen_s, grid.digest, grid.etag = {}, b"", ""

    # Which grids

    async def _list(self, now_s: float) -> list[str]:
        """Learn the names of grids and dashboards, as far as the settings need them; sentences on what failed."""
        wanted, problems = self._options.wanted, []
        if wanted.needs_grids:
            try:
                names = await self._ask("/grids", read_grids, now_s)
            except NetworkSourceError as error:
                problems.append(str(error))
                names = tuple(self._grids)  # the list is unknown: nothing is forgotten for it
            if len(names) > MAX_GRIDS:
                problems.append(f"{len(names)} grids are listed: name those that count, only {MAX_GRIDS} are read")
            for name in names[:MAX_GRIDS]:
                self._grids.setdefault(name, _Grid()).listed_at_s = now_s
        if wanted.needs_dashboards:
            try:
                boards = await self._ask("/dashboards", read_dashboards, now_s)
            except NetworkSourceError as error:
                problems.append(str(error))
                boards = {board: grids for board, (grids, _) in self._boards.items()}
            self._boards |= {board: (grids, now_s) for board, grids in boards.items()}
        for name in wanted.plain:
            self._grids.setdefault(name, _Grid()).listed_at_s = now_s
        oldest_s = now_s - FORGET_S
        self._grids = {name: grid for name, grid in self._grids.items() if grid.listed_at_s >= oldest_s}
        self._boards = {board: known for board, known in self._boards.items() if known[1] >= oldest_s}
        return problems

    async def _ask(self, path: str, read: Callable[..., _T], now_s: float) -> _T:
        document = await self._client.get(path, now_s=now_s)
        where = self._client.http.where(path)
        if document is None:
            raise NetworkSourceError(f"{where}: status 304 though nothing was known")
        return read(document.body, where=where)

    def _due(self, places: Places, now_s: float) -> list[str]:
        """Names of the grids to read now; those that failed come last, and of these the one tried longest ago first."""
        due = [
            (grid.failed, grid.tried_at_s if grid.failed else 0.0, name)
            for name, grid in self._grids.items()
            if places.reads(name) and not grid.is_resting(now_s) and self._is_of_use(name, grid, places, now_s)
        ]
        return [name for _, _, name in sorted(due)]

    def _is_of_use(self, name: str, grid: _Grid, places: Places, now_s: float) -> bool:
        reading = grid.reading
        if reading is None or name in places.named or now_s - grid.read_at_s >= REDISCOVER_S:
            return True
        return any((METRIC_OF[kind], name, check) in places for check, kinds in reading.shows.items() for kind in kinds)

    # Reading them

    async def _read_all(self, due: Sequence[str], now_s: float) -> list[str]:
        """Read grids; sentences on those whose last good data had to stay."""
        results: dict[str, str | None] = {}
        left = iter(due)

        async def work() -> None:
            for name in left:
                results[name] = await self._read(name, now_s)
                self._options.on_read(len(results), len(due))

        try:
            async with asyncio.timeout(self._options.round_s), asyncio.TaskGroup() as group:
                for _ in range(min(IN_FLIGHT, len(due))):
                    group.create_task(work())
        except TimeoutError:
            pass  # each grid that was not reached is named below
        for name in due:
            if name not in results:
                said = f"grid {name!r} was not reached within {self._options.round_s:g} s"
                results[name] = said + _kept(self._grids[name])
        return [problem for _, problem in sorted(results.items()) if problem is not None]

    async def _read(self, name: str, now_s: float) -> str | None:
        """Read one grid; a sentence when its last good data had to stay."""
        grid = self._grids[name]
        loop = asyncio.get_running_loop()
        grid.failed, grid.tried_at_s = True, now_s  # until the opposite is proved
        started_s = loop.time()
        try:
            document = await self._client.get_grid(name, now_s=now_s, etag=grid.etag)
            if document is not None:
                self._ahead_s = document.ahead_s
            if document is None or (document.digest == grid.digest and grid.reading is not None):
                self._accepted(grid, now_s)
                return grid.note
            async with self._parsing:
                reading = await in_slices(read_grid_in_slices(document.body, name=name))
        except NetworkSourceError as error:
            return f"grid {name!r} failed{_kept(grid)}: {error}"
        finally:
            took_s = loop.time() - started_s
            grid.rests = (now_s, now_s + REST_RATIO * took_s) if took_s > SLOW_S else (0.0, 0.0)
        self._answered = True
        if _looks_partial(grid, reading, now_s):
            old = grid.reading.cells if grid.reading is not None else 0
            return f"grid {name!r} has only {reading.cells} of {old} checks, perhaps a reload{_kept(grid)}"
        ahead_s = document.ahead_s if document.ahead_s is not None else 0.0
        async with self._parsing:
            dated = await in_slices(date_in_slices(reading, grid.first_seen_s, ahead_s=ahead_s, now_s=now_s))
        grid.reading, grid.note = _with_last(dated.reading, grid.reading)
        grid.first_seen_s, grid.future = dated.first_seen_s, dated.future
        grid.digest, grid.etag, grid.parsed = document.digest, document.etag, grid.parsed + 1
        self._accepted(grid, now_s)
        return grid.note

    def _accepted(self, grid: _Grid, now_s: float) -> None:
        grid.failed = False
        grid.partial_cells, grid.partial_polls = -1, 0
        self._answered = True
        self._good_at_s = grid.read_at_s = now_s


def _kept(grid: _Grid) -> str:
    return "" if grid.reading is None else ", its last good values stay"


def _looks_partial(grid: _Grid, reading: GridReading, now_s: float) -> bool:
    if grid.reading is None or reading.cells >= COMPLETE_RATIO * grid.reading.cells:
        return False
    if grid.partial_cells != reading.cells:
        grid.partial_cells, grid.partial_polls, grid.partial_from_s = reading.cells, 0, now_s
    grid.partial_polls += 1
    return grid.partial_polls < SAME_POLLS or now_s - grid.partial_from_s < SAME_FOR_S


def _with_last(reading: GridReading, last: GridReading | None) -> tuple[GridReading, str | None]:
    """Give values of the last reading to checks that say nothing about their links, with their old times.

    These are checks that the server created again and has not run; and all checks, if all that had a value lost it at
    once: then the archive behind MaDDash is away, and not every link. A check among others that has no value any more
    has none.
    """
    if last is None or not last.values:
        return reading, None
    lost = not reading.values and any(reason is not Rejection.NOT_RUN for reason in reading.empty.values())
    carried = {
        key: last.values[key]
        for key, reason in reading.empty.items()
        if key in last.values and (lost or reason is Rejection.NOT_RUN)
    }
    if not carried:
        return reading, None
    shows = {check: set(kinds) for check, kinds in reading.shows.items()}
    for key, value in carried.items():
        shows.setdefault(key.check, set()).add(value.kind)
    whole = replace(
        reading,
        values={**reading.values, **carried},
        shows={check: frozenset(kinds) for check, kinds in shows.items()},
    )
    said = f"grid {reading.name!r} has lost all its values at once: its last good values stay" if lost else None
    return whole, said


def _rejected(readings: Sequence[GridReading], chosen: Chosen, future: int) -> dict[str, int]:
    rejected = Counter[str](chosen.rejected)
    for reading in readings:
        rejected.update({str(reason): count for reason, count in reading.rejected.items()})
    if future:
        rejected[FUTURE_TIME] = future
    return dict(rejected)
