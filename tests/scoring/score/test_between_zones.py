"""How good the network is between zones: nothing is looked at that cannot matter, and the mean is that of all pairs."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scoring.ids import EndpointId, NodeName
from scoring.model.policy import ScorePolicy
from scoring.network.matrix import METRICS, Measurement, Metric, NetworkMatrix
from scoring.score.between_zones import crossings, mean_between
from scoring.score.pairs import pair_scores
from tests.scoring.score.test_links import NODES, matrices
from tests.strategies import score_policies

INDEX = {name: row for row, name in enumerate(NODES)}


@given(matrices(), st.integers(1, 7), score_policies(), st.booleans())
def test_the_mean_between_two_sets_is_that_of_all_pairs(
    network: NetworkMatrix, cut: int, score: ScorePolicy, narrowed: bool
) -> None:
    """Nodes that look alike count as often as they are, and so do those that have no link across."""
    one, other = NODES[:cut], NODES[cut:]
    sets = np.array([0] * cut + [1] * (len(NODES) - cut))
    across = crossings(network, INDEX, sets).ends.get((0, 1), {}) if narrowed else None
    want = pair_scores(network.block(one, other), network.block(other, one), score).points.mean()
    np.testing.assert_allclose(mean_between(network, one, other, score, across=across), want, atol=1e-9)


def links(*pairs: tuple[str, str], **ends: str) -> NetworkMatrix:
    """Delays measured between endpoints; nodes are measured at the endpoint of their name, or at another one."""
    found = [Measurement(EndpointId(a), EndpointId(b), Metric.DELAY, 1.0, 0.0) for a, b in pairs]
    of = {name: EndpointId(name) for name in NODES} | {NodeName(n): EndpointId(e) for n, e in ends.items()}
    return NetworkMatrix.of(found, endpoint_of={Metric.DELAY: of}, now_s=0.0)


CROSSINGS = {  # case: (measurements, pairs of sets that know each other); n0–n2 are set 0, n3–n5 set 1, n6 and n7 set 2
    "nothing measured": (links(), set()),
    "inside one set": (links(("n0", "n1")), set()),
    "one direction is enough": (links(("n4", "n0")), {(0, 1)}),
    "several": (links(("n0", "n3"), ("n6", "n5")), {(0, 1), (1, 2)}),
    "an endpoint shared": (links(n0="site", n7="site"), {(0, 2)}),
    "a link of a shared endpoint": (links(("site", "n3"), n0="site", n7="site"), {(0, 2), (0, 1), (1, 2)}),
    "to nobody's endpoint": (links(("n0", "elsewhere")), set()),
}


def test_sets_know_each_other_by_measured_pairs_and_shared_endpoints() -> None:
    """In either direction, and by whatever stands for a node."""
    sets = np.array([0, 0, 0, 1, 1, 1, 2, 2])
    found = {name: set(crossings(network, INDEX, sets).ends) for name, (network, _) in CROSSINGS.items()}
    assert found == {name: want for name, (_, want) in CROSSINGS.items()}
    assert (0, 1) in crossings(links(("n0", "n3")), INDEX, sets)


def test_equal_links_give_equal_means_whatever_the_sizes() -> None:
    """All unknown links are worth the same: sets of any sizes tie exactly, so that names decide between zones."""
    score = ScorePolicy()
    means = {
        mean_between(
            NetworkMatrix(), [NodeName(f"a{i}") for i in range(n)], [NodeName(f"b{i}") for i in range(m)], score
        )
        for n in range(1, 30)
        for m in range(1, 30)
    }
    assert len(means) == 1
    ends = {metric: {name: EndpointId(name) for name in NODES} for metric in METRICS}
    measured = NetworkMatrix.of((), endpoint_of=ends, now_s=0.0)
    assert mean_between(measured, NODES[:3], NODES[3:], score) in means
