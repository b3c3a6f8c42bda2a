"""Small sites in one line each."""

from cli.mesh.nodes import SiteNode
from scoring.ids import NodeName, ZoneName


def at(
    name: str,
    zone: str,
    *addresses: str,
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
) -> SiteNode:
    """A node; without addresses it has NAME.lab.example."""
    return SiteNode(
        NodeName(name), ZoneName(zone), addresses or (f"{name}.lab.example",), labels or {}, annotations or {}
    )


def two_zones() -> list[SiteNode]:
    """a1, a2, a3 in zone A, b1 and b2 in zone B."""
    return [at(name, name[0].upper()) for name in ("a1", "a2", "a3", "b1", "b2")]
