"""The one writer of cluster state, and the snapshots that every decision is made from.

Rule: the version grows only when something that can decide changed (a heartbeat, a resourceVersion or a foreign pod's
label cannot); equal versions give the same snapshot object; what a snapshot holds is never written again. Reflectors
write through the four methods of each kind, the service through those of `ClusterState`; all on one thread of control.
"""

from collections.abc import Callable, Mapping

from extender.cache.gangs import Gangs, PodGroups
from extender.cache.nodes import Nodes
from extender.cache.pods import Pods, needs_node
from extender.cache.room import Daemons, Usage
from extender.cache.state import Attained, ClusterState
from extender.schemas import CacheSizes
from scoring.feasibility.filters import named_only
from scoring.ids import GangKey, Namespace, NodeName, PodName, PodUid
from scoring.model import Gang, JobSays, Node, Pod, Snapshot
from scoring.network.matrix import NetworkMatrix


class ClusterCache(ClusterState):
    """Nodes, pods, PodGroups, network and decisions of now; for `on_change` see `ClusterState`."""

    def __init__(
        self,
        *,
        scheduler_names: frozenset[str] = frozenset({"netgang"}),
        extender: bool = True,
        node_settle_s: float = 120.0,
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(on_change)
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

    # -- what the service adds ----------------------------------------------------------------------------------------

    def set_network(self, matrix: NetworkMatrix) -> None:
        """Use another network matrix from now on; the same version at the same moment changes nothing."""
        known = self._network
        self._network = matrix
        self.note((known.version, known.evaluated_at_s) != (matrix.version, matrix.evaluated_at_s))

    def set_owners(
        self, created_s: Mapping[str, float], wanted: Mapping[str, int], says: Mapping[str, JobSays]
    ) -> None:
        """Owners of pods (by uid) were read: age, pods that they want, lengths. Cost: O(pods of gangs)."""
        self.gangs.owners.note(created_s, wanted, says)
        self.note(sum(self.gangs.touch(key) for key in self.gangs.changed_owners()) > 0)

    def set_minimum(self, gang: GangKey, owner_uid: str, count: int) -> None:
        """The gang's owner was read, and needs no more than `count` of its members by now (docs/safety.md S8)."""
        self.note(self.gangs.owners.note_minimum(gang, owner_uid, count) and self.gangs.touch(gang))

    def note_starts(self, members: Mapping[PodUid, GangKey]) -> None:
        """Former processes noted that these gangs, with these members, have started (docs/safety.md S23)."""
        self.gangs.noted = members
        self.note(sum(self.gangs.touch(key, regrouped=False) for key in set(members.values())) > 0)

    def set_commitment(self, gang: GangKey, assignment: Mapping[PodUid, NodeName], *, as_planned: bool = False) -> None:
        """Begin, replace or (empty) end a gang's commitment (docs/safety.md S4). ValueError: a pod is another gang's.

        Members that are bound, finished or going are left out now, and taken out when they become so; pods not seen
        yet stay in. When nothing is left the commitment ends. `as_planned`: the newest plan gives them these places.
        """
        news = self.commit(gang, {uid: node for uid, node in assignment.items() if needs_node(self.pods.get(uid))})
        self.expected = news and as_planned
        self.note(news)

    def expire(self, now_s: float) -> None:
        """Forget what has expired by `now_s` (Unix seconds); to be called first, and then every second or so."""
        self.note(any([self.expire_decisions(now_s), self.daemon_sets.expire(now_s)]))

    # -- reading ------------------------------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        """The state of now, in a relist that of before; the same object until something that can decide changes."""
        known = self._snapshot
        if known is not None and (known.version == self.version or self._lists):
            return known
        table = self.nodes.table()
        gangs = self.gangs.all()
        attained = self.attained.items()
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
            attained_h={key: one.hours for key, one in attained if _owns(gangs.get(key), one)},
            network=self._network,
        )
        return self._snapshot

    def settle(self) -> None:
        """See `ClusterState`."""
        self.gangs.settle()
        self._usage.matrix(self.nodes.settled())

    def pod(self, uid: PodUid) -> Pod | None:
        """The pod, or `None`."""
        return self.pods.get(uid)

    def pod_by_name(self, namespace: str | Namespace, name: str | PodName) -> Pod | None:
        """The pod of that name."""
        return self.pods.by_name(f"{namespace}/{name}")

    def gang(self, key: GangKey) -> Gang | None:
        """The gang as it is now, `None` when no own pod names it."""
        return self.gangs.get(key)

    def gang_of(self, uid: PodUid) -> Gang | None:
        """The gang of a known pod, `None` for plain and unknown pods."""
        pod = self.pods.get(uid)
        return self.gangs.get(pod.group.key) if pod is not None and pod.group is not None else None

    def is_own(self, pod: Pod) -> bool:
        """Whether netgang may gate, hold, patch or evict the pod (docs/safety.md S1); the pod need not be known."""
        return self.gangs.is_own(pod)

    def node(self, name: NodeName) -> Node | None:
        """The node, `None` when it is not known."""
        return self.nodes.by_name.get(name)

    def counted_on(self, pod: Pod) -> NodeName | None:
        """The node whose room is counted as this pod's: there, nominated or kept for it (docs/safety.md S12)."""
        node = self.pods.node_of(pod)
        if node is not None or not pod.daemon:
            return node
        named = named_only(pod.member_class.constraints) or ()
        return next((name for name in named if len(named) == 1 and self.daemon_sets.keeps_for(pod, name)), None)

    def sizes(self) -> CacheSizes:
        """How much is held. Cost: O(groups)."""
        return CacheSizes(
            version=self.version,
            nodes=len(self.nodes.by_name),
            pods=len(self.pods),
            pod_groups=len(self.pod_groups.by_key) + len(self.native_groups.by_key),
            gangs=sum(1 for group in self.gangs.groups.values() if group.own),  # valid or not
            assumed=len(self.pods.assumed),
            commitments=len(self.commitments),
            excluded_pairs=sum(map(len, self.exclusions.values())),
            backing_off=len(self.back_offs),
            kept_for_daemon_sets=sum(len(room.nodes) for room in self.daemon_sets.kept()),
        )


def _owns(gang: Gang | None, attained: Attained) -> bool:
    """Whether it is the gang that had it: one of the same name with another owner has had nothing."""
    owners = [pod.owner for pod in gang.members] if gang is not None else []
    return any(owner is not None and owner.uid == attained.owner_uid for owner in owners)
