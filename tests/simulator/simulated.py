"""Scenarios in one line, and a world that says what it sees."""

from collections.abc import Callable

import numpy as np

from lab.simulator.actions import Advice, Deciding
from lab.simulator.model import Scenario, SimJob, Sync, Work
from lab.simulator.state import State
from scoring import NodeName, ZoneName
from scoring.model import Node, Role
from scoring.model.pod import Resources


def job(
    name: str,
    *,
    at_s: float = 0.0,
    workers: int = 2,
    least: int | None = None,
    cpu: int = 1,
    ps: int = 1,
    samples: float = 10_000.0,
) -> SimJob:
    return SimJob(
        name=name,
        arrival_s=at_s,
        work=Work("vgg16", 32, samples, Sync.ASYNCHRONOUS),
        worker=Resources.parse({"cpu": cpu, "memory": "1Gi"}),
        workers=workers,
        min_workers=workers if least is None else least,
        ps=Resources.parse({"cpu": 1, "memory": "1Gi"}),
        ps_count=ps,
    )


def scenario(*jobs: SimJob, count: int = 3, cpu: int = 10) -> Scenario:
    have = Resources.parse({"cpu": cpu, "memory": "32Gi", "pods": 110})
    nodes = tuple(Node(NodeName(f"n{i}"), ZoneName("a"), have) for i in range(count))
    return Scenario("test", nodes, jobs, seed=1)


class Watched(Deciding):
    def __init__(self, policy: Deciding, look: Callable[[State], None]) -> None:
        self._policy, self._look = policy, look
        self.name, self.elastic = policy.name, policy.elastic

    def wanted(self, job: SimJob) -> int:
        return self._policy.wanted(job)

    def decide(self, state: State) -> Advice:
        self._look(state)
        return self._policy.decide(state)


def assert_accounts_agree(state: State) -> None:
    used = np.zeros_like(state.used)
    for one in state.jobs().values():
        for role, held in ((Role.PS, one.ps), (Role.WORKER, one.workers)):
            vector = state.vector(one, role)
            for row in held.values():
                assert vector is not None
                used[row] += vector
    assert (used == state.used).all()
    assert (state.used <= state.table.allocatable).all()
