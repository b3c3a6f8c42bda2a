"""`netgang mesh`: write the configurations of perfSONAR and MaDDash that measure a cluster's nodes and zones."""

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from typer import Option

from cli.listing import Found, Listing, Output, show_found
from cli.mesh.maddash import PLUGINS, maddash_document, maddash_yaml
from cli.mesh.mesh import Site, site_of
from cli.mesh.nodes import Selector, SiteNode, nodes_of_list, nodes_of_objects
from cli.mesh.plan import LatencyTest, MeshPlan, archive_base, check_notes, round_notes
from cli.mesh.psconfig import psconfig_template
from cli.output import clear_errors, json_body, option, say
from cli.service_options import having, run
from extender.convert.clusterfile import body_of
from extender.errors import ConfigError


@dataclass(frozen=True, slots=True)
class MeshOptions:
    """What both commands of `netgang mesh` are given."""

    cluster: Annotated[
        Path | None,
        option("What `kubectl get nodes -o json` prints; - is standard input.", "none", "--cluster", "--snapshot"),
    ] = None
    kubeconfig: Annotated[Path | None, option("Ask the API server for its nodes, with these credentials.", "none")] = (
        None
    )
    config: Annotated[Path | None, option("netgang's settings: what they say of zones and endpoints.", "none")] = None
    selector: Annotated[str, Option(help="Only nodes with these labels: key=value or key, separated by commas.")] = ""
    gateways: Annotated[int, Option(min=0, help="Nodes of each zone that measure those of all other zones.")] = 1
    gateway_selector: Annotated[
        str | None, option("Labels of nodes that are gateways before others.", "first by name")
    ] = None
    name: Annotated[str, Option(help="Name of the template, of the dashboard, and in front of each grid.")] = "netgang"
    latency_test: Annotated[
        LatencyTest,
        Option(help="latencybg: one way, always; latency: one way, at times; rtt: ping, needs no synchronised clocks."),
    ] = LatencyTest.LATENCYBG
    latency_interval_s: Annotated[
        int | None, Option(min=1, help="Loss and delay this often.", show_default="60; 300 if not always")
    ] = None
    throughput_interval_s: Annotated[int, Option(min=1, help="A throughput test of each link this often (iperf3).")] = (
        14_400
    )

    def plan(self, **more: Any) -> MeshPlan:
        """What is tested how often. Errors: ConfigError."""
        usual_s = 60 if self.latency_test is LatencyTest.LATENCYBG else 300
        return MeshPlan(
            name=self.name,
            latency=self.latency_test,
            latency_interval_s=self.latency_interval_s or usual_s,
            throughput_interval_s=self.throughput_interval_s,
            **more,
        )

    def site(self) -> Site:
        """The mesh of the nodes of a file or an API server. Errors: ConfigError, and the API server's."""
        from extender.network.mapping import mapping_config
        from extender.settings.settings import Settings

        settings = Settings.load(self.config)
        return site_of(
            _nodes(self.cluster, self.kubeconfig, settings.zone_label),
            selector=Selector(self.selector),
            gateways=self.gateways,
            gateway_selector=None if self.gateway_selector is None else Selector(self.gateway_selector),
            config=mapping_config(settings),
        )


@dataclass(frozen=True, slots=True)
class MeshListing(Listing):
    """How the mesh is to be shown."""

    output: Annotated[
        Output | None,
        option(
            "Instead of the configuration: one line an end of the tests; their names; the same as JSON or YAML.",
            "as its program reads it",
            "--output",
            "-o",
        ),
    ] = None
    no_headers: Annotated[bool, Option("--no-headers", help="With -o wide: only the lines of ends.")] = False


def _nodes(cluster: Path | None, kubeconfig: Path | None, zone_label: str) -> tuple[SiteNode, ...]:
    if cluster is not None and kubeconfig is not None:
        raise ConfigError("--cluster and --kubeconfig go not together")
    if cluster is not None:
        return nodes_of_list(body_of(cluster), where=str(cluster), zone_label=zone_label)
    if kubeconfig is not None:
        return nodes_of_objects(_asked(kubeconfig), where="API server", zone_label=zone_label)
    raise ConfigError("name the nodes: --cluster FILE (- is standard input) or --kubeconfig FILE")


def _asked(kubeconfig: Path) -> list[bytes]:
    from extender.kube.credentials import load
    from extender.kube.operator_client import OperatorApi
    from extender.runtime.clock import SystemClock

    server = load(kubeconfig, clock=SystemClock())

    async def ask() -> list[bytes]:
        async with OperatorApi.opened(server) as api:
            return [node async for node in api.items("/api/v1/nodes")]

    return run(ask())


app = typer.Typer(
    no_args_is_help=True,
    help="Write configurations that measure the cluster's links with perfSONAR: all of a zone, gateways between zones.",
    epilog="Example: netgang mesh psconfig --kubeconfig ~/.kube/config -o wide; netgang mesh maddash --help",
)


@app.command(
    epilog="Example: kubectl get nodes -o json | netgang mesh psconfig --cluster - "
    "--selector netgang.io/testpoint=true --archive https://archive.example.org > mesh.json"
)
@having("options", MeshOptions)
@having("listing", MeshListing)
def psconfig(
    options: MeshOptions,
    listing: MeshListing,
    throughput_duration_s: Annotated[int, typer.Option(min=1, help="How long a throughput test lasts.")] = 20,
    bucket_width_ms: Annotated[
        float,
        typer.Option(
            min=0.001,
            max=100.0,
            help="Resolution of one-way delay. Leave it at 1 where MaDDash or esmond reads the results.",
        ),
    ] = 1.0,
    archive: Annotated[
        str | None, option("perfSONAR archive to send results to, such as https://archive.example.org.", "none")
    ] = None,
    insecure: Annotated[bool, typer.Option("--insecure", help="Accept any certificate of the archive.")] = False,
) -> None:
    """Print a pSConfig template (JSON): which endpoints test which others, what and how often.

    The nodes of a zone all test each other; --gateways of each zone test those of the other zones. Tests run at the
    endpoint that settings, annotation or label `netgang.io/endpoint` name, else at the node's InternalIP. Look at
    the mesh first with -o wide: one line an end, with its zone and whether it is a gateway.

    Exit code: 0 printed; 1 the API server did not answer; 2 wrong use.
    """
    with clear_errors():
        plan = options.plan(throughput_duration_s=throughput_duration_s, bucket_width_ms=bucket_width_ms)
        site = options.site()
        base = None if archive is None else archive_base(archive)
        document = psconfig_template(site, plan, archive=base, verify_tls=not insecure)
    _notes((*site.notes, *round_notes(site, plan)))
    _show(listing, site, document)


@app.command(
    epilog="Example: netgang mesh maddash --kubeconfig ~/.kube/config --selector netgang.io/testpoint=true "
    "--archive https://archive.example.org > maddash.yaml"
)
@having("options", MeshOptions)
@having("listing", MeshListing)
def maddash(
    options: MeshOptions,
    listing: MeshListing,
    archive: Annotated[
        str,
        typer.Option(
            help="perfSONAR archive that MaDDash asks (esmond or elmond), such as https://archive.example.org."
        ),
    ],
    check_interval_s: Annotated[int, typer.Option(min=20, help="MaDDash looks at loss and delay this often.")] = 300,
    plugins: Annotated[str, typer.Option(help="Directory of perfSONAR's Nagios plugins on that machine.")] = PLUGINS,
) -> None:
    """Print a MaDDash configuration (YAML) for the same mesh: one grid per metric for each zone, and one between zones.

    Give the same options as to `netgang mesh psconfig`. netgang finds the grids by their checks; `dashboards: NAME` in
    its MaDDash source limits it to them.

    Exit code: 0 printed; 1 the API server did not answer; 2 wrong use.
    """
    with clear_errors():
        plan, every_s = options.plan(), check_interval_s
        if not plugins or any(char.isspace() for char in plugins):
            raise ConfigError(f"plugins {plugins!r}: MaDDash splits commands at blanks")
        site, base = options.site(), archive_base(archive)
        document = maddash_document(site, plan, archive=base, check_interval_s=every_s, plugins=plugins.rstrip("/"))
    _notes((*site.notes, *check_notes(site, interval_s=every_s)))
    if listing.form in (None, Output.YAML):
        sys.stdout.write(maddash_yaml(document))
    else:
        _show(listing, site, document)


def _show(listing: MeshListing, site: Site, document: Any) -> None:
    from cli.rendering.mesh_ends import ends_table

    draw = partial(ends_table, site=site, heads=listing.heads)
    form = listing.form or Output.JSON
    show_found(Listing(form), Found(json_body(document), [end.key for end in site.ends], draw))


def _notes(sentences: Iterable[str]) -> None:
    for sentence in sentences:
        say(Console(stderr=True), "note: ", "yellow", sentence)
