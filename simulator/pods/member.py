"""One job's story while it is simulated: its members, where they run, how far it has trained."""

import asyncio
from dataclasses import dataclass, field
from typing import TypeAlias

from scoring.ids import NodeName
from scoring.model import Role
from simulator.model import Fate, JobOutcome, SimJob
from simulator.pods.training import Placed, Rate

MemberKey: TypeAlias = tuple[Role, int]
NO_RATE = Rate(0.0, 0.0)


@dataclass(slots=True, eq=False)
class Member:
    """A pod of the job that exists. Times are the loop's."""

    uid: str
    node: NodeName | None = None
    bound_s: float | None = None
    running: bool = False
    leaving: bool = False


@dataclass(slots=True, eq=False)
class Story:
    """A job from its arrival to its end. Times are the loop's."""

    job: SimJob
    uid: str
    workers: int
    """How many its owner asks for now."""
    suspended: bool = False
    members: dict[MemberKey, Member] = field(default_factory=dict)
    first_pod_s: float | None = None
    started_s: float | None = None
    ended_s: float | None = None
    trained: float = 0.0
    rate: Rate = NO_RATE
    since_s: float = 0.0
    """Up to when `trained`, `worker_s` and `busy_core_s` are counted."""
    began_s: float | None = None
    """When it trained first."""
    resizes: int = 0
    stalled_s: float = 0.0
    stalled_until_s: float = 0.0
    worker_s: float = 0.0
    busy_core_s: float = 0.0
    timer: asyncio.TimerHandle | None = None
    """Its end, or the end of its stall"""
    making: asyncio.Task[None] | None = None
    """What makes and deletes its pods now"""
    was_bound: dict[MemberKey, tuple[NodeName, float]] = field(default_factory=dict)
    """Where each member was placed last, and when"""

    @property
    def wanted(self) -> list[MemberKey]:
        """Members that should exist, parameter servers first, then by index."""
        if self.suspended or self.ended_s is not None:
            return []
        servers = [(Role.PS, index) for index in range(self.job.ps_count)]
        return servers + [(Role.WORKER, index) for index in range(self.workers)]

    def placed(self) -> Placed:
        """Nodes of the members that run, by index."""
        running = sorted((role, index, one.node) for (role, index), one in self.members.items() if one.running)
        ps = tuple(node for role, _, node in running if role is Role.PS and node is not None)
        return Placed(ps, tuple(node for role, _, node in running if role is not Role.PS and node is not None))

    def bound(self) -> tuple[int, int]:
        """How many parameter servers and workers are on nodes and stay there."""
        there = [role for (role, _), one in self.members.items() if one.node is not None and not one.leaving]
        servers = there.count(Role.PS)
        return servers, len(there) - servers

    def trains_with(self, at: Placed) -> bool:
        """Whether these members suffice for a step."""
        return len(at.ps) >= self.job.ps_count and len(at.workers) >= max(self.job.min_workers, 1)

    def outcome(self, fate: Fate, *, zero_s: float) -> JobOutcome:
        """Its outcome, with times since `zero_s`."""
        return JobOutcome(
            self.job,
            fate,
            since(self.first_pod_s, zero_s),
            since(self.started_s, zero_s),
            since(self.ended_s, zero_s),
            resizes=self.resizes,
            stalled_s=self.stalled_s,
            worker_s=self.worker_s,
        )


def since(moment_s: float | None, zero_s: float) -> float | None:
    """A moment counted from `zero_s`, to the microsecond."""
    return None if moment_s is None else round(moment_s - zero_s, 6)
