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
from dataclasses import replace
from fractions import Fraction

import numpy as np

from scoring.ids import Namespace
from scoring.model import Gang, MemberClass, Pod
from scoring.model.policy import QueuePolicy
from scoring.network.matrix import Ints
from scoring.plan.demand import ByClass, GangDemand
from scoring.plan.run import Run


def namespace_of(gang: Gang) -> Namespace:
    """The namespace in which the gang's pods are."""
    return Namespace(gang.key.partition("/")[0])


def cap_of(namespace: Namespace, policy: QueuePolicy) -> float | None:
    """The share that a namespace may have; `None`: all.

    >>> policy = QueuePolicy(share_cap=0.5, share_cap_by_namespace=((Namespace("a"), 0.25),))
    >>> cap_of(Namespace("a"), policy), cap_of(Namespace("b"), policy), cap_of(Namespace("b"), QueuePolicy())
    (0.25, 0.5, None)
    """
    for name, cap in policy.share_cap_by_namespace:
        if name == namespace:
            return cap
    return policy.share_cap


class NamespaceQuota:
    """What each limited namespace has during one run. Free of cost when no share is set."""

    def __init__(self, run: Run) -> None:
        self._run = run
        policy = run.policy.queue
        self.limited = policy.limits_namespaces
        """Whether any namespace has a share"""
        self._limits: dict[Namespace, Ints | None] = {}
        self._had: dict[Namespace, Ints] = {}
        if self.limited:
            self._count_all()

    def over(self, demand: GangDemand) -> str | None:
        """Why the gang's missing minimum would be too much, for people; `None`: it is not."""
        if not self.limited or self._exempt(demand):
            return None
        limit = self._limit(namespace_of(demand.gang))
        if limit is None:
            return None
        after = self._has(demand.gang) + self._requests(demand.need)
        asked = self._requests((*demand.need, *(() if demand.need else ((mc, pods[:1]) for mc, pods in demand.more))))
        if not demand.need:
            after = after + asked
        return self._said(demand, after, limit, asked)

    def trimmed(self, demand: GangDemand) -> GangDemand:
        """The same demand without the members beyond the minimum for which the share does not suffice."""
        if not self.limited or not demand.more:
            return demand
        limit = self._limit(namespace_of(demand.gang))
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
        more = tuple(kept)
        return demand if more == demand.more else replace(demand, more=more)

    def admit(self, demand: GangDemand, uids: Iterable[str]) -> None:
        """The run gives places to these members of the gang."""
        if not self.limited or demand.gang.key in self._run.snapshot.commitments:
            return  # committed members are counted from the start
        namespace = namespace_of(demand.gang)
        if self._limit(namespace) is not None:
            chosen = set(uids)
            given = ((mc, tuple(p for p in pods if p.uid in chosen)) for mc, pods in (*demand.need, *demand.more))
            self._had[namespace] = self._has(demand.gang) + self._requests(given)

    def _exempt(self, demand: GangDemand) -> bool:
        return demand.partial or demand.gang.key in self._run.snapshot.commitments

    def _limit(self, namespace: Namespace) -> Ints | None:
        """(resources,) of the axis that the namespace may have at most."""
        if namespace not in self._limits:
            cap = cap_of(namespace, self._run.policy.queue)
            totals = self._run.table.allocatable.sum(axis=0)
            exact = Fraction(cap).limit_denominator(10_000) if cap is not None else None
            self._limits[namespace] = (
                None
                if exact is None
                else np.array([total * exact.numerator // exact.denominator for total in totals.tolist()], np.int64)
            )
        return self._limits[namespace]

    def _has(self, gang: Gang) -> Ints:
        return self._had.get(namespace_of(gang), np.zeros(len(self._run.table.axis), np.int64))

    def _count_all(self) -> None:
        """What all gangs have now. Cost: O(members of gangs in limited namespaces)."""
        for gang in self._run.snapshot.gangs.values():
            if not gang.own or self._limit(namespace_of(gang)) is None:
                continue
            commitment = self._run.snapshot.commitments.get(gang.key)
            committed = commitment.assignment if commitment is not None else {}
            have = [pod for pod in gang.members if not pod.terminal and (pod.node is not None or pod.uid in committed)]
            total = self._has(gang)
            for pod in have:
                total = total + self._requests(((pod.member_class, (pod,)),))
            self._had[namespace_of(gang)] = total

    def _requests(self, members: Iterable[tuple[MemberClass, tuple[Pod, ...]]] | ByClass) -> Ints:
        """(resources,) that members request altogether; what no node has is left out: it fits nowhere anyway."""
        total = np.zeros(len(self._run.table.axis), np.int64)
        for member_class, pods in members:
            request = self._run.view.vector(member_class)
            if request is not None:
                total = total + len(pods) * request
        return total

    def _said(self, demand: GangDemand, after: Ints, limit: Ints, asked: Ints) -> str | None:
        over = (after > limit) & (asked > 0)
        if not over.any():
            return None
        column = int(over.argmax())
        name = self._run.table.axis[column]
        namespace = namespace_of(demand.gang)
        return f"namespace {namespace} may have {limit[column]} of {name}, with the gang it would have {after[column]}"
