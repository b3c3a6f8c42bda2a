"""What the page shows of one moment, in sections that change apart from each other.

Why sections: a cluster of 5,000 nodes changes every second somewhere, and a viewer needs only what is new; a section
whose bytes are those of the last time is not sent again. So nothing in a section moves with the clock alone: times are
given as moments, and the viewer counts. Rule: lists are bounded and say of how many they are; all is from memory.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import numpy as np

from extender.api.schemas.jobs import Job, Jobs
from extender.api.schemas.queue import Queue, QueuedGang
from extender.api.schemas.readiness import Readiness
from extender.cache import ClusterCache
from extender.network.refresh import NetworkStatus
from extender.runtime.recent_decisions import Made, RecentDecisions
from extender.scheduling.admission.gates import Admissions
from extender.scheduling.bind.held_binds import Binds
from extender.scheduling.planning.loop import Planner
from scoring.model import Pod
from scoring.model.resources import CPU, MEMORY, PODS
from scoring.model.snapshot import Snapshot
from scoring.plan.steps import Steps

Document = dict[str, Any]
Sections = Mapping[str, bytes]

MOST_GANGS: Final = 150
MOST_GATES: Final = 40
MOST_ZONES: Final = 100
MOST_JOBS: Final = 100
_RESOURCES: Final = 4
"""cpu, memory, and the two extended resources that most nodes have"""


@dataclass(frozen=True, slots=True)
class Watched:
    """What the page looks at."""

    cache: ClusterCache
    planner: Planner
    binds: Binds
    admissions: Admissions
    queue: Callable[[], Steps[Queue]]
    """/v1/queue, in steps"""
    recent: RecentDecisions
    network: Callable[[], NetworkStatus | None]
    readiness: Callable[[], Readiness]
    jobs: Callable[[], Steps[Jobs]] | None = None
    """/v1/jobs in short, in steps; `None`: no job is elastic here."""
    acting: Callable[[], bool] = lambda: True

    def version(self) -> tuple[object, ...]:
        """Something else than the last time if anything on the page may have changed. O(1)."""
        status = self.network()
        plan = self.planner.current
        changed = (self.cache.version, plan.version, plan.network_version, self.binds.held_count, self.recent.count)
        return (*changed, self.acting(), status.version if status is not None else None)


def sections_in_steps(watched: Watched) -> Steps[Sections]:
    """Every section as JSON. Cost: as /v1/queue, and O(nodes)."""
    made: dict[str, bytes] = {}
    snapshot = watched.planner.snapshot or watched.cache.snapshot()
    for name, section in _small(watched, snapshot):
        made[name] = msgspec.json.encode(section)
        yield
    if watched.jobs is not None:
        jobs = yield from watched.jobs()
        made["jobs"] = msgspec.json.encode({"rows": [_job(one) for one in jobs.jobs[:MOST_JOBS]], "of": jobs.of})
    queue = yield from watched.queue()
    made["queue"] = msgspec.json.encode(_queue(queue))
    return made


def _small(watched: Watched, snapshot: Snapshot) -> Iterator[tuple[str, Document]]:
    yield "status", _status(watched, snapshot)
    yield "zones", _zones(snapshot, watched)
    yield "gates", _gates(watched, snapshot)
    yield "network", _network(watched)
    yield "decisions", {"rows": [_decision(made) for made in watched.recent.changes()]}


def _shown(source: object, *names: str) -> Document:
    """Attributes of a record."""
    return {name: getattr(source, name) for name in names}


def _decision(made: Made) -> Document:
    return {"at_s": made.at_s, **_shown(made.decision, "what", "gang", "pod", "node", "reason")}


def _status(watched: Watched, snapshot: Snapshot) -> Document:
    readiness = watched.readiness()
    usable = sum(node.ready and not node.unschedulable and not node.leaving for node in snapshot.table.nodes)
    return {
        "ready": readiness.ready,
        "reasons": readiness.reasons,
        "leading": watched.acting(),
        "nodes": len(snapshot.table.names),
        "usable_nodes": usable,
        "held_binds": watched.binds.held_count,
        "plan_version": watched.planner.current.version,
    }


def _zones(snapshot: Snapshot, watched: Watched) -> Document:
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
    for reserved in watched.planner.current.reservations.values():
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


def _gates(watched: Watched, snapshot: Snapshot) -> Document:
    """Gangs between waiting and running: being admitted, held at bind, or being bound."""
    binds, admissions = watched.binds, watched.admissions
    keys = sorted(admissions.open | binds.gangs_under_way())
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


def _network(watched: Watched) -> Document:
    status = watched.network()
    kept = ("name", "last_success_s", "error", "measurements")
    sources = status.sources if status is not None else ()
    return {"sources": [{**_shown(one, *kept), "problems": len(one.problems)} for one in sources]}


def _job(one: Job) -> Document:
    return _shown(one, "job", "kind", "state", "workers", "network", "refusal", "wish", "last_change")


def _queue(queue: Queue) -> Document:
    """The first of the queue, without what moves with the clock."""
    rows = [_turn(one) for one in queue.gangs[:MOST_GANGS]]
    return {"order": queue.order, "counts": queue.counts, "rows": rows, "of": len(queue.gangs)}


def _turn(one: QueuedGang) -> Document:
    kept = ("gang", "state", "rank", "priority", "waiting_since_s", "running_since_s", "admitted", "zone", "reason")
    members = one.members
    return _shown(one, *kept) | {
        "detail": one.detail[:300],
        "weight": float(f"{one.weight.omega_prime:.4g}"),
        "members": [members.min_available, members.pending, members.running, members.succeeded],
        "starves": one.starves_in_s is not None and one.state == "WAITING",
    }
