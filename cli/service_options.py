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
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias, TypeVar, get_type_hints

import typer
from rich.console import Console

from cli.output import option
from client.connect.target import Said
from extender.errors import ConfigError

if TYPE_CHECKING:
    from client.connect.connection import Door

_T = TypeVar("_T")
_Command: TypeAlias = Callable[..., None]
KUBECTL: Final = "kubectl netgang"  # The program's name when kubectl runs it
_KIND: Final = Parameter.KEYWORD_ONLY


_where: Final = partial(option, rich_help_panel="Where netgang is")
_FILES: Final = frozenset({"token_file", "ca_file", "kubeconfig"})
_FORM: Final = "NAMESPACE/[https:]NAME[:PORT]"
_USUAL: Final = "netgang-system/netgang:8889"
_OPTIONS: Final[dict[str, Any]] = {  # field of `Said` → its help, what counts without it, and its names
    "url": _where("Address of a running netgang; else NETGANG_URL.", "http://127.0.0.1:8888", "--url", "--server"),
    "token_file": _where("File with a token for netgang, where it asks for one; else NETGANG_TOKEN.", "none"),
    "ca_file": _where("Certificates to trust besides the system's.", "none"),
    "kubeconfig": _where("Connect through the API server with this kubeconfig.", "as kubectl"),
    "context": _where("Ask through the API server of this context.", "the current"),
    "service": _where("Ask through the API server: where netgang is installed.", _USUAL, metavar=_FORM),
    "through": _where("Ask through the API server this way.", "port-forward", metavar="port-forward|service-proxy"),
}


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
        from client.connect.connection import door

        said = replace(self.said, token=os.environ.get("NETGANG_TOKEN", ""), url=self._url)
        return door(said, prefers_cluster=self.by_kubectl)

    @property
    def _url(self) -> str | None:
        """The address that was given, as an option or else in the environment."""
        return (
            self.said.url
            if self.said.url is not None or self.said.in_cluster
            else os.environ.get("NETGANG_URL") or None
        )

    def named(self, name: str, namespace: str | None) -> str:
        """NAMESPACE/NAME; `namespace` is -n, and kubectl's context has one too. ConfigError: none, or two."""
        first, slash, _ = name.partition("/")
        if slash:
            if namespace is not None and namespace != first:
                raise ConfigError(f"{name!r} and --namespace {namespace}: name one namespace")
            return name
        namespace = self.namespace(namespace)
        if namespace is None:
            raise ConfigError(f"{name!r} is no NAMESPACE/NAME")
        return f"{namespace}/{name}"

    def namespace(self, given: str | None) -> str | None:
        """`given`, else as kubectl's plugin that of the context; `None`: neither is known. Errors: ConfigError."""
        if given is not None or not self.by_kubectl or self.said.url is not None:
            return given
        from client.connect.kubeconfig import chosen

        return chosen(self.said.kubeconfig, self.said.context).namespace or "default"


def reaching(command: _Command) -> _Command:
    """The command with the options of `Reach` behind its own."""

    def reach(ctx: typer.Context, given: dict[str, Any]) -> Reach:
        return Reach(Said(**given), by_kubectl=_by_kubectl(ctx))

    kinds = {name: Annotated[kind, _OPTIONS[name]] for name, kind in get_type_hints(Said).items() if name in _OPTIONS}
    added = [Parameter(name, _KIND, default=None, annotation=kind) for name, kind in kinds.items()]
    return _spread(command, "reach", added, reach)


def reach_of(ctx: typer.Context) -> Reach:
    """Where netgang is by the options that stand before the cursor of a shell."""
    said: dict[str, Any] = {name: ctx.params.get(name) for name in _OPTIONS}
    said |= {name: Path(said[name]) for name in _FILES if said[name]}
    return Reach(Said(**said), by_kubectl=_by_kubectl(ctx))


def _by_kubectl(ctx: typer.Context) -> bool:
    return ctx.find_root().info_name == KUBECTL


def having(name: str, record: type) -> Callable[[_Command], _Command]:
    """A decorator: a command's parameter that is a record of options is shown as these, behind the command's own."""
    kinds, usual = get_type_hints(record, include_extras=True), record()
    added = [Parameter(one, _KIND, default=getattr(usual, one), annotation=kind) for one, kind in kinds.items()]
    return lambda command: _spread(command, name, added, lambda _, given: record(**given))


def _spread(
    command: _Command,
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
