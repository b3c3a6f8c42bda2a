"""What the page shows of one moment, in sections that change apart from each other.

Why sections: a cluster of 5,000 nodes changes every second somewhere, and a viewer draws only what is new. So nothing
in a section moves with the clock alone: times are given as moments, and the viewer counts. Rule: lists are bounded and
say of how many they are; all is from memory.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec
import numpy as np

from extender.api.documents.network import degraded_links
from extender.api.documents.views import Views
from extender.runtime.slices import next_slice
from scoring.explain.queue_report import Queue
from scoring.model import Pod, Snapshot
from scoring.model.resources import CPU, MEMORY, PODS

Document = dict[str, Any]
Sections = Mapping[str, bytes]

MOST_GANGS: Final = 150
MOST_GATES: Final = 40
MOST_ZONES: Final = 100
MOST_JOBS: Final = 100
_EXPECTED: Final = ("start_s", "after")
_RESOURCES: Final = 4  # cpu, memory, and the two extended resources that most nodes have


def version(views: Views) -> tuple[object, ...]:
    """Something else than the last time if anything on the page may have changed. O(1)."""
    status, plan = views.network_status(), views.planner.current
    changed = (views.context.cache.version, plan.version, plan.network_version, views.recent.count)
    links = views.alarms.bad_now(), views.probe_agents()
    published = status.version if status is not None else None
    return (*changed, *links, views.binds.held_count, views.expected.looks, views.context.acting(), published)


async def sections_of(views: Views) -> Sections:
    """Every section as JSON. Cost: as /v1/queue, and O(nodes)."""
    made: dict[str, bytes] = {}
    snapshot = views.planner.snapshot or views.context.cache.snapshot()
    for name, section in _small(views, snapshot):
        made[name] = msgspec.json.encode(section)
        await next_slice()
    if views.jobs is not None:
        jobs = await views.jobs.listed(limit=MOST_JOBS)
        shown = ("job", "kind", "state", "workers", "network", "refusal", "wish", "last_change")
        made["jobs"] = msgspec.json.encode({"rows": [_shown(one, *shown) for one in jobs.jobs], "of": jobs.of})
    queue = await views.queue()
    made["queue"] = msgspec.json.encode(queue_section(queue))
    return made


def _small(views: Views, snapshot: Snapshot) -> Iterator[tuple[str, Document]]:
    yield "status", _status(views, snapshot)
    yield "zones", _zones(snapshot, views)
    yield "gates", _gates(views, snapshot)
    yield "network", _network(views)
    shown = ("what", "gang", "pod", "node", "reason")
    made = [{"at_s": at_s, **_shown(one, *shown)} for at_s, one in views.recent.changes()]
    yield "decisions", {"rows": made}


def _shown(source: object, *names: str) -> Document:
    return {name: getattr(source, name) for name in names}


def _status(views: Views, snapshot: Snapshot) -> Document:
    readiness = views.readiness()
    usable = sum(node.ready and not node.unschedulable and not node.leaving for node in snapshot.table.nodes)
    return {
        "ready": readiness.ready,
        "reasons": readiness.reasons,
        "leading": views.context.acting(),
        "nodes": len(snapshot.table.names),
        "usable_nodes": usable,
        "held_binds": views.binds.held_count,
        "plan_version": views.planner.current.version,
        "demo": views.demo,
    }


def _zones(snapshot: Snapshot, views: Views) -> Document:
    """Per zone: nodes, what is free of each resource on usable nodes, and for which gangs room is reserved."""
    table = snapshot.table
    usable = np.array([node.ready and not node.unschedulable and not node.leaving for node in table.nodes], np.bool_)
    spread = (table.allocatable > 0).sum(axis=0)
    extended = [
        column
        for column in np.argsort(-spread, kind="stable").tolist()
        if table.axis[column] not in (CPU, MEMORY, PODS, "ephemeral-storage")
    ]
    plain = [column for column, name in enumerate(table.axis) if name in (CPU, MEMORY)]
    shown = [*plain, *extended][:_RESOURCES]
    free = np.maximum(table.allocatable - snapshot.used, 0)
    held: dict[str, list[str]] = {}
    for reserved in views.planner.current.reservations.values():
        for zone in reserved.zones:
            held.setdefault(zone, []).append(reserved.gang)
    zones = []
    for zone, rows in list(table.zones.items())[:MOST_ZONES]:
        use = rows[usable[rows]]
        zones.append(
            {
                "zone": zone,
                "nodes": len(rows),
                "usable": len(use),
                "resources": {
                    table.axis[column]: [int(free[use, column].sum()), int(table.allocatable[use, column].sum())]
                    for column in shown
                    if table.allocatable[rows, column].any()
                },
                "held_for": sorted(held.get(zone, [])),
            }
        )
    return {"rows": zones, "of": len(table.zones)}


def _gates(views: Views, snapshot: Snapshot) -> Document:
    binds = views.binds
    keys = sorted(binds.gangs_under_way())
    rows = []
    for key in keys[:MOST_GATES]:
        gang, state = snapshot.gangs.get(key), binds.state(key)
        if gang is None:
            continue
        held = len(state.held) if state is not None else 0
        posting = len(state.posting) if state is not None else 0
        rows.append(
            {
                "gang": key,
                "stage": "committing" if posting else "held" if held else "being admitted",
                "least": gang.min_member,
                "bound": len(gang.placed),
                "held": held,
                "posting": posting,
                "pods": len(gang.members),
                "members": [_member(pod, state.held if state is not None else ()) for pod in gang.members[:64]],
            }
        )
    return {"rows": rows, "of": len(keys)}


def _member(pod: Pod, held: object) -> str:
    """A letter a member: bound, held at bind, gated, or waiting."""
    if pod.node is not None:
        return "b"
    if isinstance(held, Mapping) and pod.uid in held:
        return "h"
    return "g" if pod.gates else "w"


def _network(views: Views) -> Document:
    status = views.network_status()
    kept = ("name", "last_success_s", "error", "measurements")
    sources = status.sources if status is not None else ()
    shown = [{**_shown(one, *kept), "problems": len(one.problems)} for one in sources]
    return {"sources": shown, "degraded": degraded_links(views.alarms.bad_now()), "agents": views.probe_agents()}


def queue_section(queue: Queue) -> Document:
    """The first gangs of the queue, with the planner's reason; the cause is in the document of /v1/explain."""
    kept = ("gang", "state", "rank", "priority", "waiting_since_s", "running_since_s", "admitted", "zone", "reason")
    rows = []
    for one in queue.gangs[:MOST_GANGS]:
        more = {
            "detail": one.detail[:300],
            "weight": float(f"{one.weight.omega_prime:.4g}"),
            "members": list(_shown(one.members, "min_available", "pending", "running", "succeeded").values()),
            "starves": one.starves_in_s is not None and one.state == "WAITING",
            "expected": None if one.expected_start is None else _shown(one.expected_start, *_EXPECTED),
        }
        rows.append(_shown(one, *kept) | more)
    return {"order": queue.order, "counts": queue.counts, "rows": rows, "of": len(queue.gangs)}
