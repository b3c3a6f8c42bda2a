"""Keep the gangs that have started in netgang's ConfigMap, so that the next process knows them (docs/safety.md S23).

Why: a started gang that loses members is given successors, one that never started is evicted when it stays partial; a
process that starts with the gang broken has only what was written before. Why not a note on pods: a patch of a pod
costs the API server twice a Binding. The ConfigMap is in the manifests: a right to create cannot be limited to a name.

What is in it: hashes over gang and uid of the members noted. uids are the API server's, so no tenant can choose a pod
whose hash is there, and none may write in netgang's namespace. `MOST_TEXT` holds 47,000 members: 8 of each of 5,900
gangs, fewer of each of more; of over 47,000 gangs the oldest are left out.

Rules: it is read before the first plan, when a term begins and once a minute; only the replica that acts writes it,
with the version that was read, and puts back what another client took out. The members noted are spread over the gang,
so that some outlive a lost rack; others follow when half have gone. What fails is said (log, `/readyz`).
"""

import logging
from base64 import urlsafe_b64encode
from collections.abc import Sequence
from hashlib import blake2b
from typing import Final, TypeAlias

from extender.controllers.context import ControllerContext, ControlLoop
from extender.errors import ApiError, ApiUnavailableError, Backoff, ConflictError
from extender.ports import StoredText, TextStore
from extender.runtime.slices import Steps, in_slices
from scoring import GangKey, PodUid
from scoring.model import Gang, GangSource, counts

READ_EACH_S: Final = 60.0
WRITE_EACH_S: Final = 5.0
CHARS_A_SECOND: Final = 50_000  # That are written at most: the longest text once in eleven seconds
_AGAIN: Final = Backoff(5.0, 60.0)
MOST_TEXT: Final = 512 * 1024  # Characters; a ConfigMap has at most 1 MiB in all
CHARS: Final = 11  # Of a hash
MOST_NOTED: Final = MOST_TEXT // CHARS  # Members
NOTED: Final = 8  # Members of a gang that are noted; all of a smaller one
_CONFLICT_S: Final = 1.0

Marks: TypeAlias = dict[PodUid, str]  # Member that is noted → what is written of it

_log = logging.getLogger(__name__)


class StartedGangsConfigMap(ControlLoop):
    """One process's view of the ConfigMap. Bounded by the gangs that exist."""

    leads_only = False

    def __init__(self, context: ControllerContext, store: TextStore) -> None:
        super().__init__(context)
        self._store = store
        self.problem = "they have not been read yet"  # Why starts do not outlive this process; empty: they do
        self.left_out = 0  # Gangs that do not fit into the text
        self._noted: dict[GangKey, tuple[Gang, Marks]] = {}  # Own gangs that have started
        self._stored: StoredText | None = None  # As it was read or written last
        self._written: frozenset[str] = frozenset()  # The marks in it
        self._read_s = 0.0  # When it is to be read again, monotonic
        self._failures = 0  # In a row
        self._complaint = ""

    def reset(self) -> None:
        """A term begins or ends: another replica may have written, so it is read again."""
        self._read_s = 0.0

    async def reconcile(self) -> float:
        """Read the ConfigMap if that is due, and write what is new; seconds until the next look."""
        try:
            if self._stored is None or self.context.clock.monotonic_s() >= self._read_s:
                stored = await self._store.read()
                if stored is None:
                    return self._failed(f"there is no ConfigMap {self._store.place}: apply the manifests again")
                if self._stored is None or stored.resource_version != self._stored.resource_version:
                    self._written, self.problem = _marks_in(stored.text), ""
                    if len(stored.text) > MOST_TEXT:
                        why = f"it is longer than {MOST_TEXT} characters"
                        self._written, self.problem = frozenset(), f"ConfigMap {self._store.place} is not used: {why}"
                    elif self._written:
                        self.context.cache.note_starts(await in_slices(self._members()))
                self._stored, self._read_s = stored, self.context.clock.monotonic_s() + READ_EACH_S
            if self.context.acting() and (text := await in_slices(self.to_write())) is not None:
                self._stored = await self._store.write(text, self._stored)
                self._written, self.problem = _marks_in(text), ""
        except ConflictError:
            self._stored = None
            return _CONFLICT_S
        except (ApiError, ApiUnavailableError) as error:
            self._stored = None
            return self._failed(f"ConfigMap {self._store.place}: {error}")
        self._failures = 0
        self._complain()
        return max(WRITE_EACH_S, len(self._stored.text) / CHARS_A_SECOND)

    def to_write(self) -> Steps[str | None]:
        """The text to be written; `None`: what is there has all. O(gangs + changed members), O(g log g) if due."""
        before, noted = self._noted, dict[GangKey, tuple[Gang, Marks]]()
        for key, gang in self.context.cache.snapshot().gangs.items():
            yield
            if gang.started and gang.own and gang.source is not GangSource.NATIVE:
                last = before.get(key)
                if last is None or last[0] is not gang:
                    last = gang, _marks_of(gang, last[1] if last is not None else {})
                noted[key] = last
        self._noted = noted
        yield
        gangs = list(noted.values())
        self.left_out = max(len(gangs) - MOST_NOTED, 0)
        if self.left_out:
            gangs = sorted(gangs, key=lambda marked: -marked[0].created_s)[:MOST_NOTED]
        most = NOTED if len(gangs) * NOTED <= MOST_NOTED else max(MOST_NOTED // len(gangs), 1)
        if not self.problem and all(self._written.issuperset(list(marks.values())[:most]) for _, marks in gangs):
            return None
        yield
        gangs.sort(key=lambda marked: marked[0].key)
        return "".join(mark for _, marks in gangs for mark in list(marks.values())[:most])

    def _members(self) -> Steps[dict[PodUid, GangKey]]:
        """Members of gangs that this process has not seen start, and that are noted. Cost: O(their members)."""
        members: dict[PodUid, GangKey] = {}
        for key, gang in self.context.cache.snapshot().gangs.items():
            yield
            for pod in gang.members if gang.own and not gang.started else ():
                if counts(pod) and mark_of(key, pod.uid) in self._written:
                    members[pod.uid] = key
        return members

    def _failed(self, why: str) -> float:
        self.problem = why
        self._complain()
        self._failures += 1
        return _AGAIN.whole_s(self._failures)

    def _complain(self) -> None:
        words = self.problem or (f"{self.left_out} gangs do not fit" if self.left_out else "")
        if words and words != self._complaint:
            _log.warning("a netgang that starts would not know that gangs have started: %s", words)
        elif self._complaint and not words:
            _log.info("gangs that have started are kept in ConfigMap %s", self._store.place)
        self._complaint = words


def mark_of(gang: GangKey, uid: PodUid) -> str:
    """What stands for this member of this gang: another run, or a pod labelled into another gang, has another.

    >>> len(mark_of(GangKey("team/g"), PodUid("u"))) == CHARS
    True
    """
    digest = blake2b(f"{gang}\0{uid}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return urlsafe_b64encode(digest)[:CHARS].decode()


def _marks_in(text: str) -> frozenset[str]:
    return frozenset(text[begin : begin + CHARS] for begin in range(0, len(text), CHARS))


def _marks_of(gang: Gang, before: Marks) -> Marks:
    """The members to be noted: of those that were, the ones that are there, and others once half of them have gone."""
    alive = [pod.uid for pod in gang.members if counts(pod) and not pod.terminal]
    left = {uid: before[uid] for uid in alive if uid in before}
    if len(left) >= min(NOTED // 2, len(alive)) and before:
        return left
    bare = [uid for uid in alive if uid not in left]
    return left | {uid: mark_of(gang.key, uid) for uid in spread(bare, NOTED - len(left))}


def spread(uids: Sequence[PodUid], count: int) -> list[PodUid]:
    """So many of them, the first, the last and evenly between.

    >>> spread("abcdefg", 3), spread("ab", 3), spread("abc", 1)
    (['a', 'd', 'g'], ['a', 'b'], ['a'])
    """
    if count >= len(uids) or count <= 1:
        return list(uids[: max(count, 1)])
    return [uids[round(number * (len(uids) - 1) / (count - 1))] for number in range(count)]
