"""Selections by worked examples: the paper's test case, ps and workers, several members per node, KOD2's packing."""

import numpy as np
import pytest

from scoring.ids import NodeName
from scoring.model import Role
from scoring.model.policy import ScorePolicy, Selection, Variant
from scoring.network.matrix import Floats
from scoring.score.pairs import pair_scores
from scoring.selection import ClassDemand, Demand, Selected, placed_gain, quick_value, select
from scoring.selection.fit import fit
from tests.builders import mesh

PERFECT = 100.001


def workers(count: int, *, n: int, cpu: int = 1, allowed: list[int] | None = None) -> ClassDemand:
    """Workers of one resource."""
    return member(Role.WORKER, count, n=n, cpu=cpu, allowed=allowed)


def member(role: Role, count: int, *, n: int, cpu: int = 1, allowed: list[int] | None = None) -> ClassDemand:
    """Members of one role that need `cpu` and may go to the rows in `allowed` (all, when it is not given)."""
    mask = np.isin(np.arange(n), np.arange(n) if allowed is None else np.array(allowed))
    return ClassDemand(role, np.array([cpu]), mask, count)


def cpus(*free: int) -> np.ndarray:
    """Nodes with these free CPUs."""
    return np.array(free, np.int64)[:, None]


def ranks(n: int, between: float = 50.0, links: dict[tuple[int, int], float] | None = None) -> Floats:
    """Equal links, but for the given pairs; a node to itself is perfect."""
    rank = np.full((n, n), between)
    for (i, j), value in (links or {}).items():
        rank[i, j] = rank[j, i] = value
    np.fill_diagonal(rank, PERFECT)
    return rank


def choose(method: Selection, demand: Demand, free: np.ndarray, rank: Floats) -> Selected | None:
    """Select with the default size for exact search."""
    return select(method, demand, free, rank, exact_size=12)


def zone_d(variant: Variant) -> Floats:
    """Zone D of PAPERS N4 as ranks: 9 nodes, three of them impaired, the rest clean at 100 Mbit/s."""
    names = [NodeName(f"node{i}") for i in range(28, 37)]
    bad = {"node33": {"delay_ms": 10.0}, "node34": {"loss_ratio": 0.1}, "node35": {"throughput_bps": 10e6}}
    block = mesh(names, bad=bad).block(names, names)
    return pair_scores(block, None, ScorePolicy(variant=variant)).rank


@pytest.mark.parametrize("method", Selection)
@pytest.mark.parametrize("exact_size", [0, 12])
@pytest.mark.parametrize("variant", Variant)
def test_paper_test_case_one(method: Selection, exact_size: int, variant: Variant) -> None:
    """Test case I: of nine nodes the six without impairment are chosen, one member each: 28…32 and 36."""
    demand = Demand((workers(6, n=9),), all_reduce=True)
    found = select(method, demand, cpus(*[1] * 9), zone_d(variant), exact_size=exact_size)
    assert found is not None
    assert found.rows == ((0, 1, 2, 3, 4, 8),)


def test_paper_keeps_a_bad_reference() -> None:
    """`paper`, literally: the first node of the list is the reference and is chosen, however bad; `subset` drops it."""
    rank = ranks(4, 90.0, {(0, j): 5.0 for j in (1, 2, 3)})
    demand = Demand((workers(3, n=4),), all_reduce=True)
    literal, best = (choose(m, demand, cpus(1, 1, 1, 1), rank) for m in (Selection.PAPER, Selection.SUBSET))
    assert literal is not None
    assert best is not None
    assert literal.rows == ((0, 1, 2),)
    assert best.rows == ((1, 2, 3),)


def test_paper_adds_scores_up() -> None:
    """Each round adds the score against the node chosen last to a running total, and the highest total is next."""
    # from 0: node 1 has 60, node 2 has 59; after 1 the totals are 2: 59 + 10, 3: 20 + 55, so 3 is chosen, not 2
    links = {(0, 1): 60.0, (0, 2): 59.0, (0, 3): 20.0, (1, 2): 10.0, (1, 3): 55.0}
    found = choose(Selection.PAPER, Demand((workers(3, n=4),), True), cpus(1, 1, 1, 1), ranks(4, 0.0, links))
    assert found is not None
    assert found.rows == ((0, 1, 3),)
    assert found.value == 60.0 + 20.0 + 55.0


def test_paper_starts_over_when_nodes_last_no_more() -> None:
    """Nodes with room for several get one member each first; then a new lap begins with the room that is left."""
    found = choose(Selection.PAPER, Demand((workers(5, n=3),), True), cpus(1, 3, 2), ranks(3))
    assert found is not None
    assert found.rows == ((0, 1, 1, 2, 2),)


def test_paper_reference_has_room_and_is_allowed() -> None:
    """The reference is the first node of the list that can hold a member at all."""
    demand = Demand((workers(2, n=4, allowed=[1, 2, 3]),), all_reduce=True)
    found = choose(Selection.PAPER, demand, cpus(9, 0, 1, 1), ranks(4))
    assert found is not None
    assert found.rows == ((2, 3),)


ONE_CLASS = {  # case: (rows, members, free CPUs, ranks that differ from 50)
    "one node holds all": ((1, 1, 1), 3, (2, 3, 1), {}),
    "no data: fewest nodes": ((0, 3, 3, 3), 4, (1, 1, 1, 3), {}),
    "a good pair of nodes beats an even spread": ((2, 2, 3, 3), 4, (2, 2, 2, 2), {(2, 3): 95.0}),
    "ties by name": ((0, 1), 2, (1, 1, 1), {}),
    "exactly full": ((0, 0, 1, 2, 2, 2), 6, (2, 1, 3), {(0, 1): 1.0}),
}


@pytest.mark.parametrize(("want", "count", "free", "links"), ONE_CLASS.values(), ids=ONE_CLASS)
@pytest.mark.parametrize("exact_size", [0, 12])
def test_subset_one_class(want: tuple, count: int, free: tuple, links: dict, exact_size: int) -> None:
    """`subset` maximises the sum over pairs of members; members on one node are a perfect pair."""
    n = len(free)
    demand = Demand((workers(count, n=n),), all_reduce=True)
    found = select(Selection.SUBSET, demand, cpus(*free), ranks(n, 50.0, links), exact_size=exact_size)
    assert found is not None
    assert found.rows == (want,)


def test_ps_is_placed_for_its_workers() -> None:
    """With a ps only ps–worker pairs count: it goes to the middle of a star whose ends do not see each other."""
    links = {(2, 0): 90.0, (2, 1): 90.0, (2, 3): 90.0}
    demand = Demand((member(Role.PS, 1, n=5), workers(3, n=5)), all_reduce=False)
    found = choose(Selection.SUBSET, demand, cpus(1, 1, 1, 1, 1), ranks(5, 10.0, links))
    assert found is not None
    assert found.rows == ((2,), (0, 1, 3))
    assert found.value == 270.0


def test_all_reduce_avoids_the_star() -> None:
    """Without a ps the same network gives another answer: every pair counts, so the even triangle wins."""
    links = {(2, 0): 90.0, (2, 1): 90.0, (3, 4): 70.0, (3, 5): 70.0, (4, 5): 70.0}
    found = choose(Selection.SUBSET, Demand((workers(3, n=6),), True), cpus(*[1] * 6), ranks(6, 10.0, links))
    assert found is not None
    assert found.rows == ((3, 4, 5),)


def test_classes_keep_to_their_nodes_and_sizes() -> None:
    """Chief, ps and workers with their own nodes and sizes share capacity; rows follow the order of the demand."""
    classes = (
        member(Role.WORKER, 4, n=3, cpu=2),
        member(Role.CHIEF, 1, n=3, cpu=3, allowed=[2]),
        member(Role.PS, 1, n=3, cpu=1, allowed=[0, 1]),
    )
    found = choose(Selection.SUBSET, Demand(classes, all_reduce=False), cpus(5, 4, 3), ranks(3, 50.0, {(0, 2): 80.0}))
    assert found is not None
    assert found.rows == ((0, 0, 1, 1), (2,), (0,))


def test_members_already_placed_attract() -> None:
    """Roll-forward: the gain from placed members decides where the others go; only counted pairs pull."""
    rank = ranks(4, 50.0, {(3, 2): 90.0})
    gain = placed_gain([Role.WORKER], all_reduce=True, placed=[Role.WORKER], rank=rank[:, [3]])
    extra = Demand((workers(1, n=4),), True, gain)
    for method in Selection:
        found = choose(method, extra, cpus(1, 1, 1, 0), rank)
        assert found is not None
        assert found.rows == ((2,),)
        assert found.value == 90.0
    nobody = placed_gain([Role.WORKER], all_reduce=False, placed=[Role.WORKER], rank=rank[:, [3]])
    assert nobody.tolist() == [[0.0] * 4]


def test_extra_workers_of_a_ps_job() -> None:
    """Workers that join a placed ps are placed by their gain to it alone: each on the best node for itself."""
    rank = ranks(4, 50.0, {(0, 1): 90.0, (0, 3): 80.0})
    gain = placed_gain([Role.WORKER], all_reduce=False, placed=[Role.PS], rank=rank[:, [0]])
    for method in (Selection.SUBSET, Selection.PACK):
        found = choose(method, Demand((workers(2, n=4),), False, gain), cpus(0, 1, 1, 1), rank)
        assert found is not None
        assert found.rows == ((1, 3),)
        assert found.value == 170.0


def test_several_classes_join_a_placed_ps() -> None:
    """A chief and workers that join a placed ps need no ps among themselves: each goes to its own best node."""
    rank = ranks(4, 50.0, {(0, 1): 90.0, (0, 3): 80.0})
    roles = [Role.CHIEF, Role.WORKER]
    gain = placed_gain(roles, all_reduce=False, placed=[Role.PS], rank=rank[:, [0]])
    classes = (member(Role.CHIEF, 1, n=4, cpu=2), workers(1, n=4))
    found = choose(Selection.SUBSET, Demand(classes, False, gain), cpus(0, 1, 2, 2), rank)
    assert found is not None
    assert found.rows == ((3,), (1,))
    assert found.value == 170.0


@pytest.mark.parametrize("cpu", [1, 2])
def test_three_ps_between_their_workers(cpu: int) -> None:
    """Several ps go where the workers are near, with and without all their places tried."""
    links = {(i, j): 90.0 for i in (0, 1, 2) for j in (3, 4)}
    demand = Demand((member(Role.PS, 3, n=6, cpu=cpu), workers(2, n=6, cpu=cpu)), all_reduce=False)
    found = choose(Selection.SUBSET, demand, cpus(*[cpu] * 6), ranks(6, 10.0, links))
    assert found is not None
    assert found.rows == ((0, 1, 2), (3, 4))
    assert found.value == 6 * 90.0


def test_small_sets_with_too_many_placements_are_searched() -> None:
    """Twelve nodes with room for many members have too many placements to try: the search answers."""
    links = {(i, j): 80.0 for i in range(3) for j in range(i)}
    found = choose(Selection.SUBSET, Demand((workers(12, n=12),), True), cpus(*[4] * 12), ranks(12, 50.0, links))
    assert found is not None
    assert found.rows == (tuple(sorted([0, 1, 2] * 4)),)


PACK = {  # case: (rows of the workers, members, free CPUs, ranks that differ from 50)
    "one node": ((1, 1, 1), 3, (2, 3, 2), {(0, 2): 99.0}),
    "the most idle of two": ((1, 1, 1), 3, (3, 8, 3), {}),
    "largest rooms first": ((0, 2, 2, 2), 4, (2, 1, 3), {}),
    "of equal counts the best network": ((1, 1, 2), 3, (2, 2, 2), {(1, 2): 90.0}),
    "never a node more for the network": ((0, 0, 0, 3), 4, (3, 2, 2, 2), {(1, 2): 99.0, (0, 3): 51.0}),
}


@pytest.mark.parametrize(("want", "count", "free", "links"), PACK.values(), ids=PACK)
def test_pack_one_class(want: tuple, count: int, free: tuple, links: dict) -> None:
    """`pack` uses the fewest nodes, the most idle first, and among equal counts the best network."""
    n = len(free)
    found = choose(Selection.PACK, Demand((workers(count, n=n),), True), cpus(*free), ranks(n, 50.0, links))
    assert found is not None
    assert sorted(found.rows[0]) == sorted(want)


def test_pack_keeps_ps_with_workers() -> None:
    """K6: what one node cannot hold is spread over the most idle nodes, ps and workers together."""
    demand = Demand((member(Role.PS, 1, n=4), workers(4, n=4)), all_reduce=False)
    found = choose(Selection.PACK, demand, cpus(2, 3, 1, 3), ranks(4, 50.0))
    assert found is not None
    assert found.rows == ((1,), (1, 1, 3, 3))


REFUSED = {  # case: (classes, free CPUs)
    "one short": ((workers(4, n=2),), (1, 2)),
    "not allowed there": ((workers(1, n=2, allowed=[0]),), (0, 9)),
    "no nodes": ((workers(1, n=0),), ()),
    "over-used nodes": ((workers(1, n=2),), (-1, 0)),
    "classes compete": ((member(Role.PS, 1, n=2, cpu=2), workers(2, n=2)), (2, 1)),
}


@pytest.mark.parametrize(("classes", "free"), REFUSED.values(), ids=REFUSED)
@pytest.mark.parametrize("method", Selection)
def test_all_or_nothing(method: Selection, classes: tuple[ClassDemand, ...], free: tuple[int, ...]) -> None:
    """What does not fit whole is not placed at all, by no method, and has no estimate."""
    demand = Demand(classes, all_reduce=len(classes) == 1)
    assert choose(method, demand, cpus(*free), ranks(len(free))) is None
    assert quick_value(demand, cpus(*free), ranks(len(free))) is None


@pytest.mark.parametrize("method", Selection)
def test_nothing_to_place(method: Selection) -> None:
    """A demand without members is placed everywhere and nowhere; classes without members stay in the answer."""
    assert choose(method, Demand((), True), cpus(1), ranks(1)) == Selected((), 0.0)
    found = choose(method, Demand((workers(0, n=2), workers(1, n=2)), True), cpus(1, 1), ranks(2))
    assert found == Selected(((), (0,)), 0.0)
    assert quick_value(Demand((workers(0, n=1),), True), cpus(1), ranks(1)) == 0.0


def test_requests_of_nothing_fit_anywhere_allowed() -> None:
    """Members that ask for nothing still keep to their allowed nodes, and go together."""
    found = choose(Selection.SUBSET, Demand((workers(3, n=2, cpu=0, allowed=[1]),), True), cpus(9, -5), ranks(2))
    assert found is not None
    assert found.rows == ((1, 1, 1),)


def test_shapes_must_agree() -> None:
    """Arrays that do not belong together are refused."""
    with pytest.raises(ValueError, match="must agree"):
        choose(Selection.SUBSET, Demand((workers(1, n=3),), True), cpus(1, 1), ranks(2))


def test_careful_fit_finds_what_first_fit_cannot() -> None:
    """The chief fits two nodes; first fit takes the workers' room on the first, the careful fit does not."""
    request = np.array([2, 1])
    classes = (
        ClassDemand(Role.CHIEF, request, np.array([True, True]), 1),
        ClassDemand(Role.WORKER, np.array([1, 1]), np.array([True, True]), 2),
    )
    found = fit(Demand(classes, True), np.array([[2, 2], [2, 1]]))
    assert found is not None
    assert found.tolist() == [[0, 1], [2, 0]]
