"""The published score, as the paper's test case and a public prototype have it (PAPERS N2, N4, N5)."""

from typing import Any

import numpy as np
import pytest

from lab.simulator.policies.published_score import PublishedScores, published_points
from scoring import NodeName
from scoring.model.policy import Order, Policy, QueuePolicy, Selection
from scoring.network.matrix import NetworkMatrix
from scoring.plan import PlannerCache, plan
from tests.builders import gang, mesh, node, snapshot

NAMES = [NodeName("a"), NodeName("b")]


def points(network: NetworkMatrix) -> float:
    block = network.block(NAMES, NAMES)
    return float(published_points(block, block)[0, 1])


POINTS: dict[str, tuple[float, NetworkMatrix]] = {
    "missing is 2 %, 40 ms, 0": (0.0, NetworkMatrix()),
    "uncapped": (460.0, mesh(NAMES, loss_ratio=0.0, delay_ms=0.0, throughput_bps=1e10)),
    "100 Mbit/s": (44.0, mesh(NAMES, loss_ratio=0.01, delay_ms=10.0, throughput_bps=1e8)),
}


@pytest.mark.parametrize(("want", "network"), POINTS.values(), ids=POINTS)
def test_points(want: float, network: NetworkMatrix) -> None:
    assert points(network) == pytest.approx(want)


@pytest.mark.parametrize("sweep", [{"loss_ratio": (0.05, 0.1, 0.5)}, {"delay_ms": (50.0, 100.0, 500.0)}], ids=str)
def test_the_whole_sweep_ties(sweep: dict[str, tuple[float, ...]]) -> None:
    """PAPERS N5: from 5 % of loss, or 50 ms."""
    [(metric, values)] = sweep.items()
    usual: dict[str, Any] = {"loss_ratio": 0.0, "delay_ms": 1.0, "throughput_bps": 1e8}
    assert len({points(mesh(NAMES, **usual | {metric: value})) for value in values}) == 1


def test_the_papers_test_case_by_its_own_score_and_selection() -> None:
    """Six of the nine nodes of zone D, none of them impaired: node28 to node32, and node36."""
    names = [NodeName(f"node{i}") for i in range(28, 37)]
    bad = {"node33": {"delay_ms": 10.0}, "node34": {"loss_ratio": 0.1}, "node35": {"throughput_bps": 10e6}}
    network, wanted = mesh(names, bad=bad), gang("job", 6)
    state = snapshot([node(name, zone="D", cpu="1") for name in names], [wanted], network=network)
    policy = Policy(selection=Selection.PAPER, queue=QueuePolicy(order=Order.FIFO))
    cache = PlannerCache(network=PublishedScores(version=network.version, data=network))
    made = plan(state, policy, now_s=0.0, cache=cache)
    assert sorted(made.admitted[wanted.key].members.values()) == [*names[:5], names[8]]
    assert np.isclose(made.admitted[wanted.key].score or 0.0, 63.0)
