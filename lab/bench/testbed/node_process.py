"""The process inside a node, as its owner sees it: JSON lines to its standard input, JSON lines back.

Why pipes and not the network: what is said about a run must not travel over the network that is being impaired. Rule: a
process whose owner ends sees the end of its input and ends as well, however the owner ended.
"""

import json
import os
import select
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import Any

from lab.bench.testbed.commands import NodeFailed

_ROOT = Path(__file__).parents[3]
_START_S = 30.0
_END_S = 5.0
_ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


class NodeProcess:
    """Runs `lab.bench.testbed.agent` in a namespace. Errors of all methods: NodeFailed."""

    def __init__(self, namespace: str, node: str, address: str) -> None:
        self.node = node
        self._text = b""
        command = ["ip", "netns", "exec", namespace, sys.executable, "-m", "lab.bench.testbed.agent", node, address]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=_ROOT,
            # Six of them share the cores: more threads per process would only take turns.
            env={**os.environ, **_ONE_THREAD},
            start_new_session=True,  # Ctrl-C is for the owner, which then ends this one
        )

    def wait_ready(self) -> None:
        """Wait for its first line."""
        self.answer(limit_s=_START_S)

    def tell(self, do: str, **given: Any) -> None:
        """Send a command; its answer must be taken before the next one."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"do": do, **given}).encode() + b"\n")
            self._process.stdin.flush()
        except OSError as error:
            raise NodeFailed(f"{self.node}: its process has ended") from error

    def answer(self, *, limit_s: float) -> Any:
        """The answer to the last command."""
        assert self._process.stdout is not None
        number = self._process.stdout.fileno()
        end_s = monotonic() + limit_s
        while b"\n" not in self._text:
            ready, _, _ = select.select([number], [], [], max(end_s - monotonic(), 0.0))
            if not ready:
                raise NodeFailed(f"{self.node}: no answer within {limit_s:g} s")
            read = os.read(number, 1 << 20)
            if not read:
                raise NodeFailed(f"{self.node}: its process has ended")
            self._text += read
        line, _, self._text = self._text.partition(b"\n")
        answer = json.loads(line)
        if "error" in answer:
            raise NodeFailed(f"{self.node}: {answer['error']}")
        return answer["ok"]

    def ask(self, do: str, *, limit_s: float, **given: Any) -> Any:
        """Send a command and wait for its answer."""
        self.tell(do, **given)
        return self.answer(limit_s=limit_s)

    def close(self) -> None:
        """End it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with suppress(OSError):  # it ended before it read what was written
            self._process.stdin.close()
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
