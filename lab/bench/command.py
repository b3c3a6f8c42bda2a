"""What the command lines of the benchmarks share: options, programs, the bar, and which errors end what.

Why in one place: `lab.bench peers` and `… exam` must read alike, and an option that `bench all` passes on must
mean the same to each of them.
"""

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Annotated, Any, TypeVar

import aiohttp
import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn

from lab.testbed.errors import ControlPlaneError

PROGRAMS = ("etcd", "kube-apiserver", "kube-scheduler", "kwok")
FRESH = "--fresh"
Fresh = Annotated[bool, typer.Option(FRESH, help="Take nothing from an interrupted run.")]
JsonFile = Annotated[
    Path | None,
    typer.Option(
        "--json",
        dir_okay=False,
        help="Write a record that `bench results` reads. A run that was interrupted goes on from FILE.part.json.",
    ),
]
_OUTSIDE = (ControlPlaneError, OSError, aiohttp.ClientError)
"""What a program that ends, or an API server that does not answer in time, is seen as; TimeoutError is an OSError."""
_WIDTH = 150
"""Of tables that go to a file."""
R = TypeVar("R")


def bar(console: Console) -> Progress:
    """A bar that shows what is done and how long it has taken."""
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        console=console,
    )


def output(console: Console) -> Console:
    """Where tables go, if `console` is where messages go."""
    return Console(width=None if console.is_terminal else _WIDTH)


def outcome(work: Coroutine[Any, Any, R]) -> R | ControlPlaneError:
    """The result of `work` in an event loop of its own, or the error of a control plane that did not work.

    Other errors are bugs and are raised.
    """
    try:
        with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
            return runner.run(work)
    except (*_OUTSIDE, ExceptionGroup) as wrong:
        if isinstance(wrong, ExceptionGroup) and wrong.split(_OUTSIDE)[1] is not None:
            raise
        return ControlPlaneError(str(wrong) or "the API server did not answer in time")
