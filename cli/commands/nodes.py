"""Where the commands of `netgang mesh` take nodes from: a file, standard input, or one look at the API server.

Rule: a list is read once, in pages of 500, and nothing is watched; what settings say about endpoints is worked out
here, because rules over node names belong to the measurements and not to the mesh.
"""

import asyncio
import random
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cli.mesh.mesh import Site, Stated, site_of
from cli.mesh.nodes import Selector, SiteNode, nodes_of_list, nodes_of_objects
from extender.errors import ConfigError
from scoring.network.matrix import METRICS

if TYPE_CHECKING:
    from extender.network.mapping import MappingConfig
    from extender.settings.settings import Settings

_LARGEST_BYTES = 1 << 30
_NODES = "/api/v1/nodes"
_PAGE = 500


@dataclass(frozen=True, slots=True)
class Place:
    """Where the nodes are: a file (`-`: standard input) or an API server, not both; and netgang's settings."""

    cluster: Path | None = None
    kubeconfig: Path | None = None
    config: Path | None = None


def site_from(place: Place, *, selector: str, gateways: int, gateway_selector: str | None) -> Site:
    """The mesh of the nodes at `place`. Errors: ConfigError; ApiError or ApiUnavailableError from the API server."""
    from extender.network.sources.configured import mapping_config
    from extender.settings.settings import Settings

    settings = Settings.load(place.config)
    nodes = _nodes(place, settings)
    return site_of(
        nodes,
        selector=Selector(selector),
        gateways=gateways,
        gateway_selector=None if gateway_selector is None else Selector(gateway_selector),
        stated=_stated(nodes, mapping_config(settings)),
    )


def _stated(nodes: Iterable[SiteNode], config: "MappingConfig") -> Stated:
    """The settings' words about endpoints, with the rules worked out for these nodes."""
    from extender.network.rules import ruled

    made = {
        node.name: {metric: found[1] for metric in METRICS if (found := ruled(config.rules, node.name, metric))}
        for node in nodes
    }
    return Stated(config.key, config.table, made, config.zones)


def _nodes(place: Place, settings: "Settings") -> tuple[SiteNode, ...]:
    if place.cluster is not None and place.kubeconfig is not None:
        raise ConfigError("--cluster and --kubeconfig go not together")
    if place.cluster is not None:
        return nodes_of_list(_read(place.cluster), where=str(place.cluster), zone_label=settings.zone_label)
    if place.kubeconfig is not None:
        return nodes_of_objects(_asked(place.kubeconfig), where="API server", zone_label=settings.zone_label)
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
    from extender.kube.client import KubeClient
    from extender.kube.credentials import load
    from extender.runtime.clock import SystemClock

    clock = SystemClock()
    server = load(kubeconfig, clock=clock)

    async def ask() -> list[bytes]:
        found: list[bytes] = []
        async with KubeClient(server, clock=clock, rng=random.Random(0)) as client:  # noqa: S311 - spreads retries
            page = await client.list_page(_NODES, limit=_PAGE)
            found += page.items
            while page.continue_token:
                page = await client.list_page(_NODES, limit=_PAGE, continue_token=page.continue_token)
                found += page.items
        return found

    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        return runner.run(ask())
