"""Service levels: how much of the cluster a gang has had already, which decides whether it leaves for another.

Why: weights order the queue, and heavy gangs are mostly long ones; how long a gang still runs is not known, and what it
has had so far is the best sign (Tiresias, Gu et al., NSDI 2019, section 3.2). Rule: service is the gang's
dominant share of the cluster times the hours that it had it; its level is how many of the policy's thresholds that has
reached. What a gang had before it was suspended is added (`Snapshot.attained_h`).
"""

from scoring.ids import GangKey
from scoring.model import Gang
from scoring.model.policy import ServicePolicy
from scoring.model.snapshot import Snapshot
from scoring.network.matrix import Ints

_HOUR_S = 3600.0


def dominant_share(request: Ints, total: Ints) -> float:
    """The largest share of any resource; both (resources,). What the cluster has none of does not count.

    >>> import numpy as np
    >>> dominant_share(np.array([8, 2, 0]), np.array([64, 4, 0]))
    0.5
    """
    there = total > 0
    return float((request[there] / total[there]).max(initial=0.0))


def attained_h(past_h: float, share: float, *, since_s: float, now_s: float) -> float:
    """Cluster-hours of a gang that has had `share` of the cluster since `since_s`, and `past_h` before.

    >>> attained_h(0.5, 0.25, since_s=0.0, now_s=7200.0)
    1.0
    """
    return past_h + share * max(now_s - since_s, 0.0) / _HOUR_S


def hours_of(gang: Gang, snapshot: Snapshot, *, now_s: float) -> float:
    """Cluster-hours that a gang has had by now: since the last of its members started, and before it was suspended.

    Cost: O(members).
    """
    pods = [pod for pod in gang.members if pod.node is not None and not pod.terminal]
    _, amounts = snapshot.table.footprint(pods)
    share = dominant_share(amounts.sum(axis=0), snapshot.table.allocatable.sum(axis=0))
    since_s = max((pod.scheduled_s for pod in pods if pod.scheduled_s is not None), default=gang.created_s)
    return attained_h(snapshot.attained_h.get(gang.key, 0.0), share, since_s=since_s, now_s=now_s)


def level(hours: float, policy: ServicePolicy) -> int:
    """How many thresholds the service has reached.

    >>> [level(hours, ServicePolicy()) for hours in (0.0, 0.0625, 0.9, 30.0)]
    [0, 1, 1, 2]
    """
    return sum(hours >= threshold for threshold in policy.thresholds_h)


def level_of_waiting(gang: GangKey, snapshot: Snapshot, policy: ServicePolicy) -> int:
    """The level of a gang without a node: that of what it had before."""
    return level(snapshot.attained_h.get(gang, 0.0), policy)
