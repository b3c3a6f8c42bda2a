"""Which namespaces are ours: a record on disk beside each run, so that a killed run can be cleaned up and nothing else.

Why a record and not the name alone: another program's namespace may be called alike, and a name may be taken again
after ours is gone. Rule: a namespace is ours if a record of ours names it *and* its inode number is still the one that
we were given; anything else is left alone and said. A run that still lives is not cleaned up by another.
"""

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from lab.bench.testbed.commands import NAMESPACES, run
from lab.bench.testbed.errors import NotOurs

RECORDS: Final = Path("/run/netgang-testbed")
PREFIX: Final = "ngbed"
_INTENDED: Final = 0
"""In place of an inode: the run ended between saying that it makes a namespace and having it."""


@dataclass(slots=True)
class Record:
    """The namespaces of one run."""

    path: Path
    owner: tuple[int, int]
    """Process and the moment it began, in the kernel's ticks: numbers of processes are used again."""
    made: dict[str, int] = field(default_factory=dict)
    """namespace → inode"""

    @classmethod
    def begun(cls, run_id: str, *, folder: Path = RECORDS) -> "Record":
        """A record of this process. Errors: NotOurs if the run id is taken."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        record = cls(folder / f"{run_id}.json", (os.getpid(), _began(os.getpid())))
        if record.path.exists():
            raise NotOurs(f"run {run_id} is recorded already: {record.path}")
        record.write()
        return record

    @classmethod
    def read(cls, path: Path) -> "Record":
        """A record of some run."""
        given = json.loads(path.read_text())
        return cls(path, (int(given["owner"][0]), int(given["owner"][1])), dict(given["made"]))

    @property
    def is_alive(self) -> bool:
        """Whether the run's process still runs."""
        process, began = self.owner
        return _began(process) == began

    def write(self) -> None:
        """Write the record in one step."""
        new = self.path.with_suffix(".new")
        new.write_text(json.dumps({"owner": self.owner, "made": self.made}))
        new.replace(self.path)

    def make(self, name: str) -> None:
        """Make a namespace and note it. Errors: NotOurs if the name is taken."""
        if (NAMESPACES / name).exists():
            raise NotOurs(f"a network namespace {name} exists that this run did not make")
        self.made[name] = _INTENDED
        self.write()
        run("ip", "netns", "add", name)
        self.made[name] = (NAMESPACES / name).stat().st_ino
        self.write()

    def remove_all(self) -> list[str]:
        """Remove what is ours, and the record; sentences on what was left alone because it is not."""
        left: list[str] = []
        for name, inode in list(self.made.items()):
            place = NAMESPACES / name
            if not place.exists():
                pass
            elif place.stat().st_ino != inode:
                left.append(f"{name} is not known to be the one that run {self.path.stem} made: it is left alone")
            else:
                run("ip", "netns", "delete", name)
            del self.made[name]
            self.write()
        self.path.unlink(missing_ok=True)
        return left


def clean(*, folder: Path = RECORDS) -> list[str]:
    """Remove what ended runs left behind; a sentence for each namespace and each run that is left alone."""
    said: list[str] = []
    for path in sorted(folder.glob("*.json")):
        record = Record.read(path)
        if record.is_alive:
            said.append(f"run {path.stem} still runs (process {record.owner[0]}): it is left alone")
            continue
        names = list(record.made)
        left = record.remove_all()
        said += [f"removed {name}" for name in names if not any(one.startswith(f"{name} ") for one in left)]
        said += left
    return said


def _began(process: int) -> int:
    """When a process began, in ticks since the machine did; −1: there is none."""
    try:
        text = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return -1
    return int(text.rpartition(")")[2].split()[19])
