"""What a selection is asked for and what it answers, and the value that both are measured by.

`paper`, `subset` and `pack` are compared with each other, so they must agree on this. Rule: with a ps, only pairs of a
ps and another member count; in an all-reduce job every pair counts; two members on one node are a pair with the rank of
the diagonal.
"""

from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from scoring.model import Role
from scoring.network.matrix import Floats, Ints

EXACT_SUM = 2.0**28
"""Ranks are rounded to multiples of 2⁻²⁸ before they are added up: sums with up to 64 bad pairs (`BAD_PAIR`), or with
none over a gang of 500 members, are then exact, equal sets have equal values whatever the order of adding, and a tie is
a tie (decided by name). With more bad pairs only the last bits of a sum are rounded."""


class ClassDemand(msgspec.Struct, frozen=True):
    """`count` interchangeable members, each needing `request` (r,), on nodes where `allowed` (n,) is true."""

    role: Role
    request: Ints
    allowed: NDArray[np.bool_]
    count: int


class Demand(msgspec.Struct, frozen=True):
    """All members to place together. `placed` (classes, n) is the gain from members that already have a node."""

    classes: tuple[ClassDemand, ...]
    all_reduce: bool  # True: the job has no ps and every pair of members counts
    placed: Floats | None = None  # Sums of the ranks of their pairs; `None`: no member has a node yet

    @property
    def size(self) -> int:
        """Members to place."""
        return sum(part.count for part in self.classes)


def in_places(room: Ints, count: int, *, all_reduce: bool, placed: Floats | None = None) -> tuple[Demand, Ints]:
    """The demand for `count` members of one class, and what is free, where `room` (n,) of them fit on each node."""
    part = ClassDemand(Role.OTHER, np.ones(1, np.int64), np.ones(len(room), np.bool_), count)
    return Demand((part,), all_reduce, placed), room[:, None]


def pairs_count(role: Role, other: Role, *, all_reduce: bool) -> bool:
    """Whether a pair of members with these roles counts. A chief is a worker, and so is what has no known role.

    >>> [pairs_count(Role.PS, Role.WORKER, all_reduce=False), pairs_count(Role.WORKER, Role.CHIEF, all_reduce=False)]
    [True, False]
    """
    return all_reduce or ((role is Role.PS) != (other is Role.PS))


def pairing(roles: Sequence[Role], others: Sequence[Role], *, all_reduce: bool) -> Floats:
    """(roles, others) of 0 and 1: between which pairs count."""
    table = [[float(pairs_count(role, other, all_reduce=all_reduce)) for other in others] for role in roles]
    return np.array(table).reshape(len(roles), len(others))


def links(demand: Demand) -> Floats:
    """(classes, classes) of 0 and 1: between which classes pairs count."""
    roles = [part.role for part in demand.classes]
    return pairing(roles, roles, all_reduce=demand.all_reduce)


def rooms(part: ClassDemand, free: Ints) -> Ints:
    """How many members of the class each node can hold on its own, at most `count`. Shape (n,); cost O(n·r)."""
    room = np.where(part.allowed, part.count, 0)
    for r, need in enumerate(part.request.tolist()):
        if need > 0:
            np.minimum(room, free[:, r].copy() // need, out=room)  # of a copy numpy divides several at once
    return np.asarray(np.maximum(room, 0))


def on_grid(rank: Floats) -> Floats:
    """A copy rounded to multiples of 2⁻²⁸ (see `EXACT_SUM`); rounding again changes nothing. Cost: O(n²)."""
    rounded = rank * EXACT_SUM
    np.rint(rounded, out=rounded)
    rounded /= EXACT_SUM
    return rounded


def at_rows(demand: Demand, rows: Ints) -> Demand:
    """The same demand over a part of the nodes, in the order given."""
    classes = tuple(ClassDemand(part.role, part.request, part.allowed[rows], part.count) for part in demand.classes)
    return Demand(classes, demand.all_reduce, None if demand.placed is None else demand.placed[:, rows])


def back(counts: Ints, rows: Ints, n: int) -> Ints:
    """Of a placement on some rows (classes, rows) the one on all (classes, n)."""
    full = np.zeros((len(counts), n), np.int64)
    full[:, rows] = counts
    return full


def value_of(demand: Demand, counts: Ints, rank: Floats) -> float:
    """Value of a placement given as members per class and node (classes, n). Cost: O(classes·used²)."""
    used = np.any(counts, axis=0).nonzero()[0]
    inner = at_rows(demand, used) if demand.placed is not None else demand
    return float(values_of(inner, counts[None][:, :, used], on_grid(rank.take(used, axis=0).take(used, axis=1)))[0])


def values_of(demand: Demand, counts: Ints, rank: Floats) -> Floats:
    """Values of many placements, (s, classes, n), of ranks that are on the grid. Cost: O(s·classes·n²)."""
    x, link = counts.astype(np.float64), links(demand)
    members = link @ x  # (s, classes, n): all that are pairs of each class
    toward = (members.reshape(-1, x.shape[2]) @ rank).reshape(x.shape)
    toward -= link.diagonal()[:, None] * rank.diagonal()  # a member is no pair with itself
    toward /= 2.0
    if demand.placed is not None:
        toward += demand.placed
    return np.asarray((toward * x).sum(axis=(1, 2)))
