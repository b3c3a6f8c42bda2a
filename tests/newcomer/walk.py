"""Do what a document says, as somebody would who knows nothing else, and say where it is not as printed.

Commands of `STAYING` get a terminal of their own, all others share one shell. What the document shows must be all that
is printed; a `…` covers any lines, or any characters of a line. What only looks (`LOOKS`) is looked at again for a
while if it is not yet as it should be.
"""

import os
import re
import select
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

import httpx

from tests.newcomer.document import Interrupted, Opened, Step, Typed, bare

ROOT = Path(__file__).parents[2]
PORT = 8888  # the port of the documents: netgang's own default
STAYING: Mapping[str, float] = {"make run": 300.0, "make cluster": 1800.0}  # until Ctrl-C → ready within, in seconds
LOOKS = re.compile(r"^(?:curl -s |kubectl (?:get|events|netgang) |(?:\.venv/bin/)?netgang )")  # change nothing

_READING_S = 2.0  # somebody turns from one terminal to the other; the first measurements are read meanwhile
_LOOK_LIMIT_S, _LOOK_PAUSE_S, _POLL_S = 20.0, 0.5, 0.05
_TYPED_LIMIT_S = 120.0
_ENDED_LIMIT_S = 60.0
_NOT_OURS = ("KUBECONFIG", "MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "VIRTUAL_ENV", "COVERAGE_PROCESS_START")
_CACHE = "NETGANG_TESTBED_CACHE"  # where the control plane's programs are; a cold build takes minutes


class Terminal:
    """A bash whose output is in a file: with a `command` it runs that and ends with it, else what is typed."""

    def __init__(self, environment: Mapping[str, str], output: Path, command: str = "") -> None:
        self._output, self._seen = output, 0
        with output.open("wb") as target:
            self._bash = subprocess.Popen(
                ["bash", "--noprofile", "--norc", *(["-c", command] if command else [])],
                cwd=ROOT,
                env=dict(environment),
                stdin=subprocess.DEVNULL if command else subprocess.PIPE,
                stdout=target,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # ignored in a shell's background
            )

    @property
    def printed(self) -> str:
        """Since the last command or Ctrl-C."""
        return self._output.read_bytes()[self._seen :].decode(errors="replace")

    def until(self, true: Callable[[str], bool], *, limit_s: float) -> bool:
        """Wait until `true` of what was printed; False after `limit_s`, or when all has ended without it."""
        ends_s = time.monotonic() + limit_s
        while not true(self.printed):
            if self._bash.poll() is not None or time.monotonic() > ends_s:
                return true(self.printed)
            pause(_POLL_S)
        return True

    def type(self, command: str) -> tuple[str, int]:
        """Run a command to its end: what it prints, and its exit code."""
        assert self._bash.stdin is not None
        mark, self._seen = f"end-{uuid4().hex}", self._output.stat().st_size  # told from anything that is printed
        self._bash.stdin.write(f"{{ {command}\n}} </dev/null\nprintf '%s %d\\n' {mark} $?\n".encode())
        self._bash.stdin.flush()
        ended = self.until(lambda text: re.search(rf"{mark} \d+\n$", text) is not None, limit_s=_TYPED_LIMIT_S)
        text, _, code = self.printed.rpartition(f"{mark} ")
        assert ended, f"no end of `{command}` within {_TYPED_LIMIT_S:g} s:\n{self.printed}"
        return text, int(code)

    def interrupt(self) -> str:
        """Ctrl-C; what it printed from then on, once it has ended."""
        self._seen = self._output.stat().st_size
        os.killpg(self._bash.pid, signal.SIGINT)
        self._bash.wait(_ENDED_LIMIT_S)
        return self.printed

    def close(self) -> None:
        """End it and all that it started."""
        for number in (signal.SIGINT, signal.SIGKILL):
            with suppress(ProcessLookupError, subprocess.TimeoutExpired):
                os.killpg(self._bash.pid, number)
                self._bash.communicate(timeout=20.0)


@contextmanager
def newcomer(environment: Mapping[str, str], scratch: Path) -> Iterator[Callable[[Sequence[Step]], None]]:
    """Walks through the steps of a document. Nothing that was started is left at the end."""
    theirs = {name for name in os.environ if name in _NOT_OURS or name.startswith(("PYTEST", "NETGANG_"))} - {_CACHE}
    inherited = {name: value for name, value in os.environ.items() if name not in theirs}
    plain = {"COLUMNS": "120", "TERM": "dumb", "LC_ALL": "C.UTF-8", "TMPDIR": str(scratch)}
    place = {**inherited, **plain, **environment}
    terminals: dict[str, Terminal] = {}

    def walk(steps: Sequence[Step]) -> None:
        for step in steps:
            match step:
                case Typed(line, (one,), shown) if bare(one) in STAYING:
                    assert_port_is_free()
                    terminals["staying"] = stays = Terminal(place, scratch / "first.log", bare(one))
                    wanted = shown or ("…",)
                    there = stays.until(lambda text: is_shown(text, wanted, may_go_on=True), limit_s=STAYING[bare(one)])  # noqa: B023
                    assert there, _differs(line, one, wanted, stays.printed)
                    until_answered(f"http://127.0.0.1:{PORT}/readyz")
                    pause(_READING_S)
                case Typed(line, commands, shown):
                    if "shell" not in terminals:
                        terminals["shell"] = Terminal(place, scratch / "second.log")
                    _type(terminals["shell"], line, commands, shown or ())
                case Opened(_, url):
                    assert "<title>" in until_answered(url)
                case Interrupted(line, shown):
                    printed = terminals.pop("staying").interrupt()
                    assert is_shown(printed, shown), _differs(line, "Ctrl-C", shown, printed)

    try:
        yield walk
    finally:
        for one in terminals.values():
            one.close()


def _type(shell: Terminal, line: int, commands: Sequence[str], shown: Sequence[str]) -> None:
    """Type a block's commands; once more, if all of them only look and do not show it yet."""
    ends_s = time.monotonic() + (_LOOK_LIMIT_S if all(map(LOOKS.match, commands)) else 0.0)
    while True:
        answers = [shell.type(command) for command in commands]
        printed = "".join(text if text.endswith("\n") or not text else f"{text}\n" for text, _ in answers)
        if is_shown(printed, shown) and not any(code for _, code in answers):
            return
        assert time.monotonic() < ends_s, _differs(line, "; ".join(commands), shown, printed)
        pause(_LOOK_PAUSE_S)


def is_shown(printed: str, shown: Sequence[str], *, may_go_on: bool = False) -> bool:
    r"""Whether `printed` is what `shown` says; with `may_go_on` more may have been printed behind it.

    Runs of blanks, and of the lines that tables are drawn with, count as one, because columns are as wide as what is in
    them; empty lines at both ends do not count.

    >>> is_shown("p   1/1  Running  17s\n", ["p 1/1 Running …"]), is_shown("p 1/1 Pending 3s", ["p 1/1 Running …"])
    (True, False)
    >>> is_shown("one\ntwo\n", ["one"]), is_shown("one\ntwo\n", ["one"], may_go_on=True)
    (False, True)
    """
    wanted = "".join(map(_pattern, _trimmed(shown))) + (r"(?:.*\n)*" if may_go_on else "")
    return re.fullmatch(wanted, "".join(f"{line}\n" for line in _trimmed(printed.splitlines()))) is not None


def _pattern(line: str) -> str:
    if line.strip() == "…":
        return r"(?:.*\n)*?"
    return ".*?".join(re.escape(part) for part in re.split(" ?… ?", line)) + r"\n"


def _trimmed(lines: Sequence[str]) -> list[str]:
    plain = (re.sub(r"\s+", " ", re.sub(r"([─━═])\1+", r"\1", line)).rstrip() for line in lines)
    text = "\n".join(plain).strip("\n")
    return text.split("\n") if text else []


def assert_port_is_free() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        tried.bind(("127.0.0.1", PORT))


def until_answered(url: str) -> str:
    """What is served there with status 200, as soon as it is."""
    ends_s = time.monotonic() + _LOOK_LIMIT_S
    while True:
        try:
            return httpx.get(url, timeout=5.0, trust_env=False).raise_for_status().text
        except httpx.HTTPError:
            assert time.monotonic() < ends_s, f"{url} does not answer"
            pause(_LOOK_PAUSE_S)


def pause(seconds: float) -> None:
    select.select([], [], [], seconds)


def _differs(line: int, command: str, shown: Sequence[str], printed: str) -> str:
    said = "\n".join(shown) or "(nothing)"
    return f"line {line}: `{command}` prints something else.\n--- the document shows\n{said}\n--- printed\n{printed}"
