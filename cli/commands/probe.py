"""`netgang probe`: the agent that measures a node's links.

Why another program takes over: the agent runs on each node and needs a tenth of the memory that this command line takes
by its imports alone. Options are the agent's own (`probe.settings`), which reads the environment too.
"""

import os
import sys
from typing import Annotated

import typer

from cli.output import option
from probe.settings import OPTIONS

_HELP = {name: f"{words} Environment: {variable}." for name, (variable, _, words) in OPTIONS.items()}


def _option(name: str) -> typer.models.OptionInfo:
    return option(_HELP[name], OPTIONS[name][1] or "none", f"--{name}")  # type: ignore[no-any-return]


def probe(
    url: Annotated[str | None, _option("url")] = None,
    node: Annotated[str | None, _option("node")] = None,
    address: Annotated[str | None, _option("address")] = None,
    port: Annotated[str | None, _option("port")] = None,
    token_file: Annotated[str | None, _option("token-file")] = None,
    ca_file: Annotated[str | None, _option("ca-file")] = None,
) -> None:
    """Measure the links of a node, in place of perfSONAR, and report them to netgang; one agent runs on each node.

    Exit code: 0 after SIGTERM or Ctrl-C; 2 for bad settings; 3 the port or the address cannot be had.
    """
    given = zip(OPTIONS, (url, node, address, port, token_file, ca_file), strict=True)
    arguments = [f"--{name}={value}" for name, value in given if value is not None]
    os.execv(sys.executable, [sys.executable, "-P", "-m", "probe", *arguments])  # noqa: S606 - ourselves
