"""Make one matrix of what all sources gave, the newest value of each, under the endpoint of each node, per metric.

Why endpoints: a mesh names its ends by host name, address or site, and often has one host for delay and loss and
another one for throughput; nodes are named by the cluster. Rule, first match wins: (1) the node's annotation, then its
label, (2) a rule of the settings that the name of the node or of its zone matches, (3) automatic: the same name or
address, else the same host name where one side has no domain. A match that two endpoints share is never decided by
order: it is ambiguous until the configuration says which.

Rules for pairs that netgang's own probe measures too:
- A value of another source (perfSONAR) goes first while it is within the soft TTL; past it the newer value counts.
- A node that other sources measure at an endpoint of its own keeps it, for the probe's values too. A node without one
  is measured at its own name. A node that shares its endpoint with others (one host for a site) is measured there; the
  probe's values of that metric count between these nodes alone.
"""

import ipaddress
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from functools import lru_cache
from itertools import chain
from operator import attrgetter
from typing import Final, TypeAlias

import msgspec
import numpy as np
from msgspec.structs import replace

from extender.network.answers import merged
from extender.ports import EndpointInfo
from extender.schemas import AmbiguousNode, LeftOut, MappedNodes
from extender.settings.network import EndpointRule, NetworkSettings, why_not
from scoring import EndpointId, NodeName
from scoring.model import Node
from scoring.model.policy import Ttl
from scoring.network.matrix import METRICS, MeasurementTable, Metric, NetworkMatrix, Zones

ENDPOINT_KEY: Final = "netgang.io/endpoint"
NAME_LIMIT: Final = 253  # Kubernetes has no longer names of nodes; longer texts are not matched
MOST_NAMED: Final = 100  # Nodes, endpoints and doubts that are named of each list; the others are counted
_Named: TypeAlias = tuple[Node, Sequence[str]]  # With its names and addresses, as they are compared
_CANDIDATES: Final = 10  # All endpoints and nodes may be called `localhost`: their product is not kept


def ruled(rules: Sequence[EndpointRule], node: Node, metric: Metric) -> tuple[int, str] | None:
    """The first rule, by its number from 0, that says something of a node, and the endpoint it names."""
    for number, rule in enumerate(rules):
        name = node.zone if rule.node is None else node.name
        fits = name and len(name) <= NAME_LIMIT and metric in rule.metrics
        if fits and (endpoint := matching(rule.pattern, rule.endpoint, name)):
            return number, endpoint
    return None


@lru_cache(maxsize=1 << 16)
def matching(pattern: str, endpoint: str, name: str) -> str | None:
    """What `endpoint` becomes for the name; `None`: the pattern, which the settings bound, does not match all of it."""
    match = re.compile(pattern).fullmatch(name)  # re keeps compiled patterns
    return None if match is None else match.expand(endpoint).strip()


@lru_cache(maxsize=1 << 17)
def canonical(name: str) -> str:
    """Write a host name or address in the one form in which names are compared."""
    text = name.strip().rstrip(".").casefold()
    try:
        address = ipaddress.ip_address(text.removeprefix("[").removesuffix("]").partition("%")[0])
    except ValueError:
        return text
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)


def host_of(name: str) -> tuple[str, bool]:
    """First label of a canonical host name, and whether a domain follows; an address is whole."""
    if ":" in name or name.replace(".", "").isdigit():
        return name, False
    host, _, domain = name.partition(".")
    return host, bool(domain)


class NodeMapping(msgspec.Struct, frozen=True):
    """Where each node is measured."""

    endpoint_of: Mapping[Metric, Mapping[NodeName, EndpointId]]
    unmapped: Mapping[Metric, tuple[NodeName, ...]]  # metric → nodes without an endpoint, sorted; not ambiguous ones
    ambiguous: tuple[AmbiguousNode, ...]
    unknown: tuple[str, ...]  # A sentence for each endpoint that is named somewhere, and that no source knows
    unused: tuple[EndpointId, ...]  # Endpoints of no node, sorted: gateways, or names that did not match
    rules: tuple[str, ...]  # For the first `MOST_NAMED` of these what to add to the settings

    def document(self, *, most: int = MOST_NAMED) -> MappedNodes:
        """Counts of nodes, and of each list its first `most` entries. Cost: O(ambiguous + most)."""
        doubtful = Counter(node.metric for node in self.ambiguous)
        unmapped = {metric.value: self.unmapped[metric] for metric in METRICS}
        nodes = {
            m.value: {"mapped": len(self.endpoint_of[m]), "unmapped": len(unmapped[m]), "ambiguous": doubtful[m]}
            for m in METRICS
        }
        more = {metric: max(len(names) - most, 0) for metric, names in unmapped.items()}
        left_out = LeftOut(more, *(max(len(names) - most, 0) for names in (self.ambiguous, self.unknown, self.unused)))
        first: dict[str, tuple[str, ...]] = {metric: names[:most] for metric, names in unmapped.items()}
        lists = (self.ambiguous[:most], self.unknown[:most], self.unused[:most])
        return MappedNodes(nodes, first, *lists, left_out, self.rules[:most])


def map_nodes(
    nodes: Sequence[Node],
    endpoints: Iterable[EndpointInfo],
    config: NetworkSettings,
    tables: Collection[MeasurementTable] | None = None,
) -> NodeMapping:
    """Give each node its endpoint per metric.

    Candidates for a metric are endpoints that have values of it in `tables`, which distinguishes the delay host of a
    site from its throughput host; `None`: all endpoints. Cost: O(nodes + names of endpoints), in any order.
    """
    described = merged(endpoints)
    named: list[_Named] = []
    for node in sorted(nodes, key=lambda node: node.name):
        names = dict.fromkeys(canonical(name) for name in (node.name, *node.addresses))
        named.append((node, tuple(filter(None, names))))
    searches = []
    for metric in METRICS:
        measured = {end for table in tables or () for end in table.measured_ends(metric)}
        candidates = [endpoint for endpoint in described if tables is None or endpoint.id in measured]
        searches.append(_Search(metric, candidates, config))
        searches[-1].run(named)
    used = {endpoint for search in searches for endpoint in search.found.values()}
    unused = tuple(sorted({endpoint.id for endpoint in described} - used))
    metrics_of = {end: tuple(search.metric for search in searches if end in search.ids) for end in unused[:MOST_NAMED]}
    missing = {(name, search.metric) for search in searches for name in search.unmapped}
    return NodeMapping(
        endpoint_of={search.metric: dict(sorted(search.found.items())) for search in searches},
        unmapped={search.metric: search.unmapped for search in searches},
        ambiguous=tuple(node for search in searches for _, node in sorted(search.doubtful.items())),
        unknown=tuple(dict.fromkeys(sentence for search in searches for sentence in search.unknown)),
        unused=unused,
        rules=rules_to_add(metrics_of, [node for node, _ in named], missing),
    )


def rules_to_add(
    metrics_of: Mapping[EndpointId, tuple[Metric, ...]], nodes: Sequence[Node], missing: Set[tuple[NodeName, Metric]]
) -> tuple[str, ...]:
    """For each endpoint a rule that gives it to nodes that lack one, by name or zone; a pattern if it takes none."""
    lacking = [node for node in nodes if any((node.name, metric) in missing for metric in METRICS)]
    named: dict[str, tuple[str, str]] = {canonical(node.name): ("node", node.name) for node in lacking}
    zones = {node.zone for node in lacking} - {node.zone for node in nodes if node not in lacking}
    named |= {zone.casefold(): ("zone", str(zone)) for zone in zones if zone}
    shapes = []
    for end, metrics in metrics_of.items():
        parts = [part.span() for part in re.finditer(r"[^\W_]+", end)][:12]
        spans = sorted(((a, z) for a, _ in parts for _, z in parts if a < z), key=lambda span: span[0] - span[1])
        start, stop = next((span for span in spans if end[slice(*span)].casefold() in named), (0, 0))
        kind, name = named.get(end[start:stop].casefold(), ("node", "NODE"))
        template = r"\1".join(part.replace("\\", r"\\") for part in (end[:start], end[stop:]))
        pattern = "(.+)" if kind == "zone" else re.sub("[0-9]+", r"\\d+", f"({re.escape(name)})")
        shapes.append(((kind, pattern, template, metrics), (kind, re.escape(name), end.replace("\\", r"\\"), metrics)))

    def takes_nothing(kind: str, pattern: str, template: str, metrics: tuple[Metric, ...]) -> bool:
        ends = ((node, matching(pattern, template, node.name if kind == "node" else node.zone)) for node in nodes)
        given = ((end, (node.name, metric)) for node, end in ends if end for metric in metrics)
        return not why_not(pattern) and all(end in metrics_of and lack in missing for end, lack in given)

    alike = Counter(shape for shape, _ in shapes)
    patterns = {shape for shape, count in alike.items() if count > 1 and takes_nothing(*shape)}
    return tuple(_written(*(shape if shape in patterns else own)) for shape, own in shapes)


def _written(kind: str, pattern: str, endpoint: str, metrics: tuple[Metric, ...]) -> str:
    texts = (text.replace("'", "''") for text in (pattern, endpoint))
    only = "" if metrics in ((), METRICS) else f", metrics: [{', '.join(metrics)}]"
    return "{{{}: '{}', endpoint: '{}'{}}}".format(kind, *texts, only)


@lru_cache(maxsize=64)
def _first(candidates: frozenset[EndpointId]) -> tuple[EndpointId, ...]:
    return tuple(sorted(candidates)[:_CANDIDATES])


class _Search:
    def __init__(self, metric: Metric, endpoints: Sequence[EndpointInfo], config: NetworkSettings) -> None:
        self.metric = metric
        self.found: dict[NodeName, EndpointId] = {}
        self.unmapped: tuple[NodeName, ...] = ()
        self.doubtful: dict[NodeName, AmbiguousNode] = {}
        self.unknown: list[str] = []
        self._config = config
        by_name: defaultdict[str, set[EndpointId]] = defaultdict(set)
        by_host: defaultdict[tuple[str, bool], set[EndpointId]] = defaultdict(set)
        self.ids = {endpoint.id: frozenset((endpoint.id,)) for endpoint in endpoints}
        for endpoint in endpoints:
            for name in {canonical(name) for name in (endpoint.id, *endpoint.aliases)}:
                by_name[name].add(endpoint.id)
                by_host[host_of(name)].add(endpoint.id)
        self._by_name = {name: frozenset(ids) for name, ids in by_name.items()}  # shared by thousands of nodes
        self._by_host = {host: frozenset(ids) for host, ids in by_host.items()}  # (host, had a domain) → endpoints

    def run(self, nodes: Sequence[_Named]) -> None:
        rest = []
        for node, names in nodes:
            if self._stated(node):
                continue
            sets = [self._by_name[name] for name in names if name in self._by_name]
            candidates = sets[0] if len(sets) == 1 else frozenset[EndpointId]().union(*sets)
            self._settle(node, candidates, "its name and addresses belong to several endpoints")
            if not candidates:
                rest.append((node, names))
        self._same_host(rest)
        settled = self.found.keys() | self.doubtful.keys()
        self.unmapped = tuple([node.name for node, _ in nodes if node.name not in settled])

    def _stated(self, node: Node) -> bool:
        """Whether an operator says where the node is measured: what is said first counts."""
        metric, config = self.metric, self._config
        annotations, labels = dict(node.annotations), dict(node.labels)
        keys = (f"{ENDPOINT_KEY}-{metric}", ENDPOINT_KEY)
        statements = [(f"annotation {key}", annotations.get(key)) for key in keys]
        statements += [(f"label {key}", labels.get(key)) for key in keys]
        if rule := ruled(config.mapping, node, metric):
            statements.append((f"rule {rule[0]}", rule[1]))
        where, text = next(((where, text.strip()) for where, text in statements if text and text.strip()), ("", ""))
        if not text:
            return False
        shown = repr(text) if len(text) <= NAME_LIMIT else f"{text[:NAME_LIMIT]!r}…"  # an annotation may have 256 kB
        candidates = self.ids.get(EndpointId(text)) or self._by_name.get(canonical(text), frozenset())
        if not candidates and self.ids:
            self.unknown.append(f"node {node.name}: the {where} names {shown}: no endpoint of {metric} has this name")
        self._settle(node, candidates, f"the {where} names {shown}, which several endpoints are called")
        return True

    def _same_host(self, nodes: Sequence[_Named]) -> None:
        """Match `node1` with `node1.example.org`, never `node1.a` with `node1.b`; taken endpoints are out."""
        taken = set(self.found.values())
        claims: dict[EndpointId, list[NodeName]] = {}
        for node, names in nodes:
            hosts = [host_of(name) for name in names]
            others = [self._by_host.get((host, not domain), frozenset()) for host, domain in hosts]
            candidates = frozenset[EndpointId]().union(*others) - taken
            if len(candidates) == 1:
                claims.setdefault(next(iter(candidates)), []).append(node.name)
            else:
                self._settle(node, candidates, "several endpoints have its host name")
        for endpoint, claimants in claims.items():
            if len(claimants) == 1:
                self.found[claimants[0]] = endpoint
                continue
            reason = "several nodes have the endpoint's host name"
            self.doubtful |= {name: AmbiguousNode(self.metric, name, (endpoint,), reason) for name in claimants}

    def _settle(self, node: Node, candidates: frozenset[EndpointId], doubt: str) -> None:
        name = node.name
        if len(candidates) == 1:
            self.found[name] = next(iter(candidates))
        elif candidates:
            first = _first(candidates)
            self.doubtful[name] = AmbiguousNode(self.metric, name, first, doubt, len(candidates) - len(first))


PROBE: Final = "probe"  # Name of the source
_LOOKED_AT: Final = attrgetter("name", "zone", "addresses", "annotations", "labels")
"""What a mapping looks at: most changes of nodes are of taints, readiness, cordons."""


class Given(msgspec.Struct, frozen=True):
    """Everything a matrix is built from."""

    tables: Mapping[str, MeasurementTable]  # source → what it gave last
    endpoints: tuple[tuple[EndpointInfo, ...], ...]
    nodes: tuple[Node, ...]


def with_probe(
    given: Given, mapping: NodeMapping, *, soft_ttl_s: Ttl, now_s: float
) -> tuple[MeasurementTable, NodeMapping]:
    """The probe's rows that count, under the nodes' endpoints, and where nodes are measured then. Cost: O(m log m)."""
    probed, others = given.tables[PROBE], [table for name, table in given.tables.items() if name != PROBE]
    node_names = {node.name for node in given.nodes}
    endpoint_of = dict(mapping.endpoint_of)
    table = MeasurementTable()
    for metric in METRICS:
        rows = probed.where(probed.metric == METRICS.index(metric))
        if metric is Metric.THROUGHPUT and not len(rows):
            continue  # no bursts, or none yet: nodes are not to look measured
        of = dict(mapping.endpoint_of.get(metric, {}))
        nodes_at = Counter(of.values())
        name_of: dict[EndpointId, EndpointId] = {}
        for end in probed.ends:
            node = NodeName(end)
            alone = nodes_at[of[node]] == 1 if node in of else not nodes_at[end]
            if node in node_names and alone:
                name_of[end] = of.setdefault(node, end)
        endpoint_of[metric] = of
        table = table.joined(rows.renamed(name_of))
        sites = [of.get(NodeName(end)) for end in rows.ends]
        inside = [sites[a] == sites[b] is not None for a, b in zip(rows.source, rows.target, strict=True)]
        table = table.joined(rows.where(np.array(inside, np.bool_)))
    soft_s = np.array([np.inf if (age_s := soft_ttl_s.for_metric(m.value)) is None else age_s for m in METRICS])
    number = {end: i for i, end in enumerate({end for measured in (table, *others) for end in measured.ends})}
    fresh = [other.keys(number)[now_s - other.measured_at_s < soft_s[other.metric]] for other in others]
    if fresh:
        table = table.where(~np.isin(table.keys(number), np.concatenate(fresh)))
    unmapped = {
        metric: tuple(node for node in names if node not in endpoint_of.get(metric, {}))
        for metric, names in mapping.unmapped.items()
    }
    return table, replace(mapping, endpoint_of=endpoint_of, unmapped=unmapped)


class Built(msgspec.Struct, frozen=True):
    """A matrix and what it was built from."""

    given: Given
    mapping: NodeMapping
    matrix: NetworkMatrix
    zones: Zones | None  # For links without a value


def build(given: Given, last: Built | None, config: NetworkSettings, *, zone_fallback: bool, now_s: float) -> Built:
    """Merge and map; with `zone_fallback` links without a value have the median of those between their zones."""
    same = last is not None and given.tables == last.given.tables
    if last is not None and same and given.endpoints == last.given.endpoints:
        both = zip(given.nodes, last.given.nodes, strict=False)
        alike = (node is before or _LOOKED_AT(node) == _LOOKED_AT(before) for node, before in both)
        if len(given.nodes) == len(last.given.nodes) and all(alike):
            return replace(last, given=given)
    tables = {name: table for name, table in given.tables.items() if name != PROBE}
    mapping = map_nodes(given.nodes, chain(*given.endpoints), config, tables.values())
    if PROBE in given.tables:
        tables[PROBE], mapping = with_probe(given, mapping, soft_ttl_s=config.soft_ttl_s, now_s=now_s)
    zones = None
    if zone_fallback:
        hard_ttl_s = {metric: config.hard_ttl_s.for_metric(metric.value) for metric in METRICS}
        zones = Zones({node.name: node.zone for node in given.nodes if node.zone}, hard_ttl_s)
    same = same and last is not None and mapping.endpoint_of == last.mapping.endpoint_of
    if last is not None and same and zones == last.zones:
        return Built(given, mapping, last.matrix, zones)
    version = 1 if last is None else last.matrix.version + 1
    matrix = NetworkMatrix.merged(tables, endpoint_of=mapping.endpoint_of, now_s=now_s, version=version, zones=zones)
    return Built(given, mapping, matrix, zones)
