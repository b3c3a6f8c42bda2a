"""Serve documents one after the other, so that many clients of them do not keep kube-scheduler waiting.

Why: in one turn the event loop goes on with all that is ready. Eight hundred clients that ask for /metrics made turns
of two seconds, and /filter waited for each. Rule (docs/safety.md S28, S15): one document begins in a turn of the loop;
while others wait there is a pause after each, which is the verbs'. A document that none waits behind is not delayed.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

PAUSE_S: Final = 0.001  # Between documents while others wait: they take less than half of the loop


class DocumentLine:
    """Whose document begins next, at one port. Bounded by its connections."""

    def __init__(self) -> None:
        self._waiting: deque[Callable[[], bool]] = deque()
        self._moves = False

    def __len__(self) -> int:
        return len(self._waiting)

    def enter(self, begin: Callable[[], bool]) -> None:
        """Call `begin` now, or when it is next; `False` from it: no client waits for that one any more."""
        if self._moves:
            self._waiting.append(begin)
        else:
            self._begin(begin)

    def _begin(self, begin: Callable[[], bool]) -> bool:
        self._moves = True
        asyncio.get_running_loop().call_soon(self._move)  # before what `begin` puts into the loop's next turn
        return begin()

    def _move(self) -> None:
        self._moves = bool(self._waiting)
        if self._moves:
            asyncio.get_running_loop().call_later(PAUSE_S, self._next)

    def _next(self) -> None:
        while self._waiting:
            if self._waiting[0]():
                self._waiting.popleft()
                asyncio.get_running_loop().call_soon(self._move)
                return
            self._waiting.popleft()
        self._moves = False
