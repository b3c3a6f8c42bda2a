"""Find the measurement endpoint of each node, per metric.

Why: a mesh names its ends by host name, address or site, and often has one host for delay and loss and another one for
throughput; nodes are named by the cluster. Rule, first match wins: (1) the table in the settings, (2) the node's
annotation, then its label, (3) a rule that the node's name matches, (4) the endpoint of the node's zone, if one is
configured, (5) automatic: the same name or address, else the same host name where one side has no domain. A match that
two endpoints share is never decided by order: it is listed as ambiguous, and the node has no endpoint until the
configuration says which.
"""

import ipaddress
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, NamedTuple, TypeAlias, TypeVar

from extender.network.rules import NAME_LIMIT, Rule, ruled
from extender.ports import EndpointInfo
from scoring.ids import EndpointId, NodeName, ZoneName
from scoring.model import Node
from scoring.network.matrix import METRICS, MeasurementTable, Metric

DEFAULT_KEY: Final = "netgang.io/endpoint"

_CANDIDATES: Final = 10
"""All endpoints of a mesh may be called `localhost`, and all nodes too: what is kept must not be their product."""

PerMetric: TypeAlias = Mapping[Metric, str]
"""metric → endpoint, by id or any name it goes by"""


@dataclass(frozen=True, slots=True)
class MappingConfig:
    """What an operator says about nodes and endpoints. An endpoint is given by its id or by any of its aliases."""

    table: Mapping[NodeName, PerMetric] = field(default_factory=dict)
    """node → its endpoints; goes before everything else."""
    zones: Mapping[ZoneName, PerMetric] = field(default_factory=dict)
    """zone → the endpoints of all its nodes for which nothing above is stated: for meshes of one endpoint per site."""
    key: str = DEFAULT_KEY
    """Annotation and label that name a node's endpoint; `KEY-loss`, `KEY-delay`, `KEY-throughput` for one metric."""
    automatic: bool = True
    """Match names and addresses."""
    rules: Sequence[Rule] = ()
    """Endpoints made from node names; for each metric the first that matches counts."""


class Ambiguous(NamedTuple):
    """A node whose endpoint is not known: several candidates, or one that several nodes claim."""

    metric: Metric
    node: NodeName
    candidates: tuple[EndpointId, ...]
    """The first `_CANDIDATES` of them, sorted."""
    reason: str
    more_candidates: int = 0
    """How many there are besides."""


@dataclass(frozen=True, slots=True)
class NodeMapping:
    """Where each node is measured."""

    endpoint_of: Mapping[Metric, Mapping[NodeName, EndpointId]]
    unmapped: Mapping[Metric, tuple[NodeName, ...]]
    """metric → nodes without an endpoint, sorted; ambiguous ones are not repeated here."""
    ambiguous: tuple[Ambiguous, ...]
    unknown: tuple[str, ...]
    """One sentence per endpoint that table, annotation, label, rule or zone names, and no source knows."""
    unused: tuple[EndpointId, ...]
    """Endpoints at which no node is measured, sorted: gateways, or names that did not match."""


def map_nodes(
    nodes: Sequence[Node],
    endpoints: Sequence[EndpointInfo],
    config: MappingConfig,
    *,
    measured: Mapping[Metric, Set[EndpointId]] | None = None,
) -> NodeMapping:
    """Give each node its endpoint per metric.

    `measured` restricts the candidates of a metric to endpoints that have values of it: that is what distinguishes the
    delay host of a site from its throughput host; `None`: every endpoint counts for every metric.
    Cost: O(nodes + names of endpoints). The order of nodes and endpoints is irrelevant.
    """
    known_nodes = [_KnownNode.of(node) for node in sorted(nodes, key=lambda node: node.name)]
    searches = []
    for metric in METRICS:
        candidates = [one for one in endpoints if measured is None or one.id in measured.get(metric, ())]
        search = _Search(metric, _Index.of(candidates), config)
        search.run(known_nodes)
        searches.append(search)
    used = {endpoint for search in searches for endpoint in search.found.values()}
    return NodeMapping(
        endpoint_of={search.metric: dict(sorted(search.found.items())) for search in searches},
        unmapped={search.metric: search.unmapped(known_nodes) for search in searches},
        ambiguous=tuple(one for search in searches for _, one in sorted(search.doubtful.items())),
        unknown=tuple(dict.fromkeys(sentence for search in searches for sentence in search.unknown)),
        unused=tuple(sorted({one.id for one in endpoints} - used)),
    )


def measured_ends(tables: Iterable[MeasurementTable]) -> dict[Metric, set[EndpointId]]:
    """Metric → the endpoints that have values of it in any table."""
    listed = list(tables)
    return {metric: {end for table in listed for end in table.measured_ends(metric)} for metric in METRICS}


def stated(
    name: NodeName,
    zone: ZoneName,
    annotations: Mapping[str, str],
    labels: Mapping[str, str],
    metric: Metric,
    config: MappingConfig,
) -> tuple[str, str] | None:
    """What an operator says first about a node's endpoint: where, and the name of the endpoint."""
    keys = (f"{config.key}-{metric}", config.key)
    said = [("table", config.table.get(name, {}).get(metric))]
    said += [(f"annotation {key}", annotations.get(key)) for key in keys]
    said += [(f"label {key}", labels.get(key)) for key in keys]
    if made := ruled(config.rules, name, metric):
        said.append((f"rule {made[0]}", made[1]))
    said.append(("zone table", config.zones.get(zone, {}).get(metric)))
    return next(((where, text.strip()) for where, text in said if text and text.strip()), None)


@lru_cache(maxsize=1 << 17)
def canonical(name: str) -> str:
    """Write a host name or address in the one form in which names are compared.

    >>> canonical(" Node1.Example.ORG. "), canonical("2001:DB8::0:1"), canonical("[2001:db8:0::1]")
    ('node1.example.org', '2001:db8::1', '2001:db8::1')
    >>> canonical("::ffff:192.0.2.7")
    '192.0.2.7'
    """
    text = name.strip().rstrip(".").casefold()
    try:
        address = ipaddress.ip_address(text.removeprefix("[").removesuffix("]").partition("%")[0])
    except ValueError:
        return text
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)


def _host(name: str) -> tuple[str, bool]:
    """First label of a canonical host name, and whether a domain follows; an address is whole.

    >>> _host("ps1.example.org"), _host("ps1"), _host("192.0.2.7")
    (('ps1', True), ('ps1', False), ('192.0.2.7', False))
    """
    if ":" in name or name.replace(".", "").isdigit():
        return name, False
    host, _, domain = name.partition(".")
    return host, bool(domain)


def _quoted(text: str) -> str:
    """What an annotation says, for a sentence: it may have 256 kB."""
    return repr(text) if len(text) <= NAME_LIMIT else f"{text[:NAME_LIMIT]!r}…"


class _KnownNode(NamedTuple):
    """A node with what is compared."""

    node: Node
    names: tuple[str, ...]
    """Canonical name and addresses."""
    annotations: Mapping[str, str]
    labels: Mapping[str, str]

    @classmethod
    def of(cls, node: Node) -> "_KnownNode":
        names = dict.fromkeys(canonical(name) for name in (node.name, *node.addresses))
        return cls(node, tuple(name for name in names if name), dict(node.annotations), dict(node.labels))


@dataclass(frozen=True, slots=True)
class _Index:
    """Names → endpoints that have them."""

    by_id: Mapping[str, frozenset[EndpointId]]
    by_name: Mapping[str, frozenset[EndpointId]]
    """canonical id or alias → endpoints"""
    by_host: Mapping[tuple[str, bool], frozenset[EndpointId]]
    """(host name, whether it had a domain) → endpoints"""

    @classmethod
    def of(cls, endpoints: Iterable[EndpointInfo]) -> "_Index":
        by_id: dict[str, set[EndpointId]] = {}
        by_name: dict[str, set[EndpointId]] = {}
        by_host: dict[tuple[str, bool], set[EndpointId]] = {}
        for one in endpoints:
            by_id.setdefault(one.id, set()).add(one.id)
            for name in {canonical(name) for name in (one.id, *one.aliases)}:
                by_name.setdefault(name, set()).add(one.id)
                by_host.setdefault(_host(name), set()).add(one.id)
        return cls(_frozen(by_id), _frozen(by_name), _frozen(by_host))

    def named(self, name: str) -> frozenset[EndpointId]:
        """Endpoints that `name` can mean: the very id, else any name."""
        return self.by_id.get(name) or self.by_name.get(canonical(name), frozenset())


_Key = TypeVar("_Key")


def _frozen(found: Mapping[_Key, set[EndpointId]]) -> dict[_Key, frozenset[EndpointId]]:
    return {key: frozenset(ids) for key, ids in found.items()}


def _union(sets: Sequence[frozenset[EndpointId]]) -> frozenset[EndpointId]:
    """All of them together; the set itself where there is one only, so that thousands of nodes share it."""
    return sets[0] if len(sets) == 1 else frozenset[EndpointId]().union(*sets)


@lru_cache(maxsize=64)
def _first(candidates: frozenset[EndpointId]) -> tuple[EndpointId, ...]:
    return tuple(sorted(candidates)[:_CANDIDATES])


class _Search:
    """The mapping of one metric, as it is found."""

    def __init__(self, metric: Metric, index: _Index, config: MappingConfig) -> None:
        self.metric = metric
        self.found: dict[NodeName, EndpointId] = {}
        self.doubtful: dict[NodeName, Ambiguous] = {}
        self.unknown: list[str] = []
        self._index = index
        self._config = config

    def run(self, nodes: Sequence[_KnownNode]) -> None:
        """Settle what is stated, then what has the same name, then what has the same host name."""
        rest = [node for node in nodes if not self._stated(node)]
        if not self._config.automatic:
            return
        rest = [node for node in rest if not self._same_name(node)]
        self._same_host(rest)

    def unmapped(self, nodes: Sequence[_KnownNode]) -> tuple[NodeName, ...]:
        """Nodes that have no endpoint, and none that is in doubt."""
        known = self.found.keys() | self.doubtful.keys()
        return tuple([one.node.name for one in nodes if one.node.name not in known])

    def _stated(self, node: _KnownNode) -> bool:
        one = node.node
        first = stated(one.name, one.zone, node.annotations, node.labels, self.metric, self._config)
        if first is None:
            return False
        where, text = first
        named = f"the {where} names {_quoted(text)}"
        candidates = self._index.named(text)
        if not candidates and self._index.by_id:
            self.unknown.append(f"node {one.name}: {named}: no endpoint of {self.metric} has this name")
        self._settle(node, candidates, f"{named}, which several endpoints are called")
        return True

    def _same_name(self, node: _KnownNode) -> bool:
        candidates = _union([self._index.by_name[name] for name in node.names if name in self._index.by_name])
        self._settle(node, candidates, "its name and addresses belong to several endpoints")
        return bool(candidates)

    def _same_host(self, nodes: Sequence[_KnownNode]) -> None:
        """Match `node1` with `node1.example.org`, never `node1.a` with `node1.b`; taken endpoints are out."""
        taken = set(self.found.values())
        claims: dict[EndpointId, list[_KnownNode]] = {}
        for node in nodes:
            hosts = [_host(name) for name in node.names]
            others = [self._index.by_host.get((host, not domain), frozenset()) for host, domain in hosts]
            candidates = frozenset[EndpointId]().union(*others) - taken
            if len(candidates) == 1:
                claims.setdefault(next(iter(candidates)), []).append(node)
            else:
                self._settle(node, candidates, "several endpoints have its host name")
        for endpoint, claimants in claims.items():
            for node in claimants:
                if len(claimants) == 1:
                    self.found[node.node.name] = endpoint
                else:
                    reason = "several nodes have the endpoint's host name"
                    self.doubtful[node.node.name] = Ambiguous(self.metric, node.node.name, (endpoint,), reason)

    def _settle(self, node: _KnownNode, candidates: frozenset[EndpointId], doubt: str) -> None:
        name = node.node.name
        if len(candidates) == 1:
            self.found[name] = next(iter(candidates))
        elif candidates:
            first = _first(candidates)
            self.doubtful[name] = Ambiguous(self.metric, name, first, doubt, len(candidates) - len(first))
