"""The command line: which commands there are. Each heading has a module: `gangs`, `files`, `installation`.

Rules of every command: results on standard output, everything else on standard error; exit code 0 when it was done or
shown, 1 without an answer, 2 for wrong use; errors are sentences, never a traceback; what a server says is only text.
`--json` prints for machines; only a terminal has colours. Commands import what they need when they run.
"""

import atexit
import inspect
import os
import re
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partialmethod
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from typer.core import TyperArgument, TyperOption

from cli.files import demo, plan, simulate
from cli.gangs import explain, jobs, network, queue, what_if
from cli.installation import doctor, serve, uninstall
from cli.output import say
from cli.service_options import KUBECTL


def _value(param: Any, converted: Callable[..., Any], ctx: Any, value: Any) -> Any:
    """Texts, numbers, paths and what is not given, read here: typer would load pydantic, half of all the time."""
    kind = getattr(getattr(param, "type_descriptor", None), "annotation", None)
    if value in (None, (), []) and not param.required:
        value = [] if param.nargs == -1 or getattr(param, "multiple", False) else None
    elif value is None or kind not in _READ:
        return converted(param, ctx, value)
    elif kind is int and not re.fullmatch(r"-?[0-9]{1,18}", str(value)):
        raise typer.BadParameter(f"{value!r} is no whole number", ctx=ctx, param=param)
    else:
        value = _READ[kind](value)
    return value if param.callback is None else param.callback(ctx, param, value)


_READ: Final[Mapping[Any, Callable[[Any], Any]]] = {str: str, int: int, Path: Path, list[str]: list}
for _kind in (TyperOption, TyperArgument):
    _kind.process_value = partialmethod(_value, _kind.process_value)  # type: ignore[assignment, method-assign]

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    epilog="Example: netgang demo (no cluster is needed), and in another terminal: netgang queue; netgang explain "
    "demo/tf-smoke-gpu; netgang what-if --remove-job demo/case1",
)

_FILES: Final = "Without a cluster"
_COMMANDS: Final[Mapping[str, Mapping[Callable[..., None], str]]] = {  # heading → command → an example of its use
    "Gangs, jobs and links": {
        queue: "netgang queue; netgang queue -n team-a --state waiting -o wide; netgang queue team-a/resnet",
        explain: "netgang explain demo/case1; netgang explain resnet -n team-a --json",
        what_if: "netgang what-if -f job.yaml; netgang what-if --pods 8 --request nvidia.com/gpu=4; "
        "netgang what-if --remove-job team-a/resnet --cordon node1",
        jobs: "netgang jobs; netgang jobs -n team-a -o wide; netgang jobs team-a/resnet",
        network: "netgang network; netgang network node28 node33; netgang network --zone A --json > mesh.json",
    },
    _FILES: {
        demo: "netgang demo --port 8888",
        plan: "kubectl get nodes,pods,podgroups -A -o json > c.json; netgang plan c.json --network mesh.yaml; "
        "netgang plan decisions.gz",
    },
    "Installation": {
        serve: "netgang serve --config settings.yaml --kubeconfig ~/.kube/config --port 8888",
        doctor: "netgang doctor; netgang doctor --scheduler-config scheduler.yaml --json",
        uninstall: "netgang uninstall --dry-run",
    },
}

for _heading, _listed in _COMMANDS.items():
    for _command, _example in _listed.items():
        app.command(epilog=f"Example: {_example}", rich_help_panel=_heading)(_command)
app.command(
    epilog="Example: netgang simulate --help; netgang simulate kod2 --json; netgang simulate my.yaml",
    rich_help_panel=_FILES,
    add_help_option=False,
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
)(simulate)
for _one in app.registered_commands:  # a paragraph a line: a terminal of any width breaks lines by itself
    _one.help = "\n\n".join(" ".join(part.split()) for part in (inspect.getdoc(_one.callback) or "").split("\n\n"))


def _version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        sys.stdout.write(f"netgang {version('netgang')}\n")
        raise typer.Exit


@app.callback()
def _program(
    _: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version, and end.")
    ] = False,
) -> None:
    """Starts distributed training jobs whole, in one zone, on the best measured network."""


def kubectl() -> None:
    """Run the command line as kubectl's plugin, which kubectl finds as `kubectl-netgang` in PATH."""
    main(prog_name=KUBECTL)


def main(**named: str) -> None:
    """Run the command line, and end the process without the interpreter's own end.

    Why: pyreqwest's thread may be about to hold the interpreter when Python ends, and then Python aborts the process
    (3 of 100 short commands; the same as github.com/PyO3/pyo3-async-runtimes/issues/40).
    """
    code = 1

    def leave() -> None:
        with suppress(OSError, AttributeError):  # standard output may be full, or closed from the start
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)

    atexit.register(leave)  # runs after the handlers that commands register
    # Read by numpy's import: products of small matrices lose ten times more by handing work over than they gain.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        app(**named)
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        raise
    except OSError as error:
        say("error: ", "red", f"standard output: {error.strerror}")


if __name__ == "__main__":
    main()
