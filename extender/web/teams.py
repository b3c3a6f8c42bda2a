"""How long each namespace's gangs wait and what they have, now and over the last two hours.

Rule: in memory and bounded: one look a minute, the namespaces that wait longest first. It is empty after a
restart; what must last longer is in the metrics.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from extender.ports import Clock
from extender.runtime.slices import in_slices
from extender.schemas.queue import Queue
from scoring.ids import GangKey, Namespace, ResourceName
from scoring.model import Gang
from scoring.model.resources import CPU, MEMORY, PODS
from scoring.model.snapshot import NodeTable, Snapshot
from scoring.plan.steps import Steps

EVERY_S: Final = 60.0
MOST_LOOKS: Final = 120
MOST_TEAMS: Final = 20
_GANGS_A_STEP: Final = 256
_WAITS: Final = ("WAITING", "STARVING")


class Team(NamedTuple):
    """One namespace."""

    waiting: int
    since_s: float | None  # Since when the gang waits that waits longest
    running: int  # Gangs
    has: int  # Of the resource, on nodes, in its base unit


@dataclass(eq=False, repr=False)
class TeamHistory:
    """The looks so far. One thread of control."""

    queue: Callable[[], Steps[Queue]]
    snapshot: Callable[[], Snapshot]
    clock: Clock
    looks: deque[tuple[float, dict[Namespace, tuple[float, int]]]] = field(
        default_factory=lambda: deque(maxlen=MOST_LOOKS), init=False
    )
    """(when, namespace → (longest wait so far in seconds, what it has))"""
    _resource: ResourceName | None = field(default=None, init=False)
    _amounts: dict[GangKey, tuple[Gang, int]] = field(default_factory=dict, init=False)
    """gang → as it was when its members were added up, and their sum of that resource"""

    async def run(self) -> None:
        """Look once a minute; runs until cancelled."""
        while True:
            queue = await in_slices(self.queue())
            await in_slices(self.add(queue, self.snapshot()))
            await asyncio.sleep(EVERY_S)

    def add(self, queue: Queue, snapshot: Snapshot) -> Steps[None]:
        """One look. Cost: as `teams_in_steps`."""
        now_s = self.clock.now_s()
        teams = yield from self.teams_in_steps(queue, snapshot)
        self.looks.append((now_s, {name: (_waited_s(team, now_s), team.has) for name, team in teams.items()}))

    def section(self, queue: Queue, snapshot: Snapshot) -> Steps[dict[str, Any]]:
        """Now and before. `history`: per look the longest wait in seconds and what it had, oldest first."""
        teams = yield from self.teams_in_steps(queue, snapshot)
        rows = [
            {"namespace": name, **team._asdict(), "history": [list(look.get(name, (0.0, 0))) for _, look in self.looks]}
            for name, team in teams.items()
        ]
        table = snapshot.table
        resource = counted_resource(table)
        total = int(table.allocatable[:, table.axis.index(resource)].sum()) if resource in table.axis else 0
        return {"resource": resource, "total": total, "looks_s": [round(at_s) for at_s, _ in self.looks], "rows": rows}

    def teams_in_steps(self, queue: Queue, snapshot: Snapshot) -> Steps[dict[Namespace, Team]]:
        """Namespaces with a gang that waits or runs: those first that wait longest, then those that have most.

        Cost: O(gangs), and O(members) of those that changed since the last time.
        """
        has = yield from self._has_in_steps(snapshot)
        found: dict[Namespace, list[Any]] = {}
        for one in queue.gangs:
            if one.state not in (*_WAITS, "RUNNING"):
                continue
            name = Namespace(one.gang.partition("/")[0])
            team = found.setdefault(name, [0, None, 0])
            team[0] += one.state in _WAITS
            team[2] += one.state == "RUNNING"
            if one.waiting_since_s is not None and one.state in _WAITS:
                team[1] = one.waiting_since_s if team[1] is None else min(team[1], one.waiting_since_s)
        teams = sorted(
            ((name, Team(team[0], team[1], team[2], has[name])) for name, team in found.items()),
            key=lambda one: (one[1].since_s is None, one[1].since_s or 0.0, -one[1].has, one[0]),
        )
        return dict(teams[:MOST_TEAMS])

    def _has_in_steps(self, snapshot: Snapshot) -> Steps[Counter[Namespace]]:
        resource = counted_resource(snapshot.table)
        before = self._amounts if resource == self._resource else {}
        amounts: dict[GangKey, tuple[Gang, int]] = {}
        of_namespace: Counter[Namespace] = Counter()
        for number, (key, gang) in enumerate(snapshot.gangs.items(), start=1):
            known = before.get(key)
            if known is None or known[0] is not gang:
                on_nodes = (pod for pod in gang.members if pod.node is not None and not pod.terminal)
                known = gang, sum(pod.requests.get(resource) for pod in on_nodes)
            amounts[key] = known
            of_namespace[Namespace(key.partition("/")[0])] += known[1]
            if number % _GANGS_A_STEP == 0:
                yield
        self._resource, self._amounts = resource, amounts
        return of_namespace


def counted_resource(table: NodeTable) -> ResourceName:
    """The extended resource that most nodes have, such as GPUs; without one, CPU."""
    spread = (table.allocatable > 0).sum(axis=0)
    extended = [
        column for column, name in enumerate(table.axis) if name not in (CPU, MEMORY, PODS, "ephemeral-storage")
    ]
    best = max(extended, key=lambda column: int(spread[column]), default=None)
    return CPU if best is None or not spread[best] else table.axis[best]


def _waited_s(team: Team, now_s: float) -> float:
    return 0.0 if team.since_s is None else round(max(now_s - team.since_s, 0.0), 0)
