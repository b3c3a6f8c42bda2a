"""`netgang plan` and `netgang check-config`: what netgang would do with files, and with settings; needs no cluster."""

import json
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from cli.listing import Found, Listing, Output, Scope, show_found
from cli.output import AsJson, clear_errors, option, say
from cli.service_options import busy, having
from extender.errors import ConfigError

if TYPE_CHECKING:
    from extender.schemas.plan import AdmittedGang, WaitingGang

ConfigFile = Annotated[Path | None, option("Settings file, YAML or JSON.", "none", "--config")]


@having("listing", Listing)
@having("scope", Scope)
def plan(
    listing: Listing,
    scope: Scope,
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="What `kubectl get nodes,pods,podgroups -A -o json` prints, or the decisions of /v1/record.",
        ),
    ],
    network: Annotated[
        Path | None,
        option(
            "Measured links, as `netgang network show --json` prints them: a list of {source, target, loss_ratio, "
            "delay_ms, throughput_bps, age_s}.",
            "none",
        ),
    ] = None,
    now: Annotated[
        str | None,
        option("Moment to plan for, such as 2026-01-31T12:00:00Z or Unix seconds.", "now"),
    ] = None,
    config: ConfigFile = None,
) -> None:
    """Say which gangs would start where and which would wait for what, from files alone. Nothing is changed anywhere.

    One line a gang, in the order of the queue; -o wide shows state and weight, and numbers, too. Without measurements a
    warning says that zones and room alone decided. -n limits the lines, not the plan. Of recorded decisions, each is
    made again, and the newest is shown.

    Exit code: 0 shown; 1 a recorded decision comes out differently; 2 wrong use, or a file cannot be read.
    """
    import msgspec

    from cli.offline.plan import is_log, moment_s, plan_files, plan_log
    from cli.rendering.plan import plan_table
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
    gangs: list[AdmittedGang | WaitingGang] = [*document.admitted, *document.waiting]
    gangs.sort(key=lambda one: (one.rank, one.gang))
    shown = [one for one in gangs if scope.has(one.gang)]
    draw = partial(plan_table, found=document, gangs=shown, wide=listing.wide, heads=listing.heads)
    show_found(listing, Found(msgspec.json.encode(document), [one.gang for one in shown], draw))
    if planned.different:
        say(errors, "error: ", "red", f"{planned.different} of {planned.recorded} decisions come out differently")
        raise typer.Exit(1)
    if recorded:
        say(errors, "", "green", f"all of {planned.recorded} decisions come out as recorded")


def check_config(
    config: Annotated[
        Path | None, typer.Argument(metavar="SETTINGS", help="Settings file; the environment counts as well.")
    ] = None,
    cluster: Annotated[
        Path | None,
        option("A saved cluster: show which of its nodes would be measured where.", "none"),
    ] = None,
    network: Annotated[
        Path | None, option("Measured links for --cluster, as `netgang network show --json` prints them.", "none")
    ] = None,
    output: Annotated[
        Output | None,
        option("With --cluster, of nodes: whole lines; the document; or names.", "none", "--output", "-o"),
    ] = None,
    no_headers: Annotated[bool, typer.Option("--no-headers", help="With --cluster: only the lines of nodes.")] = False,
    as_json: AsJson = False,
) -> None:
    """Check settings; print them as they would be used.

    With a saved cluster and a mesh, print instead which node would be measured at which endpoint, and what is in doubt;
    `netgang network show --maddash URL --json` makes a mesh of a MaDDash server.

    Exit code: 0 the settings are good; 2 they are not, or a file cannot be read.
    """
    from cli.offline.plan import map_files
    from cli.rendering.plan import endpoints_table
    from extender.runtime.clock import SystemClock
    from extender.settings.settings import Settings

    with clear_errors():
        if (cluster is None) != (network is None):
            raise ConfigError("--cluster and --network belong together")
        settings = Settings.load(config)
        if cluster is not None and network is not None:
            document = map_files(cluster, network, settings, now_s=SystemClock().now_s())
            listing = Listing(output, no_headers=no_headers, as_json=as_json)
            draw = partial(endpoints_table, document=document, heads=listing.heads)
            show_found(listing, Found(json.dumps(document).encode(), list(document["nodes"]), draw))
            return
    text = settings.model_dump_json(indent=2)
    if as_json:
        sys.stdout.write(text + "\n")
    else:
        Console().print_json(text)
