"""Read loss, delay and throughput from a MaDDash server: one GET per grid, last good data per grid (`last_good`).

Why: a grid holds all pairs at once, while a GET per pair would make the server build the whole grid each time. Rule: a
grid that gives nothing good keeps what it gave before, and is a problem of the batch; a round without any is an error.

Which grids: those that the settings name; for metrics that name none, every grid whose messages show that metric.
Grids that show nothing of use are looked at again every `REDISCOVER_S`. A grid that failed is asked after the others,
so that it does not cost them their time.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from msgspec.structs import replace

from extender.errors import NetworkSourceError
from extender.network.batches import FUTURE_TIME, bounded, merged, off_loop
from extender.network.maddash.client import IN_FLIGHT, MaddashClient
from extender.network.maddash.grid_choice import Places, Wanted, read_grids
from extender.network.maddash.last_good import KeptGrid, clock_problem
from extender.network.maddash.values import METRIC_OF, choose
from extender.network.sources.http import HttpServer
from extender.ports import Batch

MAX_GRIDS: Final = 500
ROUND_S: Final = 120.0  # For the grids of one fetch; those not reached by then keep their last good data
REDISCOVER_S: Final = 600.0  # How often grids that showed nothing of use are looked at again
FORGET_S: Final = 3600.0  # How long a grid that is no longer listed keeps its last good data
_VALUE_BYTES: Final = 36  # A check has 180 in its grid, and costs as much time as five values of other sources


class MaddashSource:
    """A NetworkSource over one MaDDash server. `fetch` is called by one task at a time."""

    def __init__(self, server: HttpServer, wanted: Wanted | None = None, *, name: str = "maddash") -> None:
        """Prepare; nothing is sent. Errors: ConfigError for a bad address or CA file."""
        self.name = name
        self._wanted = wanted or Wanted()
        self._client = MaddashClient(server)
        self.aclose = self._client.http.aclose
        self._grids: dict[str, KeptGrid] = {}
        self._ahead_s: float | None = None
        self._last: Batch | None = None

    async def fetch(self, *, now_s: float) -> Batch | None:
        """Read all grids of use; `None`: nothing is new. NetworkSourceError when nothing answered well."""
        # 1. which grids
        problems = await self._list(now_s)
        places = self._wanted.among(self._grids)
        due = self._due(places, now_s)
        # 2. one GET each, two at a time (the client's own limit), those that failed last time after the others
        answered = await self._read_all(due, now_s)
        problems += [problem for name in sorted(due) if (problem := self._grids[name].problem)]
        # 3. what all grids say together
        grids = self._grids.values()
        readings = [grid.reading for grid in grids if grid.reading is not None]
        if not readings or (due and not answered):
            reason = "; ".join(bounded(problems, most=3)) or f"{self._client.http.url} has no grids"
            raise NetworkSourceError(f"{self.name}: {reason}")
        future = sum(grid.future for grid in grids)
        clock = clock_problem(self._ahead_s, future)
        chosen = await off_loop(sum(len(one.values) for one in readings), partial(choose, readings, places))
        rejected = Counter[str](chosen.rejected)
        for reading in readings:
            rejected.update({str(reason): count for reason, count in reading.rejected.items()})
        rejected[FUTURE_TIME] += future
        batch = Batch(
            measurements=chosen.table,
            endpoints=merged(end for reading in readings for end in reading.endpoints),
            fetched_at_s=max(grid.read_at_s for grid in grids),
            problems=bounded((*problems, *places.missing, *([clock] if clock else ()), *chosen.problems)),
            rejected=dict(+rejected),
        )
        if self._last is not None and batch == replace(self._last, fetched_at_s=batch.fetched_at_s):
            return None
        self._last = batch
        return batch

    async def _list(self, now_s: float) -> list[str]:
        """Learn the names of grids, as far as the settings need them; sentences on what failed."""
        problems: list[str] = []
        listed: Sequence[str] = ()
        if self._wanted.needs_grids:
            try:
                document = await self._client.get("/grids", now_s=now_s)
                listed = read_grids(document.body, where=self._client.http.where("/grids"))
            except NetworkSourceError as error:
                problems.append(str(error))
                listed = tuple(self._grids)  # unknown: nothing is forgotten for it
            if len(listed) > MAX_GRIDS:
                problems.append(f"{len(listed)} grids are listed: name those that count, only {MAX_GRIDS} are read")
        for name in (*listed[:MAX_GRIDS], *self._wanted.plain):
            self._grids[name] = replace(self._grids.get(name, KeptGrid()), listed_at_s=now_s)
        oldest_s = now_s - FORGET_S
        self._grids = {name: grid for name, grid in self._grids.items() if grid.listed_at_s >= oldest_s}
        return problems

    def _due(self, places: Places, now_s: float) -> list[str]:
        """Names of the grids to read now; those that failed come last, and of these the one tried longest ago first."""
        due = []
        for name, grid in self._grids.items():
            shows = grid.reading.shows if grid.reading is not None else ()
            of_use = any((METRIC_OF[kind], name, check) in places for check, kind in shows)
            unknown = grid.reading is None or name in places.named or now_s - grid.read_at_s >= REDISCOVER_S
            if places.reads(name) and (unknown or of_use):
                due.append((grid.failed, grid.tried_at_s if grid.failed else 0.0, name))
        return [name for _, _, name in sorted(due)]

    async def _read_all(self, due: Sequence[str], now_s: float) -> bool:
        """Ask for these grids; whether any was answered."""
        answered = False
        unreached = set(due)
        left = iter(due)

        async def work() -> None:
            nonlocal answered
            for name in left:
                answered = await self._read(name, now_s) or answered
                unreached.discard(name)

        with suppress(TimeoutError):
            async with asyncio.timeout(ROUND_S), asyncio.TaskGroup() as group:
                for _ in range(min(IN_FLIGHT, len(due))):
                    group.create_task(work())
        for name in unreached:
            self._grids[name] = self._grids[name].with_problem(name, f"was not reached within {ROUND_S:g} s")
        return answered

    async def _read(self, name: str, now_s: float) -> bool:
        grid = self._grids[name] = replace(self._grids[name], failed=True, tried_at_s=now_s)  # until it is answered
        try:
            document = await self._client.get_grid(name, now_s=now_s)
            work = partial(grid.with_answer, document, name=name, now_s=now_s)
            self._grids[name] = await off_loop(len(document.body) // _VALUE_BYTES, work)
        except NetworkSourceError as error:
            self._grids[name] = grid.with_problem(name, "failed", f": {error}")
            return False
        self._ahead_s = document.ahead_s
        return True
