"""The scenarios: nodes, jobs in their order, and what counts as passed.

Why fixed: a verdict can be repeated by others only if its question has a name. Rule: nodes, jobs and the expected
result are those of knavigator's resources/benchmarks (README and workflow files, commit 9d3551aa8f). A job ends when
the next step names it, in the order that knavigator's run times give, so nothing waits for minutes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from lab.bench.peers.ways import COSCHEDULING, VOLCANO
from lab.testbed.api import Object
from lab.testbed.objects import node


class Job(msgspec.Struct, frozen=True):
    """Pods that are alike and must start together."""

    name: str
    size: int
    cpu: str
    memory: str
    gpu: int = 0
    zone_policy: str = ""
    """For netgang: whether the job must be in one zone, or only should. Empty: its default."""


class Expected(msgspec.Struct, frozen=True):
    """What must be true of a job at the end of a step."""

    job: str
    bound: int
    """Pods of it that have a node."""
    nodes: frozenset[str] | None = None
    """The nodes that they must be on, all of them used; `None`: any."""


class Step(msgspec.Struct, frozen=True):
    """What happens, in this order, and what must be true afterwards."""

    expected: tuple[Expected, ...]
    ends: tuple[str, ...] = ()
    """Jobs that are over now: their pods go. One that never started is left alone."""
    cordoned: tuple[str, ...] = ()
    submitted: tuple[Job, ...] = ()


@dataclass(frozen=True, slots=True)
class Scenario:
    """One question."""

    name: str
    source: str
    """Where knavigator has it."""
    words: str
    passed: str
    """What counts as passed."""
    nodes: Mapping[str, Object] = field(hash=False)
    steps: tuple[Step, ...]
    ways: tuple[str, ...]
    """Names of the ways that take part unless others are asked for."""


def _nodes(*made: Object) -> dict[str, Object]:
    return {one["metadata"]["name"]: one for one in made}


def _tree(
    domains: Mapping[str, range], unschedulable: set[int], *, cpu: str, memory: str, gpus: Mapping[int, int]
) -> dict[str, Object]:
    """Nodes n1, n2, … whose zone is the domain of the level that the jobs ask for."""
    made = []
    for domain, numbers in domains.items():
        for number in numbers:
            one = node(f"n{number}", cpu=cpu, memory=memory, gpu=gpus.get(number, 8), zone=domain)
            made.append({**one, "spec": {"unschedulable": True}} if number in unschedulable else one)
    return _nodes(*made)


def _placed_twice(policies: tuple[str, str], nodes: set[str]) -> tuple[Step, Step]:
    """The same job twice, one after the other: required in one domain, then preferred."""
    jobs = [Job(name, 3, "16", "32Gi", gpu=8, zone_policy=policies[at]) for at, name in enumerate(("hard", "soft"))]
    steps = [Step((Expected(job.name, 3, frozenset(nodes)),), submitted=(job,)) for job in jobs]
    return steps[0], Step(steps[1].expected, ends=("hard",), submitted=steps[1].submitted)


_TOPOLOGY = ("none", "second", "second-gated")
_GANGS = (*_TOPOLOGY, "native-alone", COSCHEDULING, VOLCANO)
_POLICIES = ("required", "preferred")

SCENARIOS: Mapping[str, Scenario] = {
    one.name: one
    for one in (
        Scenario(
            "gang-partial", "gang/test1, run-test-standard",
            "a job of 8 pods of 4 CPUs; 90 nodes are too small, one node has room for 2 of the pods",
            "no pod is bound",
            _nodes(*(node(f"small-{n:02d}", cpu="1100m", memory="1050Mi", zone="zone") for n in range(90)),
                   node("wide", cpu="10100m", memory="10050Mi", zone="zone")),
            (Step((Expected("job", 0),), submitted=(Job("job", 8, "4", "2Gi"),)),),
            ways=_GANGS,
        ),
        Scenario(
            "gang-blocking", "gang/test1, run-test-standard-blocking-job",
            "a job of 3 pods leaves room for 6 pods on 3 nodes; then a job of 8 comes; then the first ends",
            "no pod of the second job is bound before the first ends, all 8 afterwards",
            _nodes(*(node(f"node-{n}", cpu="100100m", memory="100050Mi", zone="zone") for n in range(3))),
            (
                Step((Expected("blocking", 3),), submitted=(Job("blocking", 3, "92", "50Gi"),)),
                Step((Expected("job", 0),), submitted=(Job("job", 8, "4", "2Gi"),)),
                Step((Expected("job", 8),), ends=("blocking",)),
            ),
            ways=_GANGS,
        ),
        Scenario(
            "T1", "topology-aware, T1",
            "4 spines of 4 nodes, 7 nodes unschedulable; 3 pods of 8 GPUs, required and then preferred in one spine",
            "both are on n5, n7, n8: the one spine with room for 3",
            _tree({f"sw{21 + s}": range(4 * s + 1, 4 * s + 5) for s in range(4)}, {1, 3, 6, 11, 12, 14, 16},
                  cpu="256", memory="2Ti", gpus={}),
            _placed_twice(_POLICIES, {"n5", "n7", "n8"}), ways=_TOPOLOGY,
        ),
        Scenario(
            "T2", "topology-aware, T2",
            "7 blocks of 3 nodes, 8 nodes unschedulable; 3 pods of 8 GPUs, required and then preferred in one block",
            "both are on n1, n2, n3: the one block with room for 3",
            _tree({f"block-{b}": range(3 * b + 1, 3 * b + 4) for b in range(7)}, {5, 6, 8, 11, 12, 15, 16, 20},
                  cpu="256", memory="2Ti", gpus={}),
            _placed_twice(_POLICIES, {"n1", "n2", "n3"}), ways=_TOPOLOGY,
        ),
        Scenario(
            "T3", "topology-aware, T3",
            "5 blocks, n1 has 24 GPUs, the others 8; 3 pods of 6 GPUs required on a node; preferred, without n1",
            "first all on n1, then on n5, n6, n7: the one block with room for 3",
            _tree({"sw113": range(1, 3), "sw114": range(3, 5), "sw115": range(5, 8), "sw116": range(8, 11),
                   "sw117": range(11, 14)}, {3, 4, 10, 12, 13}, cpu="128", memory="1Ti", gpus={1: 24}),
            (
                Step((Expected("hard", 3, frozenset({"n1"})),), submitted=(Job("hard", 3, "2", "2Gi", gpu=6),)),
                Step(
                    (Expected("soft", 3, frozenset({"n5", "n6", "n7"})),), ends=("hard",), cordoned=("n1",),
                    submitted=(Job("soft", 3, "2", "2Gi", gpu=6, zone_policy="preferred"),),
                ),
            ),
            ways=_TOPOLOGY,
        ),
    )
}  # fmt: skip
"""name → scenario"""
