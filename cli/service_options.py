"""Options that several commands share, foremost those by which a command that asks a service finds it.

How: a command takes one parameter `reach: Reach`, or another record; the decorators `reaching` and `having` put the
options in its place, which typer then shows and reads. Rule: options come before the environment (NETGANG_URL); as
`kubectl netgang` the way is through the API server unless an address is given.
"""

import asyncio
import inspect
import os
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial, wraps
from inspect import Parameter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias, TypeVar, get_type_hints

import typer
from rich.console import Console

from cli.output import option
from extender.errors import ConfigError

if TYPE_CHECKING:
    from client.connection import Door, Said

_T = TypeVar("_T")
_Command: TypeAlias = Callable[..., None]
KUBECTL: Final = "kubectl netgang"  # The program's name when kubectl runs it
_KIND: Final = Parameter.KEYWORD_ONLY
_USUAL: Final = "netgang-system/netgang:8889"
_where: Final = partial(option, rich_help_panel="Where netgang is")


@dataclass(frozen=True, slots=True)
class Reach:
    """Where netgang is, as it was said; nothing is read before it is needed."""

    url: Annotated[
        str | None, _where("Address of a running netgang; else NETGANG_URL.", "http://127.0.0.1:8888", "--url")
    ] = None
    kubeconfig: Annotated[Path | None, _where("Ask through the API server of this kubeconfig.", "as kubectl")] = None
    context: Annotated[str | None, _where("Ask through the API server of this context.", "the current")] = None
    service: Annotated[
        str | None,
        _where("Ask through the API server: netgang's Service.", _USUAL, metavar="NAMESPACE/[https:]NAME[:PORT]"),
    ] = None
    by_kubectl: bool = False

    def ask(self, question: Callable[["Door"], Coroutine[Any, Any, _T]], text: str = "asking netgang") -> _T:
        """What netgang answers; a terminal shows meanwhile that it is asked. Errors: ConfigError, the question's."""
        from client.connection import door

        way = door(self._said, prefers_cluster=self.by_kubectl)
        with busy(text):
            return run(question(way))

    @property
    def _said(self) -> "Said":
        from client.connection import Said

        said = Said(self.url, self.kubeconfig, self.context, self.service)
        return said if said.given else replace(said, url=os.environ.get("NETGANG_URL") or None)

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
        if given is not None or not self.by_kubectl or self.url is not None:
            return given
        from client.kubeconfig import chosen

        return chosen(self.kubeconfig, self.context).namespace or "default"


def reaching(command: _Command) -> _Command:
    """The command with the options of `Reach` behind its own."""
    added = [one for one in _parameters(Reach) if one.name != "by_kubectl"]
    return _spread(
        command, "reach", added, lambda ctx, given: Reach(**given, by_kubectl=ctx.find_root().info_name == KUBECTL)
    )


def having(name: str, record: type) -> Callable[[_Command], _Command]:
    """A decorator: a command's parameter that is a record of options is shown as these, behind the command's own."""
    return lambda command: _spread(command, name, _parameters(record), lambda _, given: record(**given))


def _parameters(record: type) -> list[Parameter]:
    kinds, usual = get_type_hints(record, include_extras=True), record()
    return [Parameter(one, _KIND, default=getattr(usual, one), annotation=kind) for one, kind in kinds.items()]


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
