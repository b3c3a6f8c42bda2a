"""How many members of a gang would fit where, counted while pods leave one after another.

Why beside a placement: a search asks thousands of times, and each pod that leaves changes one node. Rule: counting is
class by class, as if the others were not there, so too few is a sure "no" and enough is a "perhaps".
"""

from collections.abc import Iterable, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from scoring.model import MemberClass, Pod
from scoring.model.policy import ZonePolicy
from scoring.network.matrix import Ints
from scoring.plan import Run
from scoring.plan.demand import ByClass, GangDemand

Mask: TypeAlias = NDArray[np.bool_]


class Ledger:
    """What all tallies of one gang share: what is free before a pod leaves. Never written after it is built."""

    def __init__(self, run: Run, ask: GangDemand, wanted: ByClass | None = None, closed: Mask | None = None) -> None:
        """`wanted`: members that must fit; `None`: the missing minimum. `closed` (nodes,): they may not go there."""
        self._run = run
        open_rows = ~closed if closed is not None else np.ones(len(run.table.nodes), np.bool_)
        wanted = ask.need if wanted is None else wanted
        self.classes = [_Class(run, member_class, len(pods), open_rows) for member_class, pods in wanted]
        self.zone_of: Ints = run.view.zone_number
        self.free: Ints = np.array(run.capacity.room.free)
        allowed = run.view.candidate_zones(ask)
        self.zones = frozenset(allowed)
        numbers = [number for number, zone in enumerate(run.zones) if zone in self.zones]
        self.groups: tuple[tuple[int, ...], ...] = tuple((number,) for number in numbers)
        """Zones by number in which the gang must fit together: each for itself, and all if it may be spread."""
        if ask.options.zone_policy is ZonePolicy.PREFERRED and len(numbers) > 1:
            self.groups = (*self.groups, tuple(numbers))
        self._requests: dict[int, list[int]] = {}

    def row(self, pod: Pod) -> int | None:
        """The row of the pod's node."""
        return self._run.table.index.get(pod.node) if pod.node is not None else None

    def request(self, pod: Pod) -> list[int]:
        """What the pod leaves, over the table's axis."""
        key = id(pod.member_class)
        known = self._requests.get(key)
        if known is None:
            vector = self._run.table.vector(pod.requests)
            known = self._requests[key] = vector.tolist() if vector is not None else [0] * self.free.shape[1]
        return known

    def tally(self, gone: Iterable[Pod] = ()) -> "Tally":
        """A tally in which these pods have left. Cost: O(pods · classes)."""
        made = Tally(self)
        for pod in gone:
            made.leave(pod)
        return made


class Tally:
    """Members of each class that fit each zone, as pods leave and come back. Cost of each: O(classes)."""

    __slots__ = ("_free", "_ledger", "_sums")

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._free: dict[int, list[int]] = {}
        """row → what is free there by now, for rows where a pod left"""
        self._sums = [list(one.sums) for one in ledger.classes]

    def leave(self, pod: Pod) -> None:
        """The pod is gone."""
        self._move(pod, 1)

    def come_back(self, pod: Pod) -> None:
        """The pod is not gone after all."""
        self._move(pod, -1)

    def lacking(self, group: Sequence[int]) -> int:
        """Members for which there is no room in these zones together."""
        lacking = 0
        for one, sums in zip(self._ledger.classes, self._sums, strict=True):
            lacking += max(one.wanted - sum([sums[zone] for zone in group]), 0)
        return lacking

    def least_lacking(self) -> int:
        """The same in the best group of zones; without a group all members lack room."""
        everyone = sum(one.wanted for one in self._ledger.classes)
        return min((self.lacking(group) for group in self._ledger.groups), default=everyone)

    def may_fit(self) -> bool:
        """Whether counting leaves it possible that the gang fits somewhere."""
        return any(not self.lacking(group) for group in self._ledger.groups)

    def _move(self, pod: Pod, sign: int) -> None:
        ledger = self._ledger
        row = ledger.row(pod)
        if row is None:
            return
        before = self._free.get(row)
        if before is None:
            before = ledger.free[row].tolist()
        after = [a + sign * b for a, b in zip(before, ledger.request(pod), strict=True)]
        self._free[row] = after
        zone = int(ledger.zone_of[row])
        for one, sums in zip(ledger.classes, self._sums, strict=True):
            if one.mask[row]:
                sums[zone] += one.fits(after) - one.fits(before)


class _Class:
    """Interchangeable members: what one asks for, where they may go, and how many fit each zone."""

    def __init__(self, run: Run, member_class: MemberClass, wanted: int, open_rows: Mask) -> None:
        self.wanted = wanted
        request = run.view.vector(member_class)
        self.mask = run.capacity.mask(member_class) & open_rows if request is not None else np.zeros_like(open_rows)
        self._asked = [(column, amount) for column, amount in enumerate(request.tolist() if request is not None else ())
                       if amount > 0]  # fmt: skip
        there = run.capacity.room.counts(request) if request is not None else np.zeros(len(self.mask), np.int64)
        sums = np.bincount(run.view.zone_number, weights=np.where(self.mask, there, 0), minlength=len(run.zones))
        self.sums: list[int] = sums.astype(np.int64).tolist()

    def fits(self, free: Sequence[int]) -> int:
        """Members that fit into `free`; one that asks for nothing changes nothing when a pod leaves."""
        return max(min([free[column] // amount for column, amount in self._asked], default=0), 0)
