"""Read loss, delay and throughput from a MaDDash server: one GET per grid, last good data per grid (`kept`).

Why: a grid holds all pairs at once, while a GET per pair would make the server build the whole grid each time. Rule: a
grid that gives nothing good keeps what it gave before, and is a problem of the batch; a round without any is an error.

Which grids: those that the settings name; for metrics that name none, every grid whose messages show that metric.
Grids that show nothing of use are looked at again every `REDISCOVER_S`. A grid that is slow to answer, or only times
out, is asked less often and last, so that it costs neither the server nor the other grids their time.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

import httpx

from extender.errors import NetworkSourceError
from extender.network.batches import FUTURE_TIME, TOLERANCE_S, bounded, merged
from extender.network.maddash.client import IN_FLIGHT, MaddashClient
from extender.network.maddash.grid import read_grid_in_slices
from extender.network.maddash.grid_choice import Places, Wanted, read_grids
from extender.network.maddash.last_good import KeptGrid, clock_problem
from extender.network.maddash.values import METRIC_OF, NOTHING, choose_in_slices
from extender.network.sources.http import HttpServer
from extender.ports import Batch
from extender.runtime.slices import in_slices

MAX_GRIDS: Final = 500
ROUND_S: Final = 120.0  # For the grids of one fetch; those not reached by then keep their last good data
REDISCOVER_S: Final = 600.0  # How often grids that showed nothing of use are looked at again
FORGET_S: Final = 3600.0  # How long a grid that is no longer listed keeps its last good data

_T = TypeVar("_T")


class MaddashSource:
    """A NetworkSource over one MaDDash server. `fetch` is called by one task at a time."""

    def __init__(
        self,
        server: HttpServer,
        wanted: Wanted | None = None,
        *,
        name: str = "maddash",
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        """Prepare; nothing is sent. Errors: ConfigError for a bad address or CA file."""
        self.name = name
        self._chosen = NOTHING
        self._wanted = wanted or Wanted()
        self._client = MaddashClient(server, transport=transport)
        self.aclose = self._client.http.aclose
        self._parsing = asyncio.Lock()  # One grid at a time: each turn of the event loop waits for one slice only
        self._grids: dict[str, KeptGrid] = {}
        self._ahead_s: float | None = None
        self._clock = (0.0, 0.0)  # Wall clock and the loop's time at the last fetch
        self._good_at_s = 0.0
        self._answered = False
        self._said: tuple[object, ...] | None = None
        self._seen: tuple[object, ...] | None = None

    async def fetch(self, *, now_s: float) -> Batch | None:
        """Read all grids of use; `None`: nothing is new. NetworkSourceError when nothing answered well."""
        self._forget_dates_if_clock_was_set(now_s)
        # 1. which grids
        problems = await self._list(now_s)
        places = self._wanted.among(self._grids)
        due = self._due(places, now_s)
        # 2. one GET each, two at a time (the client's own limit), those that failed last time after the others
        self._answered = False
        problems += await self._read_all(due, now_s)
        # 3. what all grids say together
        readings = [grid.reading for _, grid in sorted(self._grids.items()) if grid.reading is not None]
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
        rejected = Counter[str](self._chosen.rejected)
        for reading in readings:
            rejected.update({str(reason): count for reason, count in reading.rejected.items()})
        rejected[FUTURE_TIME] += future
        return Batch(
            measurements=self._chosen.measurements,
            endpoints=merged(end for reading in readings for end in reading.endpoints),
            fetched_at_s=self._good_at_s,
            problems=bounded((*problems, *self._chosen.problems)),
            rejected=dict(+rejected),
        )

    def _forget_dates_if_clock_was_set(self, now_s: float) -> None:
        """Times that lay in the future may have done so for our own clock's sake: judge them again when it was set."""
        loop_s = asyncio.get_running_loop().time()
        last_now_s, last_loop_s = self._clock
        self._clock = (now_s, loop_s)
        if abs((now_s - last_now_s) - (loop_s - last_loop_s)) > TOLERANCE_S:
            for grid in self._grids.values():
                grid.forget_dates()

    async def _list(self, now_s: float) -> list[str]:
        """Learn the names of grids, as far as the settings need them; sentences on what failed."""
        problems: list[str] = []
        listed: Sequence[str] = ()
        if self._wanted.needs_grids:
            answered = await self._ask("/grids", read_grids, now_s, problems)
            listed = answered if answered is not None else tuple(self._grids)  # unknown: nothing is forgotten for it
            if len(listed) > MAX_GRIDS:
                problems.append(f"{len(listed)} grids are listed: name those that count, only {MAX_GRIDS} are read")
        for name in (*listed[:MAX_GRIDS], *self._wanted.plain):
            self._grids.setdefault(name, KeptGrid()).listed_at_s = now_s
        oldest_s = now_s - FORGET_S
        self._grids = {name: grid for name, grid in self._grids.items() if grid.listed_at_s >= oldest_s}
        return problems

    async def _ask(self, path: str, read: Callable[..., _T], now_s: float, problems: list[str]) -> _T | None:
        where = self._client.http.where(path)
        try:
            document = await self._client.get(path, now_s=now_s)
            if document is None:
                raise NetworkSourceError(f"{where}: status 304 though nothing was known")
            return read(document.body, where=where)
        except NetworkSourceError as error:
            problems.append(str(error))
            return None

    def _due(self, places: Places, now_s: float) -> list[str]:
        """Names of the grids to read now; those that failed come last, and of these the one tried longest ago first."""
        due = []
        for name, grid in self._grids.items():
            shows = grid.reading.shows.items() if grid.reading is not None else ()
            of_use = any((METRIC_OF[kind], name, check) in places for check, kinds in shows for kind in kinds)
            unknown = grid.reading is None or name in places.named or now_s - grid.read_at_s >= REDISCOVER_S
            if places.reads(name) and not grid.is_resting(now_s) and (unknown or of_use):
                due.append((grid.failed, grid.tried_at_s if grid.failed else 0.0, name))
        return [name for _, _, name in sorted(due)]

    async def _read_all(self, due: Sequence[str], now_s: float) -> list[str]:
        results: dict[str, str | None] = {}
        left = iter(due)

        async def work() -> None:
            for name in left:
                results[name] = await self._read(name, now_s)

        try:
            async with asyncio.timeout(ROUND_S), asyncio.TaskGroup() as group:
                for _ in range(min(IN_FLIGHT, len(due))):
                    group.create_task(work())
        except TimeoutError:
            pass  # each grid that was not reached is named below
        for name in due:
            if name not in results:
                results[name] = f"grid {name!r} was not reached within {ROUND_S:g} s{self._grids[name].kept}"
        return [problem for _, problem in sorted(results.items()) if problem is not None]

    async def _read(self, name: str, now_s: float) -> str | None:
        grid = self._grids[name]
        loop = asyncio.get_running_loop()
        grid.failed, grid.tried_at_s = True, now_s  # until the opposite is proved
        started_s = loop.time()
        try:
            document = await self._client.get_grid(name, now_s=now_s, etag=grid.etag)
            if document is not None:
                self._ahead_s = document.ahead_s
            if document is None or (document.digest == grid.digest and grid.reading is not None):
                return self._accepted(grid, now_s)
            async with self._parsing:
                reading = await in_slices(read_grid_in_slices(document.body, name=name))
        except NetworkSourceError as error:
            return f"grid {name!r} failed{grid.kept}: {error}"
        finally:
            grid.took(loop.time() - started_s, now_s=now_s)
        self._answered = True
        if grid.looks_partial(reading, now_s):
            old = grid.reading.cells if grid.reading is not None else 0
            return f"grid {name!r} has only {reading.cells} of {old} checks, perhaps a reload{grid.kept}"
        async with self._parsing:
            await in_slices(grid.take_in_slices(reading, ahead_s=document.ahead_s or 0.0, now_s=now_s))
        grid.digest, grid.etag, grid.parsed = document.digest, document.etag, grid.parsed + 1
        return self._accepted(grid, now_s)

    def _accepted(self, grid: KeptGrid, now_s: float) -> str | None:
        grid.accept(now_s)
        self._answered = True
        self._good_at_s = now_s
        return grid.note
