"""Plan, explain a gang, suppose something or find nodes' endpoints from files and without a cluster.

The same conversion, cache, mapping, planner and documents as the service; only where the cluster comes from differs.
"""

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from math import isfinite
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from extender.api.documents.expected_start import expected_start_document
from extender.api.documents.explain import explain_document, preemption_document
from extender.api.documents.plan import plan_document, supposed_document
from extender.api.documents.queue import weight_document
from extender.api.what_if import supposed
from extender.bootstrap import empty_cache, fill
from extender.cache import ClusterCache
from extender.convert.clusterfile import read_cluster
from extender.decision_log import GZIP, BadLogError, decisions
from extender.errors import ConfigError
from extender.network.file.mesh import read_mesh
from extender.network.mapping import map_nodes, mapping_config, measured_ends
from extender.network.merge import Given, build, node_counts
from extender.runtime.clock import SystemClock
from extender.schemas import plan as schema
from extender.schemas.explain import Explained
from extender.schemas.what_if import Supposed
from extender.settings.settings import Settings
from scoring.explain.gang import explain
from scoring.explain.queue_report import QueueReport, report
from scoring.ids import gang_key
from scoring.model import Gang, Policy, Snapshot
from scoring.network.matrix import METRICS, MeasurementTable
from scoring.plan import Plan, PlannerCache, plan
from scoring.plan.expected import expected_starts
from scoring.what_if import MisfitError, Situation, WhatIf

_Gang = TypeVar("_Gang", schema.AdmittedGang, schema.WaitingGang)


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan of files."""

    document: schema.PlanOfFiles
    measured: bool  # Whether any of its nodes has a network measurement; else zones and room alone decided
    recorded: int = 0  # Decisions of a log that were made again
    different: int = 0  # Those of them that did not come out as recorded


def plan_files(cluster: Path, mesh: Path | None, settings: Settings, *, now_s: float) -> Planned:
    """The plan at `now_s`. ConfigError names file, entry and field."""
    snapshot = filled_cache(cluster, mesh, settings, now_s=now_s).snapshot()
    return _planned(snapshot, settings.policy(), plan(snapshot, settings.policy(), now_s=now_s), now_s=now_s)


def is_log(file: Path) -> bool:
    """Whether it is a decision log, by how it begins; not for a file that cannot be read."""
    try:
        with file.open("rb") as opened:
            return opened.read(len(GZIP)) == GZIP
    except OSError:
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


def _planned(snapshot: Snapshot, policy: Policy, made: Plan, *, now_s: float) -> Planned:
    document = _with_queue(plan_document(made, snapshot), report(snapshot, made, policy, now_s=now_s))
    network = snapshot.network
    return Planned(document, any(network.endpoint(node, metric) for node in snapshot.table.names for metric in METRICS))


def filled_cache(cluster: Path, mesh: Path | None, settings: Settings, *, now_s: float) -> ClusterCache:
    """The cache that the service would have of a saved cluster and of the mesh. Errors: ConfigError."""
    saved = read_cluster(cluster, zone_label=settings.zone_label)
    cache = empty_cache(settings)
    fill(cache, saved, now_s=now_s)
    if mesh is not None:
        batch = read_mesh(mesh, now_s=now_s)
        given = Given({"file": MeasurementTable.of(batch.measurements)}, (tuple(batch.endpoints),), tuple(saved.nodes))
        cache.set_network(build(given, None, mapping_config(settings), zone_ttl_s=None, now_s=now_s).matrix)
    return cache


def _with_queue(made: schema.Plan, queue: QueueReport) -> schema.PlanOfFiles:
    """The plan, each gang with its state and weight; nodes that are reserved for a STARVING gang under `held`."""
    entries = {str(one.gang): one for one in queue.entries}

    def ranked(gang: _Gang) -> _Gang:
        one = entries.get(gang.gang)
        if one is None:
            return gang
        return msgspec.structs.replace(gang, state=one.state.value, weight=weight_document(one.weight))

    return schema.PlanOfFiles(
        version=made.version,
        admitted=tuple(map(ranked, made.admitted)),
        waiting=tuple(map(ranked, made.waiting)),
        order=queue.order.value,
        held={one.gang: one.held_nodes for one in queue.entries if one.held_nodes},
    )


def map_files(cluster: Path, mesh: Path, settings: Settings, *, now_s: float) -> dict[str, Any]:
    """Node → metric → its endpoint, or `None`; doubts, and unknown names, are `problems`. Errors: ConfigError."""
    saved = read_cluster(cluster, zone_label=settings.zone_label)
    batch = read_mesh(mesh, now_s=now_s)
    measured = measured_ends([MeasurementTable.of(batch.measurements)])
    mapping = map_nodes(saved.nodes, batch.endpoints, mapping_config(settings), measured=measured)
    doubts = [
        f"node {m.node}, {m.metric}: {m.reason}: {', '.join(m.candidates)}"
        + (f" and {m.more_candidates} more" if m.more_candidates else "")
        for m in mapping.ambiguous
    ]
    return {
        "nodes": {
            node: {metric.value: mapping.endpoint_of[metric].get(node) for metric in METRICS}
            for node in sorted(node.name for node in saved.nodes)
        },
        "counts": node_counts(mapping),
        "problems": [*doubts, *mapping.unknown],
        "unused": list(mapping.unused),
    }


def explain_file(cluster: Path, mesh: Path | None, settings: Settings, name: str, *, now_s: float) -> Explained:
    """Why the gang or pod NAMESPACE/NAME is where it is. Errors: ConfigError."""
    cache = filled_cache(cluster, mesh, settings, now_s=now_s)
    gang = _gang(cache, name)
    snapshot, policy, known = cache.snapshot(), settings.policy(), PlannerCache()
    made = plan(snapshot, policy, now_s=now_s, cache=known)
    preemption = preemption_document(snapshot, gang.key, blocked=None)
    found = explain(snapshot, made, gang, policy, now_s=now_s, cache=known)
    document = explain_document(found, preemption, now_s=now_s)
    starts = expected_starts(snapshot, made, policy, now_s=now_s, cache=known)
    return msgspec.structs.replace(document, expected_start=expected_start_document(starts.get(gang.key), now_s=now_s))


def what_if_file(cluster: Path, mesh: Path | None, settings: Settings, what: WhatIf, *, now_s: float) -> Supposed:
    """What the plan would be. Errors: ConfigError names the field that is wrong."""
    cache = filled_cache(cluster, mesh, settings, now_s=now_s)
    base = Situation(cache.snapshot(), settings.policy(), now_s)
    made = plan(base.snapshot, base.policy, now_s=now_s)
    try:
        found = supposed(base, made, what, settings, partial(empty_cache, settings))
    except MisfitError as error:
        raise ConfigError(str(error)) from error
    return supposed_document(found, what)


def _gang(cache: ClusterCache, name: str) -> Gang:
    namespace, slash, rest = name.partition("/")
    if not (namespace and slash and rest):
        raise ConfigError(f"{name!r} is no NAMESPACE/NAME")
    gang = cache.gang(gang_key(namespace, rest))
    pod = cache.pod_by_name(namespace, rest)
    if gang is None and pod is not None:
        gang = cache.gang_of(pod.uid)
    if gang is None:
        known = ", ".join(sorted(cache.snapshot().gangs)[:5]) or "none"
        raise ConfigError(f"no gang, and no pod of a gang, is {name}; gangs of the file: {known}")
    return gang


def moment_s(text: str | None) -> float:
    """Unix seconds, or a time of day with date, in UTC unless it says otherwise; `None`: now. Errors: ConfigError.

    >>> moment_s("60"), moment_s("1970-01-01T00:01:00Z")
    (60.0, 60.0)
    """
    if text is None:
        return SystemClock().now_s()
    try:
        if isfinite(found := float(text)):
            return found
    except ValueError:
        pass  # a time of day, then
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise ConfigError(f"--now: {text!r} is neither Unix seconds nor a time such as 2026-01-31T12:00:00Z") from error
    return moment.timestamp() if moment.tzinfo else moment.replace(tzinfo=UTC).timestamp()
