"""Remaining work: the key of `queue.order: srpt-by-report`, in cluster-hours; least first.

Why: shortest remaining time first gives the lowest mean completion time, and some jobs know how many steps they will
train. The remaining work of a gang is the time that it still trains times its dominant share of the cluster. A gang of
which it is not known counts with what it has had so far (`scoring.queue.service_levels`): a job that ran for long
mostly goes on for long, so attained service is the usual estimate of what is left, and both are one number. Gangs
that have never run have had nothing and come first, as with `las`.

Rules: a tenant's report counts only in the operator's `report_namespaces`, asked for here as well, so that a change of
the setting counts at once; every number is bounded. What a report is worth: `scoring.scaling.metrics.remaining`.
"""

from dataclasses import dataclass
from math import isfinite
from typing import Final

import numpy as np

from scoring.ids import GangKey, Namespace
from scoring.model import Gang
from scoring.model.policy import QueuePolicy
from scoring.model.snapshot import Snapshot
from scoring.queue.service_levels import dominant_share

MOST_H: Final = 1e6
"""Cluster-hours; what is noted or recorded is never more: the whole cluster for a century"""


@dataclass(frozen=True, slots=True)
class RemainingWork:
    """What a gang's place in the queue is by."""

    hours: float  # Cluster-hours
    reported: bool  # Else it is what the gang has had so far

    def words(self) -> str:
        """One clause for people.

        >>> RemainingWork(0.25, reported=True).words(), RemainingWork(1.5, reported=False).words()
        ('0.25 cluster-hours left, as its job reported', '1.5 cluster-hours had so far, counted as left')
        >>> RemainingWork(0.0, reported=False).words()
        'has had nothing of the cluster so far, which counts as nothing left'
        """
        if self.reported:
            return f"{self.hours:.3g} cluster-hours left, as its job reported"
        if self.hours == 0.0:
            return "has had nothing of the cluster so far, which counts as nothing left"
        return f"{self.hours:.3g} cluster-hours had so far, counted as left"


@dataclass(frozen=True, slots=True)
class ReportedWork:
    """What a job's reports say of the work that is left of its gang, when it is suspended."""

    hours: float | None  # Cluster-hours; `None`: not reported, or not believed
    doubted: bool = False  # It is not believed any more, for good


NOT_REPORTED: Final = ReportedWork(None)


def remaining_work(gang: GangKey, snapshot: Snapshot, policy: QueuePolicy) -> RemainingWork:
    """The remaining work of a gang that waits.

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
    return RemainingWork(snapshot.attained_h.get(gang, 0.0), reported=False)


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
    table = snapshot.table
    has = np.zeros(len(table.axis))
    for pod in gang.members:
        if pod.node is not None and not pod.terminal and (request := table.vector(pod.requests)) is not None:
            has += request
    hours = left_s / 3600.0 * dominant_share(has, table.allocatable.sum(axis=0))
    return bounded_h(max(hours, least_h)) or 0.0


def bounded_h(hours: float | None) -> float | None:
    """A number of hours that may be compared; `None`: it is none.

    >>> [bounded_h(hours) for hours in (1.5, -1.0, 1e99, float("nan"), None)]
    [1.5, 0.0, 1000000.0, None, None]
    """
    if hours is None or not isfinite(hours):
        return None
    return min(max(hours, 0.0), MOST_H)
