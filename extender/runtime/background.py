"""Works that a part starts beside itself: kept while they run; a bug in one is counted and ends no other."""

import asyncio
import logging
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any

from extender.runtime.telemetry import Telemetry

_log = logging.getLogger(__name__)


@dataclass(eq=False, repr=False)
class Background:
    """The works of one part that are under way; `place` is a constant word for the count of bugs."""

    telemetry: Telemetry
    place: str
    _tasks: set[asyncio.Task[None]] = field(default_factory=set, init=False)

    @property
    def busy(self) -> bool:
        """Whether any work is under way."""
        return bool(self._tasks)

    def start(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """Begin a work; `name` is the task's, for the log."""
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    async def over(self) -> None:
        """Wait for all that is under way."""
        if self._tasks:
            await asyncio.wait(self._tasks)

    def cancel(self) -> None:
        """Break off all that is under way."""
        for task in self._tasks:
            task.cancel()

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("internal error: %s", task.get_name(), exc_info=error)
            self.telemetry.internal_error(self.place)
