"""Run something that may block without end, in a thread of its own.

Why not `asyncio.to_thread`: a file system that hangs (NFS) blocks its thread without end, and the threads of that pool
are few and shared; the process would also wait for them at its end. Rule: a thread of its own that the process
does not wait for; the caller keeps to one at a time.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from threading import Thread
from typing import TypeVar

_Result = TypeVar("_Result")


def beside(work: Callable[[], _Result], *, errors: type[Exception]) -> "asyncio.Future[_Result]":
    """Begin `work`; the future has its result, or its error of the kinds it is known to have.

    Any other error is a defect: its traceback goes to standard error, and the future has a RuntimeError, so that no
    caller waits without end. Cancelling the future does not end the work.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[_Result] = loop.create_future()
    future.add_done_callback(_looked_at)

    def run() -> None:
        defect = RuntimeError("work beside the event loop ended by a defect: see standard error")
        tell: Callable[[], None] = partial(future.set_exception, defect)
        try:
            tell = partial(future.set_result, work())
        except errors as error:
            tell = partial(future.set_exception, error)
        finally:
            with suppress(RuntimeError):  # the loop has ended: nothing waits
                loop.call_soon_threadsafe(lambda: None if future.done() else tell())

    Thread(target=run, name="beside", daemon=True).start()
    return future


def _looked_at(future: "asyncio.Future[_Result]") -> None:
    """An error that no caller fetches is no defect: the next question gives it again."""
    if not future.cancelled():
        future.exception()
