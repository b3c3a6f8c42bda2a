"""Agents as processes, each with an address of its own."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.probe.assigner import Assigner

ROOT = Path(__file__).parents[2]
_END_S = 10.0


@contextmanager
def agents(
    assigner: Assigner, token_file: Path, *, within: Mapping[str, Sequence[str]] | None = None
) -> Iterator[dict[str, "subprocess.Popen[bytes]"]]:
    """An agent for each of the assigner's addresses; `within`: node → command that runs it elsewhere."""
    with ExitStack() as stack:
        found = {}
        for node, address in assigner.addresses.items():
            command = [*(within or {}).get(node, ()), sys.executable, "-m", "probe", "--url", assigner.url]
            command += ["--node", node, "--address", address, "--port", str(assigner.port)]
            command += ["--token-file", str(token_file)]
            process = subprocess.Popen(command, cwd=ROOT, env=os.environ, stderr=subprocess.DEVNULL)
            stack.callback(_end, process)
            found[node] = process
        yield found


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(_END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
