"""Where the commands of `netgang mesh` take nodes from: a file, standard input, or one look at the API server.

Rule: a list is read once, in pages, and nothing is watched.
"""

import sys
from pathlib import Path

from cli.mesh.mesh import Site, site_of
from cli.mesh.nodes import Selector, SiteNode, nodes_of_list, nodes_of_objects
from cli.reach import run
from extender.errors import ConfigError

_LARGEST_BYTES = 1 << 30


def site_from(
    cluster: Path | None,
    kubeconfig: Path | None,
    config: Path | None,
    *,
    selector: str,
    gateways: int,
    gateway_selector: str | None,
) -> Site:
    """The mesh of the nodes of a file (`-`: standard input) or an API server, not both, with netgang's settings.

    Errors: ConfigError; ApiError or ApiUnavailableError from the API server.
    """
    from extender.network.sources.configured import mapping_config
    from extender.settings.settings import Settings

    settings = Settings.load(config)
    return site_of(
        _nodes(cluster, kubeconfig, settings.zone_label),
        selector=Selector(selector),
        gateways=gateways,
        gateway_selector=None if gateway_selector is None else Selector(gateway_selector),
        config=mapping_config(settings),
    )


def _nodes(cluster: Path | None, kubeconfig: Path | None, zone_label: str) -> tuple[SiteNode, ...]:
    if cluster is not None and kubeconfig is not None:
        raise ConfigError("--cluster and --kubeconfig go not together")
    if cluster is not None:
        return nodes_of_list(_read(cluster), where=str(cluster), zone_label=zone_label)
    if kubeconfig is not None:
        return nodes_of_objects(_asked(kubeconfig), where="API server", zone_label=zone_label)
    raise ConfigError("name the nodes: --cluster FILE (- is standard input) or --kubeconfig FILE")


def _read(path: Path) -> bytes:
    try:
        if str(path) == "-":
            return sys.stdin.buffer.read(_LARGEST_BYTES)
        if path.stat().st_size > _LARGEST_BYTES:
            raise ConfigError(f"{path}: larger than 1 GiB")
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}") from error


def _asked(kubeconfig: Path) -> list[bytes]:
    """All nodes of the API server, as raw JSON; read once."""
    from extender.kube.credentials import load
    from extender.kube.operator import OperatorApi
    from extender.runtime.clock import SystemClock

    server = load(kubeconfig, clock=SystemClock())

    async def ask() -> list[bytes]:
        async with OperatorApi.opened(server) as api:
            return [node async for node in api.items("/api/v1/nodes")]

    return run(ask())
