"""How urgent a gang is: the KOD2 weight (PAPERS K1); and how much of the cluster it has had already: its service level.

    ω′ = w_min / (cpu + mem + …)        ω = 1 / (1 + e^(−ω′))

`w_min` is the minimum number of workers; `cpu`, `mem` and one share more for each extended resource (GPUs) are what is
requested, each divided by the cluster's total of it. A small job with many workers is expected to end soon: it goes
first. The paper does not say which requests are summed: here those of one worker (the mean, where workers differ), as
with those of the whole minimum set the number of workers would nearly cancel.

The published weight has CPU and memory only, by which a job of GPUs alone would weigh infinitely. A gang weighs 0, the
least, if it asks for nothing, or for more than the cluster has (a pod than any node, or the minimum than all together):
it could lead permanently.

Rule: ω′ is an exact fraction, finite and not negative, so that equal jobs tie exactly on every machine. ω is for
people: above ω′ = 37 it is 1.0 in floating point.

A service level decides whether a gang leaves for another: how long a gang still runs is not known, and what it has had
so far is the best sign (Tiresias, Gu et al., NSDI 2019, section 3.2). Rule: service is the gang's dominant share of the
cluster times the hours that it had it, before a suspension too (`Snapshot.attained_h`); its level is how many of the
policy's thresholds that has reached.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from fractions import Fraction
from math import exp, isfinite
from typing import Final

import msgspec
import numpy as np

from scoring import GangKey, ResourceName
from scoring.feasibility.quorum import LEADERS, minimum_members
from scoring.model import Gang, MemberClass, Phase, Pod, Role
from scoring.model.pod import CPU, MEMORY, is_extended
from scoring.model.policy import ServicePolicy
from scoring.model.snapshot import NodeTable, Snapshot
from scoring.network.matrix import Floats, Ints


class Weight(msgspec.Struct, frozen=True, eq=False):
    """ω′ = `over` / `under`, at least 0 and never reduced: comparing multiplies. The heavier one sorts first."""

    over: int
    under: int = 1
    given: bool = False  # Set by the operator (annotation `netgang.io/weight`), not computed

    def __lt__(self, other: "Weight") -> bool:
        return self.over * other.under > other.over * self.under

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Weight) and self.over * other.under == other.over * self.under

    __hash__ = None  # type: ignore[assignment]

    @property
    def prime(self) -> Fraction:
        """ω′, exactly."""
        return Fraction(self.over, self.under)

    @property
    def omega_prime(self) -> float:
        """ω′ as the nearest float."""
        return self.over / self.under

    @property
    def omega(self) -> float:
        """ω, from 0.5 to 1: for people only.

        >>> Weight(0).omega, round(Weight(1).omega, 6), Weight(50).omega
        (0.5, 0.731059, 1.0)
        """
        return 1.0 / (1.0 + exp(-self.omega_prime))

    @property
    def key(self) -> "tuple[float, Weight]":
        """Sort key, heaviest first. Exact: the float decides where it can, as that is fast, else the fraction."""
        return -self.omega_prime, self


class Scale(msgspec.Struct, frozen=True):
    """The cluster's totals."""

    sizes: Mapping[ResourceName, tuple[int, int]]  # Of all nodes together, of the largest; in its own unit

    @classmethod
    def from_table(cls, table: NodeTable) -> "Scale":
        """The totals of these nodes. Cost: O(nodes)."""
        if not len(table.allocatable):
            return cls({})
        together, most = table.allocatable.sum(axis=0).tolist(), table.allocatable.max(axis=0).tolist()
        return cls(dict(zip(table.axis, zip(together, most, strict=True), strict=True)))

    def weight(self, gang: Gang) -> Weight:
        """The gang's weight. Cost: O(n log n) in members."""
        members = gang.members  # the minimum set; of a gang whose last members have failed, all there were
        if len(members) != gang.min_member or any(p.deleting or p.phase is Phase.FAILED for p in members):
            members = minimum_members(gang) or members
        together, most = _sums(members)
        for name, amount in together.items():
            total, largest = self.sizes.get(name, (0, 0))
            if amount > total or most[name] > largest:
                return Weight(0)
        counted = tuple([pod for pod in members if pod.role is Role.WORKER]) or members
        share, whole = 0, 1
        for name, asked in (together if len(counted) == len(members) else _sums(counted)[0]).items():
            if name in (CPU, MEMORY) or is_extended(name):
                total, _ = self.sizes.get(name, (0, 0))
                share, whole = share * total + asked * whole, whole * total
        leaders = len({(p.role, p.index, p.name if p.index is None else "") for p in gang.members if p.role in LEADERS})
        if not any(pod.role is Role.WORKER for pod in gang.members):
            leaders = 0  # a gang that is all masters, or of unknown roles: every member works
        workers = max(gang.min_member - leaders, 1)  # w_min: how many the gang cannot do without
        return Weight(workers * len(counted) * whole, share) if share else Weight(0)


def _sums(members: Iterable[Pod]) -> tuple[dict[ResourceName, int], dict[ResourceName, int]]:
    together: dict[ResourceName, int] = {}
    most: dict[ResourceName, int] = {}
    counts = Counter([id(pod.member_class) for pod in members])  # a class is usually one object, and slow to hash
    requests_of = {id(pod.member_class): pod.member_class.requests for pod in members}
    for which, count in counts.items():
        for name, amount in requests_of[which]:
            together[name] = together.get(name, 0) + count * amount
            most[name] = max(most.get(name, 0), amount)
    return together, most


_HOUR_S = 3600.0
_MOST_H: Final = 1e6  # Cluster-hours; what is noted is never more: the whole cluster for a century


def dominant_share(request: Ints | Floats, total: Ints) -> float:
    """The largest share of any resource; both (resources,). What the cluster has none of does not count.

    >>> import numpy as np
    >>> dominant_share(np.array([8, 2, 0]), np.array([64, 4, 0]))
    0.5
    """
    there = total > 0
    return float((request[there] / total[there]).max(initial=0.0))


def hours_of(gang: Gang, snapshot: Snapshot, *, now_s: float, total: Ints | None = None) -> float:
    """Cluster-hours that a gang has had by now: its members since each got its node, and before (`attained_h`).

    `total`: (resources,) of all nodes, if the caller knows. Cost: O(members), without it O(nodes) besides.
    """
    table = snapshot.table
    total = table.allocatable.sum(axis=0) if total is None else total
    seconds: dict[int, tuple[MemberClass, float]] = {}  # a class is one object for all its members, and slow to hash
    for pod in gang.members:
        if pod.node is not None and not pod.terminal:
            since_s = gang.created_s if pod.scheduled_s is None else pod.scheduled_s
            _, so_far = seconds.get(id(pod.member_class), (None, 0.0))
            seconds[id(pod.member_class)] = pod.member_class, so_far + max(now_s - since_s, 0.0)
    had = np.zeros(len(table.axis))
    for member_class, several_s in seconds.values():
        had += table.vector(member_class.requests) * several_s
    return snapshot.attained_h.get(gang.key, 0.0) + dominant_share(had, total) / _HOUR_S


def bounded_h(hours: float) -> float:
    """A number of hours that may be compared, whatever was noted.

    >>> [bounded_h(hours) for hours in (1.5, -1.0, 1e99, float("nan"))]
    [1.5, 0.0, 1000000.0, 0.0]
    """
    return min(max(hours, 0.0), _MOST_H) if isfinite(hours) else 0.0


def level(hours: float, policy: ServicePolicy) -> int:
    """How many thresholds the service has reached.

    >>> [level(hours, ServicePolicy()) for hours in (0.0, 0.0625, 0.9, 30.0)]
    [0, 1, 1, 2]
    """
    return sum(hours >= threshold for threshold in policy.thresholds_h)


def is_wide(gang: Gang, table: NodeTable, policy: ServicePolicy, *, total: Ints | None = None) -> bool:
    """Whether the gang asks for more of the cluster than may be taken from others for it.

    A wide gang is at the others' level within minutes, and each then keeps the other from ending: it waits for room as
    in a queue without levels, and starts whole. `total`, cost: as for `hours_of`.
    """
    asked = np.zeros(len(table.axis), np.int64)
    for member_class, count in Counter([pod.member_class for pod in gang.members if not pod.terminal]).items():
        asked += table.vector(member_class.requests) * count
    total = table.allocatable.sum(axis=0) if total is None else total
    return dominant_share(asked, total) > policy.wide_share


def level_of_waiting(gang: GangKey, snapshot: Snapshot, policy: ServicePolicy) -> int:
    """The level of a gang without a node: that of what it had before."""
    return level(snapshot.attained_h.get(gang, 0.0), policy)
