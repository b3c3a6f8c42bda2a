"""Keep the network matrix fresh: poll every source, map the nodes, publish.

Rule: sources are slow and fail for minutes, so each is polled by its own task and never holds up another one; what it
gave last stays until it gives something newer; a new matrix with a higher version is published when content changed,
and every `reevaluate_s` because ages moved. An error that is not foreseen is logged, makes the status unready, and the
work is started again after a pause.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, InitVar, dataclass, field
from functools import partial
from typing import Any

import msgspec
from msgspec.structs import replace

from extender.errors import Backoff, NetworkSourceError
from extender.network.answers import off_loop
from extender.network.mapping import MOST_NAMED, Built, Given, build
from extender.ports import Clock, EndpointInfo, NetworkSource
from extender.schemas import Source, SourcesStatus
from extender.settings.network import NetworkSettings
from scoring.model import Node
from scoring.network.matrix import METRICS, MeasurementTable, NetworkMatrix

_log = logging.getLogger(__name__)


class Polled(msgspec.Struct, frozen=True):
    """A source and how often it is asked."""

    source: NetworkSource
    interval_s: float


class RefreshOptions(msgspec.Struct, frozen=True):
    """Times of the refresh, and how nodes are mapped."""

    reevaluate_s: float = 60.0
    """A matrix is published at least this often. Ages count only then, so that no plan changes by time alone."""
    fetch_timeout_s: float = 300.0
    retry_min_s: float = 5.0  # Pause after the first failure of a source; it doubles with each further one …
    retry_max_s: float = 300.0  # … up to this, or up to the source's interval if that is longer
    jitter_ratio: float = 0.1  # Pauses vary by this share, so that replicas do not ask at the same moment
    network: NetworkSettings = NetworkSettings()
    zone_fallback: bool = False  # Links without a measurement have the median between their nodes' zones


class _State(msgspec.Struct):
    polled: Polled
    status: Source
    table: MeasurementTable | None = None
    endpoints: tuple[EndpointInfo, ...] = ()


@dataclass(eq=False, repr=False)
class NetworkRefresh:
    """Polls, merges, publishes. `run` is one task; `status` may be read at any time."""

    sources: InitVar[Sequence[Polled]]
    options: RefreshOptions = field(default_factory=RefreshOptions)
    _: KW_ONLY
    clock: Clock
    nodes: Callable[[], Sequence[Node]]  # The cluster's nodes of now
    publish: Callable[[NetworkMatrix], None]
    jitter: Callable[[], float]  # A number from 0 to 1
    prepare: Callable[[NetworkMatrix], Awaitable[None]] | None = None  # Awaited before each `publish`

    def __post_init__(self, sources: Sequence[Polled]) -> None:
        if len({polled.source.name for polled in sources}) < len(sources):
            raise ValueError("sources must have different names: values are shown with the name of theirs")
        self._states = [_State(polled, Source(name=polled.source.name)) for polled in sources]
        self._changed = asyncio.Event()
        self._built: Built | None = None
        self._published_at_s: float | None = None
        self._next_publish_s = 0.0
        self._crashes: dict[str, str] = {}  # task → its error
        self.first_look = asyncio.Event()
        """Set once every source was asked and what they gave is published: planning before would be blind"""

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for state in self._states:
                tasks.create_task(self._supervise(f"source {state.polled.source.name}", partial(self._poll, state)))
            tasks.create_task(self._supervise("network matrix", self._rebuild_when_needed))

    def nodes_changed(self) -> None:
        """Nodes came, went or were relabelled: map them again soon."""
        self._changed.set()

    def status(self, *, most: int = MOST_NAMED) -> SourcesStatus:
        """How the sources do, and the first `most` of each list of nodes and endpoints without the other."""
        built = self._built
        matrix = built.matrix if built is not None else NetworkMatrix()
        now = replace(matrix, evaluated_at_s=self.clock.now_s())
        soft, hard = self.options.network.soft_ttl_s, self.options.network.hard_ttl_s
        return SourcesStatus(
            version=matrix.version,
            published_at_s=self._published_at_s,
            sources=tuple(state.status for state in self._states),
            pairs={
                m.value: now.count(m, soft_ttl_s=soft.for_metric(m), hard_ttl_s=hard.for_metric(m)) for m in METRICS
            },
            mapping=built.mapping.document(most=most) if built is not None else None,
            crash="; ".join(f"{task}: {error}" for task, error in sorted(self._crashes.items())) or None,
        )

    async def _supervise(self, task: str, step: Callable[[], Awaitable[None]]) -> None:
        """Repeat `step` without end; an unforeseen error is shown until the step succeeds again."""
        while True:
            try:
                await step()
                self._crashes.pop(task, None)
            except Exception as error:  # noqa: BLE001 - the supervisor: logs, makes unready, goes on
                self._crashes[task] = f"{type(error).__name__}: {error}"
                _log.exception("%s stopped by an unforeseen error", task)
                await asyncio.sleep(self.options.retry_max_s)

    async def _poll(self, state: _State) -> None:
        source, options, now_s = state.polled.source, self.options, self.clock.now_s()
        try:
            async with asyncio.timeout(options.fetch_timeout_s):
                batch = await source.fetch(now_s=now_s)
        except (NetworkSourceError, TimeoutError) as error:
            text = str(error) or f"no answer within {options.fetch_timeout_s:g} s"
            if text != state.status.error:
                _log.warning("network source failed", extra={"source": source.name, "error": text})
            state.status = replace(state.status, error=text, failures=state.status.failures + 1)
        else:
            if state.status.error is not None:
                _log.info("network source works again", extra={"source": source.name})
            state.status = replace(state.status, error=None, failures=0, last_success_s=now_s)
            if batch is not None:
                table = batch.measurements
                state.table = state.table if table == state.table else table  # one copy of what did not change
                state.endpoints = tuple(batch.endpoints)
                outcome = {"last_success_s": batch.fetched_at_s, "problems": batch.problems, "rejected": batch.rejected}
                sizes: dict[str, Any] = {"measurements": len(table), "endpoints": len(state.endpoints)}
                sizes["since_s"] = (state.status.since_s or batch.fetched_at_s) if len(table) else None
                state.status = replace(state.status, **outcome, **sizes)
        self._changed.set()
        pause_s = state.polled.interval_s
        if failures := state.status.failures:
            pause_s = Backoff(options.retry_min_s, max(options.retry_max_s, pause_s)).whole_s(failures)
        await asyncio.sleep(pause_s * (1.0 + options.jitter_ratio * (2.0 * self.jitter() - 1.0)))

    async def _rebuild_when_needed(self) -> None:
        wait_s = max(self._next_publish_s - self.clock.monotonic_s(), 0.0) if self._built is not None else None
        with suppress(TimeoutError):  # nothing changed but ages
            async with asyncio.timeout(wait_s):
                await self._changed.wait()
        self._changed.clear()
        asked = all(state.status.failures or state.status.last_success_s is not None for state in self._states)
        await self._build_and_publish()
        if asked:
            self.first_look.set()

    async def _build_and_publish(self) -> None:
        tables = {state.status.name: state.table for state in self._states if state.table is not None}
        if not tables:
            return
        given = Given(tables, tuple(state.endpoints for state in self._states), tuple(self.nodes()))
        last, options = self._built, self.options
        work = partial(build, given, last, options.network, zone_fallback=options.zone_fallback)
        values = sum(map(len, tables.values()))
        built = await off_loop(values + len(given.nodes), partial(work, now_s=self.clock.now_s()))
        now_s, monotonic_s = self.clock.now_s(), self.clock.monotonic_s()
        self._built = built
        same = last is not None and built.matrix is last.matrix
        if same and monotonic_s < self._next_publish_s:
            return
        self._next_publish_s = monotonic_s + options.reevaluate_s
        if same and not values:
            return
        if same:
            aged = replace(built.matrix, version=built.matrix.version + 1, evaluated_at_s=now_s)
            self._built = built = replace(built, matrix=aged)
        self._published_at_s = now_s
        if self.prepare is not None:
            await self.prepare(built.matrix)
        self.publish(built.matrix)
