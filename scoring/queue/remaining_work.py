"""Remaining work: the key of `queue.order: srpt-by-report`, in cluster-hours; least first.

Why: shortest remaining time first gives the lowest mean completion time, and some jobs know how many steps they will
train. The remaining work of a gang is the time that it still runs times its dominant share of the cluster: as its job
reported before it was suspended, else the median of what remains of its length (`Gang.length`). A gang of which neither
is known counts with what it has had so far (`scoring.queue.service_levels`): a job that ran for long mostly goes on for
long, so attained service is the usual estimate of what is left, and both are one number. Gangs that have never run
have had nothing and come first, as with `las`.

Rules: what tenants say, in reports and of lengths, counts only in the operator's `report_namespaces`, asked for here as
well, so that a change of the setting counts at once; what netgang learned from former runs counts everywhere. Every
number is bounded. What a report is worth: `scoring.scaling.metrics.remaining`.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from math import isfinite
from typing import Final

import numpy as np

from scoring.ids import GangKey, Namespace
from scoring.lengths.length import LengthSource, remaining_s
from scoring.model import Gang, Pod
from scoring.model.policy import QueuePolicy
from scoring.model.snapshot import Snapshot
from scoring.network.matrix import Floats, Ints
from scoring.queue.service_levels import dominant_share

MOST_H: Final = 1e6
"""Cluster-hours; what is noted or recorded is never more: the whole cluster for a century"""


@dataclass(frozen=True, slots=True)
class RemainingWork:
    """What a gang's place in the queue is by."""

    hours: float  # Cluster-hours
    reported: bool
    source: LengthSource | None = None  # What the gang's length is known from, if it is by that

    def words(self) -> str:
        """One clause for people.

        >>> RemainingWork(0.25, reported=True).words(), RemainingWork(1.5, reported=False).words()
        ('0.25 cluster-hours left, as its job reported', '1.5 cluster-hours had so far, counted as left')
        >>> RemainingWork(0.0, reported=False).words()
        'has had nothing of the cluster so far, which counts as nothing left'
        >>> RemainingWork(0.25, reported=False, source=LengthSource.LEARNED).words()
        '0.25 cluster-hours left, by its learned length'
        """
        if self.reported:
            return f"{self.hours:.3g} cluster-hours left, as its job reported"
        if self.source is not None:
            return f"{self.hours:.3g} cluster-hours left, by its {self.source.value} length"
        if self.hours == 0.0:
            return "has had nothing of the cluster so far, which counts as nothing left"
        return f"{self.hours:.3g} cluster-hours had so far, counted as left"


@dataclass(frozen=True, slots=True)
class ReportedWork:
    """What a job's reports say of the work that is left of its gang, when it is suspended."""

    hours: float | None  # Cluster-hours; `None`: not reported, or not believed
    doubted: bool = False  # It is not believed any more, for good


NOT_REPORTED: Final = ReportedWork(None)


def remaining_work(
    gang: GangKey, snapshot: Snapshot, policy: QueuePolicy, *, total: Ints | None = None
) -> RemainingWork:
    """The remaining work of a gang that waits. `total`: (resources,) of all nodes, if the caller knows.

    Cost: O(members) if its length is known, without `total` O(nodes) besides; else O(1).

    >>> from dataclasses import replace
    >>> from tests.builders import node, snapshot
    >>> one, trusting = GangKey("ops/g"), QueuePolicy(report_namespaces=frozenset({Namespace("ops")}))
    >>> cluster = replace(snapshot([node("n1")]), attained_h={one: 2.0}, remaining_h={one: 0.5})
    >>> [remaining_work(one, cluster, policy).hours for policy in (trusting, QueuePolicy())]
    [0.5, 2.0]
    """
    left_h = snapshot.remaining_h.get(gang) if snapshot.remaining_h else None
    if left_h is not None and believes(policy, gang):
        return RemainingWork(left_h, reported=True)
    had_h = snapshot.attained_h.get(gang, 0.0)
    known = snapshot.gangs.get(gang)
    length = known.length if known is not None else None
    if known is None or length is None or not (length.source is LengthSource.LEARNED or believes(policy, gang)):
        return RemainingWork(had_h, reported=False)
    total = snapshot.table.allocatable.sum(axis=0) if total is None else total
    wanted = [pod for pod in known.members if not pod.terminal and not pod.deleting]
    share = dominant_share(_requests(wanted, snapshot), total)
    ran_s = had_h * 3600.0 / share if share > 0.0 else 0.0
    hours = bounded_h(share * remaining_s(length, ran_s, 0.5) / 3600.0) or 0.0
    return RemainingWork(hours, reported=False, source=length.source)


def believes(policy: QueuePolicy, gang: GangKey) -> bool:
    """Whether reports of this gang's jobs count in the order of the queue."""
    return not policy.report_namespaces.isdisjoint({Namespace(gang.partition("/")[0]), Namespace("*")})


def cluster_hours(left_s: float, gang: Gang, snapshot: Snapshot, *, least_h: float = 0.0) -> float:
    """`left_s` seconds with the members that the gang has now, in cluster-hours: from `least_h` to `MOST_H`.

    Cost: O(nodes + members).

    >>> from tests.builders import bound, gang, node, snapshot
    >>> from dataclasses import replace
    >>> cluster = snapshot([node("n1", cpu="8")])
    >>> one = gang("g", 2, cpu="2")
    >>> one = replace(one, members=tuple(bound(pod, "n1") for pod in one.members))
    >>> cluster_hours(7200.0, one, cluster), cluster_hours(7200.0, one, cluster, least_h=3.0)
    (1.0, 3.0)
    >>> cluster_hours(1e300, one, cluster)
    1000000.0
    """
    has = _requests([pod for pod in gang.members if pod.node is not None and not pod.terminal], snapshot)
    hours = left_s / 3600.0 * dominant_share(has, snapshot.table.allocatable.sum(axis=0))
    return bounded_h(max(hours, least_h)) or 0.0


def _requests(pods: Iterable[Pod], snapshot: Snapshot) -> Floats:
    """What these pods ask for together; (resources,)."""
    asked = np.zeros(len(snapshot.table.axis))
    for requests, count in Counter([pod.requests for pod in pods]).items():
        if (request := snapshot.table.vector(requests)) is not None:
            asked += request * count
    return asked


def bounded_h(hours: float | None) -> float | None:
    """A number of hours that may be compared; `None`: it is none.

    >>> [bounded_h(hours) for hours in (1.5, -1.0, 1e99, float("nan"), None)]
    [1.5, 0.0, 1000000.0, None, None]
    """
    if hours is None or not isfinite(hours):
        return None
    return min(max(hours, 0.0), MOST_H)
