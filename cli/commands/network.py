"""`netgang network` and `netgang scores`: look at measured links from the command line."""

import json
import sys
from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console

from cli.output import clear_errors, fail, option, say
from cli.reach import Reach, progress, reaching, run
from extender.errors import ConfigError

app = typer.Typer(no_args_is_help=True, help="Look at the measured links.")


@app.callback()
def _group() -> None:
    """Look at the measured links."""


@app.command(
    epilog="Example: netgang network show --maddash https://maddash.example.org/maddash --json > mesh.json; "
    "netgang plan cluster.json --network mesh.json"
)
@reaching
def show(
    reach: Reach,
    maddash: Annotated[
        str | None,
        option("Address of a MaDDash server; needs no cluster and no settings.", "none"),
    ] = None,
    zone: Annotated[str | None, option("Only nodes of this zone (running netgang).", "all")] = None,
    limit: Annotated[
        int | None, typer.Option(min=1, max=100, help="Most nodes (running netgang).", show_default="40")
    ] = None,
    insecure: Annotated[bool, typer.Option("--insecure", help="Accept any certificate (MaDDash).")] = False,
    timeout_s: Annotated[
        float, typer.Option("--timeout-s", min=0.1, help="Longest time for one grid (MaDDash).")
    ] = 60.0,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json",
            help="Print a list of {source, target, loss_ratio, delay_ms, throughput_bps, age_s, grid}, null where "
            "unknown; `age_s` is that of the oldest value.",
        ),
    ] = False,
) -> None:
    """Show packet loss, one-way delay and throughput of every measured link, as a coloured matrix or as JSON.

    From a MaDDash server (--maddash), whose grids are found by what their checks say, or from a running netgang.
    Loss is green up to 0.001 %, yellow above, pink from 0.1 % on.

    Exit code: 0 shown; 1 no answer, or nothing measured; 2 wrong use.
    """
    from client.documents import survey_running
    from extender.network.maddash.client import MaddashServer
    from extender.network.survey import survey_maddash
    from extender.runtime.clock import SystemClock

    errors = Console(stderr=True)
    with clear_errors(errors):
        _refuse_mixtures(reach, maddash=maddash, others={"--zone": zone, "--limit": limit})
        if maddash is None:
            survey = reach.ask(lambda door: survey_running(door, zone=zone, limit=limit or 40))
        else:
            server = MaddashServer(maddash, ca_file=reach.said.ca_file, insecure=insecure, timeout_s=timeout_s)
            with progress("reading grids") as on_read:
                survey = run(survey_maddash(server, now_s=SystemClock().now_s(), on_read=on_read))
    for problem in survey.problems:
        say(errors, "note: ", "yellow", problem)
    if as_json:
        lines = ",\n".join(json.dumps(asdict(link)) for link in survey.links)
        sys.stdout.write(f"[\n{lines}\n]\n" if lines else "[]\n")
    elif survey.links:
        from cli.rendering.links import draw

        draw(Console(), survey)
    if not survey.links:
        fail(errors, "nothing there measures packet loss, delay or throughput", code=1)


@reaching
def scores(
    reach: Reach,
    source: Annotated[str, typer.Option("--from", help="A node.")],
    target: Annotated[str, typer.Option("--to", help="Another node.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the document /v1/network/FROM/TO as it is.")] = False,
) -> None:
    """Show what the link between two nodes is worth and why: values, ages, sources and points of each metric.

    Points are as among the nodes of the zone: throughput is compared with its best rate, and what is unknown has the
    median of what is known less a penalty.

    Exit code: 0 shown; 1 no answer; 2 wrong use, such as a node that does not exist.
    """
    from client.documents import link

    with clear_errors():
        found, body = reach.ask(lambda door: link(door, source, target))
    if as_json:
        sys.stdout.write(body.decode() + "\n")
    else:
        from cli.rendering.links import print_link

        print_link(Console(), found)


def _refuse_mixtures(reach: Reach, *, maddash: str | None, others: dict[str, object]) -> None:
    given = [name for name in reach.said.given if name != "--ca-file"]  # which both may need
    given += [name for name, value in others.items() if value is not None]
    if maddash is not None and given:
        raise ConfigError(f"{given[0]} is for a running netgang and goes not together with --maddash")
