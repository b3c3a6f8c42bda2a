"""Options that several commands share, foremost those by which a command that asks a service finds it.

How: a command takes one parameter `reach: Reach`, or another record; the decorators `reaching` and `having` put the
options in its place, which typer then shows and reads. Rule: options come before the environment (NETGANG_URL,
NETGANG_TOKEN); as `kubectl netgang` the way is through the API server unless an address is given.
"""

import asyncio
import inspect
import os
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial, wraps
from inspect import Parameter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar, get_type_hints

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
_KIND: Final = Parameter.KEYWORD_ONLY


def _option(kind: Any, text: str, default: str, *names: str, metavar: str | None = None) -> Any:
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

    def reach(ctx: typer.Context, given: dict[str, Any]) -> Reach:
        return Reach(Said(**given), by_kubectl=ctx.find_root().info_name == KUBECTL)

    added = [Parameter(name, _KIND, default=None, annotation=annotation) for name, annotation in _OPTIONS.items()]
    return _spread(command, "reach", added, reach)


def having(**records: type) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A decorator: a command's parameters that are records of options are shown as these, behind the command's own."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        for name, record in records.items():
            kinds, usual = get_type_hints(record, include_extras=True), record()
            added = [Parameter(one, _KIND, default=getattr(usual, one), annotation=kind) for one, kind in kinds.items()]
            command = _spread(command, name, added, partial(_made, record))
        return command

    return decorate


def _made(record: type, _: typer.Context, given: dict[str, Any]) -> object:
    return record(**given)


def _spread(
    command: Callable[..., None],
    name: str,
    added: Sequence[Parameter],
    make: Callable[[typer.Context, dict[str, Any]], object],
) -> Callable[..., None]:
    own = inspect.signature(command).parameters
    shown = [Parameter("ctx", _KIND, annotation=typer.Context)]
    shown += [one.replace(kind=_KIND) for one in own.values() if one.name not in (name, "ctx")]

    @wraps(command)
    def run(*, ctx: typer.Context, **given: Any) -> None:
        made = make(ctx, {one.name: given.pop(one.name) for one in added})
        command(**given, **({"ctx": ctx} if "ctx" in own else {}), **{name: made})

    run.__signature__ = inspect.Signature([*shown, *added])  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in [*shown, *added]}
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
