"""How much more room would do for a gang, as changes: more of what is short on nodes there are, else more nodes.

Steps: in each set of zones that the gang may use, count what is short (`shortage`); take the set where the fewest
members are without a node and least is missing. Nodes are named where they may be used; members that may go to none of
them need nodes of their kind. When that went to gangs that are ahead, room for all of these is added.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from scoring.explain.suggestions.candidates import Room
from scoring.explain.words import quantity
from scoring.explain.zones import Lack, Shortage, lack_of
from scoring.feasibility.filters import node_allows
from scoring.ids import NodeName, ZoneName
from scoring.model import Constraints, MemberClass, Node, Requirement, Resources
from scoring.model.resources import PODS
from scoring.plan import Admission, Plan, Run, Waiting
from scoring.plan.steps import Steps
from scoring.what_if.changes import AddCapacity, AddNodes, Change

_LARGEST_SUM: Final = 2**50
_MOST_NODES: Final = 1000


def more_room(room: Room, plan: Plan, *, rounds: int) -> Steps[list[Change]]:
    """The changes; empty: no node would do. From the first of `rounds` on enough for all ahead, more each time."""
    classes = tuple((member_class, len(pods)) for member_class, pods in room.wanted)
    if not classes or not room.groups:
        return []
    found: list[tuple[tuple[ZoneName, ...], Lack]] = []
    for zones in room.groups:
        found.append((zones, lack_of(room.run, classes, room.rows(zones))))
        yield
    best, lack = min(found, key=lambda one: _cost(room.run, one[1], classes, one[0]))
    yield
    if rounds:
        all_members = [(member_class, count * rounds) for member_class, count in (*classes, *_ahead(room, plan))]
        return _nodes_for(room, best[0], all_members, alone=False)
    if lack.none:  # there is room for each kind of member, and none for all of them together
        return _nodes_for(room, best[0], classes, alone=True)
    return [*_capacity(room.run, lack.shortages), *_nodes_for(room, best[0], lack.homeless, alone=True)]


def _cost(
    run: Run, lack: Lack, classes: Sequence[tuple[MemberClass, int]], zones: tuple[ZoneName, ...]
) -> tuple[int, int, float, int, tuple[ZoneName, ...]]:
    """Order of sets of zones: fewest members that need new nodes, fewest without room, least of the cluster's room."""
    homeless = sum(count for _, count in lack.homeless)
    wanted = sum(count for _, count in classes)
    totals = {name: int(run.table.allocatable[:, i].sum()) for i, name in enumerate(run.table.axis)}
    share = sum(one.amount / max(totals.get(one.resource, 0), 1) for one in lack.shortages)
    return homeless, wanted - lack.fits, share, len(zones), zones


def _capacity(run: Run, shortages: Iterable[Shortage]) -> list[Change]:
    changes: list[Change] = []
    for short in shortages:
        by_zone: dict[ZoneName, list[tuple[NodeName, int]]] = {}
        for node, amount in short.nodes:
            by_zone.setdefault(run.table.nodes[run.table.index[node]].zone, []).append((node, amount))
        for zone, nodes in sorted(by_zone.items()):
            total = quantity(short.resource, sum(amount for _, amount in nodes))
            parts = {node: quantity(short.resource, amount) for node, amount in nodes}
            changes.append(AddCapacity(zone, short.resource, total, parts))
    return changes


def _ahead(room: Room, plan: Plan) -> list[tuple[MemberClass, int]]:
    """Members of gangs that wait ahead, and what those of them want that were admitted beyond their minimum."""
    run, key = room.run, room.ask.gang.key
    mine = plan.waiting[key].rank
    counts: dict[MemberClass, int] = {}
    both: tuple[Waiting | Admission, ...] = (*plan.waiting.values(), *plan.admitted.values())
    for other in both:
        gang = run.snapshot.gangs.get(other.gang)
        if gang is None or other.gang == key or other.rank > mine:
            continue
        given = other.members if isinstance(other, Admission) else {}
        ask = run.view.demand(gang)
        for member_class, pods in (*ask.need, *ask.more):
            waiting = sum(pod.uid not in given for pod in pods)
            counts[member_class] = counts.get(member_class, 0) + waiting
    return [(member_class, count) for member_class, count in counts.items() if count]


def _nodes_for(room: Room, zone: ZoneName, classes: Iterable[tuple[MemberClass, int]], *, alone: bool) -> list[Change]:
    """New nodes for members; `alone`: as few as possible, else one that holds all of a kind, for which any will do."""
    changes: list[Change] = []
    for member_class, count in classes:
        like = _like(room.run, zone, member_class)
        labels = () if like is not None else labels_for(member_class.constraints)
        if labels is None:
            if alone:
                return []
            continue
        request = member_class.requests
        single = bool(member_class.constraints.host_ports)
        each = 0 if like is None else _fit(like.allocatable, request)
        if alone and like is not None and each and not single:
            changes.append(AddNodes(zone, min(-(-count // min(each, count)), _MOST_NODES), like=like.name))
            continue
        copies = count if single else 1
        on_each = 1 if single else count
        allocatable = Resources.of((name, min(amount * on_each, _LARGEST_SUM)) for name, amount in request)
        if not allocatable.get(PODS):
            allocatable = allocatable + Resources.of({PODS: on_each})
        name = like.name if like is not None else None
        amounts: dict[str, str] = {resource: quantity(resource, amount) for resource, amount in allocatable}
        changes.append(AddNodes(zone, min(copies, _MOST_NODES), amounts, name, dict(labels)))
    return changes


def _fit(allocatable: Resources, request: Resources) -> int:
    return min((allocatable.get(name) // amount for name, amount in request if amount > 0), default=_MOST_NODES)


def _like(run: Run, zone: ZoneName, member_class: MemberClass) -> Node | None:
    """The zone's node, else any, that members could be on if it were new, that takes most of them."""
    nodes = [run.table.nodes[row] for row in run.table.zones.get(zone, ())] or list(run.table.nodes)
    able = (node for node in nodes if _would_do(node, member_class.constraints))
    return max(able, key=lambda node: _fit(node.allocatable, member_class.requests), default=None)


def _would_do(node: Node, constraints: Constraints) -> bool:
    """Whether a new node with this one's labels and taints may be used, its own name apart."""
    taints = tuple(one for one in node.taints if one.effect in ("NoSchedule", "NoExecute"))
    labels = tuple((key, value) for key, value in node.labels if key != "kubernetes.io/hostname")
    fresh = Node(NodeName("what-if"), node.zone, Resources(), labels, taints)
    return node_allows(fresh, constraints)


def labels_for(constraints: Constraints) -> tuple[tuple[str, str], ...] | None:
    """Labels by which a new node would suit the constraints; `None`: none would, because they name their nodes.

    >>> labels_for(Constraints(node_selector=(("disk", "ssd"),)))
    (('disk', 'ssd'),)
    >>> labels_for(Constraints(affinity=())) is None
    True
    """
    for term in constraints.affinity if constraints.affinity is not None else (None,):
        labels = dict(constraints.node_selector)
        for one in term.expressions if term is not None else ():
            _satisfy(labels, one)
        fresh = Node(NodeName("what-if"), ZoneName(""), Resources(), tuple(sorted(labels.items())), ())
        if node_allows(fresh, constraints):
            return fresh.labels
    return None


def _satisfy(labels: dict[str, str], one: Requirement) -> None:
    match one.operator:
        case "In" if one.values:
            labels.setdefault(one.key, one.values[0])
        case "Exists":
            labels.setdefault(one.key, "")
        case "Gt" | "Lt" if one.values and one.values[0].lstrip("+-").isdigit():
            labels.setdefault(one.key, str(int(one.values[0]) + (1 if one.operator == "Gt" else -1)))
        case _:
            pass  # what must not be there is not
