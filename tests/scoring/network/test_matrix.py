"""Measurements of several sources in one matrix: which value counts, how nodes find theirs, what is guessed."""

import tracemalloc
from collections.abc import Mapping
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scoring import METRICS, EndpointId, Metric, NodeName, ZoneName
from scoring.model.policy import ScorePolicy
from scoring.network.matrix import CAUTION, NetworkMatrix, PairCounts, PairReading, Zones
from scoring.network.measurement import Measurement, MeasurementTable
from scoring.score.pairs import among, pair_scores

NOW_S = 10_000.0
NAMES = ("a", "b", "c", "d")
ENDS = [EndpointId(name) for name in NAMES]
NODES = [NodeName(name) for name in NAMES]
EndpointOf = Mapping[Metric, Mapping[NodeName, EndpointId]]
OWN: EndpointOf = {metric: dict(zip(NODES, ENDS, strict=True)) for metric in METRICS}
POLICY = ScorePolicy(reference_bps=1e9)


def measured(pair: str, value: float, *, age_s: float = 0.0, metric: Metric = Metric.DELAY) -> Measurement:
    """One measurement; `pair` is such as `ab`."""
    return Measurement(EndpointId(pair[0]), EndpointId(pair[1]), metric, value, NOW_S - age_s)


def merged(
    sources: Mapping[str, list[Measurement]], *, zones: Zones | None = None, endpoint_of: EndpointOf = OWN
) -> NetworkMatrix:
    tables = {name: MeasurementTable.from_measurements(found) for name, found in sources.items()}
    return NetworkMatrix.merged(tables, endpoint_of=endpoint_of, now_s=NOW_S, zones=zones)


COUNTS = {  # case: (what counts, sources)
    "the newest": (PairReading(2.0, 5.0, "y"), {"x": [measured("ab", 1.0, age_s=9.0)],
                                          "y": [measured("ab", 2.0, age_s=5.0)]}),
    "of equally new ones the worst": (PairReading(2.0, 5.0, "x"), {"x": [measured("ab", 2.0, age_s=5.0)],
                                                              "y": [measured("ab", 1.0, age_s=5.0)]}),
    "of equal ones the first name": (PairReading(2.0, 5.0, "x"), {"y": [measured("ab", 2.0, age_s=5.0)],
                                                             "x": [measured("ab", 2.0, age_s=5.0)]}),
    "metric by metric": (PairReading(1.0, 9.0, "x"), {"x": [measured("ab", 1.0, age_s=9.0)],
                                                "y": [measured("ab", 1.0, metric=Metric.LOSS)]}),
    "the other direction is another pair": (None, {"x": [measured("ba", 1.0)]}),
    "nothing": (None, {"x": []}),
}  # fmt: skip


@pytest.mark.parametrize(("want", "sources"), COUNTS.values(), ids=COUNTS)
def test_which_source_counts(want: PairReading | None, sources: dict[str, list[Measurement]]) -> None:
    assert want == merged(sources).known(NODES[0], NODES[1], Metric.DELAY)


def test_pairs_by_age() -> None:
    ages_s = {"ab": 1.0, "ba": 10.0, "ac": 20.0}
    matrix = merged({"x": [measured(pair, 1.0, age_s=age_s) for pair, age_s in ages_s.items()]})
    assert matrix.count(Metric.DELAY, soft_ttl_s=10.0, hard_ttl_s=20.0) == PairCounts(1, 1, 1)
    assert matrix.count(Metric.DELAY, soft_ttl_s=None, hard_ttl_s=None) == PairCounts(3, 0, 0)
    assert matrix.count(Metric.DELAY, soft_ttl_s=None, hard_ttl_s=10.0) == PairCounts(1, 0, 2)
    for empty in (matrix, NetworkMatrix()):
        assert empty.count(Metric.LOSS, soft_ttl_s=1.0, hard_ttl_s=2.0) == PairCounts(0, 0, 0)


def test_a_table_is_the_measurements_that_it_was_made_of() -> None:
    found = [measured("ab", 1.0), measured("bc", 0.5, metric=Metric.LOSS, age_s=3.0)]
    table = MeasurementTable.from_measurements(iter(found))
    assert list(table) == list(table.where(np.ones(2, np.bool_))) == found
    assert len(table) == 2
    assert table == MeasurementTable.from_measurements(found) != MeasurementTable.from_measurements(found[:1])
    assert table.measured_ends(Metric.LOSS) == {"b", "c"}
    assert list(MeasurementTable.from_measurements([])) == []


PAIR, VALUE = st.sampled_from([a + b for a in NAMES for b in NAMES]), st.sampled_from([0.0, 0.25, 0.5, 1.0])
AGE_S, METRIC = st.sampled_from([-3.0, 0.0, 6000.0, NOW_S]), st.sampled_from(METRICS)
VALUES = st.lists(st.builds(measured, PAIR, VALUE, age_s=AGE_S, metric=METRIC), max_size=25)
SOURCES = st.dictionaries(st.sampled_from(["x", "y", "z"]), VALUES, max_size=3)

IMPOSSIBLE = {  # case: (metric, value, age)
    "more than everything lost": (Metric.LOSS, 1.01, 0.0),
    "negative": (Metric.DELAY, -0.1, 0.0),
    "not a number": (Metric.THROUGHPUT, float("nan"), 0.0),
    "endless": (Metric.DELAY, float("inf"), 0.0),
    "no time": (Metric.DELAY, 1.0, float("nan")),
}


@pytest.mark.parametrize(("metric", "value", "age_s"), IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_impossible_values_are_refused(metric: Metric, value: float, age_s: float) -> None:
    with pytest.raises(ValueError, match=r"outside|finite"):
        measured("ab", value, age_s=age_s, metric=metric)


def test_without_any_data_all_is_unknown() -> None:
    block = NetworkMatrix().block(NODES[:2], NODES)
    for values in (*block.values.values(), *block.ages_s.values()):
        assert values.shape == (2, 4)
        assert np.isnan(values).all()
    assert block.same.tolist() == np.eye(2, 4, dtype=bool).tolist()
    assert NetworkMatrix().known_pairs(Metric.DELAY) == 0
    assert NetworkMatrix().block([], NODES).same.shape == (0, 4)


SITE = dict.fromkeys(NODES, EndpointId("site"))


def test_nodes_that_share_their_endpoint_are_unknown_unless_they_are_measured_themselves() -> None:
    index = merged({"x": [measured("ab", 9.0)]}, endpoint_of=dict.fromkeys(METRICS, SITE))
    block = index.block(NODES[:3], NODES[:3])
    assert block.same.tolist() == np.eye(3, dtype=bool).tolist()
    known = np.argwhere(~np.isnan(block.values[Metric.DELAY])).tolist()
    assert known == [[0, 1]], "of a and b alone a value under their own names is there"


def test_endpoints_of_nodes() -> None:
    index = merged({}, endpoint_of={Metric.DELAY: {NODES[0]: ENDS[2]}})
    asked = ((NODES[0], Metric.DELAY), (NODES[0], Metric.LOSS), (NODES[1], Metric.DELAY))
    assert [index.endpoint(*one) for one in asked] == ["c", None, None]
    assert index.endpoint_indexes(NODES[:2], Metric.DELAY).tolist() == [0, -1]


def test_more_nodes_for_one_question() -> None:
    """Versions of such matrices are negative, also when one is extended again: none is taken for the original."""
    index = merged({"x": [measured("ab", 7.0)]}, endpoint_of={Metric.DELAY: {NodeName("b"): ENDS[1]}})
    more = index.with_nodes([*NODES[:2], NodeName("stranger")])
    assert more.block(NODES[:1], NODES[1:2]).values[Metric.DELAY].tolist() == [[7.0]]
    assert more.endpoint(NodeName("stranger"), Metric.DELAY) is index.endpoint(NODES[0], Metric.DELAY) is None
    assert index.version >= 0 > more.version > more.with_nodes([NodeName("c")]).version


@given(VALUES, st.permutations(NODES), st.permutations(NODES))
def test_agrees_with_a_plain_look_up(found: list[Measurement], rows: list[NodeName], columns: list[NodeName]) -> None:
    """Direction by direction; loops are no links, and a clock ahead of ours makes none younger."""
    block = merged({"x": found}).block(rows, columns[:3])
    for metric in METRICS:
        values, ages = block.values[metric], block.ages_s[metric]
        for i, one in enumerate(rows):
            for j, other in enumerate(columns[:3]):
                pair = (OWN[metric][one], OWN[metric][other])
                here = [m for m in found if (m.source, m.target, m.metric) == (*pair, metric) and m.source != m.target]
                if not here:
                    assert np.isnan(values[i, j])
                    continue
                newest = max(m.measured_at_s for m in here)
                worst = min if metric is Metric.THROUGHPUT else max
                assert values[i, j] == worst(m.value for m in here if m.measured_at_s == newest)
                assert ages[i, j] == max(NOW_S - newest, 0.0)


# Zones

ZONE_OF = {name: ZoneName("one" if name in "ab" else "two") for name in NODES}
WORSE = 1.0 + CAUTION  # What an estimated delay is beside what is typical
ZONES = Zones(ZONE_OF, dict.fromkeys(METRICS, 1000.0))


def delays(matrix: NetworkMatrix) -> dict[str, float]:
    """Pair such as `ab` → delay, of the known ones."""
    found = matrix.block(NODES, NODES).values[Metric.DELAY]
    pairs = permutations(range(len(NODES)), 2)
    return {NODES[i] + NODES[j]: found[i, j] for i, j in pairs if not np.isnan(found[i, j])}


def test_links_that_nobody_measured_are_like_others_between_their_zones() -> None:
    found = [measured("ac", 5.0), measured("ad", 9.0), measured("bc", 6.0), measured("db", 50.0)]
    assert delays(merged({"x": found})) == {"ac": 5.0, "ad": 9.0, "bc": 6.0, "db": 50.0}
    both = {"ac": 5.0, "ad": 9.0, "bc": 7.0 * WORSE, "bd": 7.0 * WORSE}
    assert delays(merged({"x": found[:2]}, zones=ZONES)) == both
    assert merged({"x": found[:2]}, zones=ZONES).known(NODES[1], NODES[2], Metric.DELAY) is None


def test_expired_values_are_neither_used_nor_kept_instead_of_an_estimate() -> None:
    found = [measured("ac", 5.0, age_s=20.0), measured("ad", 99.0, age_s=1000.0), measured("bd", 1.0, age_s=1000.0)]
    matrix = merged({"x": found}, zones=ZONES)
    assert delays(matrix) == {"ac": 5.0, "ad": 99.0, "bc": 5.0 * WORSE, "bd": 5.0 * WORSE}
    for ends in ((NODES[:1], NODES[3:]), (NODES[1:2], NODES[2:3])):
        assert matrix.block(*ends).ages_s[Metric.DELAY].tolist() == [[20.0]]


def test_nodes_without_a_zone_or_with_a_shared_endpoint() -> None:
    some = Zones({node: zone for node, zone in ZONE_OF.items() if node != "b"}, {})
    assert delays(merged({"x": [measured("ac", 5.0)]}, zones=some)) == {"ac": 5.0, "ad": 5.0 * WORSE}
    shared = {**OWN, Metric.DELAY: {**OWN[Metric.DELAY], NODES[3]: EndpointId("a")}}
    assert delays(merged({"x": [measured("ac", 5.0)]}, zones=ZONES, endpoint_of=shared)) == {"ac": 5.0, "dc": 5.0}


@given(SOURCES)
def test_a_link_that_is_guessed_never_beats_the_best_measured_one(sources: dict[str, list[Measurement]]) -> None:
    """With the fallback no pair has a term above the best that was measured between its zones or is neutral."""
    block = merged(sources, zones=Zones(ZONE_OF, {})).block(NODES, NODES)
    plain = merged(sources).block(NODES, NODES)
    for metric in (Metric.DELAY, Metric.LOSS):
        filled, known = block.values[metric], plain.values[metric]
        if not np.isnan(known).all():
            assert np.nanmin(filled) >= np.nanmin(known)


@given(SOURCES)
def test_zones_hold_for_nodes_that_are_measured_nowhere(sources: dict[str, list[Measurement]]) -> None:
    more = [*NODES, NodeName("e"), NodeName("f"), NodeName("g")]
    zones = Zones({**ZONE_OF, more[4]: ZoneName("one"), more[5]: ZoneName("two"), more[6]: ZoneName("two")}, {})
    matrix = merged(sources, zones=zones)
    want = pair_scores(matrix.block(more, more), None, POLICY)
    assert np.array_equal(among(matrix, more, POLICY).rank_among(None), want.rank)


def test_memory_of_a_large_mesh() -> None:
    """5,000 nodes in 40 zones, each zone a full mesh in three metrics: at most 150 MiB with its source's table.

    Measured: 1,860,000 values are 45 MiB as a table and 45 MiB as a matrix; here are two zones, the rest repeats them.
    """
    names = [[EndpointId(f"node-{zone}-{number:03}") for number in range(125)] for zone in range(2)]
    pairs = (pair for zone in names for pair in permutations(zone, 2))
    tracemalloc.start()
    table = MeasurementTable.from_measurements(
        Measurement(*pair, metric, 0.5, NOW_S) for pair in pairs for metric in METRICS
    )
    ends = {metric: {NodeName(end): end for end in table.ends} for metric in METRICS}
    matrix = NetworkMatrix.merged({"x": table}, endpoint_of=ends, now_s=NOW_S)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert matrix.known_pairs(Metric.LOSS) == 2 * 125 * 124
    assert held * 20 / 2**20 <= 150.0
