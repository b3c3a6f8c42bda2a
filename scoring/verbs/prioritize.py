"""How much a pod wants each node: the score behind /prioritize, with its parts.

Parts, in points of 100:
- network: mean pair score towards the job's placed and planned members that the pod exchanges data with, and 0 where a
  link to one of them is bad, as the plan prefers any other node; without any such member, towards the other nodes of
  the node's own zone.
- packing (PAPERS K6): `PACKING_POINTS` more where another member of the gang is, or is planned to be.
- reservation: `RESERVATION_POINTS` less where the plan wants the node for a gang that is ahead in the queue's order, or
  holds or promises it: this is where the KOD2 weight shows.

Rule: scores need no plan and no gang; a pod that does not ask for network scores gets equal ones, lowered only where
room is reserved.
"""

from collections.abc import Sequence
from functools import partial

import msgspec
import numpy as np
from msgspec.structs import replace

from scoring import NodeName
from scoring.model import Gang, Pod, Policy, Role, Snapshot
from scoring.model.policy import ScorePolicy, gang_options
from scoring.model.snapshot import remember
from scoring.network.matrix import Floats, Ints
from scoring.plan import Plan, PlannerCache, Run, begin_run
from scoring.plan.reservations import reserved_nodes
from scoring.score.pairs import toward
from scoring.selection.demand import pairs_count

PACKING_POINTS = 10.0
RESERVATION_POINTS = 30.0
_PAIRS_MAX = 200_000  # Above it only the siblings' zones are compared; others would lose by zone anyway


class Preference(msgspec.Struct, frozen=True):
    """Points for every node of the snapshot's table, each of shape (nodes,); `total` is clipped to 0..100."""

    total: Floats
    network: Floats
    packing: Floats
    reservation: Floats


def prefer(
    snapshot: Snapshot, plan: Plan, pod: Pod, gang: Gang | None, policy: Policy, *, cache: PlannerCache | None = None
) -> Preference:
    """Score every node for `pod`. Cost: O(nodes × siblings) lookups when the network data or the siblings are new."""
    run = begin_run(snapshot, policy, cache or PlannerCache())
    nodes = len(snapshot.table.nodes)
    network = _network_points(run, plan, pod, gang) if asks_for_network(pod, gang) else np.full(nodes, 100.0)
    packing, reservation = np.zeros(nodes), np.zeros(nodes)
    near = {node for _, node in others_of(plan, pod, gang)}
    packing[[snapshot.table.index[n] for n in near if n in snapshot.table.index]] = PACKING_POINTS
    # A pod without a planned gang is behind all of them.
    own = (plan.admitted.get(gang.key) or plan.waiting.get(gang.key)) if gang is not None else None
    ahead = [a for a in plan.admitted.values() if own is None or a.rank < own.rank]
    held = reserved_nodes(plan.held, besides=gang.key if gang is not None else None)
    if plan.version == snapshot.version:
        held.update(node for admission in ahead for node in admission.members.values())
    else:  # an older plan still names members that are bound by now: they reserve nothing
        gangs = (snapshot.gangs.get(admission.gang) for admission in ahead)
        waiting = {pod.uid for other in gangs if other is not None for pod in other.pending}
        held.update(node for admission in ahead for uid, node in admission.members.items() if uid in waiting)
    reservation[[snapshot.table.index[n] for n in held if n in snapshot.table.index]] = -RESERVATION_POINTS
    return Preference(np.clip(network + packing + reservation, 0.0, 100.0), network, packing, reservation)


def asks_for_network(pod: Pod, gang: Gang | None) -> bool:
    """Members of gangs and jobs are scored by network; a plain pod only if an annotation of ours says so."""
    return gang is not None or pod.job is not None or bool({"near", "ratios"} & {name for name, _ in pod.options})


def others_of(plan: Plan, pod: Pod, gang: Gang | None) -> tuple[tuple[Role, NodeName], ...]:
    """(role, node) of the gang's other members that have a node or a planned one, sorted."""
    others = [member for member in gang.members if member.uid != pod.uid and member.lives] if gang else []
    nodes = ((member.role, member.node or plan.node_of.get(member.uid)) for member in others)
    return tuple(sorted((role, node) for role, node in nodes if node is not None))


def siblings_of(plan: Plan, pod: Pod, gang: Gang | None) -> tuple[tuple[Role, NodeName], ...]:
    """Those of `others_of` that `pod` talks to."""
    if gang is None:
        return ()
    all_reduce = not any(member.role is Role.PS for member in gang.members)
    others = others_of(plan, pod, gang)
    return tuple(other for other in others if pairs_count(pod.role, other[0], all_reduce=all_reduce))


def _network_points(run: Run, plan: Plan, pod: Pod, gang: Gang | None) -> Floats:
    table, network, score = run.table, run.snapshot.network, run.policy.score
    if gang is not None:
        score = run.view.score(run.view.demand(gang))
    elif (ratios := gang_options(dict(pod.options), run.policy).ratios) is not None:
        score = replace(score, ratios=ratios)
    ends = tuple(sorted({node for _, node in siblings_of(plan, pod, gang) if node in table.index}))
    points = np.zeros(len(table.nodes))
    if not ends:
        outlooks, key = run.view.of_network.outlooks, (run.view.layout, score)
        return remember(outlooks, key, partial(_outlook, run, score), limit=64)
    names: Sequence[NodeName] = table.names
    rows: Ints | slice = slice(None)
    own = run.scores.connected(ends)
    if len(names) * len(ends) > _PAIRS_MAX:
        rows = run.view.rows(run.view.zones_of(ends))
        names = [table.names[row] for row in rows]
    # Every member has other siblings, so this is of no use to the next one.
    links = toward(network, names, ends, score, own=own[rows])
    points[rows] = np.where(links.bad.any(axis=1), 0.0, links.points.mean(axis=1))
    return points


def _outlook(run: Run, score: ScorePolicy) -> Floats:
    """Mean points of each node towards the others of its zone. Cost: O(nodes + measured²) for each zone."""
    table = run.table
    points = np.zeros(len(table.nodes))
    common = run.scores.common_reference(tuple(table.zones), score) if len(table.zones) > 1 else score
    for zone, rows in table.zones.items():
        points[rows] = run.scores.links((zone,), common).mean_points_to_others()
    points.flags.writeable = False
    return points
