"""Whatever comes in whatever order, the cache equals what a naive model makes of the same facts."""

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from msgspec.structs import replace

from extender.cache.cluster import ClusterCache
from extender.cache.state import Watched
from scoring import GangKey, NodeName, PodUid, ResourceName
from scoring.feasibility.filters import allowed_nodes, node_allows
from scoring.model import (
    Constraints,
    GangSource,
    GroupRef,
    HostPort,
    Node,
    NodeSelectorTerm,
    Phase,
    Pod,
    PodGroup,
    Requirement,
    Role,
)
from scoring.model.snapshot import Snapshot
from tests.builders import node, pod
from tests.fuzz.consistency import assert_consistent, ends_s

NODES = ["n1", "n2", "n3"]
NAMES = ["a", "b", "c", "d"]
GANGS = [GangKey("default/g"), GangKey("default/h")]
LABELS = [{}, {"kind": "a"}, {"kind": "b", "size": "3"}]
LINES = [Requirement("kind", "NotIn", ("a",)), Requirement("kind", "Exists"), Requirement("none", "DoesNotExist")]
TERMS = [NodeSelectorTerm((line,)) for line in (*LINES, Requirement("size", "Gt", ("2",)))]
NAMED = NodeSelectorTerm(fields=(Requirement("metadata.name", "In", ("n1",)),))
SELECTING = [Constraints(node_selector=(("kind", "a"),)), *(Constraints(affinity=(term,)) for term in (*TERMS, NAMED))]

node_names = st.sampled_from([NodeName(name) for name in NODES])
maybe_node = st.none() | node_names


@st.composite
def nodes(draw: st.DrawFn) -> Node:
    zone, labels, closed = draw(st.sampled_from("ab")), draw(st.sampled_from(LABELS)), draw(st.booleans())
    return node(draw(node_names), zone=zone, gpu=draw(st.sampled_from([0, 8])), unschedulable=closed, labels=labels)


@st.composite
def pods(draw: st.DrawFn) -> Pod:
    """A pod in any state; two uids share each name, as when a pod is deleted and created again."""
    name = draw(st.sampled_from(NAMES))
    pinned = draw(maybe_node)
    term = NodeSelectorTerm(fields=(Requirement("metadata.name", "In", (str(pinned),)),))
    key = draw(st.none() | st.sampled_from(GANGS))
    source = draw(st.sampled_from(list(GangSource)))
    plain = pod(
        name,
        cpu=draw(st.sampled_from(["1", "2"])),
        gpu=draw(st.sampled_from([0, 1])),
        role=draw(st.sampled_from([Role.PS, Role.WORKER])),
        affinity=None if pinned is None else (term,),
        scheduler_name=draw(st.sampled_from(["netgang", "netgang", "other"])),
        nominated_node=draw(maybe_node),
        phase=draw(st.sampled_from([Phase.PENDING, Phase.RUNNING, Phase.RUNNING, Phase.SUCCEEDED, Phase.FAILED])),
        deleting=draw(st.sampled_from([False, False, True])),
        priority=draw(st.sampled_from([0, 0, 9])),
        job=draw(st.none() | st.just("j")),
        resource_version=draw(st.sampled_from(["1", "2"])),
    )
    ports = (HostPort("TCP", "0.0.0.0", 80),) if draw(st.booleans()) else ()
    limits = replace(plain.member_class.constraints, host_ports=ports)
    return replace(
        plain,
        uid=PodUid(f"{name}{draw(st.sampled_from('12'))}"),
        node=draw(maybe_node),
        member_class=replace(plain.member_class, constraints=limits),
        group=None if key is None else GroupRef(key, source, draw(st.sampled_from([None, 1, 2]))),
    )


def own(one: Pod) -> bool:
    """docs/safety.md S1."""
    return one.scheduler_name == "netgang"


class Model:
    """The facts as they came, and the obvious way to read them."""

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self.pods: dict[str, Pod] = {}
        self.groups: dict[tuple[GangSource, GangKey], PodGroup] = {}
        self.assumed: dict[PodUid, NodeName] = {}

    def put(self, one: Pod) -> None:
        for key, other in list(self.pods.items()):
            if other.uid == one.uid or key == one.key:
                self.drop(key, forget=other.uid != one.uid)
        self.pods[one.key] = one
        if one.node is not None or one.terminal:
            self.assumed.pop(one.uid, None)

    def drop(self, key: str, *, forget: bool = True) -> None:
        if (one := self.pods.pop(key, None)) is not None and forget:
            self.assumed.pop(one.uid, None)

    def node_of(self, one: Pod) -> NodeName | None:
        return one.node or self.assumed.get(one.uid)

    def claim(self, one: Pod) -> str | None:
        """The node whose room the pod takes (docs/safety.md S12)."""
        planned = one.group is not None and one.group.source is not GangSource.NATIVE and own(one)
        if one.terminal:
            return None
        if self.node_of(one) or one.deleting or planned:
            return self.node_of(one)
        return one.nominated_node

    def used(self, where: str, resource: ResourceName) -> int:
        return sum(one.requests.get(resource) for one in self.pods.values() if self.claim(one) == where)

    def ports(self, where: str) -> set[HostPort]:
        there = [one for one in self.pods.values() if self.claim(one) == where]
        return {port for one in there for port in one.member_class.constraints.host_ports}

    def members(self, key: GangKey) -> dict[PodUid, NodeName | None]:
        named = [one for one in self.pods.values() if one.group is not None and one.group.key == key]
        return {one.uid: self.node_of(one) for one in named} if any(map(own, named)) else {}


class CacheMachine(RuleBasedStateMachine):
    """Any sequence of events leaves the cache equal to the model; snapshots taken on the way never change."""

    @initialize()
    def start(self) -> None:
        self.model = Model()
        self.reported = 0
        self.cache = ClusterCache()
        self.cache.on_change = self._report
        self.taken: list[tuple[Snapshot, str]] = []  # with all that was in it

    def _report(self, _: bool) -> None:
        self.reported += 1

    @rule(one=pods())
    def pod_event(self, one: Pod) -> None:
        self._see(one)

    @rule(name=st.sampled_from(NAMES))
    def pod_deleted(self, name: str) -> None:
        self.model.drop(f"default/{name}")
        self.cache.pods.remove(f"default/{name}")

    @rule(listed=st.lists(pods(), max_size=4, unique_by=lambda one: one.name), stepwise=st.booleans())
    def pods_relisted(self, listed: list[Pod], stepwise: bool) -> None:
        for key in self.model.pods.keys() - {one.key for one in listed}:
            self.model.drop(key)
        for one in listed:
            self.model.put(one)
        self._relist(self.cache.pods, listed, stepwise)

    @rule(one=nodes())
    def node_event(self, one: Node) -> None:
        self.model.nodes[one.name] = one
        self.cache.nodes.put(one)

    @rule(name=node_names)
    def node_deleted(self, name: NodeName) -> None:
        self.model.nodes.pop(name, None)
        self.cache.nodes.remove(name)

    @rule(listed=st.lists(nodes(), max_size=3, unique_by=lambda one: one.name), stepwise=st.booleans())
    def nodes_relisted(self, listed: list[Node], stepwise: bool) -> None:
        self.model.nodes = {one.name: one for one in listed}
        self._relist(self.cache.nodes, listed, stepwise)

    @rule(key=st.sampled_from(GANGS), minimum=st.none() | st.integers(0, 3))
    def pod_group_event(self, key: GangKey, minimum: int | None) -> None:
        if minimum is None:
            self.cache.pod_groups.remove(key)
        else:
            self.cache.pod_groups.put(PodGroup(key, minimum))

    @rule(choice=st.integers(0, 3), where=node_names)
    def binding_confirmed(self, choice: int, where: NodeName) -> None:
        """The API server confirmed a Binding: of a waiting pod if there is one, else of one it should not be for."""
        waiting = [one for one in self.model.pods.values() if not one.terminal and self.model.node_of(one) is None]
        known = waiting or list(self.model.pods.values())
        uid = known[choice % len(known)].uid if known else PodUid("none")
        if waiting:
            self.model.assumed[uid] = where
        self.cache.pods.assume(uid, where)

    @rule(choice=st.integers(0, 3), phase=st.sampled_from(list(Phase)), late=st.booleans())
    def watch_catches_up(self, choice: int, phase: Phase, late: bool) -> None:
        """An event of an assumed pod: a late one without its node, or the one that shows it."""
        assumed = [one for one in self.model.pods.values() if one.uid in self.model.assumed]
        if assumed:
            one = assumed[choice % len(assumed)]
            node = None if late else self.model.assumed[one.uid]
            self._see(replace(one, phase=phase, node=node))

    @rule(key=st.sampled_from(GANGS), where=node_names)
    def committed(self, key: GangKey, where: NodeName) -> None:
        gang = self.cache.gang(key)
        self.cache.set_commitment(key, {m.uid: where for m in gang.members} if gang is not None else {})

    @rule(one=pods(), where=node_names, until_s=st.floats(0, 10), now_s=st.floats(0, 10))
    def learned(self, one: Pod, where: NodeName, until_s: float, now_s: float) -> None:
        self.cache.exclude(one.member_class, where, until_s)
        if one.group is not None:
            self.cache.back_off(one.group.key, until_s)
        self.cache.expire(now_s)
        assert all(end_s > now_s for end_s in ends_s(self.cache))

    @rule()
    def snapshot_taken(self) -> None:
        self.taken.append((self.cache.snapshot(), repr(self.cache.snapshot())))

    @invariant()
    def equals_the_model(self) -> None:
        assert_consistent(self.cache)
        snapshot = self.cache.snapshot()
        assert {one.name: one for one in snapshot.table.nodes} == self.model.nodes
        for constraints in SELECTING:
            allowed = [node_allows(one, constraints) for one in snapshot.table.nodes]
            assert allowed_nodes(snapshot.table, constraints).tolist() == allowed
        for row, name in enumerate(snapshot.table.names):
            want = [self.model.used(name, resource) for resource in snapshot.table.axis]
            assert snapshot.used[row].tolist() == want
            assert set(snapshot.host_ports.get(name, ())) == self.model.ports(name)
        for key in GANGS:
            gang = snapshot.gangs.get(key)
            found = {m.uid: m.node for m in gang.members} if gang is not None else {}
            assert found == self.model.members(key)
        for one in self.model.pods.values():
            kept = self.cache.pod(one.uid)
            assert kept is not None
            assert (kept, kept.node) == (self.cache.pod_by_name(one.namespace, one.name), self.model.node_of(one))
            assert (one.uid in self.cache.pods.assumed) == (one.uid in self.model.assumed)
            assert self.cache.is_own(kept) == own(one)
        assert self.cache.sizes().pods == len(self.model.pods)

    @invariant()
    def versions_are_true(self) -> None:
        """Equal versions have equal content, each new version was reported, and old snapshots are what they were."""
        assert self.cache.version == self.reported + 1
        assert self.cache.snapshot() is self.cache.snapshot()
        assert self.cache.snapshot().version == self.cache.version
        for snapshot, content in self.taken:
            assert repr(snapshot) == content
            if snapshot.version == self.cache.version:
                assert snapshot is self.cache.snapshot()

    def _see(self, one: Pod) -> None:
        self.model.put(one)
        self.cache.pods.put(one)

    def _relist(self, kind: Watched[Any], listed: list[Any], stepwise: bool) -> None:
        before = self.cache.snapshot()
        if not stepwise:
            kind.replace(listed)
            return
        kind.list_begun({kind.key(one) for one in listed})
        for one in listed:
            assert self.cache.snapshot() is before
            self.cache.settle()
            kind.put(one)
        assert self.cache.snapshot() is before
        kind.list_ended()


TestCache = pytest.mark.slow(CacheMachine.TestCase)
TestCache.settings = settings(stateful_step_count=40)
