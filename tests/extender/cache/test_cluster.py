"""The cluster cache: what counts as room taken, what changes the version, what the service adds."""

from functools import partial

import pytest
from msgspec.structs import replace

from extender.cache.cluster import ClusterCache
from scoring import GangKey, NodeName, PodUid
from scoring.model import GATE, NodeSelectorTerm, Phase, Pod, Requirement, Taint
from scoring.model.pod import CPU
from tests.builders import node, pod
from tests.fuzz.consistency import assert_consistent

N1, N2 = NodeName("n1"), NodeName("n2")
PIN_N1 = (NodeSelectorTerm(fields=(Requirement("metadata.name", "In", ("n1",)),)),)


def cluster(*pods: Pod) -> ClusterCache:
    cache = ClusterCache()
    cache.nodes.replace([node("n1"), node("n2")])
    cache.pods.replace(pods)
    cache.snapshot()
    return cache


def used_cpu(cache: ClusterCache, where: str = "n1") -> int:
    snapshot = cache.snapshot()
    assert_consistent(cache)
    row, column = snapshot.table.index[NodeName(where)], snapshot.table.axis.index(CPU)
    return int(snapshot.used[row, column])


def versions_reported(cache: ClusterCache) -> list[int]:
    found: list[int] = []
    cache.on_change = lambda _: found.append(cache.version)
    return found


def member(name: str, **fields: object) -> Pod:
    return pod(name, gang="g", min_available=2, **fields)  # type: ignore[arg-type]


COUNTED: dict[str, tuple[int, Pod]] = {  # case: (millicores taken on n1, pod of 1 CPU)
    "bound": (1000, pod("p", node="n1")),
    "bound elsewhere": (0, pod("p", node="n2")),
    "bound and being deleted": (1000, pod("p", node="n1", deleting=True)),
    "of another scheduler": (1000, pod("p", node="n1", scheduler_name="default-scheduler")),
    "succeeded": (0, pod("p", node="n1", phase=Phase.SUCCEEDED)),
    "failed": (0, pod("p", node="n1", phase=Phase.FAILED)),
    "unknown phase": (1000, pod("p", node="n1", phase=Phase.UNKNOWN)),
    "pending": (0, pod("p")),
    "nominated": (1000, pod("p", nominated_node=N1)),
    "nominated and being deleted": (0, pod("p", nominated_node=N1, deleting=True)),
    "bound elsewhere than nominated": (0, pod("p", node="n2", nominated_node=N1)),
    "pinned, for a scheduler of any name": (0, pod("p", affinity=PIN_N1, scheduler_name="none")),
    "a gang's member, bound": (1000, member("p", node="n1")),
    "a gang's member that is planned anyway": (0, member("p", affinity=PIN_N1, nominated_node=N1)),
    "a member of a foreign gang": (1000, member("p", nominated_node=N1, scheduler_name="other")),
}


@pytest.mark.parametrize(("want", "one"), COUNTED.values(), ids=COUNTED)
def test_what_counts(want: int, one: Pod) -> None:
    """Unfinished pods on the node and those that are about to come take room, each once (docs/safety.md S12)."""
    assert used_cpu(cluster(one)) == want


def test_nonsense_requests_cannot_overflow() -> None:
    """Requests that add up beyond int64 fill their node instead of breaking the cache."""
    huge = str(2**61)
    cache = cluster(*(pod(f"p{i}", node="n1", memory=huge) for i in range(9)))
    assert int(cache.snapshot().used.max()) == 2**62
    assert_consistent(cache)


EVENTS: dict[str, tuple[int, Pod | None, Pod | None]] = {  # case: (changes of the version, pod before, pod after)
    "resourceVersion of a member": (0, member("p", resource_version="1"), member("p", resource_version="2")),
    "label of a plain bound pod": (0, pod("p", node="n1"), pod("p", node="n1", job="j")),
    "the same event again": (0, member("p", node="n1"), member("p", node="n1")),
    "plain pending pod": (0, pod("p"), pod("p", gates=("x",))),
    "foreign gang": (0, member("p", scheduler_name="other"), member("p", scheduler_name="other", gates=("x",))),
    "a member comes": (1, None, member("p")),
    "a member goes": (1, member("p"), None),
    "a member is gated no more": (1, member("p", gates=("x",)), member("p")),
    "a member finishes": (1, member("p", node="n1"), member("p", node="n1", phase=Phase.SUCCEEDED)),
    "a foreign pod is bound": (1, pod("p", scheduler_name="other"), pod("p", scheduler_name="other", node="n1")),
    "a foreign pod goes": (1, pod("p", scheduler_name="other", node="n1"), None),
    "a bound pod is resized": (1, pod("p", node="n1", cpu="1"), pod("p", node="n1", cpu="2")),
    "a pod joins a gang": (1, pod("p"), member("p")),
    "another pod of that name": (1, pod("p", node="n1"), replace(pod("p", node="n2"), uid=PodUid("other"))),
}


@pytest.mark.parametrize(("changes", "before", "after"), EVENTS.values(), ids=EVENTS)
def test_the_version_counts_what_can_decide(changes: int, before: Pod | None, after: Pod | None) -> None:
    """Once for each change, and not at all for what cannot decide anything."""
    cache = cluster(*([before] if before else []))
    old, reported = cache.snapshot(), versions_reported(cache)
    if after is None:
        cache.pods.remove("default/p")
    else:
        cache.pods.put(after)
    cache.nodes.put(node("n1"))
    cache.pods.replace([after] if after else [])
    assert (reported, cache.version) == ([old.version + 1] * changes, old.version + changes)
    assert ((cache.snapshot() is old), list(cache.pods)) == (not changes, [after] if after else [])


def test_arrays_cannot_be_written_and_the_node_table_has_a_version() -> None:
    cache = cluster(pod("p", node="n1"))
    table = cache.snapshot().table
    for array in (cache.snapshot().used, table.allocatable, *table.zones.values()):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    cache.pods.put(pod("q", node="n1"))
    assert cache.snapshot().table is table
    zones = table.labels.rows("topology.kubernetes.io/zone")
    cache.nodes.put(node("n1", taints=[Taint("gpu", "", "NoSchedule")]))
    tainted = cache.snapshot().table
    assert tainted.labels.rows("topology.kubernetes.io/zone") is zones
    cache.nodes.put(node("n1", labels={"gpu": "a"}))
    assert cache.snapshot().table.labels.rows("topology.kubernetes.io/zone") is zones
    assert (tainted.version, tainted.allocatable is table.allocatable) == (table.version + 1, True)
    assert tainted.nodes[0].taints


def test_a_relist_is_one_change() -> None:
    cache = cluster(pod("a", node="n1"), pod("b", node="n1"))
    old, reported = cache.snapshot(), versions_reported(cache)
    cache.pods.list_begun({"default/b", "default/c", "default/d"})
    for one in (pod("b", node="n1"), pod("c", node="n2"), pod("d", node="n2")):
        cache.pods.put(one)
        cache.nodes.put(node("n3"))
        assert cache.snapshot() is old
    cache.pods.list_ended()
    assert (reported, [used_cpu(cache, name) for name in ("n1", "n2", "n3")]) == ([old.version + 1], [1000, 2000, 0])
    cache.pods.list_begun({"default/e", "default/f"})
    cache.pods.put(pod("e", node="n1"))
    cache.pods.list_ended()  # the reflector is cancelled in the middle: what was read so far counts
    assert (used_cpu(cache), {one.name for one in cache.pods}) == (1000, {"e"})


def test_assumed_pods_count_as_bound() -> None:
    """A confirmed Binding counts before the watch shows it, survives stale events, and ends when the watch agrees."""
    cache, late = cluster(member("p"), member("q")), member("p", gates=("late",))
    reported = versions_reported(cache)
    cache.pods.assume(late.uid, N1)
    assert (used_cpu(cache), len(reported)) == (1000, 1)
    cache.pods.put(late)
    assert used_cpu(cache) == 1000
    reported.clear()
    cache.pods.put(replace(late, node=N1))
    assert (reported, cache.pods.assumed) == ([], {})


def test_commitments_are_set_replaced_and_cleared() -> None:
    g, h, p, cache = GangKey("default/g"), GangKey("default/h"), PodUid("uid-default-p"), cluster()
    cache.set_commitment(g, {p: N1})
    snapshot = cache.snapshot()
    assert snapshot.commitments[g].assignment == {p: N1}
    cache.set_commitment(g, {p: N1})
    assert cache.snapshot() is snapshot
    with pytest.raises(ValueError, match="is committed in gang default/g"):
        cache.set_commitment(h, {p: N2})
    cache.set_commitment(g, {p: N2})
    assert (cache.snapshot().commitments[g].assignment, snapshot.commitments[g].assignment) == ({p: N2}, {p: N1})
    cache.set_commitment(g, {})
    cache.set_commitment(h, {p: N2})
    assert set(cache.snapshot().commitments) == {h}


def test_exclusions_expire_and_are_forgotten_with_the_node() -> None:
    """A learned refusal lasts until its time, or until the node changes or goes (docs/safety.md S7).

    It is kept without the terms of an admission: the pod that comes in the place of an admitted one is of the same kind
    to nodes (docs/safety.md S27).
    """
    small, admitted, large = (pod("p", **more).member_class for more in ({}, {"affinity": PIN_N1}, {"cpu": "4"}))
    cache = cluster()
    cache.exclude(admitted, N1, 100.0)
    cache.exclude(small, N2, 50.0)
    cache.exclude(large, N1, 70.0)
    snapshot = cache.snapshot()
    assert snapshot.exclusions == {small: {N1, N2}, large: {N1}}
    assert snapshot.excluded(small) == snapshot.excluded(admitted) == {N1, N2}
    assert snapshot.excluded(pod("p", cpu="3").member_class) == frozenset()
    cache.exclude(small, N1, 90.0)
    cache.expire(49.0)
    assert cache.snapshot() is snapshot
    cache.expire(50.0)
    assert cache.snapshot().exclusions == {small: {N1}, large: {N1}}
    cache.nodes.put(node("n1", cpu="16"))
    assert not cache.snapshot().exclusions
    assert snapshot.exclusions == {small: {N1, N2}, large: {N1}}


def test_only_who_was_refused_can_show_that_a_node_passes() -> None:
    """Another gang's labels may make the difference, and our own refusals do not count (docs/safety.md S7)."""
    cache, one, other = cluster(), member("p"), pod("q", gang="h")
    cache.exclude(one.member_class, N1, 100.0, by=GangKey("default/g"))
    cache.exclude(one.member_class, N2, 100.0)
    assert [cache.passed(other, [N1, N2]), cache.passed(one, [N2])] == [False, False]
    before = cache.version
    assert [cache.passed(one, [N1, N2]), cache.passed(one, [N1])] == [True, False]
    assert cache.version > before
    assert cache.snapshot().exclusions == {one.member_class: {N2}}


def test_back_offs() -> None:
    """A back-off lasts until its time, until it is ended, or until the gang's last pod goes."""
    g, cache = GangKey("default/g"), cluster(member("p"))
    remove = partial(cache.pods.remove, "default/p")
    for end in (partial(cache.expire, 10.0), partial(cache.back_off, g, None), remove):
        cache.back_off(g, 10.0)
        cache.expire(9.0)
        assert cache.snapshot().backing_off_until_s == {g: 10.0}
        end()
        assert cache.snapshot().backing_off_until_s == {}


def test_scheduler_names() -> None:
    """Gangs of other schedulers are load only, unless the configuration names their scheduler."""
    theirs = pod("p", gang="g", min_available=1, scheduler_name="default-scheduler", node="n1")
    cache, whole = cluster(theirs), ClusterCache(scheduler_names=frozenset({"netgang", "default-scheduler"}))
    assert (cache.snapshot().gangs, cache.gang_of(theirs.uid), cache.is_own(theirs)) == ({}, None, False)
    whole.pods.put(theirs)
    assert (list(whole.snapshot().gangs), whole.is_own(theirs)) == (["default/g"], True)


def test_what_the_plan_foresaw_is_reported_apart() -> None:
    cache, reported = ClusterCache(), list[bool]()
    cache.on_change = reported.append
    cache.nodes.replace([node("n1"), node("n2")])
    first, second = (member(f"g-{i}", gates=(GATE,)) for i in range(2))
    let_in = replace(first, gates=(), admitted_to=N1)
    running = replace(let_in, node=N1, phase=Phase.RUNNING)
    cache.pods.replace([first, second])
    reported.clear()
    cache.set_commitment(GangKey("default/g"), {first.uid: N1, second.uid: N2}, as_planned=True)
    cache.pods.put(let_in)
    cache.pods.assume(first.uid, N1)
    cache.pods.put(running)
    assert reported == [True] * 4
    reported.clear()
    cache.pods.put(replace(second, gates=()))  # another client's doing
    cache.pods.put(replace(second, gates=(), node=N1))  # not where it was to go
    cache.pods.put(replace(running, phase=Phase.SUCCEEDED))
    cache.nodes.put(node("n3"))
    cache.pods.remove(first.key)
    assert reported == [False] * 5
