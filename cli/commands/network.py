"""`netgang network`: what is known of the links between nodes, and what the link between two of them is worth."""

import json
import sys
from functools import partial
from typing import Annotated

import typer
from rich.console import Console

from cli.output import AsJson, Wide, clear_errors, fail, option, print_answer, print_list, say
from cli.service_options import Reach, having
from extender.errors import ConfigError


@having(reach=Reach)
def network(
    reach: Reach,
    nodes: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NODE NODE]", help="What the link between these two is worth, and why."),
    ] = None,
    zone: Annotated[str | None, option("With -o wide or --json: only links of this zone's nodes.", "all")] = None,
    output: Wide = None,
    as_json: AsJson = False,
) -> None:
    """Show how much of the network is measured, which nodes and zones have bad links, and how the probe's agents do.

    -o wide has one line a link: packet loss, one-way delay, throughput, and the age of the oldest of them. --json is
    the list of links that `netgang plan --network` reads: {source, target, loss_ratio, delay_ms, throughput_bps,
    age_s}, null where unknown. Both have at most 100 nodes.

    Of two nodes: one line a metric, with both directions and their points, as among the nodes of the zone; what is
    unknown has the median of what is known less a penalty. -o wide shows how old each value is, and its source.

    Exit code: 0 shown; 1 no answer, or nothing measured; 2 wrong use, such as a node that does not exist.
    """
    from client import documents

    errors = Console(stderr=True)
    with clear_errors(errors):
        if nodes:
            _link(reach, nodes, output, as_json=as_json)
            return
        found = reach.ask(partial(documents.network, zone=zone))
    links = documents.links_of(found.pairs)
    for problem in documents.problems_of(found):
        say(errors, "note: ", "yellow", problem)
    if as_json:
        lines = ",\n".join(json.dumps(link._asdict()) for link in links)
        sys.stdout.write(f"[\n{lines}\n]\n" if lines else "[]\n")
    elif output is not None:
        from cli.rendering.network import links_table

        print_list(partial(links_table, links=links), output)
    else:
        from cli.rendering.network import health

        print_list(partial(health, found=found))
    if not links:
        fail(errors, "nothing there measures packet loss, delay or throughput", code=1)


def _link(reach: Reach, nodes: list[str], output: Wide, *, as_json: bool) -> None:
    from cli.rendering.network import link_table
    from client import documents

    if len(nodes) != 2:
        raise ConfigError("name two nodes: netgang network NODE NODE")
    found, body = reach.ask(partial(documents.link, source=nodes[0], target=nodes[1]))
    draw = partial(link_table, link=found, wide=output is not None)
    print_answer(body, partial(print_list, draw, output), as_json=as_json)
