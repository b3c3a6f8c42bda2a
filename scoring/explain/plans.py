"""A plan as /v1/plan and `netgang plan` show it: admitted gangs with their nodes, waiting ones with their reasons.

Why not the planner's own records: those know pods by their uid, which says nothing to people.
"""

from collections.abc import Mapping

import msgspec
from msgspec import UNSET, UnsetType

from scoring.explain.queue_report import GangWeight, Queue
from scoring.ids import GangKey, NodeName
from scoring.model import Snapshot
from scoring.plan import Plan


class AdmittedGang(msgspec.Struct, frozen=True):
    """A gang that the plan gives nodes."""

    gang: GangKey
    rank: int
    zone: str  # Its zones, with commas.
    score: float | None  # Mean points (0 to 100) of its links.
    committed: bool
    members: Mapping[str, NodeName]  # pod → node.
    state: str | UnsetType = UNSET  # `netgang plan` alone, as `weight`: as in the queue.
    weight: GangWeight | UnsetType = UNSET


class WaitingGang(msgspec.Struct, frozen=True):
    """A gang that waits."""

    gang: GangKey
    rank: int
    code: str  # Name of the reason.
    reason: str
    detail: str  # The same with numbers.
    state: str | UnsetType = UNSET  # `netgang plan` alone, as `weight`: as in the queue.
    weight: GangWeight | UnsetType = UNSET


class PlannedGangs(msgspec.Struct, frozen=True):
    """Admitted gangs with their nodes, waiting ones with their reasons, both in the order of their rank."""

    version: int
    admitted: tuple[AdmittedGang, ...]
    waiting: tuple[WaitingGang, ...]


class PlanInForce(PlannedGangs, frozen=True, kw_only=True):
    """The plan of a running service, and how far it is carried out."""

    committed: Mapping[GangKey, int]  # gang → members whose nodes are committed.
    being_admitted: tuple[GangKey, ...]  # Gangs whose gates are being opened.
    held_binds: int  # Bind calls that wait for the rest of their gang.


class PlanOfFiles(PlannedGangs, frozen=True, kw_only=True):
    """What `netgang plan` shows: the plan of a saved cluster with its queue."""

    order: str  # weight, fifo or another order of the settings.
    held: Mapping[GangKey, tuple[NodeName, ...]]  # gang → nodes that are reserved for it.


def planned_gangs(plan: Plan, snapshot: Snapshot, queue: Queue | None = None) -> PlannedGangs:
    """The plan for people; with `queue` each gang has its state and weight. Cost: O(members of admitted gangs)."""
    started = [snapshot.gangs[key] for key in plan.admitted if key in snapshot.gangs]
    pod_name = {pod.uid: str(pod.name) for gang in started for pod in gang.members}
    ranked = {one.gang: (one.state, one.weight) for one in queue.gangs} if queue is not None else {}
    return PlannedGangs(
        version=plan.version,
        admitted=tuple(
            AdmittedGang(
                one.gang,
                one.rank,
                ",".join(one.zones),
                None if one.score is None else round(one.score, 3),
                one.committed,
                dict(sorted((pod_name.get(uid, uid), node) for uid, node in one.members.items())),
                *ranked.get(one.gang, ()),
            )
            for one in sorted(plan.admitted.values(), key=lambda one: one.rank)
        ),
        waiting=tuple(
            WaitingGang(one.gang, one.rank, one.reason.name, one.reason, one.detail, *ranked.get(one.gang, ()))
            for one in sorted(plan.waiting.values(), key=lambda one: one.rank)
        ),
    )
