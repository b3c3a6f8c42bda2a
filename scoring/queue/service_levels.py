"""Service levels: how much of the cluster a gang has had already, which decides whether it leaves for another.

Why: weights order the queue, and heavy gangs are mostly long ones; how long a gang still runs is not known, and what it
has had so far is the best sign (Tiresias, Gu et al., NSDI 2019, section 3.2). Rule: service is the gang's
dominant share of the cluster times the hours that it had it; its level is how many of the policy's thresholds that has
reached. What a gang had before it was suspended is added (`Snapshot.attained_h`).
"""

from collections import Counter
from math import isfinite
from typing import Final

import numpy as np

from scoring.ids import GangKey
from scoring.model import Gang, MemberClass
from scoring.model.policy import ServicePolicy
from scoring.model.snapshot import NodeTable, Snapshot
from scoring.network.matrix import Floats, Ints

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

    A wide gang has much of the cluster within minutes, so it is at the others' level soon, and each then keeps the
    other from ending. It waits for room as in a queue without levels, and starts whole. `total`: as for
    `hours_of`. Cost: O(members), without it O(nodes) besides.

    >>> from tests.builders import gang, node, snapshot
    >>> cluster = snapshot([node("n1", cpu="8"), node("n2", cpu="8")]).table
    >>> [is_wide(gang("g", size, cpu="2"), cluster, ServicePolicy()) for size in (1, 2, 3)]
    [False, False, True]
    """
    asked = np.zeros(len(table.axis), np.int64)
    for member_class, count in Counter([pod.member_class for pod in gang.members if not pod.terminal]).items():
        asked += table.vector(member_class.requests) * count
    total = table.allocatable.sum(axis=0) if total is None else total
    return dominant_share(asked, total) > policy.wide_share


def level_of_waiting(gang: GangKey, snapshot: Snapshot, policy: ServicePolicy) -> int:
    """The level of a gang without a node: that of what it had before."""
    return level(snapshot.attained_h.get(gang, 0.0), policy)
