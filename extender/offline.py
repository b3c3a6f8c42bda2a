"""Plan from files, without a cluster: `netgang plan`.

The same conversion, cache and planner as the service; only the sources differ.
"""

from pathlib import Path

from extender.bootstrap import empty_cache, fill
from extender.clusterfile import read_cluster
from extender.network.mapping import MappingConfig, map_nodes
from extender.network.mesh import read_mesh
from extender.service.documents import Document, plan_document
from extender.settings import Settings
from scoring.network import METRICS, MeasurementTable, NetworkMatrix, Zones
from scoring.plan import plan


def plan_files(cluster: Path, mesh: Path | None, settings: Settings, *, now_s: float) -> Document:
    """The plan for a saved cluster and mesh at `now_s`. Errors: ConfigError names file, entry and field."""
    saved = read_cluster(cluster, zone_label=settings.zone_label)
    cache = empty_cache(settings)
    fill(cache, saved)
    if mesh is not None:
        batch = read_mesh(mesh, now_s=now_s)
        config = MappingConfig(
            table=settings.network.endpoint_table(),
            zones=settings.network.zone_table(),
            key=settings.endpoint_annotation,
            automatic=settings.network.match_names,
        )
        measured = {
            metric: {end for m in batch.measurements if m.metric is metric for end in (m.source, m.target)}
            for metric in METRICS
        }
        mapping = map_nodes(saved.nodes, batch.endpoints, config, measured=measured)
        hard = settings.network.hard_ttl()
        zones = Zones({n.name: n.zone for n in saved.nodes if n.zone}, {m: hard.of(m.value) for m in METRICS})
        matrix = NetworkMatrix.merged(
            {"file": MeasurementTable.of(batch.measurements)},
            endpoint_of=mapping.endpoint_of,
            now_s=now_s,
            zones=zones if settings.network.zone_fallback else None,
        )
        cache.set_network(matrix)
    snapshot = cache.snapshot()
    return plan_document(plan(snapshot, settings.policy(), now_s=now_s), snapshot)
