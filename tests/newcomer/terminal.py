"""Two terminals: one whose command stays until Ctrl-C, one in which the others are typed; `close` leaves nothing."""

import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from uuid import uuid4

import msgspec

_POLL_S = 0.1
_CLOSE_LIMIT_S = 20.0


class Unanswered(Exception):
    """A command did not come back in its time; what it printed until then is the message's end."""


class Answer(msgspec.Struct, frozen=True):
    text: str
    code: int


class Shell:
    """A bash that remembers what was typed before: variables, PATH, the directory."""

    def __init__(self, directory: Path, environment: Mapping[str, str]) -> None:
        self._bash = subprocess.Popen(
            ["bash", "--noprofile", "--norc"],
            cwd=directory,
            env=dict(environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=_hear_ctrl_c,
        )

    def type(self, command: str, *, limit_s: float) -> Answer:
        """Run `command` to its end. Errors: Unanswered after `limit_s`, or when the shell ended."""
        stdin, stdout = self._bash.stdin, self._bash.stdout
        assert stdin is not None
        assert stdout is not None
        mark = f"end-{uuid4().hex}"  # told from anything that a command prints
        stdin.write(f"{{ {command}\n}} </dev/null\nprintf '%s %d\\n' {mark} $?\n".encode())
        stdin.flush()
        deadline_s = time.monotonic() + limit_s
        got = b""
        while True:
            head, found, rest = got.partition(mark.encode())
            if found and rest.endswith(b"\n"):
                return Answer(head.decode(), int(rest))
            left_s = deadline_s - time.monotonic()
            ready = left_s > 0 and select.select([stdout], [], [], left_s)[0]
            more = os.read(stdout.fileno(), 65536) if ready else b""
            if not more:
                raise Unanswered(f"no end of `{command}` within {limit_s:g} s:\n{got.decode(errors='replace')}")
            got += more

    def close(self) -> None:
        for channel in (self._bash.stdin, self._bash.stdout):
            assert channel is not None
            channel.close()  # at the end of its input a shell ends by itself
        _end_group(self._bash)


def _hear_ctrl_c() -> None:
    """Let the child hear SIGINT even where the tests run in the background of a shell, which ignores it for them."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Staying:
    """A command that runs until Ctrl-C; what it prints is in `log`."""

    def __init__(self, command: str, directory: Path, environment: Mapping[str, str], *, log: Path) -> None:
        self.command = command
        self._log = log
        with log.open("wb") as target:
            self._process = subprocess.Popen(
                ["bash", "--noprofile", "--norc", "-c", command],
                cwd=directory,
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=target,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=_hear_ctrl_c,
            )

    @property
    def printed(self) -> str:
        return self._log.read_text(errors="replace")

    def until(self, true: Callable[[], bool], *, limit_s: float) -> bool:
        """Wait until `true` says so; False after `limit_s`, or when the command has ended without it."""
        deadline_s = time.monotonic() + limit_s
        while not true():
            if self._process.poll() is not None or time.monotonic() > deadline_s:
                return true()
            wait_s(_POLL_S)
        return True

    def interrupt(self, *, limit_s: float) -> str:
        """Ctrl-C; returns what it printed from then on, once it has ended. Errors: Unanswered after `limit_s`."""
        before = len(self.printed)
        os.killpg(self._process.pid, signal.SIGINT)
        try:
            self._process.wait(limit_s)
        except subprocess.TimeoutExpired as late:
            raise Unanswered(f"`{self.command}` did not end on Ctrl-C:\n{self.printed}") from late
        return self.printed[before:]

    def close(self) -> None:
        """End it and its group if they are still there."""
        _end_group(self._process)


def wait_s(seconds: float) -> None:
    select.select([], [], [], seconds)


def _end_group(leader: subprocess.Popen[bytes]) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        if leader.poll() is not None and not _group_lives(leader.pid):
            return
        _signal_group(leader.pid, number)
        deadline_s = time.monotonic() + _CLOSE_LIMIT_S
        while (leader.poll() is None or _group_lives(leader.pid)) and time.monotonic() < deadline_s:
            wait_s(_POLL_S)


def _group_lives(group: int) -> bool:
    return _signal_group(group, 0)


def _signal_group(group: int, number: int) -> bool:
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return False
    return True
