"""Decisions for people: lines of the log, without the same refusal over and over, and the last ones in memory.

kube-scheduler asks again for every refused pod at every cluster event (over a thousand calls a second, measured). What
the log leaves out is not remembered either; all of it is bounded.
"""

import logging
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Final

import msgspec

from extender.ports import Clock
from scoring import GangKey
from scoring.records import Past

DECISIONS: Final = "netgang.decisions"

_decisions = logging.getLogger(DECISIONS)
_SHOWN: Final = ("pod", "gang", "node", "reason", "parts")
MOST_GANGS: Final = 5000
MOST_EACH: Final = 10
MOST_REASONS: Final = 3  # Reasons to wait in a row: they alternate all the time, and must not drive out what happened
MOST_GONE: Final = 128  # Gangs that are gone and kept: at the soak's rates those of the last minutes
MOST_CHANGES: Final = 60
_REASON: Final = "plan"  # The planner's word about a gang that waits


class Decision(msgspec.Struct, frozen=True):
    """One decision for the log. `reason` "" means yes; `parts` name → points show how a score came about."""

    what: str
    """filter, prioritize, bind, admit, lapse, degraded, nudge, evict, restart, suspend, resume, scale-in or -out."""
    pod: str = ""
    gang: str = ""
    node: str = ""
    reason: str = ""
    parts: Mapping[str, float] = {}
    snapshot_version: int = 0
    duration_ms: float = 0.0


@dataclass(eq=False, repr=False)
class DecisionLog:
    """Writes a refusal when it is new, and again after a while with how often it was left out; all else always."""

    _: KW_ONLY
    repeat_after_s: float = 60.0
    refusals_per_s_max: int = 100
    remembered_max: int = 10_000
    acting: Callable[[], bool] = lambda: True  # A standby's plans are not what happens, and are not written
    heard: Callable[[Decision], None] = lambda _: None  # Called with each written decision, whatever the level
    _seen: "OrderedDict[tuple[str, str, str], _Seen]" = field(default_factory=OrderedDict, init=False)
    """(what, pod or gang, reason) → when it was last written; the least recently written leaves first."""
    _second: int = field(default=0, init=False)
    _written_this_second: int = field(default=0, init=False)

    def log_decision(self, decision: Decision, *, now_s: float) -> bool:
        """Write `decision`, or leave it out as a repeated refusal; `False`: left out. `now_s`: monotonic."""
        repeated = 0
        if decision.what in {"admit", "plan"} and not self.acting():  # the planner runs in a standby too
            return False
        if decision.reason:
            if (seen := self._admit(decision, now_s)) is None:
                return False
            repeated, seen.left_out = seen.left_out, 0
        self.heard(decision)
        step = decision.what in {"filter", "ungate"}  # towards a bind, which says the same and is written
        level = logging.DEBUG if step and not decision.reason else logging.INFO
        if _decisions.isEnabledFor(level):  # a line for each pod, made directly: logging would search for the caller
            record = logging.LogRecord(DECISIONS, level, "", 0, decision.what, (), None)
            where = {name: shown for name in _SHOWN if (shown := getattr(decision, name))}
            cost = {"duration_ms": round(decision.duration_ms, 3), "repeated": repeated}
            cost = {name: value for name, value in cost.items() if value}
            record.fields = where | {"snapshot_version": decision.snapshot_version} | cost
            _decisions.handle(record)
        return True

    def _admit(self, decision: Decision, now_s: float) -> "_Seen | None":
        key = (decision.what, decision.pod or decision.gang, decision.reason)
        forgotten_s = now_s - 5.0 * self.repeat_after_s  # longer than kube-scheduler leaves a pod alone
        while self._seen and next(iter(self._seen.values())).written_s <= forgotten_s:
            self._seen.popitem(last=False)  # news, if it comes again: most refused gangs start, and are gone
        seen = self._seen.get(key)
        if seen is not None and now_s - seen.written_s < self.repeat_after_s:
            seen.left_out += 1
            return None
        if int(now_s) != self._second:
            self._second, self._written_this_second = int(now_s), 0
        if self._written_this_second >= self.refusals_per_s_max:
            return None
        self._written_this_second += 1
        if seen is None:
            seen = self._seen[key] = _Seen()
            if len(self._seen) > self.remembered_max:
                self._seen.popitem(last=False)
        seen.written_s = now_s
        self._seen.move_to_end(key)
        return seen


class _Seen(msgspec.Struct):
    written_s: float = 0.0
    left_out: int = 0


@dataclass(eq=False, repr=False)
class RecentDecisions:
    """One thread of control."""

    clock: Clock
    _: KW_ONLY
    exists: Callable[[GangKey], object] = lambda _: True  # Whether a gang does; None or False: it is gone
    count: int = field(default=0, init=False)  # Changes so far: with another number the list is another
    _of: OrderedDict[GangKey, tuple[Past, ...]] = field(default_factory=OrderedDict, init=False)
    """gang → its decisions, newest first; the gang with the newest one is the last"""
    _changes: deque[tuple[float, Decision]] = field(default_factory=lambda: deque(maxlen=MOST_CHANGES), init=False)
    _prune_at: int = field(default=MOST_GONE, init=False)

    def add(self, decision: Decision) -> None:
        """Keep a decision. Cost: O(1), and O(gangs) once in `MOST_GONE` / 2 new gangs."""
        now_s, what = self.clock.now_s(), decision.what
        if what not in {"filter", _REASON}:  # which the queue shows for every gang; all else changes something
            self._changes.appendleft((now_s, decision))
            self.count += 1
        if not decision.gang or what in {"filter", "prioritize"}:  # answers pod by pod, which the plan explains
            return
        gang = GangKey(decision.gang)
        before = self._of.get(gang, ())
        if what == _REASON and [past.what for past in before[:MOST_REASONS]] == [_REASON] * MOST_REASONS:
            before = before[: MOST_REASONS - 1] + before[MOST_REASONS:]
        where = " on ".join(filter(None, (decision.pod, decision.node)))
        self._of[gang] = (Past(now_s, what, decision.reason, where), *before[: MOST_EACH - 1])
        self._of.move_to_end(gang)
        if len(self._of) >= self._prune_at:
            gone = [gang for gang in self._of if not self.exists(gang)]
            for each in gone[: max(len(gone) - MOST_GONE // 2, 0)]:
                del self._of[each]
            self._prune_at = len(self._of) + MOST_GONE // 2
        if len(self._of) > MOST_GANGS:
            self._of.popitem(last=False)

    def changes(self) -> Sequence[tuple[float, Decision]]:
        """The last decisions that changed something, newest first, each with its moment in Unix seconds."""
        return tuple(self._changes)

    def of_gang(self, gang: GangKey) -> tuple[Past, ...]:
        """The last decisions about a gang, newest first, as they are explained."""
        return self._of.get(gang, ())
