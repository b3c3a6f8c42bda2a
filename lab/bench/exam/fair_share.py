"""Fair share: tenants with weights submit more than there is room for, F1 to F3.

Rule: nodes, weights, tasks and rounds are those of knavigator's text, without guarantees; a task is a job of one pod,
and the tasks of a round arrive in an order that each run draws. Shares are judged after the last round, when no pod
moves any more. Pods are whole: a share by weight is rounded up or down.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from lab.bench.exam.questions import Job, Scenario, Share, Step
from lab.bench.peers.others import KUEUE, KUEUE_SECOND, VOLCANO
from lab.testbed.objects import node

_WAYS = ("none", "second", VOLCANO, KUEUE, KUEUE_SECOND)


@dataclass(frozen=True, slots=True)
class _Tasks:
    """What a tenant submits in each round."""

    count: int
    cpu: str
    memory: str
    gpu: int = 0


def _rounds(tasks: Mapping[str, _Tasks], shares: tuple[Share, ...], *, count: int) -> tuple[Step, ...]:
    """So many rounds of the tenants' tasks; the shares are judged after the last."""
    steps = []
    for number in range(1, count + 1):
        jobs = tuple(
            Job(f"{tenant}{number}-{index:02d}", 1, some.cpu, some.memory, gpu=some.gpu, tenant=tenant)
            for tenant, some in tasks.items()
            for index in range(some.count)
        )
        steps.append(Step((), shares=shares if number == count else (), submitted=jobs))
    return tuple(steps)


def by_weight(weights: Mapping[str, int], pods: int) -> tuple[Share, ...]:
    """Each tenant's part of so many pods by weight, rounded down and up.

    >>> by_weight({"a": 2, "b": 1}, 10), by_weight({"a": 1, "b": 1}, 4)[0]
    ((Share(tenant='a', fewest=6, most=7), Share(tenant='b', fewest=3, most=4)), Share(tenant='a', fewest=2, most=2))
    """
    whole = sum(weights.values())
    return tuple(
        Share(tenant, pods * weight // whole, -(-pods * weight // whole)) for tenant, weight in weights.items()
    )


_EQUAL = dict.fromkeys("abcdefgh", 1)
_WEIGHTED = {"a": 4, "b": 3, "c": 2, "d": 2, "e": 1, "f": 1}
_SMALL = {"a": 20, "b": 20, "c": 15, "d": 15, "e": 10, "f": 10}  # tenant → tasks of a round of F2
_KINDS = {  # tenant → its tasks in a round of F3
    **dict.fromkeys(("cpu1", "cpu2"), _Tasks(40, "8", "8Gi")),
    **dict.fromkeys(("ram1", "ram2"), _Tasks(40, "2", "32Gi")),
    **dict.fromkeys(("gpu1", "gpu2"), _Tasks(25, "2", "8Gi", gpu=1)),
}
_NODES = {"cpu": ("64", "64Gi", 0), "ram": ("16", "256Gi", 0), "gpu": ("16", "64Gi", 8)}  # kind → of F3's nodes
_THIRD = {"cpu": 24, "ram": 24, "gpu": 16}  # kind of tenant → tasks that are a third of the resource it needs most

FAIR_SHARE = (
    Scenario(
        "F1", "fair-share, F1",
        "8 tenants of the same weight, 8 nodes of 16 CPUs; each tenant submits 10 tasks of 1 CPU in each of 3 rounds",
        "16 pods of each tenant have a node",
        {f"n{number}": node(f"n{number}", cpu="16", memory="16Gi", zone="zone") for number in range(8)},
        _rounds(dict.fromkeys(_EQUAL, _Tasks(10, "1", "1Gi")), by_weight(_EQUAL, 128), count=3),
        _WAYS, _EQUAL,
    ),
    Scenario(
        "F2", "fair-share, F2",
        "6 tenants of weights 4, 3, 2, 2, 1, 1, 10 nodes of 12 CPUs; 20, 20, 15, 15, 10, 10 tasks of 1 CPU in each of "
        "3 rounds",
        "each tenant has its part of 120 pods by weight, rounded up or down: 36–37, 27–28, 18–19, 18–19, 9–10, 9–10",
        {f"n{number}": node(f"n{number}", cpu="12", memory="12Gi", zone="zone") for number in range(10)},
        _rounds({tenant: _Tasks(count, "1", "1Gi") for tenant, count in _SMALL.items()}, by_weight(_WEIGHTED, 120),
                count=3),
        _WAYS, _WEIGHTED,
    ),
    Scenario(
        "F3", "fair-share, F3",
        "6 nodes each of 64 CPUs and 64 GiB, 16 CPUs and 256 GiB, 16 CPUs and 64 GiB and 8 GPUs; 6 tenants of the same "
        "weight, two with tasks of 8 CPUs, two of 32 GiB, two of 1 GPU; 40, 40 and 25 in each of 2 rounds",
        "each tenant has at least a third of the resource that it needs most: 24, 24 and 16 pods",
        {
            one["metadata"]["name"]: one
            for kind, (cpu, memory, gpu) in _NODES.items()
            for one in (node(f"{kind}-{number}", cpu=cpu, memory=memory, gpu=gpu, zone="zone") for number in range(6))
        },
        _rounds(_KINDS, tuple(Share(tenant, _THIRD[tenant[:3]], 80) for tenant in _KINDS), count=2),
        _WAYS, dict.fromkeys(_KINDS, 1),
    ),
)  # fmt: skip
"""Every scenario of fair share; F4, which needs minutes of usage before it, is not among them."""
