"""Run the system's own network programs: `ip`, `tc`, `iptables`.

Rule: one line of output is enough to know why one refused, and that line is in the error. Several changes of one
namespace go in one call (`ip -batch`): a bed is some two hundred changes, and each process costs milliseconds.
"""

import subprocess
from collections.abc import Sequence

from lab.bench.testbed.errors import BedError

_LIMIT_S = 20.0


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
