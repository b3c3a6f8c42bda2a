"""The options by which every command that asks a service finds it, once for all of them.

How: a command takes one parameter `reach: Reach`; the decorator `reaching` puts the options in its place, which typer
then shows and reads. Rule: options come before the environment (NETGANG_URL, NETGANG_TOKEN); as `kubectl netgang` the
way is through the API server unless an address is given.
"""

import asyncio
import inspect
import os
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

import typer
from rich.console import Console

from client.connect.said import Said
from extender.errors import ConfigError

if TYPE_CHECKING:
    from client.connect.door import Door

_T = TypeVar("_T")
KUBECTL: Final = "kubectl netgang"
"""The program's name when kubectl runs it"""
_PANEL: Final = "Where netgang is"


def _option(kind: Any, text: str, default: str, *names: str, metavar: str | None = None) -> Any:
    """An option's annotation, as typer reads it."""
    found = typer.Option(*names, help=text, show_default=default, metavar=metavar, rich_help_panel=_PANEL)
    return Annotated[kind, found]


_TEXT: Final = str | None
_FILE: Final = Path | None
_OPTIONS: Final[dict[str, Any]] = {
    "url": _option(
        _TEXT, "Address of a running netgang; else NETGANG_URL.", "http://127.0.0.1:8888", "--url", "--server"
    ),
    "token_file": _option(
        _FILE, "File with a token for netgang, where it asks for one; else NETGANG_TOKEN.", "none", "--token-file"
    ),
    "ca_file": _option(_FILE, "Certificates to trust besides the system's.", "none", "--ca-file"),
    "kubeconfig": _option(_FILE, "Connect through the API server with this kubeconfig.", "as kubectl", "--kubeconfig"),
    "context": _option(_TEXT, "Ask through the API server of this context.", "the current", "--context"),
    "service": _option(
        _TEXT,
        "Ask through the API server: where netgang is installed.",
        "netgang-system/netgang:8889",
        "--service",
        metavar="NAMESPACE/[https:]NAME[:PORT]",
    ),
    "through": _option(
        _TEXT, "Ask through the API server this way.", "port-forward", "--through", metavar="port-forward|service-proxy"
    ),
}
"""Field of `Said` → its option"""


@dataclass(frozen=True, slots=True)
class Reach:
    """Where netgang is, as it was said; nothing is read before it is needed."""

    said: Said
    by_kubectl: bool = False

    def ask(self, question: Callable[["Door"], Coroutine[Any, Any, _T]], text: str = "asking netgang") -> _T:
        """What netgang answers; a terminal shows meanwhile that it is asked. Errors: as `door`, and the question's."""
        door = self.door()
        with busy(text):
            return run(question(door))

    def door(self) -> "Door":
        """The way there; blocks. Errors: ConfigError."""
        from client.connect.door import door

        said = replace(self.said, token=os.environ.get("NETGANG_TOKEN", ""))
        address = os.environ.get("NETGANG_URL")
        if said.url is None and not said.in_cluster and address:
            said = replace(said, url=address)
        return door(said, prefers_cluster=self.by_kubectl)

    def named(self, name: str, namespace: str | None) -> str:
        """NAMESPACE/NAME of what is asked about; `namespace` is -n, and kubectl's context has one too.

        Errors: ConfigError when there is none, or two that differ.
        """
        first, slash, _ = name.partition("/")
        if slash:
            if namespace is not None and namespace != first:
                raise ConfigError(f"{name!r} and --namespace {namespace}: name one namespace")
            return name
        if namespace is None and self.by_kubectl and self.said.url is None:
            from client.connect.kubeconfig import chosen

            namespace = chosen(self.said.kubeconfig, self.said.context).namespace or "default"
        if namespace is None:
            raise ConfigError(f"{name!r} is no NAMESPACE/NAME")
        return f"{namespace}/{name}"


def reaching(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the options of `Reach` behind its own."""
    own = [one for name, one in inspect.signature(command).parameters.items() if name != "reach"]
    kind = inspect.Parameter.KEYWORD_ONLY
    added = [
        inspect.Parameter(name, kind, default=None, annotation=annotation) for name, annotation in _OPTIONS.items()
    ]
    first = inspect.Parameter("ctx", kind, annotation=typer.Context)

    @wraps(command)
    def run(*, ctx: typer.Context, **given: Any) -> None:
        said = Said(**{name: given.pop(name) for name in _OPTIONS})
        command(**given, reach=Reach(said, by_kubectl=ctx.find_root().info_name == KUBECTL))

    parameters = [first, *(one.replace(kind=kind) for one in own), *added]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in parameters}
    return run


def run(asking: Coroutine[Any, Any, _T]) -> _T:
    """Run on an event loop of its own; whatever embeds the command line keeps its loop."""
    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        return runner.run(asking)


def busy(text: str) -> AbstractContextManager[object]:
    """Shows on a terminal that something is going on; nothing elsewhere."""
    errors = Console(stderr=True)
    return errors.status(text) if errors.is_terminal else nullcontext()


@contextmanager
def progress(text: str) -> Iterator[Callable[..., None]]:
    """A bar on a terminal; it is called with what is done, then perhaps of how much, and another text."""
    from rich.progress import Progress

    errors = Console(stderr=True)
    with Progress(console=errors, transient=True, disable=not errors.is_terminal) as bar:
        task = bar.add_task(text, total=None)

        def update(done: int, due: int | None = None, label: str | None = None) -> None:
            bar.update(task, completed=done, total=due, description=label)

        yield update
