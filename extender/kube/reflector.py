"""Keep a cache equal to the API server's objects of one kind.

Rules:
- List, then watch from the list's resourceVersion; resume from the last version seen when the watch ends; on 410 Gone
  list again; on silence longer than two minutes connect again. A relist replaces the cache in one step, and it is never
  older than what was seen before (docs/safety.md S11). Objects are reduced in slices that give the event loop back.
- No object stops it (docs/safety.md S21): one that cannot be read or taken over leaves the sink, and is noted.
- A kind under /apis/ that answers 404 in each of its versions is absent (its CustomResourceDefinition is not
  installed): an empty and synced cache, asked again twice a minute. A 404 for a core kind is an error like any other.
"""

import asyncio
import logging
import random
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field
from typing import Generic, NoReturn, Protocol, TypeVar

from extender.cache.state import LONGEST_KEY, UnreadableKind, words
from extender.convert.decode import Head, head_of
from extender.errors import ApiError, ApiUnavailableError, Backoff, GoneError, NotFoundError
from extender.kube.transport import refusal_in_stream
from extender.ports import Clock, ClusterApi, WatchEvent
from extender.runtime.slices import MOST_OBJECTS, Pages, next_slice
from extender.schemas import Watch

_log = logging.getLogger(__name__)

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)
_IDLE_S = 120.0  # API servers send a bookmark about once a minute; silence for longer: the server is gone
_WATCH_S = (240, 290)  # Bounds of its length, by chance, so that not all reconnect together
_SETTLED_S = 5.0  # A watch that lasted this long, or delivered something, ends a row of failures
_ABSENT_S = 30.0
_BACKOFF = Backoff(first_s=0.5, limit_s=30.0)


class Comeback:
    """Wakes all that wait for the API server when it answers again; shared by them.

    Each kind waits on its own after failures, so the last of ten would come back up to half a minute after the first.
    The first still waits its whole backoff: many processes that lost the API server do not come back together.
    """

    def __init__(self) -> None:
        self._answered = asyncio.Event()

    def heard(self) -> None:
        """The API server answered one of them."""
        self._answered.set()  # all that wait now go on
        self._answered.clear()

    async def wait(self, longest_s: float, *, rng: random.Random) -> None:
        """Return after `longest_s`, or up to half a second after another one heard from the API server."""
        with suppress(TimeoutError):
            async with asyncio.timeout(longest_s):
                await self._answered.wait()
                await asyncio.sleep(rng.uniform(0.0, 0.5))


class Sink(Protocol[T_contra]):
    """Keeps the objects of one kind. Its methods are called on the event loop, one at a time, and must not block."""

    def key(self, item: T_contra) -> str:
        """What an object is called: `namespace/name`, for kinds outside namespaces the name."""

    def put(self, item: T_contra) -> None:
        """Hold this object in place of the one with the same key, if there is one."""

    def remove(self, key: str) -> None:
        """Forget the object with this key; one that is not held is no error."""

    def list_begun(self, keys: Set[str]) -> None:
        """Hold only what is among these, which are put one by one next; readers see the old state until the end."""

    def list_ended(self) -> None:
        """Show all of it."""


@dataclass(eq=False, repr=False)
class Reflector(Generic[T]):
    """One kind: `run` keeps `sink` equal to the collection at `path`, as `reduce` sees it."""

    api: ClusterApi
    _: KW_ONLY
    path: str  # The one in use
    other_versions: Sequence[str] = ()  # Its paths where the first is not served, the most preferred first
    reduce: Callable[[bytes], T | None]  # Our record of an object's JSON; `None`: it is not wanted
    sink: Sink[T]
    clock: Clock
    rng: random.Random
    page: int = MOST_OBJECTS
    comeback: Comeback = field(default_factory=Comeback)
    unreadable: UnreadableKind = field(default_factory=lambda: UnreadableKind("", ""))

    def __post_init__(self) -> None:
        self.synced = asyncio.Event()  # Set once the sink first held the whole collection; never cleared
        self._version = ""  # last seen; "" before the first list
        self._relist = True
        self._may_be_cached = True  # whether the next list may come from the API server's cache
        self._failures = 0  # in a row
        self._away = False  # whether the last of them found no API server at all
        self._pages = Pages(self.api, most=self.page)
        self._absent = False
        self._paths = (self.path, *self.other_versions)
        self._not_served = 0  # How many of them in a row answered 404
        self._contact_s: float | None = None
        self._relists = self._watches = self._events = self._errors = 0
        self._last_error = ""
        self._logged: set[str] = set()  # Names of unreadable objects, so that each is logged once

    def status(self) -> Watch:
        """How this kind is doing now."""
        return Watch(
            path=self.path,
            synced=self.synced.is_set(),
            absent=self._absent,
            contact_age_s=None if self._contact_s is None else self.clock.monotonic_s() - self._contact_s,
            relists=self._relists,
            watches=self._watches,
            events=self._events,
            unreadable=self.unreadable.readings,
            unreadable_now=len(self.unreadable.now),
            errors=self._errors,
            last_error=self._last_error,
        )

    async def run(self) -> NoReturn:
        """Follow the collection until cancelled. No error ends it: each is counted, logged and waited out."""
        while True:
            try:
                if self._relist:
                    await self._list()
                await self._watch()
            except GoneError as error:
                self._relist = True
                await self._wait(error, at_once=self._failures == 0)
            except NotFoundError as error:
                self._relist = True
                self.path = self._paths[(self._paths.index(self.path) + 1) % len(self._paths)]
                self._not_served = (self._not_served + 1) % len(self._paths)
                if self._not_served:
                    continue
                if self.path.startswith("/apis/"):
                    await self._wait_until_it_may_exist()
                else:
                    await self._wait(error)
            except (ApiError, ApiUnavailableError) as error:
                await self._wait(error)
            except Exception as error:  # noqa: BLE001 - supervisor: a defect must not end the following of a kind
                _log.exception("%s: following failed; starting again", self.path)
                self._relist = True
                await self._wait(error)

    async def _list(self) -> None:
        items: dict[str, T] = {}
        unreadable: set[str] = set()
        # After a 504 (the API server's cache is behind what we saw, or storage was restored from a backup) the next
        # list is read from storage, which is newest by definition.
        not_older_than = self._version if self._may_be_cached else ""
        self._may_be_cached = True
        try:
            async for raw in self._pages.items(self.path, not_older_than=not_older_than):
                try:
                    item = self.reduce(raw)
                    if item is not None:
                        items[self.sink.key(item)] = item
                except Exception as error:  # noqa: BLE001 - a tenant's object: docs/safety.md S21
                    unreadable.add(self._cannot_read(head_of(raw) or Head(), error))
        except ApiError as error:
            self._may_be_cached = error.status != 504
            raise
        self.unreadable.keep_only(unreadable | await self._take_over(items))
        self._version = self._pages.version
        self._relist = self._absent = False
        self._not_served = 0
        self._relists += 1
        self._heard()
        self.synced.set()

    async def _take_over(self, items: Mapping[str, T]) -> set[str]:
        """Hold a complete list, and nothing else; keys of what the sink cannot take over."""
        refused: set[str] = set()
        try:
            self.sink.list_begun(items.keys())
            for number, (key, item) in enumerate(items.items(), start=1):
                try:
                    self.sink.put(item)
                except Exception as error:  # noqa: BLE001 - a tenant's object: docs/safety.md S21
                    self._forget(Head(key))
                    refused.add(self._cannot_read(Head(key), error))
                if number % 100 == 0:  # 1 to 4 ms
                    await next_slice()
        finally:
            self.sink.list_ended()
        return refused

    async def _watch(self) -> None:
        self._watches += 1
        begun_s = self.clock.monotonic_s()
        heard = False
        loop = asyncio.get_running_loop()
        watch_s = self.rng.randint(*_WATCH_S)
        stream = self.api.watch(self.path, resource_version=self._version, timeout_s=watch_s)
        try:
            async with asyncio.timeout(_IDLE_S) as watchdog:
                async for event in stream:
                    self._apply(event)
                    heard = True
                    self._failures = 0
                    watchdog.reschedule(loop.time() + _IDLE_S)
                    await self._pages.share_the_loop(event.object)
        except TimeoutError as error:
            # Silent from its beginning: the version may be one that the server has not reached (its storage was
            # restored from a backup), and would stay silent without end.
            self._relist = not heard
            raise ApiUnavailableError(f"{self.path}: the watch was silent for {_IDLE_S:g} s") from error
        finally:
            if isinstance(stream, AsyncGenerator):
                await stream.aclose()
        if heard or self.clock.monotonic_s() - begun_s >= _SETTLED_S:
            self._failures = 0
            return
        raise ApiUnavailableError(f"{self.path}: the watch ended at once")

    def _apply(self, event: WatchEvent) -> None:
        """Carry one event over to the sink. ApiError: it is of type ERROR."""
        if event.type == "ERROR":
            raise refusal_in_stream(event.object)
        if event.type not in ("ADDED", "MODIFIED", "DELETED", "BOOKMARK"):
            raise ApiUnavailableError(f"{self.path}: watch event of unknown type {event.type[:40]!r}")
        self._events += 1
        self._heard()
        head = head_of(event.object)
        if head is None:  # it is not known which object it is about; the next event about that one will
            self._cannot_read(Head(), ValueError("its metadata cannot be read"))
            return
        if event.type == "DELETED":
            self._forget(head)
        elif event.type != "BOOKMARK":
            try:
                item = self.reduce(event.object)
                if item is None:
                    self._forget(head)
                else:
                    self.sink.put(item)
                    self.unreadable.passed(head.key)
            except Exception as error:  # noqa: BLE001 - a tenant's object: docs/safety.md S21
                self._forget(head)
                self._cannot_read(head, error)
        self._version = head.resource_version or self._version

    def _forget(self, head: Head) -> None:
        self.unreadable.passed(head.key)
        try:
            self.sink.remove(head.key)
        except Exception as error:  # noqa: BLE001 - what a tenant's object left behind: docs/safety.md S21
            self._cannot_read(head, error)

    def _cannot_read(self, head: Head, error: Exception) -> str:
        """Note it, and log it once by name; the object's key."""
        key = head.key
        self.unreadable.failed(key, error, uid=head.uid)
        name = key[:LONGEST_KEY] or "an object without readable metadata"
        if name not in self._logged and len(self._logged) < 1000:
            self._logged.add(name)
            ours = None if isinstance(error, ValueError) else error  # then a reader of ours has a fault, too
            _log.warning("%s: %s cannot be read and is left out: %s", self.path, name, words(error), exc_info=ours)
        return key

    async def _wait_until_it_may_exist(self) -> None:
        if not self._absent:
            _log.info("%s: not installed; asking again every %g s", self.path, _ABSENT_S)
        await self._take_over({})
        self._absent = True
        self._version = ""  # versions of a kind that was removed mean nothing to its successor
        self._failures = 0
        self._heard()
        self.synced.set()
        await asyncio.sleep(_ABSENT_S * self.rng.uniform(0.9, 1.1))

    async def _wait(self, error: Exception, *, at_once: bool = False) -> None:
        away = isinstance(error, ApiUnavailableError)
        if self._away and not away:
            self._failures = 0  # it is back and only not ready for this: another row of failures, with short pauses
        self._away = away
        self._failures += 1
        self._errors += 1
        self._last_error = str(error)
        overloaded = isinstance(error, ApiError) and error.status == 429
        if self._failures >= 5 and not overloaded:  # the version itself is suspect
            self._relist = True
        _log.debug("%s: %s (failure %d in a row)", self.path, error, self._failures)
        if not at_once:
            asked_s = error.retry_after_s if isinstance(error, ApiError) else None
            delay_s = _BACKOFF.delay_s(self._failures, rng=self.rng, retry_after_s=asked_s)
            if away:
                await self.comeback.wait(delay_s, rng=self.rng)
            else:  # it answers, only not this: that others hear from it says nothing
                await asyncio.sleep(delay_s)

    def _heard(self) -> None:
        self._contact_s = self.clock.monotonic_s()
        self.comeback.heard()
