"""Options of the commands of `netgang mesh`, and where they take nodes from: a file, or one look at the API server.

Rule: a list is read once, in pages, and nothing is watched.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from typer import Option

from cli.mesh.mesh import Site, site_of
from cli.mesh.nodes import Selector, SiteNode, nodes_of_list, nodes_of_objects
from cli.mesh.plan import LatencyTest, MeshPlan
from cli.output import option
from cli.reach import run
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
    selector: Annotated[str, Option(help="Only nodes with these labels: key=value or key, by commas.")] = ""
    gateways: Annotated[int, Option(min=0, help="Nodes of each zone that measure those of all other zones.")] = 1
    gateway_selector: Annotated[str | None, option("Labels of the nodes to take for that first.", "first by name")] = (
        None
    )
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
        """The mesh of the nodes of a file or an API server, not both, with netgang's settings.

        Errors: ConfigError; ApiError or ApiUnavailableError from the API server.
        """
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
    from extender.kube.operator import OperatorApi
    from extender.runtime.clock import SystemClock

    server = load(kubeconfig, clock=SystemClock())

    async def ask() -> list[bytes]:
        async with OperatorApi.opened(server) as api:
            return [node async for node in api.items("/api/v1/nodes")]

    return run(ask())
