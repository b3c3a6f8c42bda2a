"""A process of a benchmark, as its owner sees it: JSON lines to its standard input, JSON lines back.

Why pipes and not the network: what is said about a run must not travel over the network that is being impaired, and
what a service costs must not be mixed with what its load costs. Rule: a process whose owner ends sees the end of its
input and ends as well, however the owner ended. Each answer is `{"ok": …}` or `{"error": "…"}`; the first is a hello.
"""

import json
import os
import select
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from time import monotonic
from typing import Any

_ROOT = Path(__file__).parents[2]
_START_S = 30.0
_END_S = 10.0
_ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
"""Several share the cores: more threads per process would only take turns."""


class ChildFailed(Exception):
    """A process of a benchmark ended, refused or stayed silent."""


class Child:
    """Runs a module of Python, perhaps inside another command. Errors of all methods: ChildFailed."""

    def __init__(self, name: str, module: str, *arguments: str, within: Sequence[str] = ()) -> None:
        self.name = name
        self._text = b""
        self._process = subprocess.Popen(
            [*within, sys.executable, "-m", module, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=_ROOT,
            env={**os.environ, **_ONE_THREAD},
            start_new_session=True,  # Ctrl-C is for the owner, which then ends this one
        )

    def hello(self) -> Any:
        """Wait for its first line; what it says."""
        return self.answer(limit_s=_START_S)

    def tell(self, do: str, **given: Any) -> None:
        """Send a command; its answer must be taken before the next one."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"do": do, **given}).encode() + b"\n")
            self._process.stdin.flush()
        except OSError as error:
            raise ChildFailed(f"{self.name}: its process has ended") from error

    def answer(self, *, limit_s: float) -> Any:
        """The answer to the last command."""
        assert self._process.stdout is not None
        number = self._process.stdout.fileno()
        end_s = monotonic() + limit_s
        while b"\n" not in self._text:
            ready, _, _ = select.select([number], [], [], max(end_s - monotonic(), 0.0))
            if not ready:
                raise ChildFailed(f"{self.name}: no answer within {limit_s:g} s")
            read = os.read(number, 1 << 20)
            if not read:
                raise ChildFailed(f"{self.name}: its process has ended")
            self._text += read
        line, _, self._text = self._text.partition(b"\n")
        answer = json.loads(line)
        if "error" in answer:
            raise ChildFailed(f"{self.name}: {answer['error']}")
        return answer["ok"]

    def ask(self, do: str, *, limit_s: float, **given: Any) -> Any:
        """Send a command and wait for its answer."""
        self.tell(do, **given)
        return self.answer(limit_s=limit_s)

    def rss_mib(self) -> float:
        """Its resident memory now."""
        pages = int(Path(f"/proc/{self._process.pid}/statm").read_text().split()[1])
        return pages * 4096 / (1 << 20)

    def close(self) -> None:
        """Let it end by itself; a process that does not is ended."""
        try:
            self._process.communicate(timeout=_END_S)  # which closes its input
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()


def say(answer: Any) -> None:
    """A line to the owner."""
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()
