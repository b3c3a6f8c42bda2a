"""Namespace quota: how much of the cluster the gangs of one namespace may have.

Why: without a limit one team's jobs fill every zone, and weights only say which of them is next. Rules:

- A share is of each resource's total over all nodes, compared with what the namespace's gangs have been admitted with:
  members on a node that are not finished, committed ones, and those that the run has admitted.
- Gangs that run in part, and committed ones, are completed whatever their share (they use room without doing work
  otherwise), and count.
- A gang whose minimum would go over waits with `Reason.OVER_SHARE`; it keeps no other gang waiting and never starves.
  Members beyond the minimum join as far as the share goes.
"""

from collections.abc import Iterable
from fractions import Fraction

import numpy as np
from msgspec.structs import replace

from scoring.ids import Namespace
from scoring.model import Gang, MemberClass, Pod
from scoring.network.matrix import Ints
from scoring.plan.demand import ByClass, GangDemand
from scoring.plan.run import Run


def namespace_of(gang: Gang) -> Namespace:
    """The namespace in which the gang's pods are."""
    return Namespace(gang.key.partition("/")[0])


class NamespaceQuota:
    """What each limited namespace has during one run. Free of cost when no share is set."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._limit = self._share()
        self._had: dict[Namespace, Ints] = {}
        for gang in run.snapshot.gangs.values() if self._limit is not None else ():
            if gang.own:
                self._count(gang)

    def over(self, demand: GangDemand) -> str | None:
        """Why the gang's missing minimum would be too much, for people; `None`: it is not."""
        limit = self._limit
        if limit is None or demand.partial or demand.gang.key in self._run.snapshot.commitments:
            return None
        asked = self._requests(demand.need or [(mc, pods[:1]) for mc, pods in demand.more])
        after = self._has(demand.gang) + asked
        over = (after > limit) & (asked > 0)
        if not over.any():
            return None
        column = int(over.argmax())
        most, name, namespace = limit[column], self._run.table.axis[column], namespace_of(demand.gang)
        return f"namespace {namespace} may have {most} of {name}, with the gang it would have {after[column]}"

    def trimmed(self, demand: GangDemand) -> GangDemand:
        """The same demand without the members beyond the minimum for which the share does not suffice."""
        limit = self._limit if demand.more else None
        if limit is None:
            return demand
        left = limit - self._has(demand.gang) - self._requests(demand.need)
        kept: list[tuple[MemberClass, tuple[Pod, ...]]] = []
        for member_class, pods in demand.more:
            one = self._requests(((member_class, pods[:1]),))
            wanted = one > 0
            fits = int((np.maximum(left[wanted], 0) // one[wanted]).min(initial=len(pods)))
            left = left - min(fits, len(pods)) * one
            if fits:
                kept.append((member_class, pods[:fits]))
        return demand if tuple(kept) == demand.more else replace(demand, more=tuple(kept))

    def admit(self, demand: GangDemand, uids: Iterable[str]) -> None:
        """The run gives places to these members of the gang."""
        namespace = namespace_of(demand.gang)
        if self._limit is None or demand.gang.key in self._run.snapshot.commitments:
            return  # committed members are counted from the start
        chosen = set(uids)
        given = ((mc, tuple(p for p in pods if p.uid in chosen)) for mc, pods in (*demand.need, *demand.more))
        self._had[namespace] = self._has(demand.gang) + self._requests(given)

    def _share(self) -> Ints | None:
        """(resources,) of the axis that a namespace may have at most; `None`: all."""
        cap = self._run.policy.queue.share_cap
        if cap is None:
            return None
        share = Fraction(cap).limit_denominator(10_000)
        totals = self._run.table.allocatable.sum(axis=0).tolist()
        return np.array([total * share.numerator // share.denominator for total in totals], np.int64)

    def _has(self, gang: Gang) -> Ints:
        return self._had.get(namespace_of(gang), np.zeros(len(self._run.table.axis), np.int64))

    def _count(self, gang: Gang) -> None:
        """Add what the gang has from the start. Cost: O(members)."""
        commitment = self._run.snapshot.commitments.get(gang.key)
        committed = commitment.assignment if commitment is not None else {}
        have = [pod for pod in gang.members if not pod.terminal and (pod.node is not None or pod.uid in committed)]
        self._had[namespace_of(gang)] = self._has(gang) + self._requests((pod.member_class, (pod,)) for pod in have)

    def _requests(self, members: Iterable[tuple[MemberClass, tuple[Pod, ...]]] | ByClass) -> Ints:
        """(resources,) that members request altogether."""
        total = np.zeros(len(self._run.table.axis), np.int64)
        for member_class, pods in members:
            total = total + len(pods) * self._run.view.vector(member_class)
        return total
