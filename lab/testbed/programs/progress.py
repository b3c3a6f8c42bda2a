"""Show builds and starts to people: a moving bar in a terminal, one plain line per event elsewhere (CI logs)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn


class ShownProgress:
    """A `lab.testbed.programs.build.Reporter` that draws one line per program; use it as a context manager.

    `doing` and `done` are the words for what happens to the program, such as build and built.
    """

    def __init__(self, console: Console, *, doing: str = "build", done: str = "built") -> None:
        self._console = console
        self._doing, self._done = doing, done
        self._tasks: dict[str, TaskID] = {}  # label of the program → its line
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[count]}"),
            TimeElapsedColumn(),
            console=console,
            disable=not console.is_terminal,
        )

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def started(self, label: str) -> None:
        """Draw a line without a length until the packages are counted."""
        self._tasks[label] = self._progress.add_task(f"{self._doing} {label}", total=None, count="")
        if not self._console.is_terminal:
            self._console.print(f"{self._doing} {label} …")

    def advanced(self, label: str, *, done: int, total: int) -> None:
        """Move the bar of `label`."""
        self._progress.update(self._tasks[label], completed=done, total=total, count=f"{done}/{total} packages")

    def finished(self, label: str, *, seconds: float) -> None:
        """Replace the bar by a permanent line with the duration."""
        self._progress.remove_task(self._tasks.pop(label))
        self._console.print(f"[green]{self._done}[/green] {label} in {seconds:.0f} s", highlight=False)

    @contextmanager
    def step(self, label: str) -> Iterator[None]:
        """Show that something starts, then how long it took."""
        began_s = time.monotonic()
        task = self._progress.add_task(f"start {label}", total=None, count="")
        try:
            yield
        finally:
            self._progress.remove_task(task)
        self._console.print(f"[green]started[/green] {label} in {time.monotonic() - began_s:.1f} s", highlight=False)
