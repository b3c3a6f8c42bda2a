"""Nodes as a mesh needs them: zone, labels, annotations and internal addresses, from the API server's JSON.

Why: the planner's record of a node has its addresses without their types, and a test must go to the InternalIP. Rule:
other kinds are skipped, an object that cannot be read is an error that names it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import msgspec

from extender.convert.decode import Metadata
from extender.errors import ConfigError
from extender.network.batches import UNREADABLE
from scoring.ids import NodeName, ZoneName


@dataclass(frozen=True, slots=True)
class SiteNode:
    """One node."""

    name: NodeName
    zone: ZoneName
    addresses: tuple[str, ...]  # Of type InternalIP, in the node's order
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)


class _Address(msgspec.Struct):
    type: str = ""
    address: str = ""


class _Status(msgspec.Struct):
    addresses: list[_Address] | None = None


class _Node(msgspec.Struct):
    metadata: Metadata
    status: _Status | None = None


class _Any(msgspec.Struct):
    kind: str = ""
    items: list[msgspec.Raw] | None = None


_ANY = msgspec.json.Decoder(_Any)
_NODE = msgspec.json.Decoder(_Node)


def nodes_of_list(body: bytes, *, where: str, zone_label: str) -> tuple[SiteNode, ...]:
    """Nodes in what `kubectl get nodes -o json` prints (or one node), by name. Errors: ConfigError names `where`."""
    try:
        document = _ANY.decode(body)
    except UNREADABLE as error:
        raise ConfigError(f"{where}: not JSON as `kubectl get nodes -o json` prints: {error}") from error
    raws = document.items or [] if document.kind.endswith("List") else [msgspec.Raw(body)]
    return nodes_of_objects((bytes(raw) for raw in raws), where=where, zone_label=zone_label)


def nodes_of_objects(raws: Iterable[bytes], *, where: str, zone_label: str) -> tuple[SiteNode, ...]:
    """Nodes among raw objects, by name; an object without a kind is one (the API server's lists leave it out)."""
    found: dict[NodeName, SiteNode] = {}
    for number, raw in enumerate(raws):
        try:
            if _ANY.decode(raw).kind not in ("", "Node"):
                continue
            node = _site_node(_NODE.decode(raw), zone_label)
        except UNREADABLE as error:
            raise ConfigError(f"{where}: items[{number}]: {error}") from error
        if node.name in found:
            raise ConfigError(f"{where}: items[{number}]: node {node.name} is there twice")
        found[node.name] = node
    return tuple(found[name] for name in sorted(found))


def _site_node(read: _Node, zone_label: str) -> SiteNode:
    labels = read.metadata.labels or {}
    addresses = (read.status.addresses if read.status else None) or []
    return SiteNode(
        name=NodeName(read.metadata.name),
        zone=ZoneName(labels.get(zone_label, "")),
        addresses=tuple(one.address for one in addresses if one.type == "InternalIP"),
        labels=labels,
        annotations=read.metadata.annotations or {},
    )


@dataclass(frozen=True, slots=True)
class Selector:
    """Labels that a node must have: `key=value` or `key`, several joined by commas."""

    text: str = ""

    def __post_init__(self) -> None:
        if any(not part.strip() or "!" in part or " " in part.strip() for part in self._parts()):
            raise ConfigError(f"selector {self.text!r}: must be key=value or key, several joined by commas")

    def takes(self, node: SiteNode) -> bool:
        """Whether the node has all of them; an empty selector takes every node."""
        pairs = (part.strip().partition("=") for part in self._parts())
        found = ((node.labels.get(key), equals, value.removeprefix("=")) for key, equals, value in pairs)
        return all(there is not None and (not equals or there == value) for there, equals, value in found)

    def _parts(self) -> list[str]:
        return self.text.split(",") if self.text else []
