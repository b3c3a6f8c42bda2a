"""What must hold for every selection: whole, allowed, within capacity, of the stated value, and always the same."""

from collections.abc import Callable
from itertools import combinations, combinations_with_replacement, product
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from scoring.model import Role
from scoring.model.policy import Selection
from scoring.network.matrix import Floats
from scoring.score.pairs import BAD_PAIR
from scoring.selection.demand import ClassDemand, Demand, on_grid, value_of
from scoring.selection.greedy import fit, improve
from tests.strategies import Case, Chosen, cases

METHODS = st.sampled_from(Selection)
SIZES = st.sampled_from([0, 12])


def pairs_value(demand: Demand, found: Chosen, rank: np.ndarray) -> float:
    members = [(one.role, c, row) for c, one in enumerate(demand.classes) for row in found.rows[c]]
    total = sum(float(demand.placed[c, row]) for _, c, row in members) if demand.placed is not None else 0.0
    for i, (role, _, row) in enumerate(members):
        for other, _, at in members[i + 1 :]:
            if demand.all_reduce or (role is Role.PS) != (other is Role.PS):
                total += float(rank[row, at])
    return total


@given(cases(), METHODS, SIZES)
def test_answers(case: Case, method: Selection, exact_size: int) -> None:
    """All members or none; on allowed rows, ascending, within what is free; of the value counted pair by pair.

    The same input gives the same answer, and nothing is written to it.
    """
    free, rank = case.free.copy(), case.rank.copy()
    found = case.select(method, exact_size)
    assert found == case.select(method, exact_size)
    assert (free == case.free).all()
    assert (rank == case.rank).all()
    if found is None:
        return
    used = np.zeros_like(case.free)
    for one, rows in zip(case.demand.classes, found.rows, strict=True):
        assert (len(rows), list(rows)) == (one.count, sorted(rows))
        assert one.allowed[list(rows)].all()
        for row in rows:
            used[row] += one.request
    assert ((used <= case.free) | (used == 0)).all()
    assert found.value == pytest.approx(pairs_value(case.demand, found, case.rank), abs=1e-6)


@given(cases(), SIZES)
def test_subset_is_never_worse_than_the_paper(case: Case, exact_size: int) -> None:
    literal = case.select(Selection.PAPER, exact_size)
    if literal is not None:
        found = case.select(Selection.SUBSET, exact_size)
        assert found is not None
        assert found.value >= literal.value - 1e-9


@given(cases(), st.sampled_from([Selection.SUBSET, Selection.PACK]), SIZES)
def test_what_first_fit_places_is_placed(case: Case, method: Selection, exact_size: int) -> None:
    """`subset` and `pack` refuse nothing that first fit in the demand's order can place."""
    left = case.free.copy()
    for one in case.demand.classes:
        for _ in range(one.count):
            holds = ((left >= one.request) | (one.request == 0)).all(axis=1) & one.allowed
            if not holds.any():
                return
            left[int(holds.argmax())] -= one.request
    assert case.select(method, exact_size) is not None
    assert case.estimate() is not None


@given(cases(most_classes=1), METHODS, SIZES)
def test_one_class(case: Case, method: Selection, exact_size: int) -> None:
    """One class fits exactly where the nodes' rooms add up; `pack` uses as many nodes as the largest rooms need."""
    one = case.demand.classes[0]
    room = [
        min([*(int(free[r]) // int(one.request[r]) for r in range(2) if one.request[r]), one.count]) if ok else 0
        for free, ok in zip(case.free, one.allowed, strict=True)
    ]
    found = case.select(method, exact_size)
    assert (found is not None) == (sum(max(most, 0) for most in room) >= one.count)
    if found is None or method is not Selection.PACK:
        return
    left, fewest = one.count, 0
    for most in sorted(room, reverse=True):
        if left > 0:
            left, fewest = left - most, fewest + 1
    assert len(set(found.rows[0])) == fewest


@given(cases(), METHODS, SIZES)
def test_nodes_that_cannot_be_used_do_not_matter(case: Case, method: Selection, exact_size: int) -> None:
    n = len(case.free)
    for position in (0, n):
        demand = replace(
            case.demand,
            classes=tuple(replace(one, allowed=np.insert(one.allowed, position, False)) for one in case.demand.classes),
            placed=None if case.demand.placed is None else np.insert(case.demand.placed, position, 1e6, axis=1),
        )
        rank = np.insert(np.insert(case.rank, position, 100.0, axis=0), position, 100.0, axis=1)
        free = np.insert(case.free, position, 9, axis=0)
        other, want = Case(demand, free, rank).select(method, exact_size), case.select(method, exact_size)
        assert (other is None) == (want is None)
        if other is not None and want is not None:
            shift = 1 if position == 0 else 0
            assert other.rows == tuple(tuple(row + shift for row in rows) for rows in want.rows)


@given(cases())
def test_the_estimate_promises_no_more_than_the_best(case: Case) -> None:
    """It is the value of a real placement: the exact search reaches it, and both refuse together."""
    placed = case.demand.placed[:1] if case.demand.placed is not None else None
    case = replace(case, demand=replace(case.demand, classes=case.demand.classes[:1], placed=placed))
    estimate, best = case.estimate(), case.select(Selection.SUBSET, 9)
    assert (estimate is None) == (best is None)
    if estimate is not None and best is not None:
        assert estimate <= best.value + 1e-6


@given(cases(), st.booleans())
def test_improving_never_makes_it_worse(case: Case, keep_nodes: bool) -> None:
    """Moves keep a placement whole and within capacity and never lower its value; `keep_nodes` adds no node."""
    plan = fit(case.demand, case.free)
    if plan is None:
        return
    better = improve(case.demand, plan, case.free, case.rank, most=20, keep_nodes=keep_nodes)
    assert (better.sum(axis=1) == plan.sum(axis=1)).all()
    assert (better >= 0).all()
    used = sum(row[:, None] * one.request for row, one in zip(better, case.demand.classes, strict=True))
    assert ((used <= case.free) | (used == 0)).all()
    assert not any(row[~one.allowed].any() for row, one in zip(better, case.demand.classes, strict=True))
    assert value_of(case.demand, better, case.rank) >= value_of(case.demand, plan, case.rank) - 1e-9
    if keep_nodes:
        assert better.any(axis=0).sum() <= plan.any(axis=0).sum()


def test_a_large_gang_in_a_large_zone_is_bounded_and_whole() -> None:
    """Hundreds of members on a thousand nodes: starts and moves are capped, the answer is whole and beats the paper."""
    rng = np.random.default_rng(7)
    quality = rng.uniform(40.0, 95.0, 1000)
    rank = np.minimum(quality[:, None], quality)
    np.fill_diagonal(rank, 100.001)
    rows = np.arange(1000)
    mixed = (
        ClassDemand(Role.PS, np.array([1]), rows % 7 != 0, 3),
        ClassDemand(Role.WORKER, np.array([1]), rows % 5 != 0, 150),
    )
    free = rng.integers(0, 3, (1000, 1))
    for demand in (Demand(mixed[1:], True), Demand(mixed, False), Demand(mixed, True)):
        found = [Case(demand, free, rank).select(m) for m in (Selection.SUBSET, Selection.PAPER, Selection.PACK)]
        subset, paper, pack = (one for one in found if one is not None)
        assert subset.value >= paper.value
        at, packed = (np.concatenate(one.rows).astype(int) for one in (subset, pack))
        assert len(set(packed.tolist())) <= len(set(at.tolist()))
        assert (np.bincount(at, minlength=1000) <= free[:, 0]).all()


# -- how good the selections are: hundreds of small instances against the enumerated optimum ---------------------------
#
# The optimum here is found without any code of `scoring.selection`: every way to give nodes to members is written down
# and valued pair by pair. `exact_size=0` switches the package's own enumeration off, so that its search is judged.

INSTANCES = 120
"""Of each kind: nine kinds of demand and network together are about a thousand."""


@given(cases(most_classes=2), st.randoms(use_true_random=False), st.booleans())
def test_no_other_set_has_fewer_bad_pairs(case: Case, random: Random, single: bool) -> None:
    """With bad pairs anywhere the answer is still an optimum: the fewest of them first, then the highest sum."""
    n, parts = len(case.free), case.demand.classes[: 1 if single else 2]
    parts = tuple(replace(part, count=min(part.count, 3)) for part in parts)
    placed = None if case.demand.placed is None else case.demand.placed[: len(parts)]
    bad = np.array([[random.random() < 0.3 for _ in range(n)] for _ in range(n)])
    bad = (bad | bad.T) & ~np.eye(n, dtype=bool)
    demand = Demand(parts, all(part.role is not Role.PS for part in parts), placed)
    case = Case(demand, case.free, case.rank - BAD_PAIR * bad)
    best, found = optimum(case), case.select(Selection.SUBSET)
    assert (best is None) == (found is None)
    if best is not None and found is not None:
        assert found.value == pytest.approx(best, abs=1e-5)


def optimum(case: Case) -> float | None:
    demand, n = case.demand, len(case.free)
    per_class = [list(combinations_with_replacement(range(n), one.count)) for one in demand.classes]
    ways = np.array([sum(way, ()) for way in product(*per_class)])
    owner = np.repeat(np.arange(len(demand.classes)), [one.count for one in demand.classes])
    requests = np.array([one.request for one in demand.classes])[owner]
    for node in range(n):
        used = (ways == node) @ requests
        ways = ways[((used <= case.free[node]) | (used == 0)).all(axis=1)]
    allowed = np.array([one.allowed for one in demand.classes])
    ways = ways[allowed[owner, ways].all(axis=1)]
    if not len(ways):
        return None
    values = np.zeros(len(ways)) if demand.placed is None else demand.placed[owner, ways].sum(axis=1)
    roles = [demand.classes[c].role for c in owner]
    for a, b in combinations(range(len(roles)), 2):
        if demand.all_reduce or (roles[a] is Role.PS) != (roles[b] is Role.PS):
            values = values + case.rank[ways[:, a], ways[:, b]]
    return float(values.max())


def noise(n: int, rng: np.random.Generator) -> Floats:
    """No structure at all: every link its own value."""
    return rng.uniform(0.0, 100.0, (n, n))


def some_bad(n: int, rng: np.random.Generator) -> Floats:
    """What test beds look like: good links with some noise, and some nodes whose every link is worse."""
    quality = rng.normal(90.0, 2.0, n)
    quality[rng.permutation(n)[: rng.integers(1, n // 2 + 1)]] -= rng.uniform(10.0, 70.0)
    return np.minimum(quality[:, None], quality) + rng.normal(0.0, 0.5, (n, n))


def racks(n: int, rng: np.random.Generator) -> Floats:
    """Good links inside each of three racks, fair ones between them."""
    rack = rng.integers(0, 3, n)
    return np.where(rack[:, None] == rack, 90.0, 60.0) + rng.normal(0.0, 3.0, (n, n))


def several(n: int, k: int, rng: np.random.Generator) -> tuple[Demand, np.ndarray]:
    """Equal members, up to three per node, some near members that are placed already."""
    placed = on_grid(rng.uniform(0.0, 200.0, (1, n))) if rng.integers(2) else None
    return Demand((_one(Role.WORKER, n, k),), True, placed), rng.integers(0, 4, (n, 2))


def with_ps(n: int, k: int, rng: np.random.Generator) -> tuple[Demand, np.ndarray]:
    ps = int(rng.integers(1, 3)) if k > 2 else 1
    classes = (_one(Role.PS, n, ps, 2, 0), _one(Role.WORKER, n, k - ps, 1, 1))
    return Demand(classes, False), rng.integers(0, 5, (n, 2))


def with_chief(n: int, k: int, rng: np.random.Generator) -> tuple[Demand, np.ndarray]:
    """A larger chief that may not go everywhere, and workers of an all-reduce job."""
    chief = ClassDemand(Role.CHIEF, np.array([2, 1]), rng.random(n) < 0.6, 1)
    return Demand((chief, _one(Role.WORKER, n, k - 1)), True), rng.integers(0, 5, (n, 2))


def _one(role: Role, n: int, count: int, *request: int) -> ClassDemand:
    return ClassDemand(role, np.array(request or (1, 1)), np.ones(n, bool), count)


Maker = Callable[[int, int, np.random.Generator], tuple[Demand, np.ndarray]]
KINDS: dict[str, tuple[Maker, int]] = {  # name: (demand, most nodes: several classes have many more placements)
    "one member per node": (lambda n, k, _: (Demand((_one(Role.WORKER, n, k),), True), np.ones((n, 2), np.int64)), 12),
    "several per node": (several, 10),
    "ps and workers": (with_ps, 8),
    "chief and workers": (with_chief, 8),
}
NETWORKS = {"noise": noise, "some bad nodes": some_bad, "racks": racks}


@pytest.mark.slow
@pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS)
@pytest.mark.parametrize(("maker", "most_nodes"), KINDS.values(), ids=KINDS)
def test_subset_is_close_to_the_optimum(
    maker: Maker, most_nodes: int, network: Callable[[int, np.random.Generator], Floats]
) -> None:
    """`subset` reaches 99.5 % of the optimum on average without enumeration, and never less than `paper`."""
    rng = np.random.default_rng(20230712)
    shares, estimates = [], []
    for _ in range(INSTANCES):
        n = int(rng.integers(4, most_nodes + 1))
        k = int(rng.integers(2, min(6, n) + 1))
        demand, free = maker(n, k, rng)
        rank = network(n, rng)
        rank = np.clip((rank + rank.T) / 2.0, 0.0, 100.0)
        np.fill_diagonal(rank, 100.001)
        case = Case(demand, free, rank)
        best, found = optimum(case), case.select(Selection.SUBSET, 0)
        if best is None:
            assert found is None
            continue
        literal, exact, estimate = case.select(Selection.PAPER), case.select(Selection.SUBSET), case.estimate()
        assert found is not None
        assert exact is not None
        assert estimate is not None
        assert (literal.value if literal is not None else 0.0) - 1e-9 <= found.value <= exact.value + 1e-9
        assert found.value <= best + 1e-6
        shares.append(found.value / best)
        estimates.append(estimate / best)
    assert len(shares) > INSTANCES / 2
    assert np.mean(shares) >= 0.995
    assert np.mean(estimates) >= 0.8
