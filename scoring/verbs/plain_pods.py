"""Room that plain pods must leave: what gangs are committed to, what others leave for them, what they save up.

Why (docs/safety.md S13): kube-scheduler knows nothing of a place that is promised and not bound yet, so a plain pod
that comes a moment earlier takes it, and a whole gang waits on. Rules:

- Of a node where a committed gang is to start, or for whose sake others leave, a plain pod may have what is left beside
  all its members.
- Of a node reserved for a STARVING gang it may have nothing that the gang asks for, which is being saved up; of the pod
  count, what the whole gang leaves.
- What is saved up is kept from plain pods while the reservation lasts, and open to them for as long afterwards, and
  so on: a gang for which room never adds up must not keep services that run there for good from coming back.
- Only resources that such a gang asks for count: whether the rest fits is kube-scheduler's own matter.
- Pods that have a node's room already (DaemonSets', nominated: docs/safety.md S12) and system pods are not refused.
"""

from collections.abc import Iterable, Mapping

import numpy as np

from scoring import GangKey, NodeName
from scoring.feasibility.filters import allowed_nodes, ports_conflict
from scoring.model import HostPort, MemberClass, Pod, Reservation, Snapshot
from scoring.model.pod import PODS
from scoring.model.policy import QueuePolicy
from scoring.network.matrix import Ints
from scoring.plan.cache import remember
from scoring.queue.states import leads, period, starving_from

SYSTEM_PRIORITY = 2_000_000_000  # PriorityClass system-…: these pods keep the cluster alive, nothing is held from them
_NO_LIMIT = np.iinfo(np.int64).max


def kept_from_plain(
    snapshot: Snapshot, reservations: Mapping[GangKey, Reservation], policy: QueuePolicy, *, now_s: float
) -> dict[GangKey, Reservation]:
    """Those of `reservations` that plain pods have to leave alone now. Cost: O(members of their gangs)."""
    gangs = {key: snapshot.gangs[key] for key in reservations if key in snapshot.gangs}
    ours = {key for key, gang in gangs.items() if leads(period(*starving_from(gang, policy), now_s=now_s))}
    return {key: reserved for key, reserved in reservations.items() if key in ours or key in snapshot.claims}


class ReservedRoom:
    """The room that is kept from plain pods at one snapshot. Cost: O(reserved nodes · resources)."""

    def __init__(self, snapshot: Snapshot, reservations: Mapping[GangKey, Reservation]) -> None:
        self._snapshot, table = snapshot, snapshot.table
        claims = [claim for key, claim in snapshot.claims.items() if key not in snapshot.commitments]
        promises = [*snapshot.commitments.values(), *claims]
        places = {uid: node for promise in promises for uid, node in promise.assignment.items()}
        gangs = [snapshot.gangs[promise.gang] for promise in promises if promise.gang in snapshot.gangs]
        pods = [pod for gang in gangs for pod in gang.pending if places.get(pod.uid) in table.index]
        rows, amounts = table.footprint(pods, places)
        self._ports: dict[NodeName, list[HostPort]] = {}
        for node, ports in ((places[pod.uid], pod.member_class.constraints.host_ports) for pod in pods):
            self._ports.setdefault(node, []).extend(ports)
        saved = [reserved for key, reserved in reservations.items() if key not in snapshot.claims]
        held = [table.index[name] for reserved in saved for name in reserved.nodes if name in table.index]
        self._rows: Ints = np.union1d(rows, np.array(held, np.int64))
        self._at = {row: place for place, row in enumerate(self._rows.tolist())}
        taken = np.zeros((len(self._rows), len(table.axis)), np.int64)
        taken[np.searchsorted(self._rows, rows)] = amounts
        free = table.allocatable[self._rows] - snapshot.used[self._rows]
        self._limit: Ints = np.where(taken > 0, np.maximum(free - taken, 0), _NO_LIMIT)
        for reserved in saved:
            gang = snapshot.gangs.get(reserved.gang)
            at = [self._at[table.index[name]] for name in reserved.nodes if name in table.index]
            for member_class in {pod.member_class for pod in gang.pending} if gang is not None else ():
                for column in np.flatnonzero(table.vector(member_class.requests)).tolist():
                    if table.axis[column] != PODS:
                        self._limit[at, column] = 0
            if gang is not None and PODS in table.axis:
                column = table.axis.index(PODS)
                beside = np.maximum((free - taken)[at, column] - len(gang.pending), 0)
                self._limit[at, column] = np.minimum(self._limit[at, column], beside)
        self._closed: dict[object, frozenset[NodeName]] = {}

    def closed_to(self, member_class: MemberClass) -> frozenset[NodeName]:
        """Nodes on which a plain pod of this kind would take reserved room. Cost: O(reserved nodes) for a new kind."""
        ports = member_class.constraints.host_ports

        def closed_nodes() -> frozenset[NodeName]:
            asked = self._snapshot.table.vector(member_class.requests)
            over = ((asked > 0) & (asked > self._limit)).any(axis=1)
            taken = {node for node, used in self._ports.items() if ports_conflict(ports, used)} if ports else ()
            return frozenset({self._snapshot.table.names[row] for row in self._rows[over].tolist()}.union(taken))

        return remember(self._closed, (member_class.requests, ports), closed_nodes)

    def leaves(self, pod: Pod, node: NodeName, beside: Iterable[Pod] = ()) -> bool:
        """Whether `pod` leaves the reserved room of `node` alone, together with `beside`, pods on their way there."""
        table = self._snapshot.table
        row = table.index.get(node, -1)
        if row not in self._at:
            return True
        asked = table.vector(pod.requests)
        both = asked + sum((table.vector(other.requests) for other in beside), np.zeros_like(asked))
        if bool(((asked > 0) & (both > self._limit[self._at[row]])).any()):
            return False
        return not ports_conflict(pod.member_class.constraints.host_ports, self._ports.get(node, ()))

    def has_room(self, member_class: MemberClass, nodes: Iterable[NodeName]) -> bool:
        """Whether one of `nodes` suits a pod of this kind and has room for it, reserved or not. O(nodes)."""
        table, used = self._snapshot.table, self._snapshot.used
        rows = np.array([table.index[name] for name in nodes if name in table.index], np.int64)
        asked = table.vector(member_class.requests)
        fits = ((asked <= table.allocatable[rows] - used[rows]) | (asked == 0)).all(axis=1)
        return bool(allowed_nodes(table, member_class.constraints)[rows[fits]].any())
