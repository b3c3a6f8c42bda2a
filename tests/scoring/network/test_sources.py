"""Measurements of several sources in one matrix: which value counts, where it is from, what is guessed from zones."""

import tracemalloc
from collections.abc import Iterator, Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scoring.ids import EndpointId, NodeName, ZoneName
from scoring.model.policy import ScorePolicy
from scoring.network.matrix import (
    CAUTION,
    METRICS,
    Known,
    Measurement,
    MeasurementTable,
    Metric,
    NetworkMatrix,
    PairCounts,
    Zones,
)
from scoring.score.pairs import among, pair_scores

NOW_S = 10_000.0
NAMES = ("a", "b", "c", "d")
ENDS = [EndpointId(name) for name in NAMES]
NODES = [NodeName(name) for name in NAMES]
OWN = {metric: dict(zip(NODES, ENDS, strict=True)) for metric in METRICS}
POLICY = ScorePolicy(reference_bps=1e9)


def measured(pair: str, value: float, *, age_s: float = 0.0, metric: Metric = Metric.DELAY) -> Measurement:
    """One measurement; `pair` is such as `ab`."""
    return Measurement(EndpointId(pair[0]), EndpointId(pair[1]), metric, value, NOW_S - age_s)


def merged(
    sources: Mapping[str, list[Measurement]],
    *,
    zones: Zones | None = None,
    endpoint_of: Mapping[Metric, Mapping[NodeName, EndpointId]] = OWN,
) -> NetworkMatrix:
    tables = {name: MeasurementTable.of(found) for name, found in sources.items()}
    return NetworkMatrix.merged(tables, endpoint_of=endpoint_of, now_s=NOW_S, zones=zones)


COUNTS = {  # case: (what counts, sources)
    "the newest": (Known(2.0, 5.0, "y"), {"x": [measured("ab", 1.0, age_s=9.0)],
                                          "y": [measured("ab", 2.0, age_s=5.0)]}),
    "of equally new ones the worst": (Known(2.0, 5.0, "x"), {"x": [measured("ab", 2.0, age_s=5.0)],
                                                              "y": [measured("ab", 1.0, age_s=5.0)]}),
    "of equal ones the first name": (Known(2.0, 5.0, "x"), {"y": [measured("ab", 2.0, age_s=5.0)],
                                                             "x": [measured("ab", 2.0, age_s=5.0)]}),
    "metric by metric": (Known(1.0, 9.0, "x"), {"x": [measured("ab", 1.0, age_s=9.0)],
                                                "y": [measured("ab", 1.0, metric=Metric.LOSS)]}),
    "the other direction is another pair": (None, {"x": [measured("ba", 1.0)]}),
    "nothing": (None, {"x": []}),
}  # fmt: skip


@pytest.mark.parametrize(("want", "sources"), COUNTS.values(), ids=COUNTS)
def test_which_source_counts(want: Known | None, sources: dict[str, list[Measurement]]) -> None:
    assert want == merged(sources).known(NODES[0], NODES[1], Metric.DELAY)


def test_pairs_by_age() -> None:
    matrix = merged(
        {"x": [measured("ab", 1.0, age_s=1.0), measured("ba", 1.0, age_s=10.0), measured("ac", 1.0, age_s=20.0)]}
    )
    assert matrix.count(Metric.DELAY, soft_ttl_s=10.0, hard_ttl_s=20.0) == PairCounts(1, 1, 1)
    assert matrix.count(Metric.DELAY, soft_ttl_s=None, hard_ttl_s=None) == PairCounts(3, 0, 0)
    assert matrix.count(Metric.DELAY, soft_ttl_s=None, hard_ttl_s=10.0) == PairCounts(1, 0, 2)
    assert matrix.count(Metric.LOSS, soft_ttl_s=1.0, hard_ttl_s=2.0) == PairCounts(0, 0, 0)
    assert NetworkMatrix().count(Metric.LOSS, soft_ttl_s=1.0, hard_ttl_s=2.0) == PairCounts(0, 0, 0)


def test_a_table_is_the_measurements_that_it_was_made_of() -> None:
    found = [measured("ab", 1.0), measured("bc", 0.5, metric=Metric.LOSS, age_s=3.0)]
    table = MeasurementTable.of(iter(found))
    assert list(table) == found
    assert len(table) == 2
    assert table == MeasurementTable.of(found)
    assert table != MeasurementTable.of(found[:1])
    assert MeasurementTable.of(table) is table
    assert list(table.compact()) == found
    assert table.measured_ends(Metric.LOSS) == {"b", "c"}
    assert list(MeasurementTable.of([])) == []


VALUES = st.lists(
    st.builds(
        measured,
        st.sampled_from([a + b for a in NAMES for b in NAMES]),
        st.sampled_from([0.0, 0.25, 0.5, 1.0]),
        age_s=st.sampled_from([0.0, 6000.0, NOW_S]),
        metric=st.sampled_from(METRICS),
    ),
    max_size=15,
)
SOURCES = st.dictionaries(st.sampled_from(["x", "y", "z"]), VALUES, max_size=3)


# Zones

ZONE_OF = {NODES[0]: ZoneName("one"), NODES[1]: ZoneName("one"), NODES[2]: ZoneName("two"), NODES[3]: ZoneName("two")}
WORSE = 1.0 + CAUTION  # What an estimated delay is beside what is typical
ZONES = Zones(ZONE_OF, dict.fromkeys(METRICS, 1000.0))


def delays(matrix: NetworkMatrix) -> dict[str, float]:
    """Pair such as `ab` → delay, of the known ones."""
    block = matrix.block(NODES, NODES)
    return {
        f"{a}{b}": block.delay_ms[i, j]
        for i, a in enumerate(NODES)
        for j, b in enumerate(NODES)
        if a != b and not np.isnan(block.delay_ms[i, j])
    }


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
    assert matrix.block(NODES[:1], NODES[3:]).delay_age_s.tolist() == [[20.0]]
    assert matrix.block(NODES[1:2], NODES[2:3]).delay_age_s.tolist() == [[20.0]]


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
    for filled, known in ((block.delay_ms, plain.delay_ms), (block.loss_ratio, plain.loss_ratio)):
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

    Measured: 1,860,000 values are 45 MiB as a table and 45 MiB as a matrix; the sum below is for a twentieth of the
    zones, since the rest only repeats them.
    """
    tracemalloc.start()
    table = MeasurementTable.of(_zone_meshes(zones=2, nodes=125))
    ends = {metric: {NodeName(end): end for end in table.ends} for metric in METRICS}
    matrix = NetworkMatrix.merged({"x": table}, endpoint_of=ends, now_s=NOW_S)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert matrix.known_pairs(Metric.LOSS) == 2 * 125 * 124
    assert held * 20 / 2**20 <= 150.0


def _zone_meshes(*, zones: int, nodes: int) -> Iterator[Measurement]:
    for zone in range(zones):
        names = [EndpointId(f"node-{zone:02}-{number:03}") for number in range(nodes)]
        for one in names:
            for other in names:
                if one != other:
                    for metric in METRICS:
                        yield Measurement(one, other, metric, 0.5, NOW_S)
