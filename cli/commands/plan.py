"""`netgang plan` and `netgang check-config`: what netgang would do with files, and with settings; needs no cluster."""

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console

from cli.output import AsJson, clear_errors, option, print_body, print_json
from cli.reach import busy
from extender.errors import ConfigError

ConfigFile = Annotated[Path | None, option("Settings file, YAML or JSON.", "none", "--config")]


def plan(
    file: Annotated[Path, typer.Argument(help="What `kubectl get nodes,pods,podgroups -A -o json` prints.")],
    network: Annotated[
        Path | None,
        option("Mesh: list of {source, target, loss_ratio, delay_ms, throughput_bps, age_s}.", "none"),
    ] = None,
    now: Annotated[
        str | None,
        option("Moment to plan for, such as 2026-01-31T12:00:00Z or Unix seconds.", "now"),
    ] = None,
    scaling: Annotated[
        Literal["ours", "literal"] | None,
        option(
            "Also which jobs would shrink and which would grow: as netgang does it, or as published, node by "
            "node. The file must have the jobs, too: kubectl get nodes,pods,podgroups,jobs,tfjobs,hpa …",
            "no",
        ),
    ] = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Say which gangs would start where and which would wait for what, from files alone. Nothing is changed anywhere.

    Exit code: 0 shown; 2 wrong use, or a file cannot be read.
    """
    import msgspec

    from cli.offline.plan import moment_s, plan_files
    from cli.rendering.plan import print_plan
    from extender.settings.settings import Settings

    with clear_errors():
        settings, now_s = Settings.load(config), moment_s(now)
        with busy("planning"):
            document = plan_files(file, network, settings, now_s=now_s, scaling=scaling)
    if as_json:
        print_body(msgspec.json.encode(document))
    else:
        print_plan(Console(), document)


def check_config(
    config: Annotated[Path | None, typer.Argument(help="Settings file; the environment counts as well.")] = None,
    cluster: Annotated[
        Path | None,
        option("A saved cluster: show which of its nodes would be measured where.", "none"),
    ] = None,
    network: Annotated[Path | None, option("The mesh for --cluster.", "none")] = None,
    as_json: AsJson = False,
) -> None:
    """Check settings; print them as they would be used.

    With a saved cluster and a mesh, print instead which node would be measured at which endpoint, and what is in doubt;
    `netgang network show --maddash URL --json` makes a mesh of a MaDDash server.

    Exit code: 0 the settings are good; 2 they are not, or a file cannot be read.
    """
    from cli.offline.plan import map_files
    from cli.rendering.plan import print_endpoints
    from extender.runtime.clock import SystemClock
    from extender.settings.settings import Settings

    with clear_errors():
        if (cluster is None) != (network is None):
            raise ConfigError("--cluster and --network belong together")
        settings = Settings.load(config)
        if cluster is not None and network is not None:
            document = map_files(cluster, network, settings, now_s=SystemClock().now_s())
            if as_json:
                print_json(document)
            else:
                print_endpoints(Console(), document)
            return
    text = settings.model_dump_json(indent=2)
    if as_json:
        sys.stdout.write(text + "\n")
    else:
        Console().print_json(text)
