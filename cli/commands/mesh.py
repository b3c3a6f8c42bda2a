"""`netgang mesh`: write the configurations of perfSONAR and MaDDash that measure a cluster's nodes and zones."""

import sys
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from cli.commands.nodes import site_from
from cli.errors import clear_errors, say
from cli.mesh.maddash import PLUGINS, maddash_document, maddash_yaml
from cli.mesh.plan import LatencyTest, MeshPlan, archive_base, check_notes, round_notes
from cli.mesh.psconfig import psconfig_template
from cli.output import print_json
from extender.errors import ConfigError

app = typer.Typer(no_args_is_help=True, help="Write configurations that measure the cluster's links with perfSONAR.")

Cluster = Annotated[
    Path | None,
    typer.Option(
        "--cluster",
        "--snapshot",
        help="What `kubectl get nodes -o json` prints; - is standard input.",
        show_default="none",
    ),
]
Kubeconfig = Annotated[
    Path | None, typer.Option(help="Ask the API server for its nodes, with these credentials.", show_default="none")
]
ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", help="netgang's settings: what they say of zones and endpoints.", show_default="none"),
]
SelectorText = Annotated[
    str, typer.Option("--selector", help="Only nodes with these labels: key=value or key, by commas.")
]
Gateways = Annotated[int, typer.Option(min=0, help="Nodes of each zone that measure those of all other zones.")]
GatewaySelector = Annotated[
    str | None, typer.Option(help="Labels of the nodes to take for that first.", show_default="first by name")
]
Name = Annotated[str, typer.Option(help="Name of the template, of the dashboard, and in front of each grid.")]
Latency = Annotated[
    LatencyTest,
    typer.Option(
        help="latencybg: one way, always; latency: one way, at times; rtt: ping, needs no synchronised clocks."
    ),
]
LatencyInterval = Annotated[
    int | None,
    typer.Option(
        "--latency-interval-s", min=1, help="Loss and delay this often.", show_default="60; 300 if not always"
    ),
]
ThroughputInterval = Annotated[
    int, typer.Option("--throughput-interval-s", min=1, help="A throughput test of each link this often (iperf3).")
]
ThroughputDuration = Annotated[int, typer.Option("--throughput-duration-s", min=1, help="How long each lasts.")]
_EVERY_S = 14_400
_LASTS_S = 20


@app.callback()
def _group() -> None:
    """Write configurations that measure the cluster's links with perfSONAR: all of a zone, gateways between zones."""


@app.command(
    epilog="Example: kubectl get nodes -o json | netgang mesh psconfig --cluster - "
    "--selector netgang.io/testpoint=true --archive https://archive.example.org > mesh.json"
)
def psconfig(
    cluster: Cluster = None,
    kubeconfig: Kubeconfig = None,
    config: ConfigFile = None,
    selector: SelectorText = "",
    gateways: Gateways = 1,
    gateway_selector: GatewaySelector = None,
    name: Name = "netgang",
    latency_test: Latency = LatencyTest.LATENCYBG,
    latency_interval_s: LatencyInterval = None,
    throughput_interval_s: ThroughputInterval = _EVERY_S,
    throughput_duration_s: ThroughputDuration = _LASTS_S,
    bucket_width_ms: Annotated[
        float,
        typer.Option(
            "--bucket-width-ms",
            min=0.001,
            max=100.0,
            help="Resolution of one-way delay. Leave it at 1 where MaDDash or esmond reads the results.",
        ),
    ] = 1.0,
    archive: Annotated[
        str | None,
        typer.Option(
            help="perfSONAR archive to send results to, such as https://archive.example.org.", show_default="none"
        ),
    ] = None,
    insecure: Annotated[bool, typer.Option("--insecure", help="Accept any certificate of the archive.")] = False,
) -> None:
    """Print a pSConfig template (JSON): which endpoints test which others, what and how often.

    The nodes of a zone all test each other; --gateways of each zone test those of the other zones. Tests run at the
    endpoint that settings, annotation or label `netgang.io/endpoint` name, else at the node's InternalIP.

    Exit code: 0 printed; 1 the API server did not answer; 2 wrong use.
    """
    with clear_errors():
        plan = MeshPlan(
            name=name,
            latency=latency_test,
            latency_interval_s=_interval_s(latency_test, latency_interval_s),
            throughput_interval_s=throughput_interval_s,
            throughput_duration_s=throughput_duration_s,
            bucket_width_ms=bucket_width_ms,
        )
        taken = partial(site_from, selector=selector, gateways=gateways, gateway_selector=gateway_selector)
        site = taken(cluster, kubeconfig, config)
        base = None if archive is None else archive_base(archive)
        document = psconfig_template(site, plan, archive=base, verify_tls=not insecure)
    _notes((*site.notes, *round_notes(site, plan)))
    print_json(document)


@app.command(
    epilog="Example: netgang mesh maddash --kubeconfig ~/.kube/config --selector netgang.io/testpoint=true "
    "--archive https://archive.example.org > maddash.yaml"
)
def maddash(
    archive: Annotated[
        str,
        typer.Option(
            help="perfSONAR archive that MaDDash asks (esmond or elmond), such as https://archive.example.org."
        ),
    ],
    cluster: Cluster = None,
    kubeconfig: Kubeconfig = None,
    config: ConfigFile = None,
    selector: SelectorText = "",
    gateways: Gateways = 1,
    gateway_selector: GatewaySelector = None,
    name: Name = "netgang",
    latency_test: Latency = LatencyTest.LATENCYBG,
    latency_interval_s: LatencyInterval = None,
    throughput_interval_s: ThroughputInterval = _EVERY_S,
    check_interval_s: Annotated[
        int, typer.Option("--check-interval-s", min=20, help="MaDDash looks at loss and delay this often.")
    ] = 300,
    plugins: Annotated[str, typer.Option(help="Directory of perfSONAR's Nagios plugins on that machine.")] = PLUGINS,
) -> None:
    """Print a MaDDash configuration (YAML) for the same mesh: one grid per metric for each zone, and one between zones.

    Give the same options as to `netgang mesh psconfig`. netgang finds the grids by their checks; `dashboards: NAME` in
    its MaDDash source limits it to them.

    Exit code: 0 printed; 1 the API server did not answer; 2 wrong use.
    """
    with clear_errors():
        plan = MeshPlan(
            name=name,
            latency=latency_test,
            latency_interval_s=_interval_s(latency_test, latency_interval_s),
            throughput_interval_s=throughput_interval_s,
        )
        if not plugins or any(char.isspace() for char in plugins):
            raise ConfigError(f"plugins {plugins!r}: MaDDash splits commands at blanks")
        taken = partial(site_from, selector=selector, gateways=gateways, gateway_selector=gateway_selector)
        site = taken(cluster, kubeconfig, config)
        document = maddash_document(
            site, plan, archive=archive_base(archive), check_interval_s=check_interval_s, plugins=plugins.rstrip("/")
        )
    _notes((*site.notes, *check_notes(site, interval_s=check_interval_s)))
    sys.stdout.write(maddash_yaml(document))


def _interval_s(test: LatencyTest, given_s: int | None) -> int:
    if given_s is not None:
        return given_s
    return 60 if test is LatencyTest.LATENCYBG else 300


def _notes(sentences: Iterable[str]) -> None:
    for sentence in sentences:
        say(Console(stderr=True), "note: ", "yellow", sentence)
