"""What the command lines of the benchmarks on a control plane share: options, programs, and which errors end what."""

import asyncio
import json
from collections.abc import Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

import aiohttp
import typer
from rich.console import Console

from lab.testbed.errors import ControlPlaneError
from lab.testbed.programs.build import ensure_all
from lab.testbed.programs.catalogue import KUBERNETES, Version

PROGRAMS = ("etcd", "kube-apiserver", "kube-scheduler", "kwok")
JsonFile = Annotated[Path | None, typer.Option("--json", dir_okay=False, help="Write the figures, a JSON object each.")]
_OUTSIDE = (ControlPlaneError, OSError, aiohttp.ClientError)
"""What a program that ends, or an API server that does not answer in time, is seen as; TimeoutError is an OSError."""
_WIDTH = 150
"""Of tables that go to a file."""
R = TypeVar("R")


def build(version: Version = KUBERNETES) -> None:
    """Build what is missing of the control plane: minutes if nothing is built yet. Errors: ControlPlaneError."""
    ensure_all(PROGRAMS, version=version)


def output(console: Console) -> Console:
    """Where tables go, if `console` is where messages go."""
    return Console(width=None if console.is_terminal else _WIDTH)


def write(path: Path | None, lines: Sequence[Mapping[str, Any]]) -> None:
    """Write JSON lines, if a file was asked for."""
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))


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
