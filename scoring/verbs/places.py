"""Which nodes the members of an admitted gang may go to once their gate is removed (docs/safety.md S6), or instead.

Why a list and not the one planned node: a gated pod's affinity can be made narrower and never wider, so a node that
dies a moment later must leave others. Why not simply the zone: kube-scheduler looks at listed nodes alone, so at 5,000
nodes its rate no longer depends on the size of the cluster (measured). Rule: all members of one kind get the same list,
so that they stay one kind to the planner; planned nodes are on it. Of a native gang each member gets one node of it,
without spares and limit: kube-scheduler would choose among several by scores of its own, and a spare may be what
another gang was promised.

Another node for a member whose planned one kube-scheduler's other filters refuse: the gang stays in its zones, no
member's place is taken, and of the nodes asked about the one with the best network towards the siblings is the answer.

Kubernetes' own groups: kube-scheduler binds no member before all have a node, so netgang can only name one zone for all
of them: the one that the planner would take beside what is committed; when that one did not do, the next one by room,
until all were tried, and then from the beginning. So a wrong guess costs a try, and no group is kept from starting.
"""

from collections.abc import Collection, Mapping, Sequence

import msgspec
import numpy as np
from msgspec.structs import replace

from scoring import NodeName, ZoneName
from scoring.feasibility.filters import HOSTNAME_LABEL
from scoring.model import Gang, GangSource, MemberClass, Pod, Policy, Snapshot
from scoring.model.policy import AdmitTo
from scoring.network.matrix import Ints
from scoring.plan import Admission, Plan, PlannerCache, Run, begin_run, take_admissions, take_commitments
from scoring.plan.placement import place_minimum
from scoring.plan.result import Placed

MOST_LISTED = 128  # Above this many names a list costs the API server and etcd more than it saves kube-scheduler


class Listing(msgspec.Struct, frozen=True):
    """Where members of one class may go; without `nodes` the zones alone, without `zones` /filter names the node."""

    zones: tuple[ZoneName, ...]
    nodes: tuple[NodeName, ...] = ()  # Planned nodes by name, then spares, best first
    hostnames: tuple[str, ...] = ()  # Their kubernetes.io/hostname, where the pod's own terms are narrowed
    why_zone: str = ""  # Why no node is named

    def only(self, node: NodeName) -> "Listing":
        """The same for one of its nodes alone."""
        at = self.nodes.index(node)
        return replace(self, nodes=(node,), hostnames=self.hostnames[at : at + 1])


class Alternative(msgspec.Struct, frozen=True):
    """What there is instead of the planned node."""

    node: NodeName | None  # The best node that was asked about; `None`: none of the gang's zones will do
    absent: tuple[NodeName, ...]  # Nodes of the gang's zones that have room in our view and were not asked about


class PlanPlaces:
    """Places by one plan. Cost: O(admitted members) once, then O(classes · nodes of the zones) for each gang."""

    def __init__(self, snapshot: Snapshot, plan: Plan, policy: Policy, *, cache: PlannerCache | None = None) -> None:
        self._plan = plan
        self._run = begin_run(snapshot, policy, cache or PlannerCache())
        take_commitments(self._run)
        take_admissions(self._run, plan.admitted.values())

    def listings(self, gang: Gang, admission: Admission, *, may_name: bool = True) -> Mapping[MemberClass, Listing]:
        """The list of each class of the gang's gated members that have a place; not `may_name`: of zones alone."""
        classes: dict[MemberClass, list[Pod]] = {}
        for pod in gang.pending:
            if pod.gated and pod.uid in admission.members:
                classes.setdefault(pod.member_class, []).append(pod)
        lists = {like: _listing(self._run, gang, admission, like, pods) for like, pods in classes.items()}
        if may_name:
            return lists
        why_zone = "nodes were named for it before, and would not do"
        return {like: Listing(listing.zones, why_zone=listing.why_zone or why_zone) for like, listing in lists.items()}

    def instead(self, gang: Gang, pod: Pod, asked: Sequence[NodeName]) -> Alternative:
        """Another node for `pod`, which has a place in the plan, among the nodes `asked`."""
        run, admission = self._run, self._plan.admitted.get(gang.key)
        if admission is None or not set(admission.zones) <= set(run.zones) or not admission.zones:
            return Alternative(None, ())
        rows = run.view.rows(admission.zones)
        names = np.array(run.view.names(admission.zones), object)
        room = run.capacity.room.counts(run.view.vector(pod.member_class))
        able, wanted = run.capacity.mask(pod.member_class)[rows] & (room[rows] > 0), set(asked)
        offered = np.array([name in wanted for name in names], np.bool_)
        absent = tuple(names[able & ~offered].tolist())
        good = np.flatnonzero(able & offered)
        if not len(good):
            return Alternative(None, absent)
        at = {name: i for i, name in enumerate(names.tolist())}
        where = [m.node or admission.members.get(m.uid) for m in gang.members if m.uid != pod.uid]
        siblings = np.array([at[name] for name in where if name in at], np.int64)
        points = run.scores.links(admission.zones, run.view.score(run.view.demand(gang))).rank_toward(siblings)
        return Alternative(NodeName(names[good[int(np.argmax(points.sum(axis=1)[good]))]]), absent)


def _listing(run: Run, gang: Gang, admission: Admission, member_class: MemberClass, pods: Sequence[Pod]) -> Listing:
    if any(pod.member_class.constraints.claims for pod in gang.members):
        # A volume may be elsewhere than in the planned zone: only without an affinity can the plan still be changed.
        return Listing((), why_zone="the volumes of the gang's claims decide the zone")
    why_zone = _only_zone(run, member_class, pods)
    planned = sorted({admission.members[pod.uid] for pod in pods})
    one_each = gang.source is GangSource.GATED_NATIVE
    terms = max(len(member_class.constraints.affinity or ()), 1)
    if not why_zone and not one_each and terms * (len(planned) + run.policy.spares) > MOST_LISTED:
        why_zone = f"{len(planned)} nodes are too many to name" + (f" in each of {terms} terms" if terms > 1 else "")
    if why_zone:
        return Listing(admission.zones, why_zone=why_zone)
    spares = [] if one_each else _spares(run, gang, admission, member_class, planned)
    nodes = (*planned, *spares)
    if member_class.constraints.affinity is None:
        return Listing(admission.zones, nodes)
    table = run.table
    labels = {name: dict(table.nodes[table.index[name]].labels).get(HOSTNAME_LABEL) for name in nodes}
    if any(labels[name] is None for name in planned):
        return Listing(admission.zones, why_zone=f"a planned node has no label {HOSTNAME_LABEL}")
    named = tuple(name for name in nodes if labels[name] is not None)
    return Listing(admission.zones, named, tuple(str(labels[name]) for name in named))


def _only_zone(run: Run, member_class: MemberClass, pods: Sequence[Pod]) -> str:
    if run.policy.admit_to is AdmitTo.ZONE:
        return "admit_to is zone"
    if unmodelled := sorted({name for pod in pods for name in pod.unmodelled}):
        return f"the pods have {', '.join(unmodelled)}"
    if names := run.table.uncounted(member_class.requests):
        return f"no node's allocatable shows {', '.join(names)} (uncounted)"
    if run.snapshot.excluded(member_class):
        # What closed these nodes may close others as well: only among all of a zone can kube-scheduler look for itself.
        return "nodes are left out for such pods, for reasons that are not modelled and may close others"
    return ""


def _spares(
    run: Run, gang: Gang, admission: Admission, member_class: MemberClass, planned: Sequence[NodeName]
) -> list[NodeName]:
    """Nodes that no member of the class is planned on: with room first, then by points towards the planned, by name."""
    request = run.view.vector(member_class)
    if not admission.zones or not set(admission.zones) <= set(run.zones):
        return []
    rows: Ints = run.view.rows(admission.zones)
    score = run.view.score(run.view.demand(gang))
    there = np.isin(rows, [run.table.index[name] for name in planned if name in run.table.index])
    near = run.scores.links(admission.zones, score).rank_toward(np.flatnonzero(there))
    points = near.mean(axis=1) if there.any() else np.zeros(len(rows))
    room = run.capacity.room.counts(request)[rows] > 0
    candidates = np.flatnonzero(run.capacity.mask(member_class)[rows] & ~there)
    order = candidates[np.lexsort((candidates, -points[candidates], ~room[candidates]))]
    return [run.table.names[row] for row in rows[order[: run.policy.spares]].tolist()]


class FirstZone(msgspec.Struct, frozen=True):
    """`zone` `None`: no zone is better than another. `failed`: those that are not to be tried again for now."""

    zone: ZoneName | None
    failed: frozenset[ZoneName] = frozenset()


def first_zone(
    gang: Gang, snapshot: Snapshot, policy: Policy, *, failed: Collection[ZoneName], cache: PlannerCache, now_s: float
) -> FirstZone:
    """The zone for the group's next try; `failed`: zones of earlier ones. Cost: as planning one gang."""
    run = begin_run(snapshot, policy, cache)
    take_commitments(run, besides=gang.key)
    ask = run.view.demand(gang)
    allowed = run.view.candidate_zones(ask)
    left = [zone for zone in allowed if zone not in failed]
    if not left:
        failed, left = (), list(allowed)
    outcome = place_minimum(run, ask, now_s=now_s) if ask.need and not failed else None
    if isinstance(outcome, Placed) and len(outcome.zones) == 1:
        return FirstZone(outcome.zones[0], frozenset(failed))
    if not left:
        return FirstZone(None, frozenset(failed))
    room = dict(zip(run.zones, run.capacity.zone_members(run.view.member_set(ask.need, ask)).tolist(), strict=True))
    return FirstZone(min(left, key=lambda zone: (-room[zone], zone)), frozenset(failed))
