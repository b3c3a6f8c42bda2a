"""Selections by worked examples."""

from functools import partial

import numpy as np
import pytest
from msgspec.structs import replace

from scoring.model import Role
from scoring.model.policy import Selection
from scoring.network.matrix import Floats
from scoring.selection.demand import ClassDemand, Demand, on_grid, pairing
from scoring.selection.greedy import fit
from tests.strategies import Case

PERFECT = 100.001
Row = tuple[int, ...]
Links = dict[tuple[int, int], float]


def member(role: Role, count: int, *, n: int, cpu: int = 1, allowed: list[int] | None = None) -> ClassDemand:
    """Members of one role that need `cpu` and may go to the rows in `allowed` (all, when it is not given)."""
    mask = np.isin(np.arange(n), np.arange(n) if allowed is None else np.array(allowed))
    return ClassDemand(role, np.array([cpu]), mask, count)


workers = partial(member, Role.WORKER)


def cpus(*free: int) -> np.ndarray:
    return np.array(free, np.int64)[:, None]


def ranks(n: int, between: float = 50.0, links: Links | None = None) -> Floats:
    """Equal links, but for the given pairs; a node to itself is perfect."""
    rank = np.full((n, n), between)
    for (i, j), value in (links or {}).items():
        rank[i, j] = rank[j, i] = value
    np.fill_diagonal(rank, PERFECT)
    return rank


def rows_of(method: Selection, demand: Demand, free: Row, rank: Floats, exact_size: int = 12) -> tuple[Row, ...]:
    found = Case(demand, cpus(*free), rank).select(method, exact_size)
    assert found is not None
    return found.rows


GOOD = {(0, j): 5.0 for j in (1, 2, 3)}
# from 0: node 1 has 60, node 2 has 59; after 1 the totals are 2: 59 + 10, 3: 20 + 55, so 3 is chosen, not 2
TOTALS = {(0, 1): 60.0, (0, 2): 59.0, (0, 3): 20.0, (1, 2): 10.0, (1, 3): 55.0}
PAPER = {  # sentence: (rows, members, rows allowed, free CPUs, ranks)
    "the reference is chosen, however bad": ((0, 1, 2), 3, None, (1, 1, 1, 1), ranks(4, 90.0, GOOD)),
    "each round adds the score against the node chosen last": ((0, 1, 3), 3, None, (1, 1, 1, 1), ranks(4, 0.0, TOTALS)),
    "nodes with room for several get one member each first": ((0, 1, 1, 2, 2), 5, None, (1, 3, 2), ranks(3)),
    "the reference has room and is allowed": ((2, 3), 2, [1, 2, 3], (9, 0, 1, 1), ranks(4)),
}


@pytest.mark.parametrize(("want", "count", "allowed", "free", "rank"), PAPER.values(), ids=PAPER)
def test_paper_literally(want: Row, count: int, allowed: list[int] | None, free: Row, rank: Floats) -> None:
    """The list, the reference and the running totals of PAPERS N3; `subset` drops a bad reference."""
    demand = Demand((workers(count, n=len(free), allowed=allowed),), all_reduce=True)
    pairs = [float(rank[i, j]) for at, i in enumerate(want) for j in want[at + 1 :]]
    found = Case(demand, cpus(*free), rank).select(Selection.PAPER)
    assert found is not None
    assert found.rows == (want,)
    assert found.value == pytest.approx(sum(pairs))
    better = rows_of(Selection.SUBSET, Demand((workers(3, n=4),), True), (1, 1, 1, 1), ranks(4, 90.0, GOOD))
    assert better == ((1, 2, 3),)


ONE_CLASS = {  # case: (rows, members, free CPUs, ranks that differ from 50)
    "one node holds all": ((1, 1, 1), 3, (2, 3, 1), {}),
    "no data: fewest nodes": ((0, 3, 3, 3), 4, (1, 1, 1, 3), {}),
    "a good pair of nodes beats an even spread": ((2, 2, 3, 3), 4, (2, 2, 2, 2), {(2, 3): 95.0}),
    "ties by name": ((0, 1), 2, (1, 1, 1), {}),
    "exactly full": ((0, 0, 1, 2, 2, 2), 6, (2, 1, 3), {(0, 1): 1.0}),
    "too many placements to try: they are searched": (tuple(sorted([0, 1, 2] * 4)),
        12, (4,) * 12, {(i, j): 80.0 for i in range(3) for j in range(i)}),
}  # fmt: skip


@pytest.mark.parametrize(("want", "count", "free", "links"), ONE_CLASS.values(), ids=ONE_CLASS)
@pytest.mark.parametrize("exact_size", [0, 12])
def test_subset_one_class(want: Row, count: int, free: Row, links: Links, exact_size: int) -> None:
    """`subset` maximises the sum over pairs of members; members on one node are a perfect pair."""
    demand, rank = Demand((workers(count, n=len(free)),), all_reduce=True), ranks(len(free), 50.0, links)
    assert rows_of(Selection.SUBSET, demand, free, rank, exact_size) == (want,)


STAR = {(2, 0): 90.0, (2, 1): 90.0, (2, 3): 90.0}
TRIANGLE = {(2, 0): 90.0, (2, 1): 90.0, (3, 4): 70.0, (3, 5): 70.0, (4, 5): 70.0}
NEAR_PS = ranks(4, 50.0, {(0, 1): 90.0, (0, 3): 80.0})
NEAR_3 = ranks(4, 50.0, {(3, 2): 90.0})
BIPARTITE = {(i, j): 90.0 for i in (0, 1, 2) for j in (3, 4)}


def joined(roles: list[Role], placed: Role, at: int, rank: Floats, *, all_reduce: bool = False) -> Floats:
    return on_grid(pairing(roles, [placed], all_reduce=all_reduce) @ rank[:, [at]].T)


SEVERAL: dict[str, tuple[tuple[Row, ...], Demand, Row, Floats]] = {  # sentence: (rows, …)
    "a ps goes to the middle of a star whose ends do not see each other": (
        ((2,), (0, 1, 3)), Demand((member(Role.PS, 1, n=5), workers(3, n=5)), False), (1,) * 5, ranks(5, 10.0, STAR)),
    "without a ps every pair counts: the even triangle wins": (
        ((3, 4, 5),), Demand((workers(3, n=6),), True), (1,) * 6, ranks(6, 10.0, TRIANGLE)),
    "classes keep to their nodes and sizes, rows follow the order of the demand": (((0, 0, 1, 1), (2,), (0,)),
        Demand((workers(4, n=3, cpu=2), member(Role.CHIEF, 1, n=3, cpu=3, allowed=[2]),
        member(Role.PS, 1, n=3, allowed=[0, 1])), False), (5, 4, 3), ranks(3, 50.0, {(0, 2): 80.0})),
    "a member joins one that is placed": (((2,),), Demand((workers(1, n=4),),
        True, joined([Role.WORKER], Role.WORKER, 3, NEAR_3, all_reduce=True)), (1, 1, 1, 0), NEAR_3),
    "workers join a placed ps by their gain to it alone": (((1, 3),),
        Demand((workers(2, n=4),), False, joined([Role.WORKER], Role.PS, 0, NEAR_PS)), (0, 1, 1, 1), NEAR_PS),
    "a chief and workers join a placed ps, each on its own best node": (((3,), (1,)),
        Demand((member(Role.CHIEF, 1, n=4, cpu=2), workers(1, n=4)),
        False, joined([Role.CHIEF, Role.WORKER], Role.PS, 0, NEAR_PS)), (0, 1, 2, 2), NEAR_PS),
    "three ps between their workers": (((0, 1, 2), (3, 4)),
        Demand((member(Role.PS, 3, n=6), workers(2, n=6)), False), (1,) * 6, ranks(6, 10.0, BIPARTITE)),
    "the same with larger requests": (((0, 1, 2), (3, 4)),
        Demand((member(Role.PS, 3, n=6, cpu=2), workers(2, n=6, cpu=2)), False), (2,) * 6, ranks(6, 10.0, BIPARTITE)),
    "members that ask for nothing keep to their nodes, and go together": (
        ((1, 1, 1),), Demand((workers(3, n=2, cpu=0, allowed=[1]),), True), (9, -5), ranks(2)),
}  # fmt: skip


@pytest.mark.parametrize(("want", "demand", "free", "rank"), SEVERAL.values(), ids=SEVERAL)
def test_subset(want: tuple[Row, ...], demand: Demand, free: Row, rank: Floats) -> None:
    """Pairs count as the job exchanges data; where only one class joins placed members all methods agree."""
    joins = demand.placed is not None and len(demand.classes) == demand.size == 1
    for method in Selection if joins else [Selection.SUBSET]:
        assert rows_of(method, demand, free, rank) == want


PACK = {  # case: (rows of the workers, members, free CPUs, ranks that differ from 50)
    "one node": ((1, 1, 1), 3, (2, 3, 2), {(0, 2): 99.0}),
    "the most idle of two": ((1, 1, 1), 3, (3, 8, 3), {}),
    "largest rooms first": ((0, 2, 2, 2), 4, (2, 1, 3), {}),
    "of equal counts the best network": ((1, 1, 2), 3, (2, 2, 2), {(1, 2): 90.0}),
    "never a node more for the network": ((0, 0, 0, 3), 4, (3, 2, 2, 2), {(1, 2): 99.0, (0, 3): 51.0}),
}


@pytest.mark.parametrize(("want", "count", "free", "links"), PACK.values(), ids=PACK)
def test_pack_one_class(want: Row, count: int, free: Row, links: Links) -> None:
    """`pack` uses the fewest nodes, the most idle first, and among equal counts the best network."""
    n = len(free)
    assert rows_of(Selection.PACK, Demand((workers(count, n=n),), True), free, ranks(n, 50.0, links)) == (want,)


def test_pack_keeps_ps_with_workers() -> None:
    demand = Demand((member(Role.PS, 1, n=4), workers(4, n=4)), all_reduce=False)
    assert rows_of(Selection.PACK, demand, (2, 3, 1, 3), ranks(4, 50.0)) == ((1,), (1, 1, 3, 3))


REFUSED = {  # case: (classes, free CPUs)
    "one short": ((workers(4, n=2),), (1, 2)),
    "not allowed there": ((workers(1, n=2, allowed=[0]),), (0, 9)),
    "no nodes": ((workers(1, n=0),), ()),
    "over-used nodes": ((workers(1, n=2),), (-1, 0)),
    "classes compete": ((member(Role.PS, 1, n=2, cpu=2), workers(2, n=2)), (2, 1)),
}


@pytest.mark.parametrize(("classes", "free"), REFUSED.values(), ids=REFUSED)
@pytest.mark.parametrize("method", Selection)
def test_all_or_nothing(method: Selection, classes: tuple[ClassDemand, ...], free: Row) -> None:
    """What does not fit whole is not placed at all, by no method, and has no estimate."""
    case = Case(Demand(classes, all_reduce=len(classes) == 1), cpus(*free), ranks(len(free)))
    assert (case.select(method), case.estimate()) == (None, None)


def test_careful_fit_finds_what_first_fit_cannot() -> None:
    """The chief fits two nodes; first fit takes the workers' room on the first, the careful fit does not."""
    both = np.array([True, True])
    classes = ClassDemand(Role.CHIEF, np.array([2, 1]), both, 1), ClassDemand(Role.WORKER, np.array([1, 1]), both, 2)
    found = fit(Demand(classes, True), np.array([[2, 2], [2, 1]]))
    assert found is not None
    assert found.tolist() == [[0, 1], [2, 0]]


def symmetric(n: int, *upper: float, own: float = 100.001) -> Floats:
    """Ranks of the pairs above the diagonal, row by row, and of each node with itself."""
    rank = np.zeros((n, n))
    rank[np.triu_indices(n, 1)] = upper
    rank = rank + rank.T
    np.fill_diagonal(rank, own)
    return on_grid(rank)


def test_the_paper_is_taken_where_it_is_better() -> None:
    """Greedy from every start fills nodes first; where a node is worthless to itself, one member each may be better."""
    first, second = [70.0, 5.0, 95.0, 30.0, 70.0, 30.0], [75.0, 30.0, 60.0, 70.0, 75.0]
    others = [70.0, 75.0, 55.0, 25.0, 25.0, 50.0, 70.0, 45.0, 5.0, 55.0]
    rank = symmetric(7, *first, *second, *others, own=0.0)
    case = Case(Demand((workers(2, n=7),), True), cpus(2, 2, 1, 2, 2, 1, 1), rank)
    assert case.select(Selection.SUBSET, 0) == case.select(Selection.PAPER) == (((0, 3),), 95.0)


def test_members_without_pairs_go_where_they_gain_most() -> None:
    rank = symmetric(3, 10.0, 20.0, 30.0)
    near = Case(Demand((workers(2, n=3),), False, np.array([[5.0, 99.0, 7.0]])), cpus(1, 0, 2), rank)
    assert (near.select(Selection.SUBSET), near.estimate()) == ((((2, 2),), 14.0), 14.0)
    assert replace(near, demand=replace(near.demand, placed=None)).estimate() == 0.0
