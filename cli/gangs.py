"""Commands that ask a running netgang: the queue, jobs, why a gang waits, what would be if, and the network."""

import json
import sys
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias

import msgspec
import typer
from msgspec.structs import replace
from rich.console import Console

from cli.output import AsJson, Only, Wide, clear_errors, fail, option, print_answer, print_json, print_list, say
from cli.service_options import Reach, having
from extender.errors import ConfigError

_supposing: Final = partial(option, rich_help_panel="What would be different; jobs, nodes and settings may be repeated")
_Several: TypeAlias = list[str] | None
_STATES: Final = "waiting|starving|running|completed"


@having(reach=Reach)
def queue(
    reach: Reach,
    names: Annotated[_Several, typer.Argument(metavar="[NAMESPACE/]NAME...", help="Only these.")] = None,
    state: Annotated[_Several, option("Only such; may be repeated.", "all", "--state", "-s", metavar=_STATES)] = None,
    namespace: Only = None,
    output: Wide = None,
    as_json: AsJson = False,
) -> None:
    """Show the queue, one line a gang: rank, state, how many of the members that it needs run, time waited, and why.

    Gangs that wait come first, in the queue's order; ranks count all namespaces, also with -n, totals what is listed.
    STARTS is the expected start (UTC), where any is known. On a terminal the last column ends where the line does; -o
    wide shows all of it, and weight, time until STARVING and the gangs in the way.

    Exit code: 0 shown; 1 no answer; 2 wrong use, such as a gang that is not known; 130 Ctrl-C.
    """
    import client
    from cli.tables import queue_table

    states = {name.upper() for name in state or ()}
    with clear_errors():
        if states - set(_STATES.upper().split("|")):
            raise ConfigError(f"--state {', '.join(state or ())}: accepted: {_STATES}")
        wanted = {reach.named(name, namespace) for name in names or ()}
        queue, gangs, body = reach.ask(partial(client.queue, namespace=namespace, wanted=wanted))
    shown = [gang for gang in gangs if not states or gang.state in states]
    count = Counter(gang.state for gang in shown)
    queue = replace(queue, counts={name: count[name] for name in queue.counts})
    if as_json:
        listed, document = {gang.gang for gang in shown}, json.loads(body)
        only = [gang for gang in document["gangs"] if gang["gang"] in listed]
        print_json(document | {"gangs": only, "counts": queue.counts})
    else:
        print_list(partial(queue_table, queue=queue, wanted=shown, wide=output is not None), output)


@having(reach=Reach)
def jobs(
    reach: Reach,
    job: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAMESPACE/]NAME", help="One job, with the history of its changes.", show_default="all"
        ),
    ] = None,
    namespace: Only = None,
    output: Wide = None,
    as_json: AsJson = False,
) -> None:
    """Show jobs that may be resized, one line a job: state, workers (now, least, most), and what is asked of them.

    -o wide shows weight, nodes, zones, network score with the worst link, and last report, too.

    Exit code: 0 shown; 1 no answer; 2 wrong use, such as a job that is not known; 130 Ctrl-C.
    """
    import client
    from cli.tables import job_in_full, jobs_table
    from extender.schemas import JobInFull

    wide = output is not None
    with clear_errors():
        if job is not None:
            path = client.path_of("v1", "jobs", *reach.named(job, namespace).split("/", 1))
            answer, body = reach.ask(partial(client.ask, path=path, kind=JobInFull))
            draw = partial(job_in_full, job=answer, wide=wide)
        else:
            jobs, body = reach.ask(partial(client.jobs, namespace=namespace))
            draw = partial(jobs_table, jobs=jobs, wide=wide)
    print_answer(body, partial(print_list, draw, output), as_json=as_json)


class Supposing(msgspec.Struct, frozen=True):
    """What would be different."""

    filename: Annotated[
        Path | None,
        _supposing("Pods and Jobs of this manifest are applied; -: standard input.", "none", "--filename", "-f"),
    ] = None
    pods: Annotated[int | None, _supposing("So many pods more, a gang.", "none", metavar="N")] = None
    request: Annotated[
        str | None, _supposing("What each of --pods asks for.", "none", metavar="cpu=4,nvidia.com/gpu=1")
    ] = None
    min_available: Annotated[int | None, _supposing("How many of --pods must start at once.", "all of them")] = None
    priority: Annotated[
        int | None, _supposing("Priority of --pods, and of pods of -f whose class is not in the file.", "0")
    ] = None
    remove_job: Annotated[_Several, _supposing("A gang or job is gone.", "none", metavar="NAMESPACE/NAME")] = None
    cordon: Annotated[_Several, _supposing("A node takes no new pods.", "none", metavar="NODE")] = None
    uncordon: Annotated[_Several, _supposing("A node takes pods again.", "none", metavar="NODE")] = None
    advance: Annotated[str | None, _supposing("Time passes: 90s, 10m, 2h, 1d.", "none", metavar="TIME")] = None
    set: Annotated[
        list[str] | None, _supposing("A setting that decides, such as queue.order=fifo.", "none", metavar="NAME=VALUE")
    ] = None

    def body(self, namespace: str) -> tuple[dict[str, Any], list[str]]:
        """The body of /v1/what-if, and notes on what is not known. Errors: ConfigError."""
        from cli.manifest import alike, read_manifest, submitted
        from extender.settings.reading import unfold
        from scoring.model.gang import duration_s

        try:
            advance_s = 0.0 if self.advance is None else duration_s(self.advance)
        except ValueError as error:
            raise ConfigError(f"--advance {self.advance} {error}") from error
        settings: dict[str, Any] = {}
        for text in self.set or ():
            name, equals, value = text.partition("=")
            if not (all(name.split(".")) and equals):
                raise ConfigError(f"--set {text}: write NAME=VALUE, such as queue.order=fifo")
            try:
                settings[name] = json.loads(value)
            except ValueError:
                settings[name] = value  # A word
        body: dict[str, Any] = {"remove_jobs": self.remove_job, "cordon": self.cordon, "uncordon": self.uncordon}
        body |= {"advance_s": advance_s, "settings": unfold(settings)}
        body = {name: value for name, value in body.items() if value}
        notes: list[str] = []
        if (self.pods is None) is not (self.request is None):
            raise ConfigError("--pods and --request belong together")
        if self.pods is not None and self.filename is not None:
            raise ConfigError("--pods and -f: name one of them")
        common: dict[str, Any] = {"namespace": namespace, "priority": self.priority}
        if self.pods is not None and self.request is not None:
            body |= alike(self.pods, self.request, least=self.min_available, **common)
        if self.filename is not None:
            more, notes = submitted(read_manifest(self.filename), **common)
            body |= more
        if not body:
            raise ConfigError("say what would be different: -f FILE, --pods N, --remove-job, --cordon; see --help")
        return body, notes


@having(reach=Reach)
def explain(
    reach: Reach,
    name: Annotated[str, typer.Argument(metavar="[NAMESPACE/]NAME", help="A gang, one of its pods, or its job.")],
    namespace: Annotated[str | None, option("Namespace of NAME.", "none", "--namespace", "-n")] = None,
    as_json: AsJson = False,
) -> None:
    """Say why a gang is where it is: the cause and what helps, members, what each zone has for it, its rank.

    Exit code: 0 shown; 1 no answer; 2 wrong use, such as a gang that is not known.
    """
    import client
    from cli.tables import print_explanation
    from scoring.records import Explained

    with clear_errors():
        path = client.path_of("v1", "explain", *reach.named(name, namespace).split("/", 1))
        document, body = reach.ask(partial(client.ask, path=path, kind=Explained), "asking the planner")
    print_answer(body, partial(print_explanation, Console(), document), as_json=as_json)


@having(supposed=Supposing, reach=Reach)
def what_if(
    reach: Reach,
    supposed: Supposing,
    namespace: Annotated[
        str | None, option("Namespace of --pods, and of objects of -f that name none.", "default", "--namespace", "-n")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Say which gangs would be admitted, refused or moved if something were different. Nothing is changed anywhere.

    With -f or --pods: whether the gang would fit, where, with what network score, and else behind which gangs and when
    it would start, if that is known, or why never. All that is supposed is supposed together.

    Exit code: 0 shown; 1 no answer; 2 wrong use, such as a node that is not known.
    """
    import client
    from cli.tables import print_supposed
    from extender.api.what_if import read_what_if
    from scoring.records import Supposed
    from scoring.what_if import MisfitError

    with clear_errors():
        body, notes = supposed.body(reach.namespace(namespace) or "default")
        for note in notes:
            say("note: ", "yellow", note)
        try:
            what = read_what_if(json.dumps(body))
        except MisfitError as error:
            raise ConfigError(str(error)) from error
        asking = partial(client.ask, path="/v1/what-if", kind=Supposed, body=what, timeout_s=120.0)
        document, answered = reach.ask(asking, "asking the planner")
    print_answer(answered, partial(print_supposed, Console(), document), as_json=as_json)


@having(reach=Reach)
def network(
    reach: Reach,
    nodes: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NODE NODE | map]", help="A link's worth, and why; map: each node's endpoint."),
    ] = None,
    zone: Annotated[str | None, option("With --json or map: only this zone's nodes.", "all")] = None,
    as_json: AsJson = False,
) -> None:
    """Show how much of the network is measured, which nodes and zones have bad links, and how the probe's agents do.

    --json is the list of links that `netgang plan --network` reads: {source, target, loss_ratio, delay_ms,
    throughput_bps, age_s}, null where unknown; at most 100 nodes.

    map: where each node is measured, and which endpoints are no node's, with the rule to add to network.mapping.

    Of two nodes: one line a metric, with both directions, their ages, sources and points, as among nodes of the zone;
    what is unknown has the median of what is known less a penalty.

    Exit code: 0 shown; 1 no answer, or nothing measured; 2 wrong use, such as a node that does not exist.
    """
    import client
    from cli.tables import endpoint_table, health, link_table
    from extender.schemas import LinkInFull

    with clear_errors():
        mapping = nodes == ["map"]
        if nodes and len(nodes) != 2 and not mapping:
            raise ConfigError("name two nodes: netgang network NODE NODE; or netgang network map")
        if nodes and not mapping:
            path = client.path_of("v1", "network", *nodes)
            link, body = reach.ask(partial(client.ask, path=path, kind=LinkInFull))
            print_answer(body, partial(print_list, partial(link_table, link=link)), as_json=as_json)
            return
        network = reach.ask(partial(client.network, zone=zone))
    links, shown, of = client.links_of(network.pairs), len(network.pairs.nodes), network.pairs.of
    sources = network.status.sources if network.status else ()
    problems = [text for source in sources for text in (source.error, *source.problems) if text]
    for problem in (*problems, *([f"{shown} of {of} nodes; see --zone"] if shown < of else [])):
        say("note: ", "yellow", problem)
    if mapping:
        draw = partial(endpoint_table, network=network)
        print_answer(json.dumps(network.endpoints).encode(), partial(print_list, draw), as_json=as_json)
    elif as_json:
        lines = ",\n".join(json.dumps(link) for link in links)
        sys.stdout.write(f"[\n{lines}\n]\n" if lines else "[]\n")
    else:
        print_list(partial(health, network=network))
    if not mapping and not any(counts.known_pairs for counts in network.metrics.values()):
        fail("nothing there measures packet loss, delay or throughput", code=1)
