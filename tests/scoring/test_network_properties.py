"""The four promises about measurements, metric by metric and variant by variant, where the change is sure to matter.

Each has a case beside it in which the score must move: a property that held because nothing ever changed would fail it.
"""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scoring.ids import EndpointId, NodeName
from scoring.network import METRICS, Measurement, MeasurementTable, Metric, NetworkMatrix
from scoring.policy import ScorePolicy, Ttl, Variant
from scoring.score import PairScores, pair_scores

NOW_S = 100_000.0
NODES = [NodeName(name) for name in "abcd"]
ENDS = {metric: {node: EndpointId(node) for node in NODES} for metric in METRICS}
POLICY = ScorePolicy(reference_bps=1e9, soft_ttl_s=Ttl.same(1000.0), hard_ttl_s=Ttl.same(3000.0))
VALUES = {  # metric → values in the range where points move, worst first
    Metric.LOSS: [0.5, 0.02, 0.01, 0.001, 0.0],
    Metric.DELAY: [200.0, 40.0, 20.0, 5.0, 0.1],
    Metric.THROUGHPUT: [0.0, 1e6, 1e8, 5e8, 1e9],
}
RELATIVE = (Variant.LINEAR, Variant.SMOOTH)
GRADES = st.integers(0, 4)
MESH = st.lists(GRADES, min_size=36, max_size=36)
"""A grade for each of 12 directions and 3 metrics."""
AGES_S = st.floats(0.0, 3000.0, exclude_max=True)
"""Up to the hard TTL: from then on a value is unknown, which is better than known to be bad."""
LINKS = st.sampled_from([(a, b) for a in range(4) for b in range(4) if a < b])
CASES = [(metric, variant) for metric in METRICS for variant in Variant]


def measured(grades: list[int], *, ages_s: dict[tuple[int, int, Metric], float] | None = None) -> list[Measurement]:
    """A full mesh of the given grades (0 worst, 4 best)."""
    found = []
    at = iter(grades)
    for a, one in enumerate(NODES):
        for b, other in enumerate(NODES):
            if a != b:
                for metric in METRICS:
                    age_s = (ages_s or {}).get((a, b, metric), 0.0)
                    value = VALUES[metric][next(at)]
                    found.append(Measurement(EndpointId(one), EndpointId(other), metric, value, NOW_S - age_s))
    return found


def scores(found: list[Measurement], policy: ScorePolicy = POLICY, **sources: list[Measurement]) -> PairScores:
    """Scores of the whole mesh."""
    tables = {name: MeasurementTable.of(one) for name, one in {"one": found, **sources}.items()}
    block = NetworkMatrix.merged(tables, endpoint_of=ENDS, now_s=NOW_S).block(NODES, NODES)
    return pair_scores(block, None, policy)


def changed(found: list[Measurement], link: tuple[int, int], metric: Metric, value: float) -> list[Measurement]:
    """Both directions of one link with another value of one metric."""
    ends = {str(NODES[link[0]]), str(NODES[link[1]])}
    return [
        replace(m, value=value) if {str(m.source), str(m.target)} == ends and m.metric is metric else m for m in found
    ]


@pytest.mark.parametrize(("metric", "variant"), CASES)
@given(MESH, LINKS, GRADES, GRADES)
def test_a_better_link_lowers_nobody(
    metric: Metric, variant: Variant, grades: list[int], link: tuple[int, int], one: int, other: int
) -> None:
    """Better in both directions: no pair ranks lower, and where points are not clipped that pair ranks higher."""
    policy = replace(POLICY, variant=variant)
    low, high = sorted((one, other))
    found = measured(grades)
    before = scores(changed(found, link, metric, VALUES[metric][low]), policy)
    after = scores(changed(found, link, metric, VALUES[metric][high]), policy)
    assert (after.rank >= before.rank - 1e-9).all()
    assert (after.points >= before.points - 1e-9).all()
    if low < high and variant is not Variant.LITERAL:
        assert after.rank[link] > before.rank[link]


@pytest.mark.parametrize("variant", RELATIVE)
@given(MESH, st.sampled_from([1e-6, 0.3, 8.0, 1e3]))
def test_scaling_all_throughputs_leaves_the_order(variant: Variant, grades: list[int], factor: float) -> None:
    """Without a reference rate all ranks stay; scaling one link alone, beside a fast one, moves it."""
    policy = replace(POLICY, variant=variant, reference_bps=None)
    found = measured(grades)
    scaled = [replace(m, value=m.value * factor) if m.metric is Metric.THROUGHPUT else m for m in found]
    assert np.allclose(scores(found, policy).rank, scores(scaled, policy).rank, atol=1e-9)
    found = changed(found, (2, 3), Metric.THROUGHPUT, 1e9)
    slower, faster = (changed(found, (0, 1), Metric.THROUGHPUT, rate) for rate in (1e3, 1e9))
    assert scores(slower, policy).rank[0, 1] < scores(faster, policy).rank[0, 1]


@pytest.mark.parametrize("variant", Variant)
@given(MESH, MESH, st.permutations(range(36)))
def test_order_and_direction_do_not_matter(
    variant: Variant, grades: list[int], others: list[int], order: list[int]
) -> None:
    """Two sources that say different things, in any order of sources and rows, and turned round: the same ranks."""
    policy = replace(POLICY, variant=variant)
    one, two = measured(grades), measured(others)
    want = scores(one, policy, two=two).rank
    mixed = scores([two[i] for i in order], policy, two=[one[i] for i in order]).rank
    assert np.array_equal(want, mixed)
    turned = [replace(m, source=m.target, target=m.source) for m in one]
    turned_too = [replace(m, source=m.target, target=m.source) for m in two]
    assert np.array_equal(want, scores(turned, policy, two=turned_too).rank)
    assert (want <= np.minimum(scores(one, policy).rank, scores(two, policy).rank) + 1e-9).all()  # both are heard


@pytest.mark.parametrize(("metric", "variant"), [(metric, variant) for metric in METRICS for variant in RELATIVE])
@given(MESH, GRADES, AGES_S, AGES_S)
def test_stale_never_beats_fresh_equal_data(
    metric: Metric, variant: Variant, grades: list[int], grade: int, one_s: float, other_s: float
) -> None:
    """Of two links of one node alike in everything but the age of one value, the older never ranks higher."""
    policy = replace(POLICY, variant=variant)
    young_s, old_s = sorted((one_s, other_s))
    found = measured(grades)
    for link in ((0, 1), (0, 2)):
        for each in METRICS:
            found = changed(found, link, each, VALUES[each][grade])

    def aged(m: Measurement) -> Measurement:
        ages_s = {frozenset((NODES[0], NODES[1])): young_s, frozenset((NODES[0], NODES[2])): old_s}
        age_s = ages_s.get(frozenset((NodeName(m.source), NodeName(m.target))), 0.0) if m.metric is metric else 0.0
        return replace(m, measured_at_s=NOW_S - age_s)

    rank = scores([aged(m) for m in found], policy).rank
    assert rank[0, 2] <= rank[0, 1] + 1e-9


@pytest.mark.parametrize(("metric", "variant"), [(metric, variant) for metric in METRICS for variant in RELATIVE])
def test_age_costs_points(metric: Metric, variant: Variant) -> None:
    """The best link of a mesh is worth less when it is old, and least when it is as good as unknown."""
    policy = replace(POLICY, variant=variant)
    found = changed(measured([2] * 36), (0, 1), metric, VALUES[metric][4])
    ranks = []
    for age_s in (0.0, 1500.0, 2500.0, 3000.0):
        aged = [
            replace(m, measured_at_s=NOW_S - age_s)
            if {str(m.source), str(m.target)} == {"a", "b"} and m.metric is metric
            else m
            for m in found
        ]
        ranks.append(scores(aged, policy).rank[0, 1])
    assert ranks == sorted(ranks, reverse=True)
    assert len(set(ranks)) == 4
