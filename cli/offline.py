"""Plan from files and without a cluster.

The same conversion, cache, mapping, planner and documents as the service; only where the cluster comes from differs.
"""

from collections import Counter
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec.structs import replace

from extender.bootstrap import empty_cache, fill
from extender.cache.cluster import ClusterCache
from extender.convert.clusterfile import read_cluster
from extender.decision_log import GZIP, BadLogError, decisions
from extender.errors import ConfigError
from extender.network.mapping import Given, build
from extender.network.meshfile import read_mesh
from extender.settings.settings import Settings
from scoring.explain.queue_report import planned_gangs, report
from scoring.model import JobSays, Policy, Snapshot
from scoring.network.matrix import METRICS
from scoring.plan import Plan, plan
from scoring.records import PlanOfFiles


class Planned(msgspec.Struct, frozen=True):
    """A plan of files."""

    document: PlanOfFiles
    measured: bool  # Whether any of its nodes has a network measurement; else zones and room alone decided
    recorded: int = 0  # Decisions of a log that were made again
    different: int = 0  # Those of them that did not come out as recorded


def plan_files(cluster: Path, mesh: Path | None, settings: Settings, *, now_s: float) -> Planned:
    """The plan at `now_s`. ConfigError names file, entry and field."""
    snapshot = filled_cache(cluster, mesh, settings, now_s=now_s).snapshot()
    return _planned(snapshot, settings.policy(), plan(snapshot, settings.policy(), now_s=now_s), now_s=now_s)


def is_log(file: Path) -> bool:
    """Whether it is a decision log, by how it begins; not for a file that cannot be read."""
    with suppress(OSError), file.open("rb") as opened:
        return opened.read(len(GZIP)) == GZIP
    return False


def plan_log(file: Path) -> Planned:
    """Decide all of a decision log again; the newest plan. Errors: ConfigError."""
    count, different, newest = 0, 0, None
    try:
        for newest in decisions(file.read_bytes()):
            count += 1
            different += not newest.same
    except BadLogError as error:
        raise ConfigError(f"{file}: {error}") from error
    if newest is None:
        raise ConfigError(f"{file}: no decision was recorded")
    planned = _planned(newest.snapshot, newest.policy, newest.again(), now_s=newest.at_s)
    return replace(planned, recorded=count, different=different)


def _planned(snapshot: Snapshot, policy: Policy, plan: Plan, *, now_s: float) -> Planned:
    queue = report(snapshot, plan, policy, now_s=now_s)
    planned, held = planned_gangs(plan, snapshot, queue), {gang.gang: gang.held_nodes for gang in queue.gangs}
    held = {gang: nodes for gang, nodes in held.items() if nodes}
    document = PlanOfFiles(planned.version, planned.admitted, planned.waiting, order=queue.order, held=held)
    network = snapshot.network
    return Planned(document, any(network.endpoint(node, metric) for node in snapshot.table.names for metric in METRICS))


def filled_cache(cluster: Path, mesh: Path | None, settings: Settings, *, now_s: float) -> ClusterCache:
    """The cache that the service would have of a saved cluster and of the mesh. Errors: ConfigError."""
    saved = read_cluster(cluster, zone_label=settings.zone_label)
    cache = empty_cache(settings)
    fill(cache, saved, now_s=now_s)
    runs = (pod.run.uid for pod in saved.pods if pod.run is not None)
    pods = Counter(uid for uid in runs if uid not in cache.gangs.jobs)  # Of owners that the file has not
    cache.set_owners({uid: JobSays(wanted=count) for uid, count in pods.items()})
    if mesh is not None:
        batch = read_mesh(mesh, now_s=now_s)
        given = Given({"file": batch.measurements}, (batch.endpoints,), tuple(saved.nodes))
        cache.set_network(build(given, None, settings.network, zone_fallback=False, now_s=now_s).matrix)
    return cache
