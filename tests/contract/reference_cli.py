"""Pages of the command line: every command with its options, defaults and exit codes, as typer knows them."""

import re
import typing
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any

import typer

from cli.main import app
from tests.contract.reference_text import code, first_paragraph, table

_COMMANDS = """# Commands

All commands of `netgang`; `netgang COMMAND --help` says the same and more, their options are in
[cli-options.md](cli-options.md). Errors are sentences on standard error. Tables are coloured only on a terminal;
`--json` prints for machines. `netgang --install-completion` completes commands and options in your shell.

"""
_OPTIONS = """# Options

Every argument and option of every [command](cli.md), with what counts without it.

"""


def commands() -> Iterator[tuple[str, Any]]:
    """(name, command) of each command that does something, in the order in which help lists them."""
    yield from _below(typer.main.get_command(app), "netgang")


def _below(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    for own, one in getattr(command, "commands", {}).items():
        if getattr(one, "commands", None):
            yield from _below(one, f"{name} {own}")
        elif not one.hidden:
            yield f"{name} {own}", one


def exit_codes(command: Any) -> str:
    """What its help says of its exit codes; empty: nothing."""
    found = re.search(r"^Exit code: (.*?)(?:\n\n|\Z)", command.help or "", re.MULTILINE | re.DOTALL)
    return " ".join(found[1].split()) if found else ""


def cli_page() -> str:
    """docs/reference/cli.md as it must be."""
    rows = []
    for name, command in commands():
        example = (command.epilog or "").removeprefix("Example: ")
        rows.append((code(name), first_paragraph(command.help), exit_codes(command), code(example)))
    return _COMMANDS + table(("command", "what it does", "exit code", "example"), rows)


def options_page() -> str:
    """docs/reference/cli-options.md as it must be."""
    rows = []
    for name, command in commands():
        for one in command.params:
            if not getattr(one, "hidden", False) and one.name != "help":
                rows.append((code(name), code(_spelt(one)), _default(one), " ".join((one.help or "").split())))
    return _OPTIONS + table(("command", "option", "without it", ""), rows)


def _spelt(one: Any) -> str:
    """As it is written on the command line."""
    if one.param_type_name == "argument":
        return str(one.metavar or one.name.upper())
    kind = one.type_descriptor.annotation
    flag = getattr(one, "is_flag", False)
    names = ", ".join([*one.opts, *one.secondary_opts])
    return names if flag else f"{names} {one.metavar or _value(kind)}"


def _value(kind: Any) -> str:
    if isinstance(kind, type) and issubclass(kind, Enum):
        return "|".join(member.value for member in kind)
    if typing.get_origin(kind) is typing.Literal:
        return "|".join(typing.get_args(kind))
    if typing.get_origin(kind) is list:
        return _value(typing.get_args(kind)[0])
    return {int: "NUMBER", float: "NUMBER", Path: "FILE"}.get(kind, "TEXT")


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
