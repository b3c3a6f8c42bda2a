"""`netgang plan`: what netgang would do with files; `netgang simulate`: hand over to the simulator of a checkout."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from cli.output import AsJson, clear_errors, option, print_answer, print_list, say
from cli.service_options import busy
from extender.errors import ConfigError

ConfigFile = Annotated[Path | None, option("Settings file, YAML or JSON.", "none", "--config")]


def plan(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="What `kubectl get nodes,pods,podgroups -A -o json` prints, or the decisions of /v1/record.",
        ),
    ],
    network: Annotated[Path | None, option("Measured links, as `netgang network --json` prints them.", "none")] = None,
    now: Annotated[
        str | None, option("Moment to plan for, such as 2026-01-31T12:00:00Z or Unix seconds.", "now")
    ] = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Say which gangs would start where and which would wait for what, from files alone. Nothing is changed anywhere.

    One line a gang, in the order of the queue. Without measurements a warning says that zones and room alone decided.
    Of recorded decisions, each is made again, and the newest is shown.

    Exit code: 0 shown; 1 a recorded decision comes out differently; 2 wrong use, or a file cannot be read.
    """
    import msgspec

    from cli.offline import is_log, moment_s, plan_files, plan_log
    from cli.rendering.queue import plan_table
    from extender.settings.settings import Settings

    errors = Console(stderr=True)
    with clear_errors(errors):
        settings, now_s = Settings.load(config), moment_s(now)
        recorded = is_log(file)
        if recorded and (network, now, config) != (None, None, None):
            raise ConfigError(f"{file} has its own network, moment and settings: leave --network, --now, --config away")
        with busy("planning"):
            planned = plan_log(file) if recorded else plan_files(file, network, settings, now_s=now_s)
    document = planned.document
    if not planned.measured and not recorded:
        why = "give --network MESH" if network is None else f"no node of {file} is measured in {network}"
        say(errors, "warning: ", "yellow", f"no network data, zones and room alone decide: {why}")
    draw = partial(print_list, partial(plan_table, found=document))
    print_answer(msgspec.json.encode(document), draw, as_json=as_json)
    if planned.different:
        say(errors, "error: ", "red", f"{planned.different} of {planned.recorded} decisions come out differently")
        raise typer.Exit(1)
    if recorded:
        say(errors, "", "green", f"all of {planned.recorded} decisions come out as recorded")


def simulate(context: typer.Context) -> None:
    """Simulate training jobs under several policies, in a checkout of the project: no cluster is needed.

    Exit code: 0 it ran; 2 the scenario cannot be used, or this is no checkout.
    """
    with clear_errors():
        try:
            from lab.simulator.command import app
        except ModuleNotFoundError as error:
            if error.name is None or error.name.partition(".")[0] != "lab":
                raise
            raise ConfigError(
                "the simulator is no part of the installed package: in a clone of the project run "
                "`make setup`, then `.venv/bin/netgang simulate`"
            ) from error
    app(context.args, prog_name="netgang simulate")
