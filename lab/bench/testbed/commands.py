"""Run the system's own network programs: `ip`, `tc`, `iptables`; make namespaces and remove them.

Rule: one line of output is enough to know why one refused, and that line is in the error. Several changes of one
namespace go in one call (`ip -batch`): a bed is some two hundred changes, and each process costs milliseconds. The name
of a namespace says what process made it, so that a killed run can be cleaned up; those of a process that runs are left
alone by all others.
"""

import os
import subprocess
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from typing import Final

from lab.testbed.processes.contained import NETWORKS as NAMESPACES
from lab.testbed.processes.contained import in_network

_LIMIT_S = 20.0
PREFIX: Final = "ngbed"
_RUNS = count()


class BedError(Exception):
    """The bed of namespaces could not do what it was asked; the message says what to do next."""


class BedUnavailable(BedError):
    """This machine cannot have a bed: names the package, right or kernel option that is missing."""


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


def in_namespace(name: str, act: Callable[[], object]) -> None:
    """Call this in a thread that is in a namespace; sockets that it makes stay there. Errors: BedError, or its own."""
    if not (NAMESPACES / name).exists():
        raise BedError(f"there is no namespace {name}")
    in_network(name, act)


def new_run() -> str:
    """The id of a run, by which its namespaces are named: this process, and its number in it."""
    return f"{os.getpid()}.{next(_RUNS)}"


def make(name: str) -> None:
    """Make a namespace. Errors: BedError if the name is taken."""
    run("ip", "netns", "add", name)


def remove(name: str) -> None:
    """Remove a namespace. Errors: BedError."""
    run("ip", "netns", "delete", name)


def remove_all(run_id: str) -> None:
    """Remove what a run made."""
    for place in NAMESPACES.glob(f"{PREFIX}-{run_id}-*"):
        remove(place.name)


def clean() -> list[str]:
    """Remove what ended runs left behind; a sentence for each namespace."""
    said = []
    for place in sorted(NAMESPACES.glob(f"{PREFIX}-*.*-*")):
        process = place.name.split("-")[1].partition(".")[0]
        if Path("/proc", process).exists():
            said.append(f"{place.name} is left alone: process {process} runs")
        else:
            remove(place.name)
            said.append(f"removed {place.name}")
    return said
