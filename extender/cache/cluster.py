"""The one writer of cluster state, and the snapshots that every decision is made from.

Rule: the version grows only when something that can decide changed (a heartbeat, a resourceVersion or a foreign pod's
label cannot); equal versions give the same snapshot object; what a snapshot holds is never written again. Reflectors
write through the methods of each kind (`Watched`), the service through those of `ClusterState`; all on one thread.
"""

from collections.abc import Callable, Mapping

from extender.cache.gangs import Gangs, PodGroups, owner_uids
from extender.cache.pods import Pods, needs_node
from extender.cache.room import Daemons, Nodes, Usage
from extender.cache.state import ClusterState
from extender.schemas import CacheSizes
from scoring import GangKey, NodeName, PodUid
from scoring.model import JobSays, Node, Pod, Snapshot
from scoring.network.matrix import NetworkMatrix


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
        self.gangs.jobs.update(read)
        self.note(sum(self.gangs.touch(key) for key in self.gangs.changed_owners()) > 0)

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
        expired = self.drop_refusals(lambda _, refusal: refusal.until_s <= now_s)
        self.note(any([self.daemon_sets.expire(now_s), expired, len(self.back_offs) < len(before)]))

    def snapshot(self) -> Snapshot:
        """The state of now, in a relist that of before; the same object until something that can decide changes."""
        known = self._snapshot
        if known is not None and (known.version == self.version or self._lists):
            return known
        table, gangs = self.nodes.table(), self.gangs.all()
        attained = ((gangs[key], had) for key, had in self.attained.items() if key in gangs)
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
            # One of the same name with another owner has had nothing.
            attained_h={gang.key: had.hours for gang, had in attained if had.owner_uid in owner_uids(gang.members)},
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
