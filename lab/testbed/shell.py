"""What a second terminal needs for the demo cluster: one line to type, whatever the cluster's directory is called.

Why: a newcomer should not copy paths of temporary directories, look for a kubectl of the right version, or find old
clusters in ~/.kube afterwards.
Rule: `make cluster` writes one file at a fixed place; sourcing it points kubectl and netgang of that terminal, and of
no other, to this cluster. Everything it names is in the cluster's own directory, and the file goes when the cluster
stops, unless a later one has written its own by then.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from lab.testbed.programs.build import program_path

_COMMANDS = ("netgang", "kubectl-netgang")
"""Our commands, as far as they are installed beside the interpreter that runs this."""


@contextmanager
def shell_file(path: Path, *, directory: Path, variables: Mapping[str, str]) -> Iterator[Path]:
    """While the context lasts: `path`, to be sourced by bash or zsh, with `variables` and our commands on PATH.

    `directory` is the cluster's own; kubectl's notes about the cluster are kept there, too.
    """
    text = _text({**variables, "KUBECACHEDIR": str(directory / "kubectl-cache")}, commands=_linked(directory / "bin"))
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    try:
        yield path
    finally:
        if path.exists() and path.read_text() == text:
            path.unlink()
            if not any(path.parent.iterdir()):
                path.parent.rmdir()


def from_here(path: Path) -> str:
    """The path as one would type it: relative where that leads down from the working directory."""
    here = Path.cwd()
    return shlex.quote(str(path.relative_to(here) if path.is_relative_to(here) else path))


def _linked(directory: Path) -> Path:
    """A directory for PATH with kubectl by that name, and ours: nothing else of the virtual environment."""
    directory.mkdir()
    (directory / "kubectl").symlink_to(program_path("kubectl"))
    for name in _COMMANDS:
        program = Path(sys.executable).with_name(name)
        if os.access(program, os.X_OK):
            (directory / name).symlink_to(program)
    return directory


def _text(variables: Mapping[str, str], *, commands: Path) -> str:
    """Lines for the shell.

    >>> print(_text({"KUBECONFIG": "/c 1/admin"}, commands=Path("/c 1/bin")), end="")
    # Written by `make cluster`; gone when it stops.
    export KUBECONFIG='/c 1/admin'
    export PATH='/c 1/bin':"$PATH"
    """
    lines = [f"export {name}={shlex.quote(value)}\n" for name, value in variables.items()]
    head = "# Written by `make cluster`; gone when it stops.\n"
    return "".join([head, *lines, f'export PATH={shlex.quote(str(commands))}:"$PATH"\n'])
