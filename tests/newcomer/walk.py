"""Do what a document says, as somebody would who knows nothing else, and say where it is not as printed.

Commands of `STAYING` get the first terminal, all others share the second. A command whose output the document does not
show must print nothing. What only looks (`LOOKS`) is looked at again for a while if it is not yet as it should be.
"""

import os
import re
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Self
from urllib.error import URLError
from urllib.request import ProxyHandler, build_opener

import msgspec

from tests.newcomer.document import Interrupted, Opened, Step, Typed, Walk, bare
from tests.newcomer.shown import is_shown
from tests.newcomer.terminal import Shell, Staying, Unanswered, wait_s

ROOT = Path(__file__).parents[2]
PORT = 8888  # the port of the documents: netgang's own default

DOCUMENTS = (  # what is walked through, in this order
    Walk(ROOT / "README.md", sections=("Try it",)),
    Walk(ROOT / "docs/start/tutorial.md"),
)

STAYING: Mapping[str, float] = {"make run": 300.0, "make cluster": 1800.0}  # until Ctrl-C → ready within, in seconds

LOOKS = re.compile(r"^(?:curl -s |kubectl (?:get|events|netgang) |(?:\.venv/bin/)?netgang )")  # change nothing

_READING_S = 2.0  # somebody turns from one terminal to the other; the first measurements are read meanwhile
_LOOK_LIMIT_S = 20.0
_LOOK_PAUSE_S = 0.5
_TYPED_LIMIT_S = 120.0
_ENDED_LIMIT_S = 60.0
_NOT_OURS = ("KUBECONFIG", "MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "VIRTUAL_ENV", "COVERAGE_PROCESS_START")
_CACHE = "NETGANG_TESTBED_CACHE"  # where the control plane's programs are; a cold build takes minutes
_DIRECT = build_opener(ProxyHandler({}))


class NotAsPrinted(AssertionError):
    """A document says something else than what happens; names the line, the command, and both texts."""


class PortTaken(Exception):
    """Somebody listens on the documents' port already, so what they print cannot be typed here now."""


class Newcomer(msgspec.Struct):
    """Somebody with two terminals in the folder `root`; `with Newcomer() as one: one.walk(DOCUMENTS[0])`.

    `environment` comes on top of what this process has, without what belongs to its own make, Python and cluster.
    `say` is told each command before it is typed. Nothing that was started is left at the end.
    """

    root: Path = ROOT
    environment: Mapping[str, str] = {}
    say: Callable[[str], None] = lambda _: None
    typed: list[str] = []
    _first: Staying | None = None
    _second: Shell | None = None
    _scratch: TemporaryDirectory[str] | None = None

    def __enter__(self) -> Self:
        self._scratch = TemporaryDirectory(prefix="newcomer-")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave()
        if self._scratch is not None:
            self._scratch.cleanup()

    def walk(self, document: Walk) -> tuple[str, ...]:
        """Do all of it; returns the commands that were typed. Errors: NotAsPrinted, PortTaken, WrongDocument."""
        name = document.path.name
        before = len(self.typed)
        try:
            for step in document.steps():
                self._do(step, f"{name}:{step.line}")
        finally:
            self._leave()
        return tuple(self.typed[before:])

    def _do(self, step: Step, where: str) -> None:
        match step:
            case Typed(commands=(one,), shown=shown) if bare(one) in STAYING:
                self._stay(one, shown, where)
            case Typed(commands=several, shown=shown):
                self._type(several, shown or (), where)
            case Opened(url=url):
                self.say(f"open {url}")
                text = _until_answered(url, _LOOK_LIMIT_S)
                if text is None or "<title>" not in text:
                    raise NotAsPrinted(f"{where}: {url} does not show a page")
            case Interrupted(shown=shown):
                self._interrupt(shown, where)

    def _stay(self, command: str, shown: Sequence[str] | None, where: str) -> None:
        """Start it in the first terminal, in place of what ran there, and wait until it is ready."""
        self._leave()
        check_port()
        self.say(command)
        self.typed.append(bare(command))
        limit_s = STAYING[bare(command)]
        log = Path(self._environment["TMPDIR"]) / "first-terminal.log"
        first = self._first = Staying(command, self.root, self._environment, log=log)
        wanted = shown or ("…",)
        as_shown = first.until(lambda: is_shown(first.printed, wanted, may_go_on=True), limit_s=limit_s)
        if not as_shown:
            raise NotAsPrinted(_differs(where, command, wanted, first.printed))
        if _until_answered(f"http://127.0.0.1:{PORT}/readyz", limit_s) is None:
            raise NotAsPrinted(f"{where}: `{command}` is not ready:\n{first.printed}")
        wait_s(_READING_S)

    def _type(self, commands: Sequence[str], shown: Sequence[str], where: str) -> None:
        """Type the block's commands; once more, if all of them only look and do not show it yet."""
        self.typed += map(bare, commands)
        again = all(map(LOOKS.match, commands))
        deadline_s = time.monotonic() + _LOOK_LIMIT_S
        while True:
            printed, wrong = "", ""
            for command in commands:
                self.say(command)
                try:
                    answer = self._shell().type(command, limit_s=_TYPED_LIMIT_S)
                except Unanswered as late:
                    raise NotAsPrinted(f"{where}: {late}") from late
                printed += answer.text if answer.text.endswith("\n") or not answer.text else f"{answer.text}\n"
                if answer.code:
                    wrong = f"{where}: `{command}` ended with exit code {answer.code}:\n{answer.text}"
                    break
            if not wrong and is_shown(printed, shown):
                return
            if not again or time.monotonic() > deadline_s:
                raise NotAsPrinted(wrong or _differs(where, "; ".join(commands), shown, printed))
            wait_s(_LOOK_PAUSE_S)

    def _interrupt(self, shown: Sequence[str], where: str) -> None:
        if self._first is None:
            raise NotAsPrinted(f"{where}: nothing runs that Ctrl-C could end")
        self.say("Ctrl-C")
        printed = self._first.interrupt(limit_s=_ENDED_LIMIT_S)
        if not is_shown(printed, shown):
            raise NotAsPrinted(_differs(where, "Ctrl-C", shown, printed))
        self._first.close()
        self._first = None

    def _leave(self) -> None:
        if self._first is not None:
            self._first.close()
            self._first = None
        if self._second is not None:
            self._second.close()
            self._second = None

    def _shell(self) -> Shell:
        if self._second is None:
            self._second = Shell(self.root, self._environment)
        return self._second

    @property
    def _environment(self) -> dict[str, str]:
        assert self._scratch is not None
        return {**terminal_environment(self._scratch.name), **self.environment}


def terminal_environment(scratch: str) -> dict[str, str]:
    """What this process has, without what belongs to its own make, Python and cluster; temporary files in `scratch`."""
    inherited = {
        name: value
        for name, value in os.environ.items()
        if name == _CACHE or not (name in _NOT_OURS or name.startswith(("PYTEST", "NETGANG_")))
    }
    return {**inherited, "COLUMNS": "120", "TERM": "dumb", "LC_ALL": "C.UTF-8", "TMPDIR": scratch}


def check_port() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind(("127.0.0.1", PORT))
        except OSError as taken:
            raise PortTaken(f"port {PORT} of README and tutorial is taken on this computer: {taken}") from taken


def _until_answered(url: str, limit_s: float) -> str | None:
    """What is served there with status 200, as soon as it is; None if not within `limit_s`."""
    deadline_s = time.monotonic() + limit_s
    while time.monotonic() < deadline_s:
        try:
            with _DIRECT.open(url, timeout=5.0) as reply:
                return str(reply.read().decode())
        except (URLError, OSError):
            wait_s(_LOOK_PAUSE_S)
    return None


def _differs(where: str, command: str, shown: Sequence[str], printed: str) -> str:
    said = "\n".join(shown) or "(nothing)"
    return f"{where}: `{command}` prints something else.\n--- the document shows\n{said}\n--- printed\n{printed}"
