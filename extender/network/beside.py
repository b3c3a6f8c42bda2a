"""Do something that may block for ever without holding up anybody.

Why not `asyncio.to_thread`: a file system that hangs (NFS) holds its thread for ever, and the threads of that pool are
few and are everybody's; the process would also wait for them at its end. Rule: a thread of its own that the process
does not wait for; whoever asks keeps to one at a time.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from threading import Thread
from typing import TypeVar

_Result = TypeVar("_Result")


def beside(work: Callable[[], _Result]) -> "asyncio.Future[_Result]":
    """Begin `work`; the future has its result or its error. Cancelling the future does not end the work."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[_Result] = loop.create_future()
    future.add_done_callback(_looked_at)

    def run() -> None:
        try:
            result = work()
        except Exception as error:  # noqa: BLE001 - whatever it is, the one who waits gets it
            _tell(future.set_exception, error)
        else:
            _tell(future.set_result, result)

    def _tell(setter: Callable[..., None], what: object) -> None:
        with suppress(RuntimeError):  # the loop has ended: nobody waits
            loop.call_soon_threadsafe(lambda: None if future.done() else setter(what))

    Thread(target=run, name="beside", daemon=True).start()
    return future


def _looked_at(future: "asyncio.Future[_Result]") -> None:
    """An error that nobody comes for is no defect: the next question gives it again."""
    if not future.cancelled():
        future.exception()
