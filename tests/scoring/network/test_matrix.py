"""The index of measurements: newest value, ages, direction, and how nodes find theirs."""

from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scoring.ids import EndpointId, NodeName
from scoring.network.matrix import METRICS, Floats, Measurement, Metric, NetworkMatrix

ENDS = [EndpointId(name) for name in ("a", "b", "c", "d")]
NODES = [NodeName(f"node-{end}") for end in ENDS]
EndpointOf = Mapping[Metric, Mapping[NodeName, EndpointId]]
OWN = {metric: dict(zip(NODES, ENDS, strict=True)) for metric in METRICS}


def measured(source: str, target: str, metric: Metric, value: float, at_s: float = 0.0) -> Measurement:
    return Measurement(EndpointId(source), EndpointId(target), metric, value, at_s)


def matrix(*found: Measurement, now_s: float = 0.0, endpoint_of: EndpointOf | None = None) -> NetworkMatrix:
    return NetworkMatrix.of(found, endpoint_of=OWN if endpoint_of is None else endpoint_of, now_s=now_s)


IMPOSSIBLE = {  # case: (metric, value, time of measurement)
    "more than everything lost": (Metric.LOSS, 1.01, 0.0),
    "negative": (Metric.DELAY, -0.1, 0.0),
    "not a number": (Metric.THROUGHPUT, float("nan"), 0.0),
    "endless": (Metric.DELAY, float("inf"), 0.0),
    "no time": (Metric.DELAY, 1.0, float("nan")),
}


@pytest.mark.parametrize(("metric", "value", "at_s"), IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_impossible_values_are_refused(metric: Metric, value: float, at_s: float) -> None:
    with pytest.raises(ValueError, match=r"outside|finite"):
        measured("a", "b", metric, value, at_s)


def test_without_any_data_all_is_unknown() -> None:
    block = NetworkMatrix().block(NODES[:2], NODES)
    for values in (block.loss_ratio, block.delay_ms, block.throughput_bps, block.loss_age_s):
        assert values.shape == (2, 4)
        assert np.isnan(values).all()
    assert block.same.tolist() == np.eye(2, 4, dtype=bool).tolist()
    assert NetworkMatrix().known_pairs(Metric.DELAY) == 0
    assert NetworkMatrix().block([], NODES).same.shape == (0, 4)


SITE = dict.fromkeys(NODES, EndpointId("site"))
SAME = {  # case: (the first two nodes are the same end, endpoints by metric)
    "each its own": (False, OWN),
    "one site measures everything": (True, dict.fromkeys(METRICS, SITE)),
    "one site for throughput, own ends else": (False, {**OWN, Metric.THROUGHPUT: SITE}),
    "one site for throughput, nothing else": (True, {Metric.THROUGHPUT: SITE}),
    "no endpoints at all": (False, {}),
}


@pytest.mark.parametrize(("want", "endpoint_of"), SAME.values(), ids=SAME)
def test_same_end_of_the_network(want: bool, endpoint_of: EndpointOf) -> None:
    index = matrix(measured("a", "b", Metric.DELAY, 9.0), endpoint_of=endpoint_of)
    assert want == index.block(NODES[:2], NODES[:2]).same[0, 1]


def test_endpoints_of_nodes() -> None:
    index = matrix(endpoint_of={Metric.DELAY: {NODES[0]: ENDS[2]}})
    assert index.endpoint(NODES[0], Metric.DELAY) == "c"
    assert index.endpoint(NODES[0], Metric.LOSS) is None
    assert index.endpoint(NODES[1], Metric.DELAY) is None
    assert index.endpoint_indexes(NODES[:2], Metric.DELAY).tolist() == [0, -1]


def test_delays_between_endpoints() -> None:
    delays = matrix(measured("a", "b", Metric.DELAY, 7.0)).endpoint_delays_ms(ENDS[:1], [ENDS[1], EndpointId("mars")])
    assert delays[0, 0] == 7.0
    assert np.isnan(delays[0, 1])


def test_more_nodes_for_one_question() -> None:
    """Nodes that only a request names are measured under their own name; mapped ones keep their endpoint.

    Versions of such matrices are negative, also when one is extended again: none is taken for the original.
    """
    index = matrix(measured("a", "b", Metric.DELAY, 7.0), endpoint_of={Metric.DELAY: {NodeName("b"): ENDS[1]}})
    more = index.with_nodes([NodeName("a"), NodeName("b"), NodeName("stranger")])
    assert more.block([NodeName("a")], [NodeName("b")]).delay_ms.tolist() == [[7.0]]
    assert more.endpoint(NodeName("stranger"), Metric.DELAY) is None
    assert index.endpoint(NodeName("a"), Metric.DELAY) is None
    assert index.version >= 0 > more.version > more.with_nodes([NodeName("c")]).version


FOUND = st.lists(
    st.builds(
        Measurement,
        st.sampled_from(ENDS),
        st.sampled_from(ENDS),
        st.sampled_from(METRICS),
        st.sampled_from([0.0, 0.25, 0.5, 1.0]),
        st.sampled_from([0.0, 5.0, 10.0]),
    ),
    max_size=25,
)


@given(FOUND, st.permutations(NODES), st.permutations(NODES))
def test_agrees_with_a_plain_look_up(found: list[Measurement], rows: list[NodeName], columns: list[NodeName]) -> None:
    """A block's values and ages are those of the newest, worst measurements, found by looking at all of them.

    Whatever their order, direction by direction; loops are no links, and a clock ahead of ours makes none younger.
    """
    block = matrix(*found, now_s=7.0).block(rows, columns[:3])
    tables: dict[Metric, tuple[Floats, Floats]] = {
        Metric.LOSS: (block.loss_ratio, block.loss_age_s),
        Metric.DELAY: (block.delay_ms, block.delay_age_s),
        Metric.THROUGHPUT: (block.throughput_bps, block.throughput_age_s),
    }
    for metric, (values, ages) in tables.items():
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
                assert ages[i, j] == max(7.0 - newest, 0.0)


def test_endpoints_with_a_bad_link() -> None:
    index = matrix(measured("a", "c", Metric.LOSS, 0.7), measured("b", "c", Metric.LOSS, 0.1), endpoint_of={})
    assert index.ends_at_least(Metric.LOSS, 0.7) == {"a", "c"}
    assert index.ends_at_least(Metric.LOSS, 0.71) == frozenset()
    assert index.ends_at_least(Metric.LOSS, 0.1) == {"a", "b", "c"}
    assert index.ends_at_least(Metric.DELAY, 0.0) == NetworkMatrix().ends_at_least(Metric.LOSS, 0.0) == frozenset()
