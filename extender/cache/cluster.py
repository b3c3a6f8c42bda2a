"""The one writer of cluster state, and the snapshots that every decision is made from.

Rule: the version grows only when something that can decide changed (a heartbeat, a resourceVersion or a foreign pod's
label cannot); equal versions give the same snapshot object; what a snapshot holds is never written again. Reflectors
write through the sinks, the service through the methods; all on one thread of control.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager

from extender.cache.daemons import Daemons
from extender.cache.decisions import Attained, Decisions
from extender.cache.gangs import JobSays
from extender.cache.nodes import Nodes
from extender.cache.own_gangs import GangBook
from extender.cache.pods import PodChange, Pods, same_but_version
from extender.cache.sinks import Sink
from extender.cache.usage import Usage
from extender.convert import pinned_node
from extender.schemas.readiness import CacheSizes
from scoring.ids import GangKey, Namespace, NodeName, PodName, PodUid
from scoring.model import Claim, Commitment, DaemonSet, Gang, MemberClass, Node, Pod, PodGroup, Snapshot
from scoring.network.matrix import NetworkMatrix


class ClusterCache:
    """Nodes, pods, PodGroups, network and decisions of now.

    `on_change` is called after each change of `version`, on the caller's stack: it must only take note.
    `on_expected_change`, when it is set, is called instead for what a plan foresaw: a member on the node that it was
    committed to, the gate that we removed, the commitment itself.
    """

    def __init__(
        self,
        *,
        scheduler_names: frozenset[str] = frozenset({"netgang"}),
        extender: bool = True,
        node_settle_s: float = 120.0,
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        self.on_change = on_change
        self.on_expected_change: Callable[[], None] | None = None
        self._expected = False  # The change that is being made, and about to be reported, was foreseen
        self._nodes = Nodes()
        self._pods = Pods(scheduler_names=scheduler_names, extender=extender)
        self._gangs = GangBook(self._pods)
        self._usage = Usage()
        self._decisions = Decisions()
        self._daemons = Daemons(
            self._usage, self._nodes.by_name, promised=self._decisions.promises, settle_s=node_settle_s
        )
        self._network = NetworkMatrix()
        self.version = 1  # That the next snapshot will have
        self._batches = 0
        self._pending_change = False
        self._snapshot: Snapshot | None = None
        hooks = self.changed, self.batch, self._settle
        nodes, pods, daemons = self._nodes, self._pods, self._daemons
        self.nodes: Sink[Node] = Sink(
            self._put_node, self._drop_node, lambda one: one.name, lambda: nodes.by_name, *hooks
        )
        self.pods: Sink[Pod] = Sink(self._put_pod, self._drop_pod, lambda one: one.key, lambda: pods.names, *hooks)
        self.daemon_sets: Sink[DaemonSet] = Sink(
            daemons.put, daemons.drop, lambda one: one.key, lambda: daemons.names, *hooks
        )
        self.pod_groups, self.native_groups = self._group_sink(native=False), self._group_sink(native=True)
        # Answered by the parts themselves, see there.
        self.owners = self._gangs.owners
        self.gang, self.partial_gangs = self._gangs.get, self._gangs.partial
        self.pod, self.job_pods = self._pods.get, self._pods.of_job
        self.misspelt, self.foreign_groups, self.members = (
            self._pods.misspelt,
            self._pods.foreign_groups,
            self._pods.members,
        )
        self.is_own = self._pods.is_own
        self.kept_for_daemon_sets = self._daemons.kept

    # -- what the service adds ----------------------------------------------------------------------------------------

    def assume(self, uid: PodUid, node: NodeName) -> None:
        """Count an unbound pod as bound: the API server confirmed its Binding, and the watch will show it soon."""
        change = self._pods.assume(uid, node)
        if change is not None and self._apply(change):
            self.changed()
        self._expected = False

    def set_network(self, matrix: NetworkMatrix) -> None:
        """Use another network matrix from now on; the same version at the same moment changes nothing."""
        known = self._network
        self._network = matrix
        if (known.version, known.evaluated_at_s) != (matrix.version, matrix.evaluated_at_s):
            self.changed()

    def set_owners(
        self, created_s: Mapping[str, float], wanted: Mapping[str, int], says: Mapping[str, JobSays]
    ) -> None:
        """Owners of pods (by uid) were read: age, pods that they want, lengths. Cost: O(pods of gangs)."""
        self._gangs.owners.note(created_s, wanted, says)
        decides = [self._regroup(key) for key in self._gangs.changed_owners()]
        self._note(any(decides))

    def set_minimum(self, gang: GangKey, owner_uid: str, count: int) -> None:
        """The gang's owner was read, and needs no more than `count` of its members by now (docs/safety.md S8)."""
        self._note(self.owners.note_minimum(gang, owner_uid, count) and self._regroup(gang))

    def note_starts(self, members: Mapping[PodUid, GangKey]) -> None:
        """Former processes noted that these gangs, with these members, have started (docs/safety.md S23)."""
        self._gangs.noted = members
        decides = [self._regroup(key, regrouped=False) for key in set(members.values())]
        self._note(any(decides))

    def set_commitment(self, gang: GangKey, assignment: Mapping[PodUid, NodeName], *, as_planned: bool = False) -> None:
        """Begin, replace or (empty) end a gang's commitment (docs/safety.md S4). ValueError: a pod is another gang's.

        Members that are bound, finished or going are left out now, and taken out when they become so; pods not seen
        yet stay in. When nothing is left the commitment ends. `as_planned`: the newest plan gives them these places.
        """
        open_ones = {uid: node for uid, node in assignment.items() if needs_node(self._pods.get(uid))}
        self._note(self._decisions.commit(gang, open_ones), expected=as_planned)

    def committed_node(self, gang: GangKey, uid: PodUid) -> NodeName | None:
        """The node that a waiting member of the gang is committed to; `None`: to none, or as another gang's member."""
        if self._decisions.gang_of(uid) != gang:
            return None
        return self._decisions.commitments[gang].assignment[uid]

    @property
    def commitments(self) -> Mapping[GangKey, Commitment]:
        """What is committed now; not written again."""
        return self._decisions.commitments

    def free_to_commit(self, gang: GangKey, assignment: Mapping[PodUid, NodeName]) -> dict[PodUid, NodeName]:
        """The part of `assignment` that `set_commitment` takes: without pods that changed gangs a moment ago."""
        return {uid: node for uid, node in assignment.items() if self._decisions.gang_of(uid) in (None, gang)}

    def exclude(self, member_class: MemberClass, node: NodeName, until_s: float, *, by: GangKey | None = None) -> None:
        """`node` refused the class, until `until_s` (Unix) or it changes; `by`: whose member, which can revoke it."""
        self._note(self._decisions.exclude(member_class, node, until_s, by=by))

    def passed(self, pod: Pod, nodes: Collection[NodeName]) -> bool:
        """kube-scheduler's other filters pass these nodes for a member: whether any was thought to refuse it."""
        if not self._decisions.exclusions or pod.group is None:
            return False
        mistaken = self._decisions.passed(pod.member_class, nodes, by=pod.group.key)
        self._note(mistaken)
        return mistaken

    def back_off(self, gang: GangKey, until_s: float | None) -> None:
        """Let the gang reserve nothing before `until_s` (Unix seconds); `None` ends that (docs/safety.md S5)."""
        self._note(self._decisions.back_off(gang, until_s))

    def set_claim(self, claim: Claim) -> None:
        """Keep the room that others leave for a gang, or replace what is kept for it."""
        self._note(self._decisions.claim(claim.gang, claim))

    def clear_claim(self, gang: GangKey) -> None:
        """Keep no room for the gang any more: it has its nodes, or its time is over."""
        self._note(self._decisions.claim(gang, None))

    def set_attained(self, attained: Mapping[GangKey, Attained]) -> None:
        """Remember what gangs had of the cluster until their owners were suspended; for pods of these owners only."""
        self._note(self._decisions.attain(attained))

    def expire(self, now_s: float) -> None:
        """Forget what has expired by `now_s` (Unix seconds); to be called first, and then every second or so."""
        self._note(any([self._decisions.expire(now_s), self._daemons.expire(now_s)]))

    def look_for_daemon_sets(self) -> Iterator[None]:
        """Keep room free for pods of DaemonSets that came or were changed, in steps."""
        for changed in self._daemons.look():
            self._note(changed)
            yield

    # -- reading ------------------------------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        """The state of now, in a relist that of before; the same object until something that can decide changes."""
        known = self._snapshot
        if known is not None and (known.version == self.version or self._batches):
            return known
        table = self._nodes.table()
        gangs = self._gangs.all()
        attained = self._attained_by(gangs)
        self._snapshot = Snapshot(
            version=self.version,
            table=table,
            used=self._usage.matrix(table),
            host_ports=self._usage.host_ports(),
            gangs=gangs,
            commitments=self._decisions.commitments,
            exclusions=self._decisions.exclusions,
            backing_off_until_s=self._decisions.back_offs,
            claims=self._decisions.claims,
            attained_h={key: one.hours for key, one in attained.items()},
            network=self._network,
        )
        return self._snapshot

    def _attained_by(self, gangs: Mapping[GangKey, Gang]) -> dict[GangKey, Attained]:
        """What these gangs had before; one of the same name with another owner has had nothing."""

        def owns(one: Attained, gang: Gang | None) -> bool:
            owners = [pod.owner for pod in gang.members] if gang is not None else []
            return any(owner is not None and owner.uid == one.owner_uid for owner in owners)

        found = self._decisions.attained.items()
        return {key: one for key, one in found if owns(one, gangs.get(key))}

    def pod_by_name(self, namespace: str | Namespace, name: str | PodName) -> Pod | None:
        """The pod of that name."""
        uid = self._pods.names.get(f"{namespace}/{name}")
        return self._pods.get(uid) if uid is not None else None

    def all_pods(self) -> Iterator[Pod]:
        """Every pod, in no particular order; the cache must not change meanwhile."""
        return iter(self._pods)

    def gang_of(self, uid: PodUid) -> Gang | None:
        """The gang of a known pod, `None` for plain and unknown pods."""
        pod = self._pods.get(uid)
        return self.gang(pod.group.key) if pod is not None and pod.group is not None else None

    def node(self, name: NodeName) -> Node | None:
        """The node, `None` when it is not known."""
        return self._nodes.by_name.get(name)

    def counted_on(self, pod: Pod) -> NodeName | None:
        """The node whose room is counted as this pod's: there, nominated or kept for it (docs/safety.md S12)."""
        node = self._pods.claim(pod)
        if node is not None or not pod.daemon:
            return node
        pinned = pinned_node(pod.member_class.constraints)
        node = NodeName(pinned) if pinned is not None else None
        return node if self._daemons.keeps_for(pod, node) else None

    def is_assumed(self, uid: PodUid) -> bool:
        """Whether the pod counts as bound by our word alone, not yet by the watch."""
        return uid in self._pods.assumed

    def sizes(self) -> CacheSizes:
        """How much is held. Cost: O(groups)."""
        decisions = self._decisions
        return CacheSizes(
            version=self.version,
            nodes=len(self._nodes.by_name),
            pods=len(self._pods),
            pod_groups=len(self._gangs.pod_groups),
            gangs=sum(1 for group in self._pods.groups.values() if group.own),  # valid or not
            assumed=len(self._pods.assumed),
            commitments=len(decisions.commitments),
            excluded_pairs=sum(map(len, decisions.exclusions.values())),
            backing_off=len(decisions.back_offs),
            kept_for_daemon_sets=sum(1 for _ in self._daemons.claims()),
        )

    # -- changes ------------------------------------------------------------------------------------------------------

    def _group_sink(self, *, native: bool) -> Sink[PodGroup]:
        groups = self._gangs.pod_groups
        return Sink(
            lambda one: self._gangs.put_pod_group(one, native=native) and self._regroup(one.key),
            lambda key: groups.pop((GangKey(key), native), None) is not None and self._regroup(GangKey(key)),
            lambda one: one.key,
            lambda: [key for key, kind in groups if kind is native],
            *(self.changed, self.batch, self._settle),
        )

    def _put_node(self, node: Node) -> bool:
        before = self._nodes.by_name.get(node.name)
        return self._nodes.put(node) and self._node_changed(node.name, before, node)

    def _drop_node(self, key: str) -> bool:
        before = self._nodes.by_name.get(NodeName(key))
        return self._nodes.drop(NodeName(key)) and self._node_changed(NodeName(key), before, None)

    def _node_changed(self, name: NodeName, before: Node | None, after: Node | None) -> bool:
        self._daemons.node_changed(before, after)
        self._decisions.forget_node(name)
        return True

    def _put_pod(self, pod: Pod) -> bool:
        self._expected = False
        same_name = self._pods.names.get(pod.key, pod.uid)
        replaced = same_name != pod.uid and self._forget_pod(same_name)
        if self._pods.refresh(pod):
            return False
        decides = self._apply(self._pods.put(pod))
        self._expected = self._expected and decides and not replaced
        return decides or replaced

    def _drop_pod(self, key: str) -> bool:
        self._expected = False
        uid = self._pods.names.get(key)
        return uid is not None and self._forget_pod(uid)

    def _forget_pod(self, uid: PodUid) -> bool:
        return self._apply(self._pods.drop(uid))

    def _apply(self, change: PodChange) -> bool:
        """Carry a pod's change into room, gangs and commitments; whether it can decide anything."""
        before, after = change.before, change.after
        self._expected = before is not None and after is not None and self._foreseen(before, after)
        moved = change.left != change.entered or (
            before is not None and after is not None and before.member_class != after.member_class
        )
        if moved and before is not None and change.left is not None:
            self._usage.remove(change.left, before.uid, before.member_class)
        if moved and after is not None and change.entered is not None:
            self._usage.add(change.entered, after.uid, after.member_class)
        decides = moved and (change.left is not None or change.entered is not None)
        if (before is not None and before.daemon) or (after is not None and after.daemon):
            decides = self._daemons.pod_changed(before, after) or decides
        uid = after.uid if after is not None else before.uid if before is not None else PodUid("")
        if after is None or not needs_node(after):
            decides = self._decisions.settle(uid) or decides
        if before is None or after is None or not same_but_version(before, after):
            for pod in (before, after):
                if pod is not None and pod.group is not None:
                    decides = self._regroup(pod.group.key, regrouped=False) or decides
        if change.shown and after is not None and after.group is not None:
            decides = self._gangs.shown(after.group.key) or decides
        return decides

    def _foreseen(self, before: Pod, after: Pod) -> bool:
        """Whether a member went where it was committed to go, came to run there, or lost the gate that we removed."""
        if before.terminal or after.terminal or after.deleting or after.group is None:
            return False
        if before.node is None and after.node is not None:
            return self.committed_node(after.group.key, after.uid) == after.node
        if before.node is None:
            return before.gated and not after.gated and after.admitted_to is not None
        return before.node == after.node and before.member_class == after.member_class

    def _regroup(self, key: GangKey, *, regrouped: bool = True) -> bool:
        """The gang is to be built again; whether it is, or was, one of ours. See `GangBook.touch`."""
        ended = key not in self._pods.groups and self._decisions.back_off(key, None)
        return self._gangs.touch(key, regrouped=regrouped) or ended

    def _note(self, changed: bool, *, expected: bool = False) -> None:
        self._expected = changed and expected
        if changed:
            self.changed()

    def changed(self) -> None:
        """Something that can decide changed: for sinks, and where time alone changed the queue's order."""
        if self._batches:
            self._pending_change = True
            return
        self.version += 1
        expected, self._expected = self._expected, False
        if expected and self.on_expected_change is not None:
            self.on_expected_change()
        else:
            self.on_change()

    def _settle(self) -> None:
        """Do now, in the middle of a long change, what the next snapshot would have to do (for sinks)."""
        self._gangs.settle()
        self._usage.matrix(self._nodes.settled())

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Hold back snapshots, and gather all changes made inside into one (for sinks)."""
        if not self._batches:
            self.snapshot()
        self._batches += 1
        try:
            yield
        finally:
            self._batches -= 1
            self._expected = False
            if not self._batches and self._pending_change:
                self._pending_change = False
                self.changed()


def needs_node(pod: Pod | None) -> bool:
    """Whether a commitment still has something to do for the pod; one that is not known yet may come."""
    return pod is None or not (pod.node is not None or pod.terminal or pod.deleting)
