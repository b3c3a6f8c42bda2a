"""A mesh file as a source of measurements, read again whenever it changes.

Why: files reach a pod as a mounted ConfigMap (a symlink that is exchanged), by `rename`, or by an editor that writes in
place; each must be noticed, and none may give half a file; and a file system may hang. Rule: the event loop never
waits for a file, which has a thread of its own (`_beside`); the identity (device, inode, size, mtime) is taken from the
opened file and compared before and after reading; a file that cannot be used is an error as long as it is there, and
the data read before it stays with the caller that has it.
"""

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Final, TypeAlias, TypeVar

from extender.errors import ConfigError, NetworkSourceError
from extender.network.file.mesh import BODY_LIMIT_BYTES, parse_mesh
from extender.ports import Batch

_TRIES: Final = 3
_Identity: TypeAlias = tuple[int, int, int, int]
_Result = TypeVar("_Result")


class MeshFileSource:
    """A NetworkSource over one file. `fetch` is called by one task at a time."""

    def __init__(self, path: Path, *, name: str = "file", timeout_s: float = 10.0) -> None:
        """`timeout_s`: how long one fetch waits for a file system."""
        self._path = path
        self._timeout_s = timeout_s
        self._look: asyncio.Future[Batch | None] | None = None  # One that has started, its result not taken yet
        self.name = name
        self._seen: _Identity | None = None
        self._refusal: str | None = None

    async def fetch(self, *, now_s: float) -> Batch | None:
        """Read the file if it changed; `None` if not. Ages count back from the file's mtime.

        Errors: NetworkSourceError when the file is missing or wrong, the same text again without reading again, until
        it changes; and when it is not read in time: what was started goes on, and the next fetch waits for the same.
        """
        if self._look is None:
            self._look = _beside(lambda: self._read_if_new(now_s))
        look = self._look
        await asyncio.wait([look], timeout=self._timeout_s)
        if not look.done():
            raise NetworkSourceError(f"mesh file {self._path}: not read within {self._timeout_s:g} s")
        self._look = None
        return look.result()

    def _read_if_new(self, now_s: float) -> Batch | None:
        """Blocks; never runs twice at a time."""
        name = f"mesh file {self._path}"
        try:
            if _identity(os.stat(self._path)) == self._seen:
                if self._refusal is not None:
                    raise NetworkSourceError(self._refusal)
                return None
            self._seen = self._refusal = None
            body, stat = _load(self._path)
            try:
                return parse_mesh(body, name, written_at_s=stat.st_mtime, now_s=now_s)
            except ConfigError as error:
                self._refusal = str(error)
                raise NetworkSourceError(self._refusal) from error
            finally:
                self._seen = _identity(stat)
        except OSError as error:
            raise NetworkSourceError(f"{name}: {error.strerror or error}") from error


def _identity(stat: os.stat_result) -> _Identity:
    return stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns


def _load(path: Path) -> tuple[bytes, os.stat_result]:
    """A whole file and its state; one that is being written is read again. Errors: OSError."""
    for _ in range(_TRIES):
        with path.open("rb") as file:
            before = os.fstat(file.fileno())
            body = file.read(BODY_LIMIT_BYTES + 1)
            after = os.fstat(file.fileno())
        if _identity(before) == _identity(after) and (len(body) == after.st_size or len(body) > BODY_LIMIT_BYTES):
            return body, after
    raise OSError(f"changed {_TRIES} times while it was read")


def _beside(work: Callable[[], _Result]) -> "asyncio.Future[_Result]":
    """Begin `work` in a thread that the process does not wait for; its result, or its NetworkSourceError.

    Not `asyncio.to_thread`: a file system that hangs (NFS) blocks its thread without end, and the threads of that pool
    are few and shared, and waited for at the process's end. The caller keeps to one at a time. Any other error is a
    defect: its traceback goes to standard error, and the future has a RuntimeError, so that no fetch waits for ever.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[_Result] = loop.create_future()
    future.add_done_callback(lambda done: done.exception())  # what no fetch waits for is no defect

    def run() -> None:
        defect = RuntimeError("work beside the event loop ended by a defect: see standard error")
        finish: Callable[[], None] = partial(future.set_exception, defect)
        try:
            finish = partial(future.set_result, work())
        except NetworkSourceError as error:
            finish = partial(future.set_exception, error)
        finally:
            with suppress(RuntimeError):  # the loop has ended: nothing waits
                loop.call_soon_threadsafe(finish)

    Thread(target=run, name="beside", daemon=True).start()
    return future
