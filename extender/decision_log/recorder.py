"""Keep the last megabytes of decisions in memory, beside the event loop.

Why beside it: writing a decision down costs more than half of making it, and no caller waits for it. What is handed
over are immutable values, so a thread may write them while the loop goes on. Rules:

- Bounded: in what waits to be written and in what is kept. The oldest chapter is dropped first; when writing does not
  keep up, entries are left out, the log says how many, and a new chapter begins.
- Off, it costs one comparison a decision.
"""

import asyncio
import gzip
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from extender.decision_log.change import NOTHING, between
from extender.decision_log.entries import FORMAT, Began, Lost, Ran, Stepped, digest_of, encoded, tagged
from scoring.feasibility.quorum import Quorum
from scoring.ids import GangKey
from scoring.model.policy import Policy
from scoring.model.snapshot import Snapshot
from scoring.permit.machine import handle
from scoring.permit.protocol import Event, Instruction
from scoring.permit.state import PermitState
from scoring.plan import Plan

_WAITING_MOST: Final = 4096
_PAUSE_S: Final = 0.25
_CHAPTER_BYTES: Final = 8 * 1024 * 1024
"""Of a chapter before it is compressed, about a tenth after."""
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


class Recorder:
    """The last decisions of one process."""

    def __init__(
        self,
        policy: Policy,
        *,
        most_bytes: int,
        lost: Callable[[int], None],
        chapter_bytes: int = _CHAPTER_BYTES,
        waiting_most: int = _WAITING_MOST,
    ) -> None:
        self._policy = policy
        self._most_bytes = most_bytes
        self._chapter_bytes = chapter_bytes
        self._waiting_most = waiting_most
        self._report_lost = lost
        self._waiting: deque[_Happened] = deque()
        self._left_out = 0
        self._one_at_a_time = asyncio.Lock()
        self._chapters: deque[bytes] = deque()
        """Compressed, oldest first."""
        self._open = bytearray()
        """Entries of the chapter that is being written."""
        self._plan: Plan | None = None
        """The last one written in this chapter; `None`: there is no chapter yet."""
        self._snapshot = NOTHING
        self._states: dict[GangKey, PermitState] = {}
        """Gang → what its last step in this chapter left."""

    def heard(self, happened: _Happened) -> None:
        """Take note of a decision; O(1)."""
        if len(self._waiting) >= self._waiting_most:
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
            await asyncio.to_thread(self._write, *self._taken())

    def _taken(self) -> tuple[Sequence[_Happened], int]:
        taken, left_out = tuple(self._waiting), self._left_out
        self._waiting.clear()
        self._left_out = 0
        if left_out:
            self._report_lost(left_out)
        return taken, left_out

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
        if self._plan is not run.previous or len(self._open) > self._chapter_bytes:
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
        while sum(map(len, self._chapters)) > self._most_bytes:
            self._chapters.popleft()
        self._open = bytearray(encoded(Began(FORMAT, run.at_s, self._policy, run.previous)))
        self._snapshot = NOTHING
        self._states = {}
