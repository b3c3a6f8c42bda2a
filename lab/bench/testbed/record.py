"""Which namespaces are ours: by name, which says what process made them, so that a killed run can be cleaned up.

Rule: the namespaces of a process that runs are left alone by all others.
"""

import os
from itertools import count
from pathlib import Path
from typing import Final

from lab.bench.testbed.commands import NAMESPACES, run

PREFIX: Final = "ngbed"
_RUNS = count()


def new_run() -> str:
    """The id of a run, by which its namespaces are named: this process, and its number in it."""
    return f"{os.getpid()}.{next(_RUNS)}"


def make(name: str) -> None:
    """Make a namespace. Errors: BedError if the name is taken."""
    run("ip", "netns", "add", name)


def remove_all(run_id: str) -> None:
    """Remove what a run made."""
    for place in NAMESPACES.glob(f"{PREFIX}-{run_id}-*"):
        run("ip", "netns", "delete", place.name)


def clean() -> list[str]:
    """Remove what ended runs left behind; a sentence for each namespace."""
    said = []
    for place in sorted(NAMESPACES.glob(f"{PREFIX}-*.*-*")):
        process = place.name.split("-")[1].partition(".")[0]
        if Path("/proc", process).exists():
            said.append(f"{place.name} is left alone: process {process} runs")
        else:
            run("ip", "netns", "delete", place.name)
            said.append(f"removed {place.name}")
    return said
