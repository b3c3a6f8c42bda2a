"""Scores between many nodes, and between zones: the short way gives what the long one gives."""

from collections.abc import Mapping, Sequence
from itertools import permutations, product

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scoring import EndpointId, NodeName
from scoring.model import Node
from scoring.model.policy import Policy, ScorePolicy
from scoring.network.matrix import METRICS, Block, Floats, Measurement, Metric, NetworkMatrix
from scoring.plan import PlannerCache, plan
from scoring.score.pairs import BAD_PAIR, Links, among, among_sets, pair_scores, toward
from scoring.score.zone_distance import crossings, mean_between
from tests.builders import gang, mesh, node, snapshot
from tests.strategies import score_policies

NODES = [NodeName(f"n{i}") for i in range(8)]
ENDS = [EndpointId(name) for name in ("a", "b", "c")]
VALUES = st.floats(0.0, 1.0, allow_nan=False)  # good for each metric: ratio, ms, bit/s


@st.composite
def matrices(draw: st.DrawFn) -> NetworkMatrix:
    """Few endpoints, some links, and nodes of which some share an endpoint and many have none."""
    nodes = st.dictionaries(st.sampled_from(NODES), st.sampled_from(ENDS), max_size=5)
    mapped: Mapping[Metric, Mapping[NodeName, EndpointId]] = {metric: draw(nodes) for metric in METRICS}
    links = st.tuples(st.sampled_from(ENDS), st.sampled_from(ENDS), st.sampled_from(METRICS))
    values = draw(st.dictionaries(links, VALUES))
    found = [Measurement(*link, value, draw(st.sampled_from([0.0, 900.0]))) for link, value in values.items()]
    return NetworkMatrix.from_measurements(found, endpoint_of=mapped, now_s=1800.0)


def points(links: Links) -> Floats:
    return links.points_among(np.arange(len(links.kind)))


@given(matrices(), st.integers(0, 8), score_policies())
def test_scores_among_nodes_are_those_of_all_pairs(network: NetworkMatrix, size: int, score: ScorePolicy) -> None:
    names = NODES[:size]
    want = pair_scores(network.block(names, names), None, score)
    found = among(network, names, score)
    assert np.array_equal(want.points, points(found))
    assert np.array_equal(want.rank, found.rank_among(None))
    assert want.reference_bps == found.reference_bps


@pytest.mark.slow
@given(matrices(), st.lists(st.integers(0, 2), min_size=8, max_size=8), st.integers(0, 8), score_policies())
def test_scores_among_sets_are_those_of_all_pairs(
    network: NetworkMatrix, groups: list[int], unmeasured: int, score: ScorePolicy
) -> None:
    names = [*NODES, *(NodeName(f"unmeasured-{i}") for i in range(unmeasured))]
    sets = np.array([*groups, *(i % 3 for i in range(unmeasured))])
    index = {name: row for row, name in enumerate(names)}
    want = among(network, names, score)
    found = among_sets(network, names, sets, crossings(network, index, sets), score)
    assert np.array_equal(points(want), points(found))
    assert np.array_equal(want.rank_among(None), found.rank_among(None))
    assert want.reference_bps == found.reference_bps


@given(matrices(), st.data())
def test_rows_of_scores_are_those_of_the_whole(network: NetworkMatrix, data: st.DataObject) -> None:
    names = [*NODES, *(NodeName(f"unmeasured-{i}") for i in range(data.draw(st.integers(0, 3))))]
    found = among(network, names, ScorePolicy())
    every = st.lists(st.integers(0, len(names) - 1), min_size=1, max_size=6)
    rows = np.array(sorted(set(data.draw(every))))
    some = np.array(data.draw(every))
    assert np.array_equal(found.rank_among(rows), found.rank_among(None)[np.ix_(rows, rows)])
    assert np.array_equal(found.points_among(some), points(found)[np.ix_(some, some)])
    assert np.array_equal(found.rank_toward(some), found.rank_among(None)[:, some])
    sums = points(found).sum(axis=1) - points(found).diagonal()
    np.testing.assert_allclose(found.mean_points_to_others(), sums / (len(names) - 1), rtol=1e-12)


@given(matrices(), st.permutations(NODES), st.permutations(NODES), st.integers(0, 8), score_policies())
def test_scores_toward_nodes_are_those_of_all_pairs(
    network: NetworkMatrix, names: list[NodeName], others: list[NodeName], size: int, score: ScorePolicy
) -> None:
    ends = others[:size]
    want = pair_scores(network.block(names, ends), network.block(ends, names), score)
    found = toward(network, names, ends, score)
    assert np.array_equal(want.points, found.points)
    assert np.array_equal(want.rank, found.rank)


def test_nodes_without_measurements_cost_nothing() -> None:
    network = Counted.of_matrix(mesh(NODES[:3]))
    names = [NodeName(f"unmeasured-{i}") for i in range(2000)]
    assert points(among(network, [*names, *NODES[:3]], ScorePolicy())).shape == (2003, 2003)
    assert network.looks == [5 * 5]


# -- between zones ----------------------------------------------------------------------------------------------------

INDEX = {name: row for row, name in enumerate(NODES)}


@given(matrices(), st.integers(1, 7), score_policies(), st.booleans())
def test_the_mean_between_two_sets_is_that_of_all_pairs(
    network: NetworkMatrix, cut: int, score: ScorePolicy, narrowed: bool
) -> None:
    one, other = NODES[:cut], NODES[cut:]
    sets = np.array([0] * cut + [1] * (len(NODES) - cut))
    across = crossings(network, INDEX, sets).get((0, 1), {}) if narrowed else None
    scores = pair_scores(network.block(one, other), network.block(other, one), score)
    want = (scores.points - BAD_PAIR * scores.bad).mean()
    np.testing.assert_allclose(mean_between(network, one, other, score, across=across), want, rtol=1e-14, atol=1e-9)


def links(*pairs: tuple[str, str], **ends: str) -> NetworkMatrix:
    """Delays measured between endpoints; nodes are measured at the endpoint of their name, or at another one."""
    found = [Measurement(EndpointId(a), EndpointId(b), Metric.DELAY, 1.0, 0.0) for a, b in pairs]
    of = {name: EndpointId(name) for name in NODES} | {NodeName(n): EndpointId(e) for n, e in ends.items()}
    return NetworkMatrix.from_measurements(found, endpoint_of={Metric.DELAY: of}, now_s=0.0)


CROSSINGS = {  # case: (measurements, pairs of sets that know each other); n0–n2 are set 0, n3–n5 set 1, n6 and n7 set 2
    "nothing measured": (links(), set()),
    "inside one set": (links(("n0", "n1")), set()),
    "one direction is enough": (links(("n4", "n0")), {(0, 1)}),
    "several": (links(("n0", "n3"), ("n6", "n5")), {(0, 1), (1, 2)}),
    "an endpoint shared": (links(n0="site", n7="site"), set()),
    "a link of a shared endpoint": (links(("site", "n3"), n0="site", n7="site"), {(0, 1), (1, 2)}),
    "measured inside a site": (links(("n0", "n7"), n0="site", n7="site"), {(0, 2)}),
    "to nobody's endpoint": (links(("n0", "elsewhere")), set()),
}


def test_sets_know_each_other_by_measured_pairs() -> None:
    sets = np.array([0, 0, 0, 1, 1, 1, 2, 2])
    found = {name: set(crossings(network, INDEX, sets)) for name, (network, _) in CROSSINGS.items()}
    assert found == {name: want for name, (_, want) in CROSSINGS.items()}
    assert (0, 1) in crossings(links(("n0", "n3")), INDEX, sets)


def test_equal_links_give_equal_means_whatever_the_sizes() -> None:
    """All unknown links are worth the same: sets of any sizes tie exactly, so that names decide between zones."""
    score = ScorePolicy()
    one, other = ([NodeName(f"{zone}{i}") for i in range(29)] for zone in "ab")
    sizes = product(range(1, 30), repeat=2)
    means = {mean_between(NetworkMatrix(), one[:n], other[:m], score) for n, m in sizes}
    assert len(means) == 1
    ends = {metric: {name: EndpointId(name) for name in NODES} for metric in METRICS}
    measured = NetworkMatrix.from_measurements((), endpoint_of=ends, now_s=0.0)
    assert mean_between(measured, NODES[:3], NODES[3:], score) in means


# -- how many pairs a decision looks at --------------------------------------------------------------------------------

ZONES, SIZE = 40, 125
NOW_S = 1000.0


class Counted(NetworkMatrix, frozen=True, eq=False):
    """A matrix that notes how many pairs each look takes out."""

    looks: list[int] = msgspec.field(default_factory=list)
    asked: set[NodeName] = msgspec.field(default_factory=set)

    @classmethod
    def of_matrix(cls, matrix: NetworkMatrix) -> "Counted":
        return cls(**{name: getattr(matrix, name) for name in NetworkMatrix.__struct_fields__})

    def block(self, sources: Sequence[NodeName], targets: Sequence[NodeName]) -> Block:
        self.looks.append(len(sources) * len(targets))
        self.asked.update(sources, targets)
        return NetworkMatrix.block(self, sources, targets)


def site() -> tuple[list[Node], Counted]:
    """5,000 nodes in 40 zones; the first five of each zone are measured towards each other."""
    nodes = [node(f"z{zone:02}-n{i:03}", zone=f"z{zone:02}", cpu="4") for zone in range(ZONES) for i in range(SIZE)]
    ends = {one.name: EndpointId(one.name) for one in nodes}
    pairs = [two for at in range(0, ZONES * SIZE, SIZE) for two in permutations(list(ends.values())[at : at + 5], 2)]
    found = [Measurement(*two, metric, 1.0, NOW_S) for two in pairs for metric in METRICS]
    matrix = NetworkMatrix.from_measurements(found, endpoint_of=dict.fromkeys(METRICS, ends), now_s=NOW_S)
    return nodes, Counted.of_matrix(matrix)


ASKED = {  # case: (annotation, zones looked at, pairs at least and at most)
    "near to one of 40 zones: 15,625 pairs of 25,000,000": ({"near": "z07"}, {"z07"}, (SIZE * SIZE, SIZE * SIZE)),
    "two zones are allowed": ({"zones": "z03, z31"}, {"z03", "z31"}, (1, 2 * SIZE * SIZE)),
}


@pytest.mark.parametrize(("options", "zones", "pairs"), ASKED.values(), ids=ASKED)
def test_only_pairs_of_zones_in_question_are_looked_at(
    options: dict[str, str], zones: set[str], pairs: tuple[int, int]
) -> None:
    nodes, matrix = site()
    wanted = gang("g", size=8, cpu="4", options=options)
    made = plan(snapshot(nodes, gangs=[wanted], network=matrix), Policy(), now_s=NOW_S, cache=PlannerCache())
    [admission] = made.admitted.values()
    assert set(admission.zones) <= {str(name)[:3] for name in matrix.asked} <= zones
    assert pairs[0] <= sum(matrix.looks) <= pairs[1]


def test_where_any_zone_may_be_each_zone_is_looked_at_by_itself() -> None:
    """15,625 pairs of each, 2.5 % of all, and never again; twice: for the best rate of all, and compared with that."""
    nodes, matrix = site()
    state = snapshot(nodes, gangs=[gang("g", size=8, cpu="4")], network=matrix)
    cache = PlannerCache()
    plan(state, Policy(), now_s=NOW_S, cache=cache)
    assert (max(matrix.looks), sum(matrix.looks)) == (SIZE * SIZE, 2 * ZONES * SIZE * SIZE)
    before = len(matrix.looks)
    plan(state, Policy(), now_s=NOW_S + 1.0, cache=cache)
    assert len(matrix.looks) == before
