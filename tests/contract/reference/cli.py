"""The page of the command line: every command with its options, defaults and exit codes, as typer knows them."""

import re
import typing
from collections.abc import Iterable, Iterator
from enum import Enum
from pathlib import Path
from typing import Any, TypeAlias

import typer

from cli.main import app
from tests.contract.reference.text import code, first_paragraph, table

_COMMANDS = """# Commands

`netgang COMMAND --help` says the same. Errors are sentences on standard error; tables are coloured on a terminal only;
`--json` prints for machines.

## Asking a running netgang

Options of {users}; which way they choose is in [the command line](../how-to/cli.md#where-netgang-is).

{options}"""
_ASKING = ("`--url", "`--kubeconfig", "`--context", "`--service")
_HEAD = ("option", "without it", "")
Row: TypeAlias = tuple[str, str, str]


def _commands(command: Any, name: str = "netgang") -> Iterator[tuple[str, Any]]:
    for own, one in getattr(command, "commands", {}).items():
        if getattr(one, "commands", None):
            yield from _commands(one, f"{name} {own}")
        elif not one.hidden:
            yield f"{name} {own}", one


def exit_codes(command: Any) -> str:
    found = re.search(r"^Exit code: (.*?)(?:\n\n|\Z)", command.help or "", re.MULTILINE | re.DOTALL)
    return " ".join(found[1].split()) if found else ""


def cli_page() -> str:
    found = {name: (command, tuple(_options(command))) for name, command in _commands(typer.main.get_command(app))}
    asks = {name: {row for row in rows if row[0].startswith(_ASKING)} for name, (_, rows) in found.items()}
    shared = max(asks.values(), key=len)
    users = [name for name in found if asks[name] == shared]
    text = _COMMANDS.format(
        users=", ".join(code(name.removeprefix("netgang ")) for name in users),
        options=table(_HEAD, [row for row in found[users[0]][1] if row in shared]),
    )
    for name, (command, rows) in found.items():
        own = rows if name not in users else [row for row in rows if row not in shared]
        example = code((command.epilog or "").removeprefix("Example: "))
        text += (
            f"\n## {name}\n\n{first_paragraph(command.help)} Exit code: {exit_codes(command)}\n\nExample: {example}\n"
        )
        text += f"\n{table(_HEAD, own)}" if own else ""
    return text


def _options(command: Any) -> Iterator[Row]:
    for one in command.params:
        if not getattr(one, "hidden", False) and one.name != "help":
            yield code(_spelt(one)), _default(one), " ".join((one.help or "").split())


def _spelt(one: Any) -> str:
    if one.param_type_name == "argument":
        return str(one.metavar or one.name.upper())
    kind = one.type_descriptor.annotation
    flag = getattr(one, "is_flag", False)
    names = ", ".join([*one.opts, *one.secondary_opts])
    value = _choice(one.metavar.split("|")) if "|" in (one.metavar or "") else one.metavar or _value(kind)
    return names if flag else f"{names} {value}"


def _value(kind: Any) -> str:
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _choice(member.value for member in kind)
    if typing.get_origin(kind) is typing.Literal:
        return _choice(typing.get_args(kind))
    if typing.get_origin(kind) is list:
        return _value(typing.get_args(kind)[0])
    return {int: "NUMBER", float: "NUMBER", Path: "FILE"}.get(kind, "TEXT")


def _choice(values: Iterable[str]) -> str:
    return f"{{{','.join(values)}}}"  # not with |, which would end the cell


def _default(one: Any) -> str:
    if one.required:
        return "required"
    if isinstance(one.show_default, str):
        return one.show_default
    if getattr(one, "is_flag", False):
        return "on" if one.default else "off"
    if one.default in (None, "", ()):
        return "none"
    return code(str(one.default.value if isinstance(one.default, Enum) else one.default))
