"""How jobs train: how fast on which nodes, when they stall, when they are done.

Rules: the engine knows members and nodes, and leaves the speed to the function that it is given; a job trains while all
its parameter servers and its minimum of workers run; a change of its members, once it has trained for `SETTLED_S`,
stalls it from the moment at which the new ones run or the old ones leave, and takes it back to its last checkpoint; a
change during a stall restarts it.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from lab.simulator.model import Fate, JobOutcome, Scenario, SimJob
from lab.simulator.speed import Crowd, Wires, repeated_samples, speed_of
from lab.simulator.speed.rate import Placement
from lab.simulator.speed.stall import resize_stall_s
from scoring.ids import NodeName
from scoring.model import Role
from scoring.model.resources import CPU


@dataclass(frozen=True, slots=True)
class Placed:
    """Nodes of a job's running members, by index."""

    ps: tuple[NodeName, ...]
    workers: tuple[NodeName, ...]


@dataclass(frozen=True, slots=True)
class Rate:
    """How a job trains while nothing about it changes."""

    samples_per_s: float
    busy_cores: float
    """Cores that compute, mean over time."""
    step_samples: float = 0.0
    """Samples of one step: what may have to be repeated is counted in steps."""


Training: TypeAlias = Callable[[SimJob, Placed], Rate]
"""Of a job with all its parameter servers and at least one worker."""


def constant(samples_per_s: float = 1.0) -> Training:
    """Every worker sees so many samples a second, wherever it is, and all requested cores are busy.

    >>> from scoring.model.resources import Resources
    >>> from lab.simulator.model import Work
    >>> two = Resources.parse({"cpu": "2"})
    >>> job = SimJob("a", 0.0, Work("any", 8, 1e4), worker=two, workers=4, min_workers=2)
    >>> constant(10.0)(job, Placed((), (NodeName("n1"), NodeName("n2"))))
    Rate(samples_per_s=20.0, busy_cores=4.0, step_samples=0.0)
    """

    def rate(job: SimJob, at: Placed) -> Rate:
        millicores = job.worker.get(CPU) * len(at.workers) + job.ps.get(CPU) * len(at.ps)
        return Rate(samples_per_s * len(at.workers), millicores / 1000.0)

    return rate


ALONE = Crowd({}, {})


def modelled(
    scenario: Scenario, *, crowd: Crowd = ALONE, unmeasured_bps: float = 1e9, card_bps: float = 10e9
) -> Training:
    """The training-speed model of `lab.simulator.speed` on the scenario's nodes and links.

    `crowd`: what else is on the nodes (`lab.simulator.pods.sharing`); `unmeasured_bps`: rate of links without a
    measurement; `card_bps`: what a node's network card moves.
    """
    names = tuple(sorted(node.name for node in scenario.nodes))
    row_of = {name: row for row, name in enumerate(names)}
    wires = Wires(scenario.network, names, unmeasured_bps=unmeasured_bps, card_bps=card_bps)

    def rate(job: SimJob, at: Placed) -> Rate:
        rows = Placement(tuple(row_of[name] for name in at.ps), tuple(row_of[name] for name in at.workers))
        found = speed_of(job, rows, wires, crowd)
        return Rate(found.samples_per_s, found.busy_cores, found.step_samples)

    return rate


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


SETTLED_S = 10.0
"""Members that come within this of the first step are part of the start, and stall nothing."""


class Trainer:
    """Training of all jobs; `complete` hears of each one that has seen all its samples."""

    def __init__(self, training: Training, complete: Callable[[Story], None]) -> None:
        self._training = training
        self._complete = complete

    def members_changed(self, story: Story) -> None:
        """Other members run: the job trains at another rate from now on, perhaps after a stall."""
        self.settle(story)
        now_s, at = _now_s(), story.placed()
        if story.began_s is not None and now_s > story.began_s + SETTLED_S:
            self._stall(story, at)
        if not story.trains_with(at):
            self._pause(story, None)
            return
        if story.began_s is None:
            story.began_s = now_s
        if now_s < story.stalled_until_s:
            self._pause(story, story.stalled_until_s)
        else:
            self._go_on(story, at)

    def look_again(self, story: Story) -> None:
        """Other jobs came to its nodes, or left: it may train faster or slower from now on."""
        if story.rate is not NO_RATE:
            self.settle(story)
            self._go_on(story, story.placed())

    def settle(self, story: Story) -> None:
        """Count what was trained and used up to now."""
        now_s = _now_s()
        past_s = now_s - story.since_s
        if past_s > 0.0:
            story.trained = min(story.trained + story.rate.samples_per_s * past_s, story.job.work.samples)
            story.busy_core_s += story.rate.busy_cores * past_s
            workers = [one for (role, _), one in story.members.items() if role is not Role.PS and one.node is not None]
            story.worker_s += len(workers) * past_s
        story.since_s = now_s

    def stop(self, story: Story) -> None:
        """Count up to now; nothing goes on after that."""
        self.settle(story)
        self._pause(story, None)

    def _stall(self, story: Story, at: Placed) -> None:
        now_s, rate = _now_s(), story.rate
        if now_s >= story.stalled_until_s:
            story.resizes += 1
            if rate.step_samples:
                lost = repeated_samples(story.trained, rate.step_samples)
                story.trained -= lost
                story.stalled_s += lost / rate.samples_per_s
        until_s = now_s + resize_stall_s(len(at.workers))
        story.stalled_s += until_s - max(now_s, story.stalled_until_s)
        story.stalled_until_s = until_s

    def _go_on(self, story: Story, at: Placed) -> None:
        story.rate = self._training(story.job, at)
        left = max(story.job.work.samples - story.trained, 0.0)
        self._alarm(story, _now_s() + left / story.rate.samples_per_s)

    def _pause(self, story: Story, until_s: float | None) -> None:
        story.rate = NO_RATE
        self._alarm(story, until_s)

    def _alarm(self, story: Story, at_s: float | None) -> None:
        if story.timer is not None:
            story.timer.cancel()
        loop = asyncio.get_running_loop()
        story.timer = None if at_s is None else loop.call_at(at_s, self._rings, story)

    def _rings(self, story: Story) -> None:
        """A stall is over, or all samples have been seen."""
        self.settle(story)
        story.timer = None
        if story.rate is NO_RATE:
            self._go_on(story, story.placed())
            return
        story.trained, story.rate = story.job.work.samples, NO_RATE
        self._complete(story)


def _now_s() -> float:
    return asyncio.get_running_loop().time()
