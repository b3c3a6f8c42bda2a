"""One child process: started, watched, frozen, ended, and never left behind.

Why: fault tests need to stop, kill and freeze single programs, and an aborted test run must not leave any behind.
Rule: every child leads its own process group; signals go to that group only. When this process dies, however it
dies, Linux kills the child (parent-death signal), so children must be started from the main thread: the kernel
ties that signal to the thread that forked.
"""

import asyncio
import contextlib
import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

from lab.testbed.errors import ControlPlaneError, NotReady

_LEASH = Path(__file__).with_name("leash.py")
_POLL_S = 0.02
_KILL_LIMIT_S = 10.0  # the kernel needs milliseconds; a loaded machine takes longer to say so


class Child:
    """A program that runs with its output in a log file.

    `argv` and `env` stay the same over restarts, so ports and kubeconfigs of other parts stay valid.
    """

    def __init__(self, name: str, argv: Sequence[str], *, log: Path, env: Mapping[str, str] | None = None) -> None:
        self.name = name
        self.argv = tuple(argv)
        self.log = log
        self._env = {**os.environ, **(env or {})}
        self._process: subprocess.Popen[bytes] | _Forked | None = None

    @property
    def pid(self) -> int | None:
        """Process id while it was not stopped by us; also of one that died by itself."""
        return self._process.pid if self._process else None

    async def ended(self) -> int:
        """Wait until it ends, however it does; its exit code, for a signal 128 + its number as shells say it."""
        assert self._process is not None, "start it first"
        process, gone = self._process, asyncio.Event()
        watched = process.watched() if isinstance(process, _Forked) else os.pidfd_open(process.pid)
        try:
            asyncio.get_running_loop().add_reader(watched, gone.set)
            await gone.wait()
        finally:
            asyncio.get_running_loop().remove_reader(watched)
            os.close(watched)
        code = process.wait()
        return code if code >= 0 else 128 - code

    @property
    def alive(self) -> bool:
        """Whether it runs (a frozen one does)."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start it; ControlPlaneError if it runs already."""
        self._check_ended()
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(_LEASH), str(os.getpid()), *self.argv],
                env=self._env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def fork(self, act: Callable[..., object], *arguments: str, loaded: Sequence[str]) -> None:
        """Start `act` in its place, in a process that is forked from one with these modules; it makes its session."""
        self._check_ended()
        self._process = _Forked(act, arguments, loaded)

    def _check_ended(self) -> None:
        if self.alive:
            raise ControlPlaneError(f"{self.name} runs already (pid {self.pid})")
        self.log.parent.mkdir(parents=True, exist_ok=True)

    async def stop(self, *, grace_s: float = 5.0) -> None:
        """Ask it to end (SIGTERM), insist after `grace_s` (SIGKILL); returns when it is gone."""
        if self._process is None:
            return
        self._signal(signal.SIGCONT)  # a frozen process cannot act on SIGTERM
        self._signal(signal.SIGTERM)
        if not await self._gone(within_s=grace_s):
            await self.kill()
            return
        self._signal(signal.SIGKILL)  # members of the group that outlived their leader
        self._process = None

    async def kill(self) -> None:
        """End it at once (SIGKILL), as a crash or a lost machine would."""
        self._signal(signal.SIGKILL)
        if not await self._gone(within_s=_KILL_LIMIT_S):
            raise ControlPlaneError(f"{self.name} (pid {self.pid}) survived SIGKILL for {_KILL_LIMIT_S:g} s")
        self._process = None

    def terminate(self) -> None:
        """Ask it to end (SIGTERM), and do not wait."""
        if self.alive:
            self._signal(signal.SIGTERM)

    def freeze(self) -> None:
        """Stop its clock (SIGSTOP): connections stay open and nothing answers."""
        self._signal(signal.SIGSTOP)

    def unfreeze(self) -> None:
        """Let a frozen process go on (SIGCONT)."""
        self._signal(signal.SIGCONT)

    def tail(self, lines: int = 40) -> str:
        """The end of its log."""
        if not self.log.exists():
            return ""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    async def ready(self, check: Callable[[], Awaitable[bool]], *, limit_s: float) -> None:
        """Wait until `check` is true. ControlPlaneError if the process ends first, NotReady after `limit_s`."""
        try:
            async with asyncio.timeout(limit_s):
                while not await check():
                    if not self.alive:
                        said = f"{self.name} ended while it started; its log ends with:\n{self.tail()}"
                        raise ControlPlaneError(said)
                    await asyncio.sleep(_POLL_S)
        except TimeoutError as late:
            raise NotReady(f"{self.name} was not ready in {limit_s:g} s; log ends with:\n{self.tail()}") from late

    async def _gone(self, *, within_s: float) -> bool:
        try:
            async with asyncio.timeout(within_s):
                while self.alive:  # noqa: ASYNC110 - a child's end is no asyncio event unless its loop lives on
                    await asyncio.sleep(_POLL_S)
        except TimeoutError:
            return False
        return True

    def _signal(self, number: signal.Signals) -> None:
        if self._process is None:
            return
        with contextlib.suppress(ProcessLookupError):  # it is gone
            try:
                os.killpg(self._process.pid, number)
            except ProcessLookupError:  # the whole group is, or a forked process has not made its own yet
                if self.alive:
                    os.kill(self._process.pid, number)


class _Forked:
    """A process of Python's fork server, as far as `Child` asks it what it asks a `Popen`."""

    def __init__(self, act: Callable[..., object], arguments: Sequence[str], loaded: Sequence[str]) -> None:
        server = multiprocessing.get_context("forkserver")
        server.set_forkserver_preload([*loaded])  # of the first process: one server makes them all
        self._process = server.Process(target=act, args=arguments, daemon=True)
        self._process.start()
        self.pid = self._process.pid or 0

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self) -> int:
        self._process.join()
        return self._process.exitcode or 0

    def watched(self) -> int:
        """A descriptor that can be read once it has ended; to be closed."""
        return os.dup(self._process.sentinel)
