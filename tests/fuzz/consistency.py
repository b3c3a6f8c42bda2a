"""What the cache keeps up to date must equal the same built from scratch from the records that it holds."""

from collections import Counter
from typing import Any

import numpy as np

from extender.cache.cluster import DECIDING, ClusterCache, Pods, needs_node
from extender.cache.gangs import Gangs, continued
from extender.cache.room import Daemons, Usage, place_of, selects
from scoring import PodUid
from scoring.model import Gang
from scoring.model.snapshot import NodeTable


def assert_consistent(cache: ClusterCache) -> None:
    """Indexes, sums, tables, gangs and commitments agree with the records. Cost: O(all)."""
    _nodes_agree(cache)
    _pods_agree(cache)
    _usage_agrees(cache)
    _daemons_agree(cache.daemon_sets, cache.pods)
    _gangs_agree(cache.gangs)
    for one in cache.commitments.values():
        assert one.assignment, one.gang
        assert all(needs_node(cache.pod(uid)) for uid in one.assignment), one.gang


def ends_s(cache: ClusterCache) -> list[float]:
    excluded = [one.until_s for nodes in cache._refusals.values() for one in nodes.values()]
    return [*excluded, *cache.back_offs.values()]


def _nodes_agree(cache: ClusterCache) -> None:
    kept, fresh = cache.nodes.table(), NodeTable.from_nodes(cache.nodes.by_name.values())
    for part in ("nodes", "names", "index", "axis"):
        assert getattr(kept, part) == getattr(fresh, part), part
    assert np.array_equal(kept.allocatable, fresh.allocatable)
    assert list(kept.zones) == list(fresh.zones)
    assert all(np.array_equal(rows, fresh.zones[zone]) for zone, rows in kept.zones.items())


def _pods_agree(cache: ClusterCache) -> None:
    kept = cache.pods
    fresh = ClusterCache(scheduler_names=cache.gangs._scheduler_names, extender=cache.gangs._extender)
    fresh.pods.assumed = kept.assumed
    for pod in kept:
        fresh.pods._file(pod.uid, None, pod)
    for index in ("_names", "_jobs"):
        assert getattr(kept, index) == getattr(fresh.pods, index), index
    remembered = {key: (group.gone, group.nodes, group.owed, group.ended) for key, group in cache.gangs.groups.items()}
    for key, group in fresh.gangs.groups.items():
        group.gone, group.nodes, group.owed, group.ended = remembered[key]
    assert cache.gangs.groups == fresh.gangs.groups
    assert cache.gangs._gone == sum(len(gone) for gone, *_ in remembered.values())
    nodes = {pod.uid: pod.node for pod in kept}
    assert all(nodes[uid] == node for uid, node in kept.assumed.items())


def _usage_agrees(cache: ClusterCache) -> None:
    kept, fresh, table = cache._usage, Usage(), cache.nodes.table()
    for pod in cache.pods:
        if (node := cache.pods.node_of(pod)) is not None:
            fresh.count(node, pod.member_class, pod.uid, 1)
    daemons = cache.daemon_sets
    for uid, nodes in daemons._kept.items():
        for node in nodes:
            fresh.count(node, daemons._sets[uid].member_class, PodUid(f"DaemonSet {uid}"), 1)
    assert kept._totals == fresh._totals
    assert np.array_equal(kept.matrix(table), fresh.matrix(table))
    assert kept.host_ports() == fresh.host_ports()


def _daemons_agree(daemons: Daemons, pods: Pods) -> None:
    kept = [(daemons._sets[uid], daemons._nodes[node]) for uid, nodes in daemons._kept.items() for node in nodes]
    opened = {key: one.open for key, one in daemons._budgets.items() if one.open}
    assert opened == Counter((str(one.namespace), node.name) for one, node in kept)
    assert all(selects(one, node) and not daemons._pods[one.identity, node.name] for one, node in kept)
    assert daemons._pods == Counter(place for pod in pods if (place := place_of(pod)) is not None)


def _gangs_agree(gangs: Gangs) -> None:
    kept = gangs.all()
    for key, group in gangs.groups.items():
        want = continued(gangs.build(key), kept.get(key), group.shown) if group.own else None
        assert _facts(kept.get(key)) == _facts(want), key
    assert kept.keys() <= gangs.groups.keys()


def _facts(gang: Gang | None) -> Any:
    """All that decides: everything but what a pod's record says for people, and its resourceVersion."""
    runs = ("members", "earlier", "later")
    own = {name: getattr(gang, name) for name in Gang.__struct_fields__ if name not in runs} if gang else None
    return gang and (own, *({pod.uid: DECIDING(pod) for pod in getattr(gang, run)} for run in runs))
