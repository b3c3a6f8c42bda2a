"""The largest node affinities, and a gang of kinds that have room, but not together (docs/safety.md S15)."""

import gc
from time import thread_time

import pytest

from scoring.feasibility.filters import allowed_nodes
from scoring.model import Constraints, Gang, NodeSelectorTerm, NodeTable, Policy, Requirement, Taint, Toleration
from scoring.plan import plan
from tests.builders import gang, node, pod, snapshot

LABELS = [{f"l{k}": str(i % 3**k) for k in range(12)} for i in range(5000)]
TAINTS = [Taint(f"t{i}", "", "NoSchedule") for i in range(10)]
NODES = [node(f"n{i}", zone="abcde"[i % 5], labels=LABELS[i], taints=[TAINTS[i % 10]]) for i in range(5000)]
MOST = Constraints(tolerations=tuple(Toleration(f"t{i}", "Exists") for i in range(64)))


def terms(number: int) -> tuple[NodeSelectorTerm, ...]:
    return (NodeSelectorTerm(tuple(Requirement(f"l{i}", "NotIn", (f"-{number}",)) for i in range(4))),) * 64


def unlike(number: int, affinity: tuple[NodeSelectorTerm, ...] | None) -> Gang:
    return gang(f"g{number}", 1, cpu=f"{1000 + number}m", affinity=affinity, tolerations=MOST.tolerations)


def cost_s(gangs: list[Gang]) -> float:
    state, begun_s = snapshot(NODES, gangs), thread_time()
    plan(state, Policy(), now_s=0.0)
    return thread_time() - begun_s


@pytest.mark.slow
def test_what_is_written_of_nodes_costs_less_than_placing_the_pods() -> None:
    gc.disable()  # as the service does
    dull_s, large_s = (cost_s([unlike(i, terms(i) if large else None) for i in range(1000)]) for large in (False, True))
    kinds = [pod(f"p{i}", gang="g", cpu=f"{3000 + i % 32}m", tolerations=MOST.tolerations) for i in range(5001)]
    kinds_s, table, begun_s = cost_s([gang("g", members=kinds)]), NodeTable.from_nodes(NODES), thread_time()
    allowed_nodes(table, Constraints(affinity=terms(0), tolerations=MOST.tolerations))
    step_s = thread_time() - begun_s
    gc.enable()
    assert max(large_s / 2.0, kinds_s, step_s * 50.0) <= dull_s
