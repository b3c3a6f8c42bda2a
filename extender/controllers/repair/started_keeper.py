"""Keep the gangs that have started in netgang's ConfigMap, so that the next process knows them (docs/safety.md S23).

Why one object and not a note on pods: a patch of a pod costs the API server twice a Binding. The ConfigMap is in the
manifests, empty: a right to create them cannot be limited to a name. Rules: what is in it counts; it
is read before the first plan, when a term begins and once a minute; only the replica that acts writes it, all starts
of the last seconds at once and with the version that was read, so after a conflict it is read first; a process puts
back what another client took out. What cannot be read or written is said (log, `/readyz`) and tried again; then
a gang counts as started if this process saw that, and nothing else stops.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from typing import Final

from extender.cache import ClusterCache
from extender.controllers.repair.started_document import mark, marks_of
from extender.controllers.repair.started_gangs import StartedGangs
from extender.errors import ApiError, ApiUnavailableError, ConflictError
from extender.ports import Clock, StoredText, TextStore
from extender.runtime.slices import Steps, in_slices
from scoring.ids import GangKey, PodUid
from scoring.model import counts

READ_EACH_S: Final = 60.0
WRITE_EACH_S: Final = 5.0
CHARS_A_SECOND: Final = 50_000  # That are written at most: the longest text once in eleven seconds
AGAIN_S: Final = 5.0
MOST_AGAIN_S: Final = 60.0
_CONFLICT_S: Final = 1.0
_GANGS_A_STEP: Final = 64

_log = logging.getLogger(__name__)


@dataclass(eq=False, repr=False)
class StartedKeeper:
    """One process's view of the ConfigMap; `run` it."""

    store: TextStore
    started: StartedGangs
    cache: ClusterCache
    clock: Clock
    _: KW_ONLY
    acting: Callable[[], bool] = lambda: True
    problem: str = "they have not been read yet"  # Why starts do not outlive this process; empty: they do
    _stored: StoredText | None = field(default=None, init=False)  # As it was read or written last
    _read_s: float = field(default=0.0, init=False)  # When it is to be read again, monotonic
    _written: int = field(default=0, init=False)  # `changes` of what is in it
    _spoilt: bool = field(default=False, init=False)  # It lacks what this process knows
    _again_s: float = field(default=AGAIN_S, init=False)
    _complaint: str = field(default="", init=False)

    async def run(self) -> None:
        """Look at the ConfigMap until cancelled."""
        while True:
            pause_s = await self.look()
            await asyncio.sleep(pause_s)

    def read_again(self) -> None:
        """A term begins: another replica may have written."""
        self._read_s = 0.0

    async def look(self) -> float:
        """Read the ConfigMap if that is due, and write what is new; seconds until the next look."""
        try:
            if self._stored is None or self.clock.monotonic_s() >= self._read_s:
                stored = await self.store.read()
                if stored is None:
                    return self._failed(f"there is no ConfigMap {self.store.place}: apply the manifests again")
                if self._stored is None or stored.resource_version != self._stored.resource_version:
                    await self._adopt(stored)
                self._read_s = self.clock.monotonic_s() + READ_EACH_S
            if self.acting() and self.started.looked and (self._spoilt or self._written != self.started.changes):
                await self._write()
        except ConflictError:
            self._stored = None
            return _CONFLICT_S
        except (ApiError, ApiUnavailableError) as error:
            self._stored = None
            return self._failed(f"ConfigMap {self.store.place}: {error}")
        self._again_s = AGAIN_S
        self._said()
        return max(WRITE_EACH_S, len(self._stored.text) / CHARS_A_SECOND if self._stored is not None else 0.0)

    async def _adopt(self, stored: StoredText) -> None:
        """Gangs that are in it have started; what this process knows is put back if that is not in it."""
        try:
            marks = marks_of(stored.text)
            self.problem = ""
        except ValueError as error:
            marks = frozenset()
            self.problem = f"ConfigMap {self.store.place} is not used: {error}"
        if marks:
            self.cache.note_starts(await in_slices(self._members(marks)))
        self._spoilt = bool(self.problem) or await in_slices(self.started.lacks(marks)) > 0
        self._stored = stored

    def _members(self, marks: frozenset[str]) -> Steps[dict[PodUid, GangKey]]:
        """Members of gangs that this process has not seen start, and that are noted. Cost: O(their members)."""
        found: dict[PodUid, GangKey] = {}
        for number, (key, gang) in enumerate(self.cache.snapshot().gangs.items(), start=1):
            if number % _GANGS_A_STEP == 0:
                yield
            if gang.own and not gang.started:
                found |= {pod.uid: key for pod in gang.members if counts(pod) and mark(key, pod.uid) in marks}
        return found

    async def _write(self) -> None:
        changes, over = self.started.changes, self._stored
        if over is None:  # for the type checker: it was read
            return
        text = "".join(await in_slices(self.started.to_write()))
        if text != over.text or self.problem:
            self._stored = await self.store.write(text, over)
        self._written, self.problem, self._spoilt = changes, "", False

    def _failed(self, why: str) -> float:
        self.problem = why
        self._said()
        pause_s, self._again_s = self._again_s, min(2.0 * self._again_s, MOST_AGAIN_S)
        return pause_s

    def _said(self) -> None:
        left_out = self.started.left_out
        said = self.problem or (f"{left_out} gangs do not fit" if left_out else "")
        if said and said != self._complaint:
            _log.warning("a netgang that starts would not know that gangs have started: %s", said)
        elif self._complaint and not said:
            _log.info("gangs that have started are kept in ConfigMap %s", self.store.place)
        self._complaint = said
