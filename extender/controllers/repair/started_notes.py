"""Note on members that their gang has started, so that the next process knows it too (docs/safety.md S23).

Why: a started gang that loses members is given successors, one that never started is evicted when it stays partial, and
what distinguishes them is that all of the minimum once had nodes. A process that saw that knows; one that starts with
the gang broken has only what was written before. Rules: one patch for each of a few members, spread over the gang's
order, so that a lost node or two leave one; signed (docs/safety.md S22); written once the gang is whole and again as
noted ones go; nothing waits for it, it is paced, and what fails is tried again at the next look.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Iterator, Sequence

from extender.controllers.context import ControllerContext
from extender.controllers.events.recorder import pod_subject
from extender.errors import ApiError, ApiUnavailableError
from extender.notes import NoteKind
from scoring.ids import GangKey, PodUid
from scoring.model import Gang, GangSource, Pod, counts

NOTED = 3  # Members that carry the note while they live; all of a smaller gang
_A_LOOK = 64  # Patches in a second at most: a storm of starts writes its notes when it is over
_TOGETHER = 4  # Patches under way at the same time
_GANGS_A_STEP = 64

_log = logging.getLogger(__name__)


class Starts:
    """Gangs that have started and whose members have no note of it yet. Bounded by the gangs that exist."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._settled: dict[GangKey, Gang] = {}  # gang → as it was when enough of its members carried the note
        self._due: deque[PodUid] = deque()
        self._written: set[PodUid] = set()  # Members whose note is written and may not be watched yet
        self._writing = context.background("starts")

    def look(self) -> Iterator[None]:
        """Once a second: see which notes are missing, and write some. Cost: O(gangs + members that changed)."""
        if self._writing.busy or self._context.notes.problem:
            return
        before, self._settled = self._settled, {}
        due: list[PodUid] = []
        written: set[PodUid] = set()
        for number, (key, gang) in enumerate(self._context.cache.snapshot().gangs.items(), start=1):
            if number % _GANGS_A_STEP == 0:
                yield
            if not gang.started or not gang.own or gang.source is GangSource.NATIVE:
                continue
            if before.get(key) is gang:
                self._settled[key] = gang
                continue
            missing = self._missing(gang)
            due.extend(missing)
            written.update(pod.uid for pod in gang.members if pod.uid in self._written and not self._shows(pod))
            if not missing:
                self._settled[key] = gang
        self._written = written
        if due:
            self._writing.start(self._write(due[:_A_LOOK]), "note starts")

    def forget(self) -> None:
        """Know nothing, as after a restart."""
        self._settled.clear()
        self._written.clear()

    def _missing(self, gang: Gang) -> list[PodUid]:
        alive = [pod for pod in gang.members if counts(pod) and not pod.terminal]
        noted = sum(self._shows(pod) or pod.uid in self._written for pod in alive)
        if noted >= min(NOTED, len(alive)):
            return []
        bare = [pod.uid for pod in alive if not self._shows(pod) and pod.uid not in self._written]
        return spread(bare, NOTED - noted)

    def _shows(self, pod: Pod) -> bool:
        """Whether the watch shows the note; the gang's record may be older."""
        known = self._context.cache.pod(pod.uid)
        return known is not None and known.started

    async def _write(self, uids: Sequence[PodUid]) -> None:
        for begin in range(0, len(uids), _TOGETHER):
            await asyncio.gather(*(self._note(uid) for uid in uids[begin : begin + _TOGETHER]))

    async def _note(self, uid: PodUid) -> None:
        pod = self._context.cache.pod(uid)
        if pod is None or pod.terminal or pod.deleting:
            return
        try:
            note = self._context.notes.write(NoteKind.STARTED, pod_subject(pod), "whole")
            await self._context.api.annotate_pod(pod.namespace, pod.name, uid, {NoteKind.STARTED.value: note})
        except (ApiError, ApiUnavailableError) as error:
            _log.info("the start of gang of pod %s is not noted: %s", pod.key, error)
        else:
            self._written.add(uid)


def spread(uids: Sequence[PodUid], count: int) -> list[PodUid]:
    """So many of them, the first, the last and evenly between.

    >>> spread("abcdefg", 3), spread("ab", 3), spread("abc", 1)
    (['a', 'd', 'g'], ['a', 'b'], ['a'])
    """
    if count >= len(uids):
        return list(uids)
    if count <= 1:
        return list(uids[:1])
    return [uids[round(number * (len(uids) - 1) / (count - 1))] for number in range(count)]
