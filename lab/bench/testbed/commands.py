"""Run the system's own network programs: `ip`, `tc`, `iptables`.

Rule: one line of output is enough to know why one refused, and that line is in the error. Several changes of one
namespace go in one call (`ip -batch`): a bed is some two hundred changes, and each process costs milliseconds.
"""

import ctypes
import os
import subprocess
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from lab.bench.testbed.errors import BedError

NAMESPACES: Final = Path("/run/netns")
_LIMIT_S = 20.0
_CLONE_NEWNET: Final = 0x40000000


def run(*command: str, given: str = "") -> str:
    """Output of a command. Errors: BedError with the command and what it said."""
    try:
        done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=_LIMIT_S, check=False)
    except FileNotFoundError as error:
        raise BedError(f"{command[0]}: there is no such command") from error
    except subprocess.TimeoutExpired as error:
        raise BedError(f"{' '.join(command)}: no end within {_LIMIT_S:g} s") from error
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip()
        raise BedError(f"{' '.join(command)}: {said or f'exit code {done.returncode}'}")
    return done.stdout


def ip_in(namespace: str, lines: Sequence[str]) -> None:
    """Several `ip` commands in a namespace; the first that fails ends them."""
    run("ip", "-n", namespace, "-batch", "-", given="\n".join(lines) + "\n")


def tc_in(namespace: str, lines: Sequence[str]) -> None:
    """Several `tc` commands in a namespace; the first that fails ends them."""
    run("tc", "-n", namespace, "-batch", "-", given="\n".join(lines) + "\n")


def run_in(namespace: str, *command: str, given: str = "") -> str:
    """Output of a command that runs inside a namespace."""
    return run("ip", "netns", "exec", namespace, *command, given=given)


def in_namespace(name: str, act: Callable[[], None]) -> None:
    """Call this in a thread that is in a namespace; sockets that it makes stay there. Errors: BedError."""
    failed: list[str] = []

    def run() -> None:
        with Path(NAMESPACES, name).open() as place:
            if ctypes.CDLL(None, use_errno=True).setns(place.fileno(), _CLONE_NEWNET) != 0:
                failed.append(os.strerror(ctypes.get_errno()))
                return
        act()

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if failed:
        raise BedError(f"namespace {name} cannot be entered: {failed[0]}")
