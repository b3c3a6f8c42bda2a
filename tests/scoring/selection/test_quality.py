"""How good the selections are: hundreds of small instances against the enumerated optimum.

The optimum here is found without any code of `scoring.selection`: every way to give nodes to members is written down
and valued pair by pair. `exact_size=0` switches the package's own enumeration off, so that its search is what is
judged.
"""

from collections.abc import Callable
from itertools import combinations, combinations_with_replacement, product

import numpy as np
import pytest

from scoring.model import Role
from scoring.model.policy import Selection
from scoring.network.matrix import Floats
from scoring.selection import ClassDemand, Demand, on_grid, quick_value, select_on_grid
from tests.strategies import Case

INSTANCES = 120
"""Of each kind: nine kinds of demand and network together are about a thousand."""


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


def one_each(n: int, k: int, rng: np.random.Generator) -> tuple[Demand, np.ndarray]:
    return Demand((_one(Role.WORKER, n, k),), True), np.ones((n, 2), np.int64)


def several(n: int, k: int, rng: np.random.Generator) -> tuple[Demand, np.ndarray]:
    """Equal members, up to three per node, some near members that are placed already."""
    placed = rng.uniform(0.0, 200.0, (1, n)) if rng.integers(2) else None
    return Demand((_one(Role.WORKER, n, k),), True, placed), rng.integers(0, 4, (n, 2))


def with_ps(n: int, k: int, rng: np.random.Generator) -> tuple[Demand, np.ndarray]:
    """One or two ps of another size, and workers."""
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
    "one member per node": (one_each, 12),
    "several per node": (several, 10),
    "ps and workers": (with_ps, 8),
    "chief and workers": (with_chief, 8),
}
NETWORKS = {"noise": noise, "some bad nodes": some_bad, "racks": racks}


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
        best = optimum(Case(demand, free, rank))
        found = select_on_grid(Selection.SUBSET, demand, free, on_grid(rank), exact_size=0)
        if best is None:
            assert found is None
            continue
        literal = select_on_grid(Selection.PAPER, demand, free, on_grid(rank), exact_size=0)
        estimate = quick_value(demand, free, rank)
        assert found is not None
        assert estimate is not None
        assert literal is None or found.value >= literal.value - 1e-9
        assert found.value <= best + 1e-6
        exact = select_on_grid(Selection.SUBSET, demand, free, on_grid(rank), exact_size=12)
        assert exact is not None
        assert exact.value >= found.value - 1e-9
        shares.append(found.value / best)
        estimates.append(estimate / best)
    assert len(shares) > INSTANCES / 2
    assert np.mean(shares) >= 0.995
    assert np.mean(estimates) >= 0.8
