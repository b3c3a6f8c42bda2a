"""Keep the keys for notes in step with their Secret, and put in new ones.

The Secret is in the manifests, empty: a right to create Secrets cannot be limited to a name, and would let its owner
have tokens of other accounts. Rules: what is in the Secret counts; a process signs with a key of its own until it has
read one there, and says that its notes do not last; keys that this process knows are put back when the Secret was
emptied or made again; only the replica that acts rotates. Of two writes the second has a conflict and reads the first.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from extender.errors import ApiError, ApiUnavailableError, ConflictError
from extender.notes.signatures import Key, KeyRing, Notes, RandomBytes, keys_of, renewed
from extender.ports import Clock, KeyStore, StoredKeys

READ_EACH_S: Final = 60.0
AGAIN_S: Final = 5.0
_CONFLICT_S: Final = 0.5

_log = logging.getLogger(__name__)


class KeyKeeper:
    """One process's view of the Secret; `run` it."""

    def __init__(self, store: KeyStore, clock: Clock, random_bytes: RandomBytes) -> None:
        self._store = store
        self._clock = clock
        self._random_bytes = random_bytes
        self._own = Key.new(0.0, random_bytes)  # Never stored: for as long as nothing is read
        self._known: tuple[Key, ...] = ()
        self._complaint = ""
        problem = f"Secret {store.place} has not been read yet"
        self.notes = Notes(KeyRing([self._own], now_s=clock.now_s()), problem=problem)
        self.answered = asyncio.Event()  # Set once the API server said what is in the Secret, or refused it
        self.acting: Callable[[], bool] = lambda: True
        self.on_change: Callable[[int], None] = lambda _: None  # With the number of keys, after each answer

    async def run(self) -> None:
        """Look at the Secret until cancelled."""
        while True:
            pause_s = await self.look()
            await asyncio.sleep(pause_s)

    async def look(self) -> float:
        """Read the Secret once, and write what is due; seconds until the next look."""
        try:
            stored = await self._store.read()
            if stored is not None:
                stored = await self._with_what_is_due(stored)
        except ConflictError:
            return _CONFLICT_S
        except ApiUnavailableError as error:
            self._complain(str(error))
            return AGAIN_S
        except ApiError as error:
            if self._known and (error.status == 429 or error.status >= 500):
                self._complain(str(error))
            else:
                self._refused(f"Secret {self._store.place}: {error}")
            return AGAIN_S
        if stored is None:
            self._refused(f"there is no Secret {self._store.place}: apply the manifests again")
            return AGAIN_S
        keys = keys_of(stored.data)
        if not keys:  # another client takes them out while we put them in
            return _CONFLICT_S
        self._adopt(keys)
        return READ_EACH_S

    async def _with_what_is_due(self, stored: StoredKeys) -> StoredKeys:
        """The Secret, with a first key if it has none, and another when the newest is old."""
        there = keys_of(stored.data)
        if there and not self.acting():
            return stored
        keys = renewed(there or self._known, now_s=self._clock.now_s(), random_bytes=self._random_bytes)
        if keys == there:
            return stored
        _log.info("a key for notes is written to Secret %s", self._store.place)
        return await self._store.write({key.name: key.secret for key in keys}, stored)

    def _adopt(self, keys: tuple[Key, ...]) -> None:
        self._known = keys
        self.notes.ring = KeyRing(keys, now_s=self._clock.now_s())
        self.notes.problem = ""
        self._complaint = ""
        self.on_change(len(keys))
        self.answered.set()

    def _refused(self, why: str) -> None:
        """The API server answered, and there are no keys: what is known still signs and checks, for this process."""
        self.notes.problem = why
        self._complain(why)
        self.on_change(0)
        self.answered.set()

    def _complain(self, why: str) -> None:
        if why != self._complaint and self.notes.problem:
            _log.warning("notes do not outlive this process, so no gang is suspended and no job resized: %s", why)
        elif why != self._complaint:
            _log.info("the keys for notes are those that were read last: %s", why)
        self._complaint = why
