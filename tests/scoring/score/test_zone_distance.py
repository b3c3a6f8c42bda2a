"""Distances between zones, the order in which they are tried, and the fewest that hold a gang together."""

import math
from collections.abc import Iterable
from itertools import chain, combinations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from scoring import EndpointId, NodeName, ZoneName
from scoring.model.policy import GangOptions, Policy
from scoring.model.snapshot import NodeTable
from scoring.network.matrix import METRICS, Measurement, Metric, NetworkMatrix
from scoring.score import zone_distance as zones_module
from scoring.score.zone_distance import UNKNOWN_DISTANCE_MS, fewest_zones, near_problem, rank_zones, zone_distances
from tests.builders import node

A, B, C, D = (ZoneName(name) for name in "abcd")
TABLE = NodeTable.from_nodes(node(f"{zone}{i}", zone=zone) for zone in "abcd" for i in range(2))
ENDPOINT_OF = {m: {name: EndpointId(name) for name in TABLE.names if name != "d0"} for m in METRICS}


def network(*delays: tuple[str, str, float]) -> NetworkMatrix:
    """Measured one-way delays (from, to, ms) between endpoints named as the nodes; d0 has no endpoint."""
    found = [Measurement(EndpointId(one), EndpointId(other), Metric.DELAY, ms, 0.0) for one, other, ms in delays]
    return NetworkMatrix.from_measurements(found, endpoint_of=ENDPOINT_OF, now_s=0.0)


def distances(near: str, *delays: tuple[str, str, float], **configured: float) -> dict[str, float]:
    """Distances from `near`; `configured` names pairs as in a_b=10.0, one of each zone."""
    table = {ZoneName(pair[:-2]): {ZoneName(pair[-1]): ms} for pair, ms in configured.items()}
    return {str(z): d for z, d in zone_distances(near, TABLE, network(*delays), Policy(zone_distance_ms=table)).items()}


INF = UNKNOWN_DISTANCE_MS
DISTANCES = {  # case: (want, distances)
    "nobody knows": ({"a": 0.0, "b": INF, "c": INF, "d": INF}, distances("a")),
    "measured, the worse direction": ({"a": 0.0, "b": 9.0, "c": INF, "d": INF},
        distances("a", ("a0", "b0", 5.0), ("b0", "a0", 9.0))),
    "one direction is enough": ({"a": 0.0, "b": 4.0, "c": INF, "d": INF}, distances("a", ("b1", "a0", 4.0))),
    "the median over the pairs": ({"a": 0.0, "b": 3.0, "c": INF, "d": INF},
        distances("a", ("a0", "b0", 2.0), ("a1", "b1", 3.0), ("a0", "b1", 70.0))),
    "configured where nothing is measured": ({"a": 0.0, "b": 5.0, "c": 20.0, "d": INF},
        distances("a", ("a0", "b0", 5.0), a_b=99.0, c_a=20.0)),
    "configured in both directions: the one from here": ({"a": 0.0, "b": 5.0, "c": INF, "d": INF},
        distances("a", a_b=5.0, b_a=6.0)),
    "an endpoint of a node stands for its zone": ({"a": 0.0, "b": 6.0, "c": INF, "d": INF},
        distances("a0", ("a0", "b0", 6.0), ("a1", "c0", 1.0))),
    "an endpoint that is no node": ({"a": 2.0, "b": 8.0, "c": INF, "d": INF},
        distances("users", ("users", "a0", 2.0), ("b1", "users", 8.0))),
    "an endpoint in the configured table": ({"a": INF, "b": 7.0, "c": INF, "d": INF}, distances("users", users_b=7.0)),
    "a place nobody knows": ({"a": INF, "b": INF, "c": INF, "d": INF}, distances("mars")),
}  # fmt: skip


PROBLEMS = {  # near: the words that say that it decides nothing
    "d0": "is a node of zone d: name the zone",
    "mars": "is no zone of the cluster and no endpoint with a known delay; it is ignored",
}


@pytest.mark.parametrize("near", PROBLEMS)
def test_what_decides_nothing_is_named(near: str) -> None:
    (said,) = near_problem(near, TABLE, network(), Policy())
    assert said == f"netgang.io/near: {near!r} {PROBLEMS[near]}"


@pytest.mark.parametrize(("want", "got"), DISTANCES.values(), ids=DISTANCES)
def test_distances(want: dict[str, float], got: dict[str, float]) -> None:
    assert want == got


RANKS = {  # case: (want, zones the gang lists, distances)
    "by name when nothing else decides": ("abcd", "", None),
    "the gang's own order": ("dba", "dba", None),
    "distance before the gang's order": ("bad", "dba", {D: 5.0, B: 0.0, A: 1.0}),
    "equally far: the gang's order": ("dba", "dba", dict.fromkeys([A, B, D], 3.0)),
    "unknown last, also when listed first": ("bda", "dba", {B: 1.0}),
}


@pytest.mark.parametrize(("want", "listed", "far"), RANKS.values(), ids=RANKS)
def test_order_of_zones(want: str, listed: str, far: dict[ZoneName, float] | None) -> None:
    options = GangOptions(zones=tuple(ZoneName(z) for z in listed) or None)
    ranks = rank_zones(sorted(options.zones or (A, B, C, D)), options=options, distances=far)
    assert want == "".join(zone for _, _, zone in ranks)


@given(st.permutations([A, B, C, D]), st.dictionaries(st.sampled_from([A, B, C, D]), st.sampled_from([0.0, 1.0, 5.0])))
def test_order_does_not_depend_on_the_order_asked(zones: list[ZoneName], far: dict[ZoneName, float]) -> None:
    ranks = rank_zones(zones, options=GangOptions(), distances=far)
    assert ranks == rank_zones([A, B, C, D], options=GangOptions(), distances=far)
    assert [distance_ms for distance_ms, _, _ in ranks] == sorted(far.get(z, math.inf) for z in zones)


@given(st.integers(0, 3), st.lists(st.tuples(st.sampled_from(TABLE.names), st.sampled_from(TABLE.names)), max_size=8))
def test_a_zone_is_nearest_to_itself(at: int, pairs: list[tuple[NodeName, NodeName]]) -> None:
    near = "abcd"[at]
    found = distances(near, *((one, other, 3.0) for one, other in pairs))
    assert found[near] == 0.0 == min(found.values())


# -- the fewest zones ------------------------------------------------------------------------------------------


def flat(one: ZoneName, other: ZoneName) -> float:
    return 1.0


def first(rooms: dict[ZoneName, list[int]], counts: Iterable[int], **more: object) -> tuple[ZoneName, ...] | None:
    return next(fewest_zones(rooms, list(counts), between=more.pop("between", flat), **more), None)  # type: ignore[arg-type]


SPREADS = {  # case, besides those of brute force: (want, rooms, counts, home)
    "two, by name": ("ab", {A: [2], B: [2], C: [2]}, [4], ()),
    "home takes part, even when two others would do": ("abc", {A: [1], B: [3], C: [3]}, [6], (A,)),
    "home alone": ("a", {A: [6], B: [9]}, [6], (A,)),
    "home that is not allowed does not count": ("b", {B: [6]}, [6], (A,)),
}


@pytest.mark.parametrize(("want", "rooms", "counts", "home"), SPREADS.values(), ids=SPREADS)
def test_fewest_zones(
    want: str, rooms: dict[ZoneName, list[int]], counts: list[int], home: tuple[ZoneName, ...]
) -> None:
    assert tuple(want) == first(rooms, counts, home=home)


def test_best_connected_of_the_fewest() -> None:
    near = {frozenset("ac"): 9.0, frozenset("bd"): 8.0}
    rooms = {z: [2] for z in (A, B, C, D)}
    sets = fewest_zones(rooms, [4], between=lambda *two: near.get(frozenset(two), 1.0))
    assert [next(sets), next(sets), next(sets)] == [(A, C), (B, D), (A, B)]


ZONES = [ZoneName(z) for z in "vwxyz"]
ROOMS = st.lists(st.lists(st.integers(0, 4), min_size=2, max_size=2), min_size=1, max_size=5).map(
    lambda rooms: dict(zip(ZONES, rooms, strict=False))
)
SCORES = st.lists(st.sampled_from([0.0, 10.0, 50.0, 90.0]), min_size=10, max_size=10).map(
    lambda values: dict(zip((frozenset(pair) for pair in combinations(ZONES, 2)), values, strict=True))
)


@given(ROOMS, st.tuples(st.integers(1, 6), st.integers(0, 4)), SCORES)
def test_agrees_with_brute_force(
    rooms: dict[ZoneName, list[int]], counts: tuple[int, int], scores: dict[frozenset[ZoneName], float]
) -> None:
    def value(some: tuple[ZoneName, ...]) -> float:
        links = [scores[frozenset(pair)] for pair in combinations(some, 2)]
        return sum(links) / len(links) if links else 0.0

    every = chain.from_iterable(combinations(sorted(rooms), size) for size in range(1, len(rooms) + 1))
    holding = [some for some in every if all(sum(rooms[z][c] for z in some) >= n for c, n in enumerate(counts))]
    got = first(rooms, counts, between=lambda one, other: scores[frozenset((one, other))])
    if not holding:
        assert got is None
        return
    fewest = [some for some in holding if len(some) == len(holding[0])]
    assert got in fewest
    assert value(got) == max(value(some) for some in fewest)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=14), st.integers(1, 20))
def test_many_zones_are_grown_and_hold_the_gang(rooms: list[int], count: int) -> None:
    """Where sets are too many to compare, the set that is grown holds the gang too, with the fewest for one class."""
    named = {ZoneName(f"z{i:02}"): [room] for i, room in enumerate(rooms)}
    assume(sum(rooms) >= count)
    largest = sorted(rooms, reverse=True)
    fewest = next(n for n in range(1, len(rooms) + 1) if sum(largest[:n]) >= count)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(zones_module, "MOST_SETS", 1)
        sets = list(fewest_zones(named, [count], between=flat))
    got = sets[-1]
    assert len(sets) <= 2  # one zone alone or all of them are single sets
    assert sum(named[z][0] for z in got) >= count
    assert len(got) == fewest
