"""Room that plain pods must leave: what gangs are committed to, what others leave for them, what they save up.

Why (docs/safety.md S13): kube-scheduler knows nothing of a place that is promised and not bound yet, so a plain pod
that comes a moment earlier takes it, and a whole gang waits on. Rules:

- Of a node where a committed gang is to start, or for whose sake others leave, a plain pod may have what is left beside
  all its members; where one is promised a start soon (`Plan.promise_due`), what will be left beside it then.
- The same of a node where the plan has a place for a member that a gang lacks which runs in part (`completing`): it is
  first in the queue, and kube-scheduler, which knows of no queue, may ask about the plain pod before.
- Of a node reserved for a STARVING gang it may have nothing that the gang asks for, which is being saved up; of the pod
  count, what the whole gang leaves.
- What is saved up is kept from plain pods while the reservation lasts, and open to them for as long afterwards, and
  so on: a gang for which room never adds up must not keep services that run there for good from coming back.
- Only resources that such a gang asks for count: whether the rest fits is kube-scheduler's own matter.
- Pods that have a node's room already (DaemonSets', nominated: docs/safety.md S12) and system pods are not refused.
"""

from collections.abc import Collection, Iterable

import numpy as np
from msgspec.structs import replace

from scoring import GangKey, NodeName
from scoring.feasibility.filters import allowed_nodes, ports_conflict
from scoring.model import HostPort, MemberClass, Pod, Reservation, Snapshot
from scoring.model.pod import PODS, Resources
from scoring.model.policy import QueuePolicy
from scoring.model.snapshot import fit_counts, remember
from scoring.network.matrix import Ints
from scoring.plan import Plan
from scoring.plan.reservations import lacking
from scoring.queue.states import leads, period, starving_from

SYSTEM_PRIORITY = 2_000_000_000  # PriorityClass system-…: these pods keep the cluster alive, nothing is held from them
_NO_LIMIT = np.iinfo(np.int64).max


class ReservedRoom:
    """The room that is kept from plain pods at one snapshot. Cost: O(nodes · resources + members)."""

    def __init__(
        self,
        snapshot: Snapshot,
        plan: Plan,
        promise: Reservation | None,
        policy: QueuePolicy,
        *,
        completing: Collection[GangKey] = (),
        now_s: float,
    ) -> None:
        self._snapshot, table, gangs = snapshot, snapshot.table, snapshot.gangs
        starts = {**snapshot.claims, **snapshot.commitments}
        places = {uid: node for key in completing for uid, node in plan.admitted[key].members.items()}
        places |= {uid: node for start in starts.values() for uid, node in start.assignment.items()}
        pending = (pod for key in {*starts, *completing} if key in gangs for pod in gangs[key].pending)
        pods = [pod for pod in pending if places.get(pod.uid) in table.index]
        self._ports: dict[NodeName, list[HostPort]] = {}
        for pod in pods:
            self._ports.setdefault(places[pod.uid], []).extend(pod.member_class.constraints.host_ports)
        taken = np.zeros_like(table.allocatable)
        rows, amounts = table.footprint(pods, places)
        taken[rows] = amounts
        if promise is not None:
            rows, amounts = lacking(snapshot, promise)
            taken[rows] += amounts
        shut = np.zeros(taken.shape, np.bool_)
        for key in plan.reservations.keys() & gangs.keys() - snapshot.claims.keys():
            if leads(period(*starving_from(gangs[key], policy), now_s=now_s)):
                at = [table.index[name] for name in plan.reservations[key].nodes if name in table.index]
                asked = {name for pod in gangs[key].pending for name, _ in pod.requests}
                shut[at] |= np.array([name in asked and name != PODS for name in table.axis])
                taken[at] += np.array([len(gangs[key].pending) if name == PODS else 0 for name in table.axis])
        left = np.maximum(table.allocatable - snapshot.used - taken, 0)
        self._limit: Ints = np.where(shut, 0, np.where(taken > 0, left, _NO_LIMIT))
        self._closed: dict[object, frozenset[NodeName]] = {}

    def closed_to(self, member_class: MemberClass) -> frozenset[NodeName]:
        """Nodes on which a plain pod of this kind would take reserved room. Cost: O(nodes) for a new kind."""
        ports = member_class.constraints.host_ports

        def closed_nodes() -> frozenset[NodeName]:
            asked, names = self._snapshot.table.vector(member_class.requests), self._snapshot.table.names
            over = ((asked > 0) & (asked > self._limit)).any(axis=1)
            taken = {node for node, used in self._ports.items() if ports_conflict(ports, used)} if ports else ()
            return frozenset({names[row] for row in np.flatnonzero(over).tolist()}.union(taken))

        return remember(self._closed, (member_class.requests, ports), closed_nodes)

    def leaves(self, pod: Pod, node: NodeName, beside: Iterable[Pod] = ()) -> bool:
        """Whether `pod` leaves the reserved room of `node` alone, together with `beside`, pods on their way there."""
        pods = (pod, *beside)
        asked = Resources.from_amounts([(name, sum(p.requests.get(name) for p in pods)) for name, _ in pod.requests])
        return node not in self.closed_to(replace(pod.member_class, requests=asked))

    def has_room(self, member_class: MemberClass, nodes: Iterable[NodeName]) -> bool:
        """Whether one of `nodes` suits a pod of this kind and has room for it, reserved or not. O(nodes)."""
        table, used = self._snapshot.table, self._snapshot.used
        rows = np.array([table.index[name] for name in nodes if name in table.index], np.int64)
        fits = rows[fit_counts(table.allocatable[rows] - used[rows], table.vector(member_class.requests)) > 0]
        return bool(allowed_nodes(table, member_class.constraints)[fits].any())
