"""What keeps a gang's pods off each node, room apart: cordon, taint, label, host port, kube-scheduler's own filters.

Why per node and not per filter: people ask which nodes, and how many of them. The first thing found counts. Labels come
first: a node that the pods do not select is not meant, whatever its state; then in the order in which its removal would
have to happen. Then the zone is taken that would hold most members if nothing kept them off. Cost: O(nodes).
"""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
import numpy as np

from scoring.explain.causes.reasons import CauseReason
from scoring.explain.words import counted, request_text, shown, some, zone_text
from scoring.feasibility.filters import node_allows
from scoring.feasibility.room import fit_counts
from scoring.ids import NodeName, ZoneName
from scoring.model import Constraints, MemberClass, Node, Resources
from scoring.plan import Run

_KEEPS_OUT: Final = ("NoSchedule", "NoExecute")
_NAMED: Final = 3

_WORDS: Final[Mapping[CauseReason, tuple[str, str]]] = {  # → (clause, remedy); {of}: as "2 of 3 nodes of zone a"
    CauseReason.CORDONED: ("{of} {is_} cordoned", "kubectl uncordon {first}"),
    CauseReason.NOT_READY: ("{of} {is_} not ready", "See why {names} {is_} not ready: kubectl describe node."),
    CauseReason.LEAVING: (
        "{of} {is_} out of service or about to be removed",
        "Wait for new nodes, or allow other zones.",
    ),
    CauseReason.TAINT: (
        "{of} {has} taint {what}, which the pods do not tolerate",
        "Add a toleration of {what} to the pod template, if the pods may run there.",
    ),
    CauseReason.LABEL: (
        "{of} {lacks} labels of the pods' nodeSelector or node affinity",
        "Label more nodes, or ask for fewer labels.",
    ),
    CauseReason.PORT: (
        "host port {what} is taken on {of}",
        "Drop hostPort from the pod template, or wait until the pods that have it end.",
    ),
    CauseReason.REFUSED: (
        "filters of kube-scheduler that netgang does not model refuse {of}",
        "The Event FailedScheduling of the pods says which filter: volumes, affinity between pods, spreading.",
    ),
}


class Barrier(msgspec.Struct, frozen=True):
    """One thing that keeps pods off nodes; `what`: which taint or port."""

    kind: CauseReason
    what: str = ""


def barrier_words(barrier: Barrier, at: Sequence[str], among: int, where: str) -> tuple[str, str]:
    """The clause and the remedy for a barrier on nodes `at`, of the `among` nodes of `where`.

    >>> barrier_words(Barrier(CauseReason.CORDONED), ["n1", "n2"], 3, "zone a")
    ('2 of 3 nodes of zone a are cordoned', 'kubectl uncordon n1 n2')
    """
    is_, has, lacks = ("is", "has", "lacks") if len(at) == 1 else ("are", "have", "lack")
    values = {
        "of": f"{len(at)} of {counted(among, 'node')} of {where}",
        "what": barrier.what,
        "names": some(at, _NAMED),
        "first": " ".join(at[:_NAMED]) + (" …" if len(at) > _NAMED else ""),
    }
    clause, remedy = _WORDS[barrier.kind]
    values |= {"is_": is_, "has": has, "lacks": lacks}
    return clause.format(**values), remedy.format(**values)


def barriers(run: Run, member_class: MemberClass, rows: Sequence[int]) -> Mapping[Barrier, tuple[int, ...]]:
    """Of `rows` those that members of the class may not use, by the first thing that keeps them off."""
    mask, refused = run.capacity.mask(member_class), run.snapshot.excluded(member_class)
    found: dict[Barrier, list[int]] = {}
    for row in rows:
        if not mask[row]:
            node = run.table.nodes[row]
            found.setdefault(_barrier(node, member_class.constraints, node.name in refused), []).append(row)
    return {barrier: tuple(at) for barrier, at in found.items()}


def _barrier(node: Node, constraints: Constraints, refused: bool) -> Barrier:
    if not node_allows(node.at_best, Constraints(constraints.node_selector, constraints.affinity)):
        return Barrier(CauseReason.LABEL)
    if not node.ready:
        return Barrier(CauseReason.NOT_READY)
    if node.leaving:
        return Barrier(CauseReason.LEAVING)
    if not node_allows(node, Constraints(tolerations=constraints.tolerations)):
        taints = untolerated(node, constraints)
        return Barrier(CauseReason.TAINT, ", ".join(taints)) if taints else Barrier(CauseReason.CORDONED)
    if refused or not constraints.host_ports:
        return Barrier(CauseReason.REFUSED)
    return Barrier(CauseReason.PORT, ports_text(constraints))


def ports_text(constraints: Constraints) -> str:
    """The host ports that the pods ask for."""
    return shown(", ".join(sorted({str(port.port) for port in constraints.host_ports})))


def untolerated(node: Node, constraints: Constraints) -> list[str]:
    """The node's taints that keep the pods off, as kubectl writes them.

    >>> from scoring.model import Taint
    >>> from tests.builders import node
    >>> untolerated(node("n", taints=[Taint("dedicated", "ml", "NoSchedule")]), Constraints())
    ['dedicated=ml:NoSchedule']
    """
    tolerant = Constraints(tolerations=constraints.tolerations)
    return [
        f"{taint.key}{f'={taint.value}' if taint.value else ''}:{taint.effect}"
        for taint in sorted(node.taints, key=lambda taint: (taint.key, taint.value, taint.effect))
        if taint.effect in _KEEPS_OUT
        and not node_allows(Node(NodeName("any"), ZoneName(""), Resources(), (), (taint,)), tolerant)
    ]


class ZoneRoom(msgspec.Struct, frozen=True):
    """What one zone has for members of one kind: their room, and the room behind barriers."""

    zone: ZoneName
    nodes: int
    wanted: int
    each: str  # What one of them asks for
    room: int
    barriers: tuple[tuple[Barrier, tuple[str, ...], int], ...]  # What, on which nodes, for how many members; most first

    @property
    def hidden(self) -> int:
        """Members for which there would be room without the barriers."""
        return sum(members for _, _, members in self.barriers)

    @property
    def promise(self) -> tuple[int, bool, int, int, ZoneName]:
        """The zone with the most would hold most members: on nodes with the pods' labels first, for those are meant."""
        without_labels = [(len(at), members) for what, at, members in self.barriers if what.kind is CauseReason.LABEL]
        labelled = self.room + self.hidden - sum(members for _, members in without_labels)
        selected = sum(nodes for nodes, _ in without_labels) < self.nodes
        return min(labelled, self.wanted), selected, min(self.room + self.hidden, self.wanted), self.room, self.zone

    def text(self) -> str:
        """How many of the pods have room, as the end of a sentence."""
        each = f" ({self.each}{' each' if self.wanted > 1 else ''})" if self.each else ""
        pods = counted(self.wanted, "pod")
        return f"{zone_text(self.zone)} has room for {min(self.room, self.wanted)} of {pods}{each}"


def best_zone(
    run: Run, member_class: MemberClass, count: int, allowed: tuple[ZoneName, ...], *, empty: bool
) -> ZoneRoom:
    """The allowed zone that would hold most members if nothing kept them off; `empty`: as if nothing ran there."""
    fits = fit_counts(run.table.allocatable if empty else run.capacity.room.free, run.view.vector(member_class))
    if member_class.constraints.host_ports:
        fits = np.minimum(fits, 1)
    each, rooms = request_text(member_class.requests), []
    for zone in allowed:
        rows = run.table.zones[zone]
        barred = barriers(run, member_class, rows.tolist())
        listed = [
            (barrier, tuple(str(run.table.names[row]) for row in at), int(fits[list(at)].sum()))
            for barrier, at in barred.items()
        ]
        listed.sort(key=lambda barrier: (-barrier[2], barrier[0].kind, barrier[0].what))
        room = int(fits[rows].sum()) - sum(members for _, _, members in listed)
        rooms.append(ZoneRoom(zone, len(rows), count, each, room, tuple(listed)))
    return max(rooms, key=lambda room: room.promise)
