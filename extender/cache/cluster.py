"""The one writer of cluster state, pods and PodGroups in it, and the snapshots that every decision is made from.

Rules: the version grows only when something that can decide changed (a heartbeat, a resourceVersion or a foreign pod's
label cannot); equal versions give the same snapshot object; what a snapshot holds is never written again. Reflectors
write through the methods of each kind (`Watched`), the service through those of `ClusterState`; all on one thread. A
change of a pod is carried into room, gangs and commitments. A Binding that the API server confirmed counts as bound
before the watch shows it (*assumed*), until the watch shows a node, or that it finished or went.
"""

from collections.abc import Callable, Iterator, Mapping
from operator import attrgetter

from msgspec.structs import replace

from extender.cache.gangs import Gangs, owner_uids
from extender.cache.room import Daemons, Nodes, Usage
from extender.cache.state import ClusterState, Watched
from extender.schemas import CacheSizes
from scoring import GangKey, JobKey, NodeName, PodUid
from scoring.model import Gang, GangSource, JobSays, MemberClass, Node, Pod, PodGroup, Snapshot
from scoring.network.matrix import NetworkMatrix
from scoring.queue.states import POD_GROUPED

_GROUP_DECIDES = attrgetter("min_member", "created_s", "schedule_timeout_s")  # Of a PodGroup
_SAYS_NOTHING = ("resource_version", "refusal", "parked", "told", "misspelt", "started")
DECIDING = attrgetter(*(name for name in Pod.__struct_fields__ if name not in _SAYS_NOTHING))
"""Everything of a pod that can decide anything; our note on it says only what is known while we run."""


class Pods(Watched[Pod]):
    """Every pod by uid, by name and by job."""

    def __init__(self, state: ClusterState, usage: Usage, daemons: Daemons, gangs: Gangs) -> None:
        self._usage, self._daemons, self._gangs = usage, daemons, gangs
        self.by_uid = gangs.by_uid
        self._names: dict[str, PodUid] = {}  # namespace/name → uid
        super().__init__(state, self._names)
        self._jobs: dict[JobKey, set[PodUid]] = {}
        self.assumed: dict[PodUid, NodeName] = {}  # pods that are bound by our word alone → their node
        self.misspelt: dict[PodUid, None] = {}  # Pods with keys that are probably misspelt, the first seen first

    def __iter__(self) -> Iterator[Pod]:
        return iter(self.by_uid.values())

    def by_name(self, namespace: str, name: str) -> Pod | None:
        """The pod of that name."""
        return self.by_uid.get(self._names.get(f"{namespace}/{name}", PodUid("")))

    def of_job(self, job: JobKey) -> tuple[Pod, ...]:
        """Pods of the job, sorted by name."""
        return tuple(sorted((self.by_uid[uid] for uid in self._jobs.get(job, ())), key=attrgetter("name")))

    def node_of(self, pod: Pod) -> NodeName | None:
        """The node whose room the pod takes: its own, else the one that it is nominated for (docs/safety.md S12).

        Waiting members of own gangs take none yet: the planner gives them room. Nor does a pod that is only pinned to a
        node (docs/safety.md S26); nominations are kube-scheduler's, as tenants may not write pods/status.
        """
        if pod.terminal:
            return None
        if pod.node is not None or pod.deleting:
            return pod.node
        if pod.group is not None and pod.group.source is not GangSource.NATIVE and self._gangs.is_own(pod):
            return None
        return pod.nominated_node

    def _room_of(self, pod: Pod | None) -> tuple[NodeName, MemberClass] | None:
        if pod is None or (node := self.node_of(pod)) is None:
            return None
        return node, pod.member_class

    def assume(self, uid: PodUid, node: NodeName) -> None:
        """Count an unbound pod as bound: the API server confirmed its Binding, and the watch will show it soon."""
        before = self.by_uid.get(uid)
        if before is not None and before.node is None and not before.terminal:
            self.assumed[uid] = node
            self._state.note(self._change(uid, before, replace(before, node=node)))

    def _take(self, item: Pod) -> bool:
        uid = item.uid
        replaced = self._names.get(item.key, uid) != uid and self._drop(item.key)
        if item.misspelt:
            self.misspelt[uid] = None
        elif self.misspelt:
            self.misspelt.pop(uid, None)
        before, after = self.by_uid.get(uid), item
        if uid in self.assumed:
            if item.node is not None or item.terminal:
                del self.assumed[uid]
            else:
                after = replace(item, node=self.assumed[uid])
        elif before is not None and DECIDING(before) == DECIDING(item):
            self.by_uid[uid] = item
            if item.group is not None:
                self._gangs.groups[item.group.key].pods[uid] = item
            return False
        decides = self._change(uid, before, after)
        self._state.expected = self._state.expected and not replaced
        return decides or replaced

    def _drop(self, key: str) -> bool:
        uid = self._names.get(key)
        return uid is not None and self._change(uid, self.by_uid[uid], None)

    def _change(self, uid: PodUid, before: Pod | None, after: Pod | None) -> bool:
        """Take over a record in place of the one before; whether that can decide anything."""
        left, entered = self._room_of(before), self._room_of(after)
        foreseen = before is not None and after is not None and self._foreseen(before, after)
        shown = self._file(uid, before, after)
        decides = left != entered
        if decides and left is not None:
            self._usage.count(*left, uid, -1)
        if decides and entered is not None:
            self._usage.count(*entered, uid, 1)
        if (before is not None and before.daemon) or (after is not None and after.daemon):
            decides = self._daemons.pod_changed(before, after) or decides
        if after is None or not needs_node(after):
            decides = self._state.release(uid) or decides
        if before is None or after is None or DECIDING(before) != DECIDING(after):
            for pod in (before, after):
                if pod is not None and pod.group is not None:
                    decides = self._gangs.touch(pod.group.key, regrouped=False) or decides
        if shown and after is not None and after.group is not None:
            decides = self._gangs.shown(after.group.key) or decides
        self._state.expected = foreseen and decides
        return decides

    def _file(self, uid: PodUid, before: Pod | None, after: Pod | None) -> bool:
        """Find it by what it is now; whether a member counts from now on by what the watch shows."""
        if before is not None and (after is None or before.group is not after.group or before.job != after.job):
            self._gangs.leave(before, gone=after is None)
            if before.job is not None:
                self._jobs[before.job].discard(uid)
                if not self._jobs[before.job]:
                    del self._jobs[before.job]
        if after is None:
            if before is not None:
                del self.by_uid[uid], self._names[before.key]
                self.assumed.pop(uid, None)
                self.misspelt.pop(uid, None)
            return False
        self.by_uid[uid] = after
        self._names[after.key] = uid
        if after.job is not None:
            self._jobs.setdefault(after.job, set()).add(uid)
        return self._gangs.join(after, assumed=uid in self.assumed)

    def _foreseen(self, before: Pod, after: Pod) -> bool:
        """Whether a member went where it was committed to go, came to run there, or lost the gate that we removed."""
        if before.terminal or after.terminal or after.deleting or after.group is None:
            return False
        if before.node is None and after.node is not None:
            return self._state.committed_node(after.group.key, after.uid) == after.node
        if before.node is None:
            return before.gated and not after.gated and after.admitted_to is not None
        return before.node == after.node and before.member_class == after.member_class


def needs_node(pod: Pod | None) -> bool:
    """Whether a commitment still has something to do for the pod; one that is not known yet may come."""
    return pod is None or (pod.node is None and pod.lives)


class PodGroups(Watched[PodGroup]):
    """The PodGroups of one kind as they are, statuses too; a status that we write comes back and decides nothing."""

    def __init__(self, state: ClusterState, gangs: Gangs, *, native: bool) -> None:
        self._gangs = gangs
        self.by_key = gangs.pod_groups[native]
        super().__init__(state, self.by_key)

    @property
    def other_writer(self) -> str | None:
        """Which other client writes statuses of PodGroups, of any PodGroup; `None`: none that they show. Cost: O(n)."""
        return min((group.other_writer for group in self.by_key.values() if group.other_writer), default=None)

    def of_gang(self, gang: Gang) -> PodGroup | None:
        """The coscheduling PodGroup that sizes this gang; `None`: it is sized otherwise, or there is none."""
        return self.by_key.get(gang.key) if gang.source in POD_GROUPED else None

    def _take(self, item: PodGroup) -> bool:
        before, self.by_key[item.key] = self.by_key.get(item.key), item
        return (before is None or _GROUP_DECIDES(before) != _GROUP_DECIDES(item)) and self._gangs.touch(item.key)

    def _drop(self, key: str) -> bool:
        return self.by_key.pop(GangKey(key), None) is not None and self._gangs.touch(GangKey(key))


class ClusterCache(ClusterState):
    """Nodes, pods, PodGroups, network and decisions of now."""

    def __init__(
        self,
        *,
        scheduler_names: frozenset[str] = frozenset({"netgang"}),
        extender: bool = True,
        node_settle_s: float = 120.0,
    ) -> None:
        super().__init__()
        self._usage = Usage()
        nodes: dict[NodeName, Node] = {}
        self.daemon_sets = Daemons(self, self._usage, nodes, settle_s=node_settle_s)
        self.nodes = Nodes(self, nodes, self.daemon_sets)
        self.gangs = Gangs(self, scheduler_names=scheduler_names, extender=extender)
        self.pods = Pods(self, self._usage, self.daemon_sets, self.gangs)
        self.pod_groups = PodGroups(self, self.gangs, native=False)
        self.native_groups = PodGroups(self, self.gangs, native=True)
        self._network = NetworkMatrix()
        self._snapshot: Snapshot | None = None
        # What is asked most needs no step in between; `None`: not known, of a gang that no own pod names it.
        self.pod: Callable[[PodUid], Pod | None] = self.pods.by_uid.get
        self.node: Callable[[NodeName], Node | None] = nodes.get
        self.gang, self.gang_of, self.is_own = self.gangs.get, self.gangs.of_pod, self.gangs.is_own
        self.pod_by_name = self.pods.by_name

    def set_network(self, matrix: NetworkMatrix) -> None:
        """Use another network matrix from now on; the same version at the same moment changes nothing."""
        before, self._network = self._network, matrix
        self.note((before.version, before.evaluated_at_s) != (matrix.version, matrix.evaluated_at_s))

    def set_owners(self, read: Mapping[str, JobSays]) -> None:
        """Owners of pods (by uid) were read. Cost: O(pods of gangs)."""
        self.note(self.gangs.owners_read(read))

    def set_minimum(self, gang: GangKey, owner_uid: str, count: int) -> None:
        """The gang's owner was read, and needs no more than `count` of its members by now (docs/safety.md S8)."""
        before, self.gangs.minimums[gang] = self.gangs.minimums.get(gang), (owner_uid, count)
        news = before != (owner_uid, count)
        self.note(news and self.gangs.touch(gang))

    def note_starts(self, members: Mapping[PodUid, GangKey]) -> None:
        """Former processes noted that these gangs, with these members, have started (docs/safety.md S23)."""
        self.gangs.noted = members
        self.note(sum(self.gangs.touch(key, regrouped=False) for key in set(members.values())) > 0)

    def set_commitment(self, gang: GangKey, assignment: Mapping[PodUid, NodeName], *, as_planned: bool = False) -> None:
        """Begin, replace or (empty) end a gang's commitment (docs/safety.md S4). ValueError: a pod is another gang's.

        It holds members that need a node and pods not seen yet. `as_planned`: the newest plan gives them these places.
        """
        news = self.commit(gang, {uid: node for uid, node in assignment.items() if needs_node(self.pod(uid))})
        self.expected = news and as_planned
        self.note(news)

    def expire(self, now_s: float) -> None:
        """Forget what has expired by `now_s` (Unix seconds); to be called first, and then every second or so."""
        before, self.back_offs = self.back_offs, {gang: s for gang, s in self.back_offs.items() if s > now_s}
        expired = [self.drop_refusals(lambda _, refusal: refusal.until_s <= now_s), len(self.back_offs) < len(before)]
        self.note(any([self.daemon_sets.expire(now_s), self.gangs.expire(now_s), *expired]))

    def snapshot(self) -> Snapshot:
        """The state of now, in a relist that of before; the same object until something that can decide changes."""
        last = self._snapshot
        if last is not None and (last.version == self.version or self._lists):
            return last
        table, gangs = self.nodes.table(), self.gangs.all()
        suspended = [gangs[key] for key in dict.fromkeys(gang for gang, _ in self.attained) if key in gangs]
        # A gang of the same name with another owner has had nothing.
        had = (
            (gang.key, [self.attained.get((gang.key, uid), 0.0) for uid in owner_uids(gang.members)])
            for gang in suspended
        )
        self._snapshot = Snapshot(
            version=self.version,
            table=table,
            used=self._usage.matrix(table),
            host_ports=self._usage.host_ports(),
            gangs=gangs,
            commitments=self.commitments,
            exclusions=self.exclusions,
            backing_off_until_s=self.back_offs,
            claims=self.claims,
            attained_h={key: max(hours) for key, hours in had if any(hours)},
            network=self._network,
        )
        return self._snapshot

    def settle(self) -> None:
        """See `ClusterState`."""
        self.gangs.settle()
        self._usage.matrix(self.nodes.settled())

    def counted_on(self, pod: Pod) -> NodeName | None:
        """The node whose room is counted as this pod's: there, nominated or kept for it (docs/safety.md S12)."""
        return self.pods.node_of(pod) or self.daemon_sets.keeps_for(pod)

    def sizes(self) -> CacheSizes:
        """How much is held. Cost: O(groups)."""
        return CacheSizes(
            version=self.version,
            nodes=len(self.nodes.by_name),
            pods=len(self.pods.by_uid),
            pod_groups=len(self.pod_groups.by_key) + len(self.native_groups.by_key),
            gangs=sum(1 for group in self.gangs.groups.values() if group.own),  # valid or not
            assumed=len(self.pods.assumed),
            commitments=len(self.commitments),
            excluded_pairs=sum(map(len, self.exclusions.values())),
            backing_off=len(self.back_offs),
            kept_for_daemon_sets=sum(len(room.nodes) for room in self.daemon_sets.kept()),
        )
