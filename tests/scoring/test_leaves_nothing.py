"""What is made for one look goes with it: no cycle keeps it for a collector that seldom comes (docs/safety.md S15).

A full collection stops the event loop for a tenth of a second; a cache in a cycle is megabytes for each explanation.
"""

import gc
from collections.abc import Callable, Iterator

import pytest

from scoring.explain.gang import explain
from scoring.explain.queue_report import report
from scoring.model.policy import Policy
from scoring.plan import PlannerCache, plan
from scoring.what_if import Situation, WhatIf, what_if
from tests.builders import gang, mesh, node, pod, snapshot

POLICY = Policy()
NODES = [node(f"n{i}", zone="ab"[i % 2]) for i in range(8)]
OTHERS = [pod(f"p{i}", cpu="6", node=f"n{i}") for i in range(8)]
STATE = snapshot(NODES, [gang(f"g{i}", 3, cpu="4") for i in range(12)], pods=OTHERS, network=mesh(NODES))  # All wait
NOW = plan(STATE, POLICY, now_s=100.0)
SOMEBODY = next(iter(STATE.gangs.values()))
LOOKS: dict[str, Callable[[], object]] = {
    "plan": lambda: plan(STATE, POLICY, now_s=100.0, cache=PlannerCache()),
    "explain": lambda: explain(STATE, NOW, SOMEBODY, POLICY, now_s=100.0),
    "what if": lambda: what_if(Situation(STATE, POLICY, 100.0), NOW, WhatIf(advance_s=1.0)),
    "queue": lambda: report(STATE, NOW, POLICY, now_s=100.0),
}


@pytest.fixture
def uncollected() -> Iterator[None]:
    gc.collect()
    gc.freeze()  # what is there already is not looked through again
    gc.disable()
    try:
        yield
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS)
def test_nothing_of_ours_is_in_a_cycle(look: Callable[[], object], uncollected: None) -> None:
    """Nothing is left for the collector but, perhaps, what Python itself makes."""
    look()
    gc.collect()
    look()
    gc.set_debug(gc.DEBUG_SAVEALL)
    gc.collect()
    ours = {type(one).__name__ for one in gc.garbage if type(one).__module__.startswith("scoring")}
    assert ours == set()
