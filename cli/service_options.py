"""Options that several commands share, foremost those by which a command that asks a service finds it.

How: a command takes a parameter that is a record of options, such as `reach: Reach`; the decorator `having` puts the
options in its place, which typer then shows and reads. Rule: options come before the environment (NETGANG_URL); as
`kubectl netgang` the way is through the API server unless an address is given.
"""

import inspect
from collections.abc import Callable, Coroutine
from functools import partial, wraps
from inspect import Parameter
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias, TypeVar, get_type_hints

import msgspec
import typer
from rich.console import Console

from cli.output import option
from extender.errors import ConfigError

if TYPE_CHECKING:
    from client.way import Door

_T = TypeVar("_T")
_Command: TypeAlias = Callable[..., None]
KUBECTL: Final = "kubectl netgang"  # The program's name when kubectl runs it
_USUAL: Final = "netgang-system/netgang:8889"
_where: Final = partial(option, rich_help_panel="Where netgang is")


class Reach(msgspec.Struct, frozen=True):
    """Where netgang is, as it was said; nothing is read before it is needed."""

    ctx: typer.Context
    url: Annotated[
        str | None, _where("Address of a running netgang; else NETGANG_URL.", "http://127.0.0.1:8888", "--url")
    ] = None
    kubeconfig: Annotated[Path | None, _where("Ask through the API server of this kubeconfig.", "as kubectl")] = None
    context: Annotated[str | None, _where("Ask through the API server of this context.", "the current")] = None
    service: Annotated[
        str | None,
        _where("Ask through the API server: netgang's Service.", _USUAL, metavar="NAMESPACE/[https:]NAME[:PORT]"),
    ] = None

    @property
    def by_kubectl(self) -> bool:
        """Whether kubectl runs this."""
        return self.ctx.find_root().info_name == KUBECTL

    def ask(self, question: Callable[["Door"], Coroutine[Any, Any, _T]], text: str = "asking netgang") -> _T:
        """What netgang answers; a terminal shows meanwhile that it is asked. Errors: ConfigError, the question's."""
        from client.way import door

        by = (self.kubeconfig, self.context, self.service)
        way = door(self.url, *by, prefers_cluster=self.by_kubectl)
        with Console(stderr=True).status(text):  # seen on a terminal alone
            return run(question(way))

    def named(self, name: str, namespace: str | None) -> str:
        """NAMESPACE/NAME; with -n, which is `namespace`, NAME may have slashes. Errors: ConfigError if none is said."""
        if namespace is None and "/" not in name:
            namespace = self.namespace(namespace)
        whole = name if namespace is None or name.startswith(f"{namespace}/") else f"{namespace}/{name}"
        if not all(whole.partition("/")) or {".", ".."} & {*whole.split("/")}:
            raise ConfigError(f"{name!r} is no NAMESPACE/NAME")
        return whole

    def namespace(self, given: str | None) -> str | None:
        """`given`, else as kubectl's plugin that of the context; `None`: neither is known. Errors: ConfigError."""
        if given is not None or not self.by_kubectl or self.url is not None:
            return given
        from client.way import access_of

        return access_of(self.kubeconfig, self.context).namespace or "default"


def having(**records: type) -> Callable[[_Command], _Command]:
    """A decorator: each of these parameters, a record of options, is shown as the options, behind the command's own."""

    def shown(command: _Command) -> _Command:
        added = {name: _parameters(record) for name, record in records.items()}
        own = [parameter for name, parameter in inspect.signature(command).parameters.items() if name not in records]

        @wraps(command)
        def run(**given: Any) -> None:
            for name, options in added.items():
                given[name] = records[name](**{option.name: given.pop(option.name) for option in options})
            command(**given)

        whole = [*(parameter.replace(kind=Parameter.KEYWORD_ONLY) for parameter in own), *chain(*added.values())]
        run.__signature__ = inspect.Signature(whole)  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in whole}
        return run

    return shown


def _parameters(record: type) -> list[Parameter]:
    kinds, fields = get_type_hints(record, include_extras=True), msgspec.structs.fields(record)
    usual = {field.name: Parameter.empty if field.required else field.default for field in fields}
    return [Parameter(name, Parameter.KEYWORD_ONLY, default=usual[name], annotation=kinds[name]) for name in usual]


def run(asking: Coroutine[Any, Any, _T]) -> _T:
    """Run on an event loop of its own; whatever embeds the command line keeps its loop."""
    import asyncio

    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        return runner.run(asking)
