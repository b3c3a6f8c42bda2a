"""`kubectl netgang`: the same commands, found through the person's kubeconfig, and completed by kubectl.

How: kubectl runs the program `kubectl-netgang` of PATH for `kubectl netgang …`, and asks `kubectl_complete-netgang` for
completions. Rule: the way to netgang is the API server of the current context unless an address is given; a name
without a namespace is in the context's, as for kubectl.
"""

import io
import os
import shlex
import sys
from contextlib import redirect_stdout, suppress
from typing import Final

from cli.main import app, single_threaded
from cli.service_options import KUBECTL

_NO_FILES: Final = ":4"  # kubectl's word for: these are all, do not offer files
_FILES: Final = ":0"


def main() -> None:
    """Run the command line as kubectl's plugin."""
    single_threaded()
    app(prog_name=KUBECTL)


def complete() -> None:
    """Print what may come next as kubectl reads it: lines as for fish, for which typer is asked; then what else may."""
    words = sys.argv[1:] or [""]
    os.environ |= {
        "_NETGANG_COMPLETE": "complete_fish",
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
        "_TYPER_COMPLETE_ARGS": shlex.join(["netgang", *words[:-1]]) + f" {words[-1]}",
    }
    said = io.StringIO()
    with redirect_stdout(said), suppress(SystemExit):
        app(prog_name=KUBECTL, complete_var="_NETGANG_COMPLETE")
    lines = [line for line in said.getvalue().splitlines() if line]
    sys.stdout.write("\n".join([*lines, _NO_FILES if lines else _FILES]) + "\n")


if __name__ == "__main__":
    main()
