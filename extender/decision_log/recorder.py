"""Keep the last megabytes of decisions in memory, beside the event loop.

Why beside it: writing a decision costs more than half of making it, and no caller waits for it. What is handed over is
immutable, so a thread may write it while the loop goes on. Rules: bounded, in what waits to be written and in what is
kept; the oldest chapter is dropped first. When writing does not keep up, entries are left out, the log counts them, and
a new chapter begins. Off, it costs one comparison a decision.
"""

import asyncio
import gzip
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Final, TypeAlias

from extender.decision_log.change import NOTHING, between
from extender.decision_log.entries import FORMAT, Began, Lost, Ran, Stepped, digest_of, encoded, tagged
from scoring.feasibility.quorum import Quorum
from scoring.ids import GangKey
from scoring.model import Policy, Snapshot
from scoring.permit.machine import handle
from scoring.permit.protocol import Event, Instruction, PermitState
from scoring.plan import Plan

_PAUSE_S: Final = 0.25
_LEVEL: Final = 1


@dataclass(frozen=True, slots=True)
class Run:
    """A planner run as it happened."""

    at_s: float
    snapshot: Snapshot
    previous: Plan
    made: Plan


@dataclass(frozen=True, slots=True)
class Step:
    """A step of a gang's permit machine as it happened."""

    gang: GangKey
    before: PermitState
    event: Event
    quorum: Quorum
    instructions: tuple[Instruction, ...]


_Happened: TypeAlias = Run | Step


@dataclass(eq=False, repr=False)
class Recorder:
    """The last decisions of one process."""

    policy: Policy
    _: KW_ONLY
    most_bytes: int
    lost: Callable[[int], None]  # Called with the number of entries that were left out
    chapter_bytes: int = 8 * 1024 * 1024  # Of a chapter before it is compressed, about a tenth after
    waiting_most: int = 4096
    _waiting: deque[_Happened] = field(default_factory=deque, init=False)
    _left_out: int = field(default=0, init=False)
    _one_at_a_time: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)
    _chapters: deque[bytes] = field(default_factory=deque, init=False)  # Compressed, oldest first
    _open: bytearray = field(default_factory=bytearray, init=False)  # Entries of the chapter that is being written
    _plan: Plan | None = field(default=None, init=False)  # The last one of this chapter; `None`: there is no chapter
    _snapshot: Snapshot = field(default=NOTHING, init=False)
    _states: dict[GangKey, PermitState] = field(default_factory=dict, init=False)  # Gang → what its last step left

    def heard(self, happened: _Happened) -> None:
        """Take note of a decision; O(1)."""
        if len(self._waiting) >= self.waiting_most:
            self._left_out += 1
            return
        self._waiting.append(happened)

    async def run(self) -> None:
        """Write what was heard, until cancelled."""
        while True:
            await asyncio.sleep(_PAUSE_S)
            if self._waiting or self._left_out:
                await self._write_down()

    async def log(self) -> bytes:
        """The whole log up to now, compressed."""
        await self._write_down()
        return b"".join((*self._chapters, gzip.compress(bytes(self._open), _LEVEL)))

    async def _write_down(self) -> None:
        async with self._one_at_a_time:
            taken, left_out = tuple(self._waiting), self._left_out
            self._waiting.clear()
            self._left_out = 0
            if left_out:
                self.lost(left_out)
            await asyncio.to_thread(self._write, taken, left_out)

    def _write(self, taken: Sequence[_Happened], left_out: int) -> None:
        for happened in taken:
            if isinstance(happened, Run):
                self._write_run(happened)
            else:
                self._write_step(happened)
        if left_out:
            self._open += encoded(Lost(left_out))
            self._plan = None

    def _write_run(self, run: Run) -> None:
        if self._plan is not run.previous or len(self._open) > self.chapter_bytes:
            self._begin(run)
        self._open += encoded(Ran(run.at_s, between(self._snapshot, run.snapshot), digest_of(run.made)))
        self._snapshot, self._plan = run.snapshot, run.made

    def _write_step(self, step: Step) -> None:
        if self._plan is None:
            return  # no chapter yet: the next run begins one
        known = self._states.get(step.gang) == step.before
        instructions = tuple(tagged(one) for one in step.instructions)
        state = None if known else step.before
        self._open += encoded(Stepped(step.gang, state, tagged(step.event), step.quorum, instructions))
        self._states[step.gang] = handle(step.before, step.event, step.quorum)[0]

    def _begin(self, run: Run) -> None:
        """A new chapter; the one before is closed, and the oldest go that are too many."""
        if self._open:
            self._chapters.append(gzip.compress(bytes(self._open), _LEVEL))
        while sum(map(len, self._chapters)) > self.most_bytes:
            self._chapters.popleft()
        self._open = bytearray(encoded(Began(FORMAT, run.at_s, self.policy, run.previous)))
        self._snapshot = NOTHING
        self._states = {}
