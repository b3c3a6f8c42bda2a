"""What a long run has measured so far, so that one that was interrupted goes on where it was.

Why: forty minutes are lost with one Ctrl-C, one full disk, one machine that is taken away. Rule: beside the record that
a run will write stands a file of the same name with `.part` in it; each section goes there as soon as it is measured,
and the file goes when the run is whole. A later run takes from it what the same command measured on the same commit and
machine, says so, and measures the rest.
"""

import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from lab.bench.record import Record, Section, commit, here, machine, read, write


class Kept:
    """Sections measured so far of the record `path`; nothing is kept without one."""

    def __init__(self, path: Path | None, *, fresh: bool = False) -> None:
        self._path = path
        self._sections: dict[tuple[str, str], Section] = {}  # (benchmark, command) → what it measured
        if self.part is None or not self.part.exists():
            return
        if fresh:
            self.part.unlink()
            return
        before = read(self.part)
        if _of_here(before):
            self._sections = {(one.bench, one.command): one for one in before.sections}

    @property
    def part(self) -> Path | None:
        """The file of what is measured so far."""
        return None if self._path is None else self._path.with_suffix(f".part{self._path.suffix}")

    def found(self, bench: str, command: str) -> Section | None:
        """What an interrupted run measured with this command."""
        return self._sections.get((bench, command))

    def keep(self, section: Section) -> None:
        """Note a section, instead of the one of the same command."""
        self._sections[section.bench, section.command] = section
        if self.part is not None:
            _write_whole(self.part, here(self._sections.values()))

    def add(self, bench: str, command: str, lines: Sequence[Mapping[str, Any]], *, seconds: float) -> None:
        """Note more lines, and more seconds, of a section."""
        before = self.found(bench, command) or Section(bench, command, (), 0.0)
        self.keep(replace(before, lines=(*before.lines, *lines), seconds=round((before.seconds or 0.0) + seconds, 1)))

    def finish(self, sections: Sequence[Section], *, whole: bool) -> None:
        """Write the record; what is kept goes, unless something is still to be measured."""
        if self._path is None or self.part is None:
            return
        _write_whole(self._path, here(sections))
        if whole:
            self.part.unlink(missing_ok=True)


@contextmanager
def broken_off_by_term() -> Iterator[None]:
    """Let SIGTERM do what Ctrl-C does, so that what was started is stopped."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _of_here(record: Record) -> bool:
    """Whether a record is of this commit and machine: figures of others must not be mixed with ours."""
    return record.commit == commit() and record.machine == machine()


def _write_whole(path: Path, record: Record) -> None:
    """In one step: an interruption leaves the file as it was."""
    beside = path.with_name(f"{path.name}.new")
    write(beside, record)
    os.replace(beside, path)
