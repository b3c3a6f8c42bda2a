"""Promises about measurements, metric by metric, where the change is sure to matter.

Each has a case beside it in which the score must move: a property that held because nothing ever changed would fail it.
"""

from collections.abc import Sequence
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from scoring import EndpointId, NodeName, ZoneName
from scoring.model.policy import ScorePolicy, Ttl
from scoring.network.matrix import METRICS, Measurement, MeasurementTable, Metric, NetworkMatrix, Zones
from scoring.score.pairs import PairScores, pair_scores

Found = Sequence[Measurement]
NOW_S = 100_000.0
NODES = [NodeName(name) for name in "abcd"]
ENDS = {metric: {node: EndpointId(node) for node in NODES} for metric in METRICS}
SOFT, HARD = Ttl(1000.0, 1000.0, 1000.0), Ttl(3000.0, 3000.0, 3000.0)
POLICY = ScorePolicy(reference_bps=1e9, soft_ttl_s=SOFT, hard_ttl_s=HARD, bad_pairs_first=False)
"""Not bad pairs first: a bad link gains when it is too old to be bad."""
ZONES = Zones({node: ZoneName("left" if node in "ab" else "right") for node in NODES}, dict.fromkeys(METRICS, 3000.0))
VALUES = {  # metric → values in the range where points move, worst first
    Metric.LOSS: [0.5, 0.02, 0.01, 0.001, 0.0],
    Metric.DELAY: [200.0, 40.0, 20.0, 5.0, 0.1],
    Metric.THROUGHPUT: [0.0, 1e6, 1e8, 5e8, 1e9],
}
GRADES = st.integers(0, 4)
MESH = st.lists(GRADES, min_size=36, max_size=36)  # A grade for each of 12 directions and 3 metrics
AGES_S = st.lists(st.sampled_from([0.0, 999.0, 1500.0, 2999.0, 3000.0, 1e6]) | st.floats(0.0, 6000.0), min_size=6)
"""Of each metric in each direction; far beyond the hard TTL too."""


def measured(grades: list[int]) -> list[Measurement]:
    """A full mesh of the given grades (0 worst, 4 best)."""
    links = [(*ends, metric) for ends in permutations(map(EndpointId, NODES), 2) for metric in METRICS]
    pairs = zip(links, grades, strict=True)
    return [Measurement(*link, VALUES[link[2]][grade], NOW_S) for link, grade in pairs]


def scores(found: Found, policy: ScorePolicy = POLICY, *, two: Found = (), zones: Zones | None = None) -> PairScores:
    tables = {name: MeasurementTable.from_measurements(each) for name, each in (("one", found), ("two", two))}
    block = NetworkMatrix.merged(tables, endpoint_of=ENDS, now_s=NOW_S, zones=zones).block(NODES, NODES)
    return pair_scores(block, None, policy)


def changed(found: Found, link: tuple[int, int], metric: Metric, value: float) -> list[Measurement]:
    ends = {EndpointId(NODES[i]) for i in link}
    return [replace(m, value=value) if {m.source, m.target} == ends and m.metric is metric else m for m in found]


@given(MESH, MESH, st.permutations(range(36)))
def test_order_and_direction_do_not_matter(grades: list[int], others: list[int], order: list[int]) -> None:
    one, two = measured(grades), measured(others)
    want = scores(one, two=two).rank
    mixed = scores([two[i] for i in order], two=[one[i] for i in order]).rank
    assert np.array_equal(want, mixed)
    turned, turned_too = ([replace(m, source=m.target, target=m.source) for m in each] for each in (one, two))
    assert np.array_equal(want, scores(turned, two=turned_too).rank)
    assert (want <= np.minimum(scores(one).rank, scores(two).rank) + 1e-9).all()  # both are heard


def aged(found: Found, link: tuple[int, int], ages_s: list[float]) -> list[Measurement]:
    """The same, one link's values taken so long ago: metric by metric there, then back."""
    directions = permutations([EndpointId(NODES[i]) for i in link], 2)
    values = [(*ends, metric) for ends in directions for metric in METRICS]
    at = dict(zip(values, ages_s, strict=False))
    keys = [(m.source, m.target, m.metric) for m in found]
    return [replace(m, measured_at_s=NOW_S - at[key]) if key in at else m for key, m in zip(keys, found, strict=True)]


POLICIES = st.builds(replace, st.just(POLICY), reference_bps=st.sampled_from([1e9, None]))


@given(POLICIES, MESH, AGES_S, AGES_S)
def test_stale_never_beats_fresh_equal_data(
    policy: ScorePolicy, grades: list[int], one: list[float], other: list[float]
) -> None:
    found = measured(grades)
    twin = {("a", "c"): ("a", "b"), ("c", "a"): ("b", "a")}
    value = {(m.source, m.target, m.metric): m.value for m in found}
    pairs = [(twin.get((str(m.source), str(m.target)), (m.source, m.target)), m) for m in found]
    found = [replace(m, value=value[*pair, m.metric]) for pair, m in pairs]  # type: ignore[index]
    young = [min(pair) for pair in zip(one, other, strict=False)]
    old = [max(pair) for pair in zip(one, other, strict=False)]
    rank = scores(aged(aged(found, (0, 1), young), (0, 2), old), policy).rank
    assert rank[0, 2] <= rank[0, 1] + 1e-9


@given(POLICIES, MESH, st.lists(AGES_S, min_size=6, max_size=6), st.booleans())
def test_no_link_gains_by_age(policy: ScorePolicy, grades: list[int], ages: list[list[float]], zoned: bool) -> None:
    """However old which of its values are, and those of all others, a link never has more than all fresh would give it.

    Also where links without a measurement are worth what is typical between their zones.
    """
    zones = ZONES if zoned else None
    found = measured(grades)
    fresh = scores(found, policy, zones=zones)
    for link, ages_s in zip([(a, b) for a in range(4) for b in range(a)], ages, strict=True):
        found = aged(found, link, ages_s)
    old = scores(found, policy, zones=zones)
    assert (old.rank <= fresh.rank + 1e-9).all()
    assert (old.points <= fresh.points + 1e-9).all()


@given(MESH, MESH, AGES_S, AGES_S)
def test_the_newest_of_several_sources_is_the_limit(
    grades: list[int], others: list[int], one: list[float], other: list[float]
) -> None:
    """A source that is older, better or worse, changes nothing while a newer one says something, too old or not."""
    young = [min(pair) for pair in zip(one, other, strict=False)]
    old = [max(pair) + 1.0 for pair in zip(one, other, strict=False)]
    newer, older = (measured(of) for of in (grades, others))
    for link in ((a, b) for a in range(4) for b in range(a)):
        newer, older = aged(newer, link, young), aged(older, link, old)
    assert np.array_equal(scores(newer).rank, scores(newer, two=older).rank)


@pytest.mark.parametrize("metric", METRICS)
def test_age_costs_points(metric: Metric) -> None:
    found = changed(measured([2] * 36), (0, 1), metric, VALUES[metric][4])
    ranks = []
    for age_s in (0.0, 1500.0, 2500.0, 3000.0, 1e6):
        ages_s = [age_s if one is metric else 0.0 for one in METRICS * 2]
        ranks.append(scores(aged(found, (0, 1), ages_s)).rank[0, 1])
    assert ranks == sorted(ranks, reverse=True)
    assert (len(set(ranks)), ranks[3]) == (4, ranks[4])


def test_the_fastest_link_counts_when_it_is_too_old_to_know() -> None:
    """Its zone's median takes its place for itself alone: for all others it stays what rates are compared with."""
    policy = replace(POLICY, reference_bps=None)
    found = changed(measured([0] * 36), (0, 1), Metric.THROUGHPUT, 1e8)
    found = changed(found, (0, 2), Metric.THROUGHPUT, 1e6)
    fresh = scores(found, policy, zones=ZONES)
    old = scores(aged(found, (0, 1), [0.0, 0.0, 3000.0, 0.0, 0.0, 3000.0]), policy, zones=ZONES)
    assert old.reference_bps == fresh.reference_bps == 1e8
    assert old.rank[0, 2] == fresh.rank[0, 2]
