"""Commands that need no cluster: the demonstration, plans of files, and the simulator of a checkout.

Why the demonstration: the first answer of a gang scheduler should take a newcomer a minute and no cluster. Its cluster,
mesh and request bodies are the files under examples/, which are also what the README's commands use.
"""

from functools import partial
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated

import typer

from cli.output import AsJson, ConfigFile, clear_errors, option, print_answer, print_list, say
from extender.errors import ConfigError

if TYPE_CHECKING:
    from extender.settings.settings import Settings

EXAMPLES = Path(__file__).parents[1] / "examples"


def demo(
    port: Annotated[int, typer.Option(help="Port to listen on, this machine only.")] = 8888,
    still: Annotated[bool, typer.Option("--still", help="Two gangs wait, and nothing happens by itself.")] = False,
) -> None:
    """Serve the paper's test bed (36 nodes, zones A-D, three impaired nodes), where jobs come, shrink, grow and go.

    A stand-in for kube-scheduler asks the verbs, and a second stands for a minute. Prints what to try with curl.

    Exit code: 0 after SIGTERM or Ctrl-C; 2 the example files are not there; 3 the port cannot be had.
    """
    from extender.bootstrap.serve import run
    from extender.runtime.log_lines import LogFormat, configure_logging

    with clear_errors():
        settings, service = demo_settings(port), None
        if not still:
            settings, service = of_a_clone("lab.testbed.living", "the demo that lives").told(settings, EXAMPLES)
        configure_logging(level="WARNING", log_format=LogFormat.TEXT)
        typer.echo(what_to_try(port, still=still), nl=False)
        run(settings, service=service)


def demo_settings(port: int) -> "Settings":
    """Settings of the demonstration. Errors: ConfigError outside a checkout, where the example files are missing."""
    from extender.settings.settings import Settings

    cluster, mesh = (EXAMPLES / what / "paper-testbed.json" for what in ("snapshot", "mesh"))
    for path in (cluster, mesh):
        if not path.exists():
            raise ConfigError(f"{path} is missing: run `netgang demo` from a checkout of the project")
    # The mesh is an example, not a measurement: its values do not age.
    network = {"sources": [{"kind": "file", "path": mesh}], "soft_ttl_s": None, "hard_ttl_s": None}
    return Settings.load(None, {"snapshot": cluster, "port": port, "network": network})


def what_to_try(port: int, *, still: bool) -> str:
    """Lines to paste into another terminal, from the top of the checkout."""
    url = f"http://127.0.0.1:{port}"
    lives = "Jobs come, shrink, grow and go: a stand-in for kube-scheduler asks, and a second stands for a minute."
    return f"""
netgang demo: the paper's test bed, 36 nodes in zones A-D, node33-35 impaired.
{"Two gangs wait, and nothing happens by itself." if still else lives}
See it at {url}/ in a browser. Paste these into another terminal, from this folder. Stop with Ctrl-C.

  # where may the first pod of gang demo/case1 go? (one node of zone D, never 33, 34, 35; where it is, if it runs)
  curl -s {url}/filter -d @examples/requests/filter-case1.json
  # how good is each node for it, 0-10? (33, 34, 35 are the worst of zone D)
  curl -s {url}/prioritize -d @examples/requests/prioritize-case1.json
  # why does the TensorFlow job wait? (it wants 8 GPUs, the cluster has 4)
  curl -s {url}/filter -d @examples/requests/filter-tf-smoke-gpu.json
  curl -s {url}/v1/explain/demo/tf-smoke-gpu
  # all six binds: of a gang that waits they are held until the sixth, of one that runs they are confirmed at once
  examples/whole-gang.sh {url}

"""


def plan(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="What `kubectl get nodes,pods,podgroups -A -o json` prints, or the decisions of /v1/record.",
        ),
    ],
    network: Annotated[Path | None, option("Measured links, as `netgang network --json` prints them.", "none")] = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Say which gangs would start where and which would wait for what, from files alone. Nothing is changed anywhere.

    One line a gang, in the order of the queue. Without measurements a warning says that zones and room alone decided.
    Of recorded decisions, each is made again, and the newest is shown.

    Exit code: 0 shown; 1 a recorded decision comes out differently; 2 wrong use, or a file cannot be read.
    """
    import msgspec

    from cli.offline import is_log, plan_files, plan_log
    from cli.tables import plan_table
    from extender.ports import SystemClock
    from extender.settings.settings import Settings

    with clear_errors():
        settings, now_s = Settings.load(config), SystemClock().now_s()
        recorded = is_log(file)
        if recorded and (network, config) != (None, None):
            raise ConfigError(f"{file} has its own network and settings: leave --network and --config away")
        planned = plan_log(file) if recorded else plan_files(file, network, settings, now_s=now_s)
    document = planned.document
    if not planned.measured and not recorded:
        why = "give --network MESH" if network is None else f"no node of {file} is measured in {network}"
        say("warning: ", "yellow", f"no network data, zones and room alone decide: {why}")
    draw = partial(print_list, partial(plan_table, plan=document))
    print_answer(msgspec.json.encode(document), draw, as_json=as_json)
    if planned.different:
        say("error: ", "red", f"{planned.different} of {planned.recorded} decisions come out differently")
        raise typer.Exit(1)
    if recorded:
        say("", "green", f"all of {planned.recorded} decisions come out as recorded")


def simulate(context: typer.Context) -> None:
    """Simulate training jobs under several policies, in a checkout of the project: no cluster is needed.

    Exit code: 0 it ran; 2 the scenario cannot be used, or this is no checkout.
    """
    with clear_errors():
        app = of_a_clone("lab.simulator.command", "the simulator").app
    app(context.args, prog_name="netgang simulate")


def of_a_clone(module: str, what: str) -> ModuleType:
    """A module that a clone has and the installed package has not. Errors: ConfigError."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "lab":
            raise
        raise ConfigError(
            f"{what} is no part of the installed package: in a clone of the project run `make setup`, "
            "then `.venv/bin/netgang`"
        ) from error
