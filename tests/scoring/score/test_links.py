"""Scores between many nodes: the short way gives what the long one gives."""

from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scoring.ids import EndpointId, NodeName
from scoring.model.policy import ScorePolicy
from scoring.network.matrix import METRICS, Block, Measurement, Metric, NetworkMatrix
from scoring.plan.steps import finish
from scoring.score.between_zones import crossings
from scoring.score.links import among, among_sets, toward
from scoring.score.pairs import pair_scores
from tests.builders import mesh
from tests.strategies import score_policies

NODES = [NodeName(f"n{i}") for i in range(8)]
ENDS = [EndpointId(name) for name in ("a", "b", "c")]
VALUES = st.floats(0.0, 1.0, allow_nan=False)
"""Good for each metric: ratio, ms, bit/s."""


@st.composite
def matrices(draw: st.DrawFn) -> NetworkMatrix:
    """Few endpoints, some links, and nodes of which some share an endpoint and many have none."""
    nodes = st.dictionaries(st.sampled_from(NODES), st.sampled_from(ENDS), max_size=5)
    mapped: Mapping[Metric, Mapping[NodeName, EndpointId]] = {metric: draw(nodes) for metric in METRICS}
    links = st.tuples(st.sampled_from(ENDS), st.sampled_from(ENDS), st.sampled_from(METRICS))
    values = draw(st.dictionaries(links, VALUES))
    found = [Measurement(*link, value, draw(st.sampled_from([0.0, 900.0]))) for link, value in values.items()]
    return NetworkMatrix.of(found, endpoint_of=mapped, now_s=1800.0)


@given(matrices(), st.integers(0, 8), score_policies())
def test_scores_among_nodes_are_those_of_all_pairs(network: NetworkMatrix, size: int, score: ScorePolicy) -> None:
    """Leaving out nodes that look alike changes no bit of the result."""
    names = NODES[:size]
    want = pair_scores(network.block(names, names), None, score)
    found = among(network, names, score)
    assert np.array_equal(want.points, found.points)
    assert np.array_equal(want.rank, found.rank)
    assert want.reference_bps == found.reference_bps


@given(matrices(), st.lists(st.integers(0, 2), min_size=8, max_size=8), st.integers(0, 8), score_policies())
def test_scores_among_sets_are_those_of_all_pairs(
    network: NetworkMatrix, groups: list[int], strangers: int, score: ScorePolicy
) -> None:
    """Scoring only pairs within sets and between linked ones changes no bit of the result."""
    names = [*NODES, *(NodeName(f"stranger-{i}") for i in range(strangers))]
    sets = np.array([*groups, *(i % 3 for i in range(strangers))])
    index = {name: row for row, name in enumerate(names)}
    want = among(network, names, score)
    found = finish(among_sets(network, names, sets, crossings(network, index, sets).ends, score))
    assert np.array_equal(want.points, found.points)
    assert np.array_equal(want.rank, found.rank)
    assert want.reference_bps == found.reference_bps


@given(matrices(), st.data())
def test_rows_of_scores_are_those_of_the_whole(network: NetworkMatrix, data: st.DataObject) -> None:
    """Parts are taken without the whole: different rows, rows named twice, towards some, and the mean to all others."""
    names = [*NODES, *(NodeName(f"stranger-{i}") for i in range(data.draw(st.integers(0, 3))))]
    found = among(network, names, ScorePolicy())
    every = st.lists(st.integers(0, len(names) - 1), min_size=1, max_size=6)
    rows = np.array(sorted(set(data.draw(every))))
    some = np.array(data.draw(every))
    assert np.array_equal(found.rank_among(rows), found.rank[np.ix_(rows, rows)])
    assert np.array_equal(found.points_among(some), found.points[np.ix_(some, some)])
    assert np.array_equal(found.rank_toward(some), found.rank[:, some])
    sums = found.points.sum(axis=1) - found.points.diagonal()
    np.testing.assert_allclose(found.mean_points_to_others(), sums / (len(names) - 1), rtol=1e-12)


@given(matrices(), st.permutations(NODES), st.permutations(NODES), st.integers(0, 8), score_policies())
def test_scores_toward_nodes_are_those_of_all_pairs(
    network: NetworkMatrix, names: list[NodeName], others: list[NodeName], size: int, score: ScorePolicy
) -> None:
    """The same for two lists of nodes, which may have some in common."""
    ends = others[:size]
    want = pair_scores(network.block(names, ends), network.block(ends, names), score)
    found = toward(network, names, ends, score)
    assert np.array_equal(want.points, found.points)
    assert np.array_equal(want.rank, found.rank)


def test_nodes_without_measurements_cost_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two thousand nodes that are measured nowhere are scored from one pair of them."""
    names = [NodeName(f"stranger-{i}") for i in range(2000)]
    network = mesh(NODES[:3])
    looked_at: list[int] = []

    def counted(self: NetworkMatrix, sources: Sequence[NodeName], targets: Sequence[NodeName]) -> Block:
        looked_at.append(len(sources))
        return block(self, sources, targets)

    block = NetworkMatrix.block
    monkeypatch.setattr(NetworkMatrix, "block", counted)
    points = among(network, [*names, *NODES[:3]], ScorePolicy()).points
    assert looked_at == [5]
    assert points.shape == (2003, 2003)
