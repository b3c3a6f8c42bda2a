"""`netgang network` and `netgang scores`: look at measured links from the command line."""

import json
import sys
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer
from rich.console import Console

from cli import completion
from cli.listing import Found, Listing, Output, Watch, show_found
from cli.listing import show as show_list
from cli.output import clear_errors, fail, option, say
from cli.service_options import Reach, having, progress, reaching, run
from extender.errors import ConfigError

if TYPE_CHECKING:
    from client.connect.connection import Door
    from extender.network.survey import Survey

app = typer.Typer(
    no_args_is_help=True,
    help="Look at the measured links.",
    epilog="Example: netgang network show; netgang network show --zone A -o wide",
)


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
    zone: Annotated[
        str | None, option("Only nodes of this zone (running netgang).", "all", autocompletion=completion.zones)
    ] = None,
    limit: Annotated[
        int | None, typer.Option(min=1, max=100, help="Most nodes (running netgang).", show_default="40")
    ] = None,
    insecure: Annotated[bool, typer.Option("--insecure", help="Accept any certificate (MaDDash).")] = False,
    timeout_s: Annotated[
        float, typer.Option("--timeout-s", min=0.1, help="Longest time for one grid (MaDDash).")
    ] = 60.0,
    output: Annotated[
        Output | None,
        option("One line a link; the list of links; or FROM/TO alone.", "a matrix", "--output", "-o"),
    ] = None,
    only_summary: Annotated[
        bool,
        typer.Option(
            "--summary",
            help="Only what is said of all links (running netgang): pairs measured and estimated, the probe's agents, "
            "ten worst links, medians between zones. With --json: {links, probe} of /v1/network.",
        ),
    ] = False,
    no_headers: Annotated[bool, typer.Option("--no-headers", help="With -o wide: only the lines of links.")] = False,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json",
            help="Print a list of {source, target, loss_ratio, delay_ms, throughput_bps, age_s, grid}, null where "
            "unknown; `age_s` is that of the oldest value.",
        ),
    ] = False,
) -> None:
    """Show packet loss, one-way delay and throughput of every measured link, as a coloured matrix or one line a link.

    From a MaDDash server (--maddash), whose grids are found by what their checks say, or from a running netgang.
    Loss is green up to 0.001 %, yellow above, pink from 0.1 % on. -o wide has one line a link. A running netgang also
    says how many pairs it knows, how the probe's agents do, and which links and zones are worst.

    Exit code: 0 shown; 1 no answer, or nothing measured; 2 wrong use.
    """
    from client.documents import survey_running
    from extender.network.maddash.client import MaddashServer
    from extender.network.survey import survey_maddash
    from extender.runtime.clock import SystemClock

    errors = Console(stderr=True)
    with clear_errors(errors):
        _refuse_mixtures(
            reach, maddash=maddash, others={"--zone": zone, "--limit": limit, "--summary": only_summary or None}
        )
        if maddash is None:
            survey = reach.ask(lambda door: survey_running(door, zone=zone, limit=limit or 40))
        else:
            server = MaddashServer(maddash, ca_file=reach.said.ca_file, insecure=insecure, timeout_s=timeout_s)
            with progress("reading grids") as on_read:
                survey = run(survey_maddash(server, now_s=SystemClock().now_s(), on_read=on_read))
    for problem in survey.problems:
        say(errors, "note: ", "yellow", problem)
    listing = Listing(output, no_headers=no_headers, as_json=as_json)
    if only_summary:
        _show_summary(survey, as_json=listing.form is Output.JSON)
        return
    if listing.form is Output.JSON:
        lines = ",\n".join(json.dumps(asdict(link)) for link in survey.links)
        sys.stdout.write(f"[\n{lines}\n]\n" if lines else "[]\n")
    elif listing.form is not None:
        from cli.rendering.scores import links_table

        body = json.dumps([asdict(link) for link in survey.links]).encode()
        names = [f"{link.source}/{link.target}" for link in survey.links]
        show_found(listing, Found(body, names, partial(links_table, links=survey.links, heads=listing.heads)))
    elif survey.links:
        from cli.rendering.links import draw

        draw(Console(), survey)
        _show_summary(survey, as_json=False)
    if not survey.links:
        fail(errors, "nothing there measures packet loss, delay or throughput", code=1)


@reaching
@having("listing", Listing)
def scores(
    reach: Reach,
    listing: Listing,
    nodes: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NODE NODE", help="Two nodes.", show_default="required", autocompletion=completion.nodes
        ),
    ] = None,
    source: Annotated[str | None, typer.Option("--from", help="The first node, as before.", hidden=True)] = None,
    target: Annotated[str | None, typer.Option("--to", help="The second node, as before.", hidden=True)] = None,
    watch: Watch = False,
) -> None:
    """Show what the link between two nodes is worth and why, one line a metric: both directions, and their points.

    Points are as among the nodes of the zone: throughput is compared with its best rate, and what is unknown has the
    median of what is known less a penalty. -o wide shows how old each value is, and its source.

    Exit code: 0 shown; 1 no answer; 2 wrong use, such as a node that does not exist; 130 Ctrl-C.
    """
    from client.documents import link

    with clear_errors():
        ends = [*(nodes or ()), *(end for end in (source, target) if end is not None)]
        if len(ends) != 2:
            raise ConfigError("name two nodes: netgang scores NODE NODE")

        async def look(door: "Door") -> Found:
            from cli.rendering.scores import link_table

            found, body = await link(door, *ends)
            draw = partial(link_table, link=found, wide=listing.wide, heads=listing.heads)
            return Found(body, list(found.metrics), draw, indented=False)

        show_list(reach, listing, look, watch=watch)


def _show_summary(survey: "Survey", *, as_json: bool) -> None:
    from cli.rendering.network_summary import summary

    if as_json:
        sys.stdout.write(msgspec.json.encode({"links": survey.seen, "probe": survey.probe}).decode() + "\n")
    elif survey.seen is not None or survey.probe is not None:
        console = Console()
        console.print(summary(console, survey.seen, survey.probe), highlight=False, soft_wrap=True)


def _refuse_mixtures(reach: Reach, *, maddash: str | None, others: dict[str, object]) -> None:
    given = [name for name in reach.said.given if name != "--ca-file"]  # which both may need
    given += [name for name, value in others.items() if value is not None]
    if maddash is not None and given:
        raise ConfigError(f"{given[0]} is for a running netgang and goes not together with --maddash")
