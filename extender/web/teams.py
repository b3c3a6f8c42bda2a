"""How long each namespace's gangs wait, and what they have now: at most `MOST_TEAMS`, those that wait longest first."""

from collections import Counter
from typing import Any, Final

from extender.schemas.queue import Queue
from scoring.ids import ResourceName
from scoring.model.resources import CPU, MEMORY, PODS
from scoring.model.snapshot import NodeTable, Snapshot
from scoring.plan.steps import Steps

MOST_TEAMS: Final = 20
_GANGS_A_STEP: Final = 256
_WAITS: Final = ("WAITING", "STARVING")


def teams_section(queue: Queue, snapshot: Snapshot) -> Steps[dict[str, Any]]:
    """Namespaces with a gang that waits or runs; `has` is in the resource's base unit. Cost: O(gangs + members)."""
    table = snapshot.table
    resource = counted_resource(table)
    has: Counter[str] = Counter()
    for number, (key, gang) in enumerate(snapshot.gangs.items(), start=1):
        on_nodes = (pod for pod in gang.members if pod.node is not None and not pod.terminal)
        has[key.partition("/")[0]] += sum(pod.requests.get(resource) for pod in on_nodes)
        if number % _GANGS_A_STEP == 0:
            yield
    teams: dict[str, dict[str, Any]] = {}
    for one in queue.gangs:
        if one.state not in (*_WAITS, "RUNNING"):
            continue
        name = one.gang.partition("/")[0]
        team = teams.setdefault(
            name, {"namespace": name, "waiting": 0, "since_s": None, "running": 0, "has": has[name]}
        )
        team["running" if one.state == "RUNNING" else "waiting"] += 1
        if one.waiting_since_s is not None and one.state in _WAITS:
            since_s = team["since_s"]
            team["since_s"] = one.waiting_since_s if since_s is None else min(since_s, one.waiting_since_s)
    rows = sorted(
        teams.values(),
        key=lambda one: (one["since_s"] is None, one["since_s"] or 0.0, -one["has"], one["namespace"]),
    )
    total = int(table.allocatable[:, table.axis.index(resource)].sum()) if resource in table.axis else 0
    return {"resource": resource, "total": total, "rows": rows[:MOST_TEAMS]}


def counted_resource(table: NodeTable) -> ResourceName:
    """The extended resource that most nodes have, such as GPUs; without one, CPU."""
    spread = (table.allocatable > 0).sum(axis=0)
    extended = [
        column for column, name in enumerate(table.axis) if name not in (CPU, MEMORY, PODS, "ephemeral-storage")
    ]
    best = max(extended, key=lambda column: int(spread[column]), default=None)
    return CPU if best is None or not spread[best] else table.axis[best]
