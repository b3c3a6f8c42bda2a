"""Hypothesis strategies on top of the builders, of values that are realistic; unknown and old ones are common."""

from typing import NamedTuple

import msgspec
import numpy as np
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from scoring.model import Role
from scoring.model.policy import Ratios, ScorePolicy, Selection
from scoring.network.matrix import METRICS, Block, Floats, Ints, Metric
from scoring.selection.demand import ClassDemand, Demand, on_grid, value_of
from scoring.selection.greedy import quick_value
from scoring.selection.methods import select_on_grid

LOSS_RATIO = st.one_of(st.sampled_from([0.0, 0.00001, 0.001, 0.02, 0.1, 1.0]), st.floats(0.0, 1.0))
DELAY_MS = st.one_of(st.sampled_from([0.0, 0.1, 10.0, 40.0, 500.0]), st.floats(0.0, 10_000.0))
THROUGHPUT_BPS = st.one_of(st.sampled_from([10e6, 100e6, 1e9]), st.floats(1e3, 1e12))
AGE_S = st.one_of(st.just(0.0), st.floats(0.0, 12_000.0), st.floats(0.0, 200_000.0))


def blocks(n: int, m: int | None = None) -> st.SearchStrategy[Block]:
    """Blocks of shape (n, m); square ones have the same nodes on both sides, so their diagonal is `same`."""
    shape = (n, n if m is None else m)

    def values(elements: st.SearchStrategy[float]) -> st.SearchStrategy[Floats]:
        return arrays(float, shape, elements=st.one_of(st.just(np.nan), elements))

    def block(values: dict[Metric, Floats], ages_s: dict[Metric, Floats], same: np.ndarray) -> Block:
        if m is None:
            same = same & same.T | np.eye(n, dtype=bool)
        values = {metric: np.where(same, np.nan, column) for metric, column in values.items()}
        return Block(values, {m: np.where(np.isnan(values[m]), np.nan, age_s) for m, age_s in ages_s.items()}, same)

    columns = zip(METRICS, map(values, (LOSS_RATIO, DELAY_MS, THROUGHPUT_BPS)), strict=True)
    ages_s = st.fixed_dictionaries(dict.fromkeys(METRICS, arrays(float, shape, elements=AGE_S)))
    same = arrays(bool, shape, elements=st.integers(0, 9).map(lambda x: x == 0))
    return st.builds(block, st.fixed_dictionaries(dict(columns)), ages_s, same)


def score_policies() -> st.SearchStrategy[ScorePolicy]:
    part = st.sampled_from([0.0, 1.0, 20.0, 40.0])
    ratios = st.tuples(part, part, part).filter(any).map(lambda parts: Ratios(*parts))
    return st.builds(
        ScorePolicy,
        ratios=ratios,
        loss_weight=st.sampled_from([0.5, 10.0]),
        delay_weight=st.sampled_from([0.1, 1.0]),
        bandwidth_weight=st.sampled_from([0.5, 1.0, 2.0]),
        reference_bps=st.sampled_from([None, 100e6, 10e9]),
        unknown_penalty_ratio=st.sampled_from([0.0, 0.05, 0.3]),
    )


class Chosen(NamedTuple):
    """What a selection answers: for each class the row of each member, ascending; and its value."""

    rows: tuple[tuple[int, ...], ...]
    value: float


class Case(msgspec.Struct, frozen=True):
    """What a selection is asked."""

    demand: Demand
    free: Ints
    rank: Floats

    def select(self, method: Selection, exact_size: int = 12) -> Chosen | None:
        """The answer of this method."""
        rank = on_grid(self.rank)
        counts = select_on_grid(method, self.demand, self.free, rank, exact_size=exact_size)
        if counts is None:
            return None
        rows = [tuple(np.arange(len(self.free)).repeat(line).tolist()) for line in counts]
        return Chosen(tuple(rows), value_of(self.demand, counts, rank))

    def estimate(self) -> float | None:
        """The quick estimate of the best value."""
        return quick_value(self.demand, self.free, self.rank)


@st.composite
def cases(draw: st.DrawFn, *, most_classes: int = 3) -> Case:
    n = draw(st.integers(1, 9))
    free = draw(arrays(np.int64, (n, 2), elements=st.integers(-1, 6)))
    score = st.one_of(st.sampled_from([0.0, 50.0, 90.0, 100.0]), st.floats(0.0, 100.0))
    rank = draw(arrays(float, (n, n), elements=score))
    rank = (rank + rank.T) / 2.0
    np.fill_diagonal(rank, 100.001)
    roles = draw(st.lists(st.sampled_from([Role.PS, Role.CHIEF, Role.WORKER]), min_size=1, max_size=most_classes))
    classes = tuple(
        ClassDemand(
            role=role,
            request=draw(arrays(np.int64, 2, elements=st.integers(0, 3))),
            allowed=draw(arrays(bool, n, elements=st.integers(0, 4).map(bool))),
            count=draw(st.integers(1, 5)),
        )
        for role in sorted(set(roles), key=list(Role).index)
    )
    placed = draw(st.one_of(st.none(), arrays(float, (len(classes), n), elements=score).map(on_grid)))
    return Case(Demand(classes, Role.PS not in roles, placed), free, rank)
