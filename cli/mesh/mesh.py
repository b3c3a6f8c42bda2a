"""Which ends measure each other: all of a zone, and the gateways of different zones.

Why: jobs run in one zone, so links inside zones are measured in full; links between zones are needed for the order of
zones only, and one or two nodes stand for each. Rule: an end is an address at which tests run. One host measures both
loss and delay; throughput may have another. What is stated for a node goes before its InternalIP, as when netgang later
looks for the endpoint of a node (`extender.network.mapping`).
"""

import ipaddress
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain
from typing import Final, NamedTuple

from cli.mesh.nodes import Selector, SiteNode
from extender.errors import ConfigError
from extender.network.mapping import MappingConfig, stated
from scoring.explain.words import some
from scoring.ids import NodeName, ZoneName
from scoring.network.matrix import Metric

_HOST: Final = re.compile(
    r"(?=.{1,253}$)(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)*[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?", re.I
)


class Kind(StrEnum):
    """What is measured by one test."""

    LATENCY = "latency"
    THROUGHPUT = "throughput"


_METRICS: Final = {  # kind → the metrics that it measures, the one whose endpoint counts first
    Kind.LATENCY: (Metric.DELAY, Metric.LOSS),
    Kind.THROUGHPUT: (Metric.THROUGHPUT,),
}


@dataclass(frozen=True, slots=True, order=True)
class End:
    """A place where tests run; in the order of their keys."""

    key: str  # Its name in pSConfig: the node's, or the address where that is not enough to distinguish ends
    label: str
    address: str


@dataclass(frozen=True, slots=True)
class KindMesh:
    """The ends of one kind of test. Zones and ends are in the order of their names."""

    zones: Mapping[ZoneName, tuple[End, ...]]  # zone → its ends; all measure each other
    gateways: Mapping[ZoneName, tuple[End, ...]]  # zone → those of its ends that measure other zones' gateways

    def directions(self, zone: ZoneName, end: End) -> int:
        """In how many measured directions an end of `zone` takes part, as source or target."""
        count = 2 * (len(self.zones[zone]) - 1)
        if end in self.gateways[zone]:
            count += 2 * sum(len(ends) for other, ends in self.gateways.items() if other != zone)
        return count

    @property
    def pairs(self) -> int:
        """All measured directions."""
        return sum(self.directions(zone, end) for zone, ends in self.zones.items() for end in ends) // 2


class Group(NamedTuple):
    """Ends that all measure each other, but for pairs that another group has."""

    kind: Kind
    name: str
    where: str
    ends: tuple[End, ...]
    excluded: Mapping[End, tuple[End, ...]]
    """end → the ends that it does not measure: gateways of one zone do so in their zone's group."""


@dataclass(frozen=True, slots=True)
class Site:
    """The mesh of each kind, and sentences about what was left out."""

    meshes: Mapping[Kind, KindMesh]
    notes: tuple[str, ...] = ()

    def groups(self) -> Iterator[Group]:
        """For each kind those of the zones with several ends, then the one between zones."""
        for kind, mesh in self.meshes.items():
            for zone, ends in mesh.zones.items():
                if len(ends) > 1:
                    yield Group(kind, f"{kind}-zone-{zone}", f"zone {zone}" if zone else "no zone", ends, {})
            listed = [ends for ends in mesh.gateways.values() if ends]
            excluded = {e: tuple(o for o in ends if o != e) for ends in listed if len(ends) > 1 for e in ends}
            if listed:
                yield Group(kind, f"{kind}-gateways", "between zones", tuple(chain(*listed)), excluded)

    @property
    def ends(self) -> tuple[End, ...]:
        """All ends, each once, by key."""
        every = {end for mesh in self.meshes.values() for ends in mesh.zones.values() for end in ends}
        return tuple(sorted(every))


def site_of(
    nodes: Sequence[SiteNode],
    *,
    selector: Selector = Selector(),
    gateways: int = 1,
    gateway_selector: Selector | None = None,
    config: MappingConfig = MappingConfig(),
) -> Site:
    """Plan the mesh of the nodes that `selector` takes. The order of `nodes` is irrelevant. Cost: O(nodes).

    Each zone's gateways are its first `gateways` ends by name, of those whose node `gateway_selector` takes if any is.
    Nodes whose endpoint is the same are one end. Errors: ConfigError for endpoints that cannot be one end each, and
    where no two ends would measure each other.
    """
    taken = sorted((node for node in nodes if selector.takes(node)), key=lambda node: node.name)
    if not taken:
        raise ConfigError(
            f"none of {len(nodes)} nodes has the labels {selector.text}" if nodes else "there are no nodes"
        )
    notes: dict[str, None] = {}
    addresses = {kind: _addresses(kind, taken, config, notes) for kind in Kind}
    ends = _ends(addresses)
    meshes = {}
    for kind, address_of in addresses.items():
        zones = _zones(taken, address_of)
        preferred = {
            address_of[node.name]
            for node in taken
            if node.name in address_of and gateway_selector is not None and gateway_selector.takes(node)
        }
        by_zone = {zone: tuple(sorted(ends[a] for a in found)) for zone, found in sorted(zones.items())}
        chosen = {
            zone: tuple(sorted(sorted(found, key=lambda end: (end.address not in preferred, end))[:gateways]))
            for zone, found in by_zone.items()
        }
        meshes[kind] = KindMesh(by_zone, chosen if len(by_zone) > 1 else dict.fromkeys(by_zone, ()))
        if not meshes[kind].pairs:
            raise ConfigError(f"{kind}: there are no two nodes to measure between")
    if unzoned := [node.name for node in taken if not node.zone]:
        notes[f"without a zone label, taken for one zone: {some(unzoned, 5)}"] = None
    return Site(meshes, tuple(notes))


def _addresses(
    kind: Kind, nodes: Iterable[SiteNode], config: MappingConfig, notes: dict[str, None]
) -> dict[NodeName, str]:
    """Where each node is measured; nodes without any address are noted and left out."""
    found: dict[NodeName, str] = {}
    without: list[str] = []
    for node in nodes:
        where = (node.name, node.zone, node.annotations, node.labels)
        firsts = (stated(*where, metric, config) for metric in _METRICS[kind])
        said = {first[1] for first in firsts if first is not None}
        if len(said) > 1:
            both = " and ".join(sorted(said))
            raise ConfigError(f"node {node.name}: one test measures loss and delay, but their endpoints are {both}")
        address = said.pop() if said else next(iter(node.addresses), "")
        if not address:
            without.append(node.name)
        elif not _is_host(address):
            raise ConfigError(f"node {node.name}: endpoint {address!r} is neither an address nor a host name")
        else:
            found[node.name] = address
    if without:
        notes[f"left out, with neither InternalIP nor endpoint: {some(without, 5)}"] = None
    return found


def _ends(addresses: Mapping[Kind, Mapping[NodeName, str]]) -> dict[str, End]:
    """Address → end. The key is the node's name where node and address belong to each other alone."""
    nodes_of: dict[str, set[NodeName]] = {}
    addresses_of: dict[NodeName, set[str]] = {}
    for found in addresses.values():
        for node, address in found.items():
            nodes_of.setdefault(address, set()).add(node)
            addresses_of.setdefault(node, set()).add(address)
    ends: dict[str, End] = {}
    used: dict[str, str] = {}
    for address, nodes in sorted(nodes_of.items()):
        only = next(iter(nodes)) if len(nodes) == 1 else None
        key = only if only is not None and len(addresses_of[only]) == 1 else address
        ends[address] = End(key, label=only or address, address=address)
        if used.setdefault(key.casefold(), address) != address:
            raise ConfigError(f"{key} is the name of a node and of another node's endpoint")
    return ends


def _zones(nodes: Iterable[SiteNode], address_of: Mapping[NodeName, str]) -> dict[ZoneName, set[str]]:
    zones: dict[ZoneName, set[str]] = {}
    zone_of: dict[str, ZoneName] = {}
    for node in nodes:
        if (address := address_of.get(node.name)) is None:
            continue
        if (other := zone_of.setdefault(address, node.zone)) != node.zone:
            raise ConfigError(f"node {node.name}: endpoint {address} is one of zone {other} and of zone {node.zone}")
        zones.setdefault(node.zone, set()).add(address)
    return zones


def _is_host(text: str) -> bool:
    """Whether pSConfig takes `text` as an address.

    >>> [_is_host(text) for text in ("192.0.2.1", "2001:db8::1", "ps-1.example.org", "ps 1", "a..b", "[::1]")]
    [True, True, True, False, False, False]
    """
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return _HOST.fullmatch(text) is not None
    return "%" not in text
