"""Which gangs have started, and by which of their members the next process is to know it (docs/safety.md S23).

Why: a started gang that loses members is given successors, one that never started is evicted when it stays partial, and
what distinguishes them is that all of the minimum once had nodes. A process that saw that knows; one that starts with
the gang broken has only what was written before (`started_keeper`). Rules: a few members of each gang are noted, spread
over its order, so that some of them outlive a lost node or rack; when half of those have gone, others take their
places. That pods end is no reason to write: they are left out when the next gang starts.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from extender.controllers.context import ControllerContext
from extender.controllers.repair.started_document import MOST_NOTED, mark
from extender.runtime.slices import Steps
from scoring.ids import GangKey, PodUid
from scoring.model import Gang, GangSource, counts

NOTED: Final = 8  # Members of a gang that are noted; all of a smaller one
_GANGS_A_STEP: Final = 64


@dataclass(frozen=True, slots=True)
class Noted:
    """A gang that has started, and those of its members that are noted, by uid → what is written of each."""

    gang: Gang
    marks: dict[PodUid, str]


class StartedGangs:
    """All own gangs that have started. Bounded by the gangs that exist."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._noted: dict[GangKey, Noted] = {}
        self._crowded = False  # Not all of `NOTED` are written of each gang
        self.looked = False  # Nothing is to be written before
        self.left_out = 0  # Gangs that did not fit into the last text
        self.changes = 0  # Grows when there is something to write

    def look(self) -> Iterator[None]:
        """Once a second, in steps: see what is to be noted. Cost: O(gangs + members that changed)."""
        before, now = self._noted, {}  # type: dict[GangKey, Noted], dict[GangKey, Noted]
        news = False
        for number, (key, gang) in enumerate(self._context.cache.snapshot().gangs.items(), start=1):
            if number % _GANGS_A_STEP == 0:
                yield
            if not gang.started or not gang.own or gang.source is GangSource.NATIVE:
                continue
            known = before.get(key)
            if known is None or known.gang is not gang:
                marks = _marks_of(gang, known.marks if known is not None else {})
                news = (
                    news
                    or known is None
                    or (marks != known.marks if self._crowded else not marks.keys() <= known.marks.keys())
                )
                known = Noted(gang, marks)
            now[key] = known
        self._noted, self.looked = now, True
        self.changes += news

    def __len__(self) -> int:
        return len(self._noted)

    def to_write(self) -> Steps[list[str]]:
        """What is to be written, always in the same order: fewer members of each gang where all would be too many.

        Gangs that do not fit even so are left out, the oldest first. Cost: O(gangs log gangs).
        """
        found = sorted(self._noted.items())
        self.left_out = max(len(found) - MOST_NOTED, 0)
        if self.left_out:
            found = sorted(found, key=lambda item: -item[1].gang.created_s)[:MOST_NOTED]
        most = NOTED if len(found) * NOTED <= MOST_NOTED else max(MOST_NOTED // len(found), 1)
        self._crowded = most < NOTED
        marks: list[str] = []
        for number, (_, one) in enumerate(found, start=1):
            marks.extend(list(one.marks.values())[:most])
            if number % _GANGS_A_STEP == 0:
                yield
        return marks

    def lacks(self, marks: frozenset[str]) -> Steps[int]:
        """How many gangs have none of these. Cost: O(gangs)."""
        count = 0
        for number, one in enumerate(list(self._noted.values()), start=1):
            count += bool(one.marks) and marks.isdisjoint(one.marks.values())
            if number % _GANGS_A_STEP == 0:
                yield
        return count


def _marks_of(gang: Gang, before: dict[PodUid, str]) -> dict[PodUid, str]:
    """The members to be noted: of those that were, the ones that are there, and others once half of them have gone."""
    alive = [pod.uid for pod in gang.members if counts(pod) and not pod.terminal]
    there = set(alive)
    kept = {uid: text for uid, text in before.items() if uid in there}
    if len(kept) >= min(NOTED // 2, len(alive)) and before:
        return kept
    bare = [uid for uid in alive if uid not in kept]
    return kept | {uid: mark(gang.key, uid) for uid in spread(bare, NOTED - len(kept))}


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
