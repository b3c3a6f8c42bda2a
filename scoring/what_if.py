"""Suppose that something were different, and see what the plan would be. Nothing is changed anywhere.

Places that the plan before gave are kept where they still stand, as the running service would: what differs is due to
what is supposed, and not to another way of choosing among equals.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, NamedTuple, TypeAlias

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from scoring import GangKey, NodeName, PodUid
from scoring.explain.gang import uncounted_names
from scoring.explain.words import counted, duration_text, near_names, some
from scoring.model import Gang, Pod, Policy, Reason, Reservation, Snapshot
from scoring.model.policy import gang_options
from scoring.plan import Plan, PlannerCache, plan
from scoring.records import Fate, Supposed, Turned
from scoring.score.zone_distance import near_problem

MOST_PODS: Final = 10_000
MOST_BEHIND: Final = 10  # Gangs that are named
_MOST_ADVANCE_S: Final = 366 * 86_400.0  # Farther ahead nothing is known of what happens
_VERSION: Final = -1  # Of a snapshot that is only supposed; those of the cluster are not negative
_MANY: Final = Meta(max_length=1000)
_Nodes: TypeAlias = Annotated[tuple[Annotated[NodeName, Meta(max_length=253)], ...], _MANY]
_Key: TypeAlias = Annotated[str, Meta(max_length=507, pattern=r"^[^/]+/.", description="NAMESPACE/NAME")]


class MisfitError(ValueError):
    """What is supposed does not fit this cluster; the text begins with the field that is wrong."""


class PodSet(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Pods that differ in their names alone."""

    pod: msgspec.Raw
    """A v1 Pod as a controller would create it"""
    count: Annotated[int, Meta(ge=1, le=MOST_PODS)] = 1
    """Several are NAME-0, NAME-1, …"""


class WhatIf(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is supposed, all of it together."""

    pods: Annotated[tuple[PodSet, ...], Meta(max_length=100)] = ()
    """Pods that are submitted; they must form gangs that do not exist yet"""
    pod_groups: Annotated[tuple[msgspec.Raw, ...], Meta(max_length=100)] = ()
    """PodGroups of these pods"""
    remove_jobs: Annotated[tuple[_Key, ...], _MANY] = ()
    """Gangs, or jobs with all their gangs, whose pods are gone, whether they ran or waited"""
    cordon: _Nodes = ()
    """Nodes that take no new pods; what runs there stays"""
    uncordon: _Nodes = ()
    """Nodes that take pods again"""
    advance_s: Annotated[float, Meta(ge=0.0, le=_MOST_ADVANCE_S)] = 0.0
    """Time that passes; waits, back-offs and holds run on, links go on being measured"""
    settings: Annotated[Mapping[str, Any], Meta(max_length=50)] = {}
    """Other settings that decide, as in the settings file: score, queue, selection, zone_policy and so on"""


class Situation(NamedTuple):
    """All that a plan is made from."""

    snapshot: Snapshot
    policy: Policy
    now_s: float


def what_if(
    base: Situation,
    before: Plan,
    what: WhatIf,
    *,
    gangs: Sequence[Gang] = (),
    policy: Policy | None = None,
    cache: PlannerCache | None = None,
) -> Supposed:
    """What is supposed makes this of `before`, the plan of `base`. Cost: as planning everything once.

    `gangs`, `policy`: what pods and settings of `what` were read as; `cache`: for this question alone. Errors:
    MisfitError names the field that does not fit the cluster.
    """
    situation = supposed(base, what, gangs=gangs, policy=policy)
    after = plan(situation.snapshot, situation.policy, now_s=situation.now_s, previous=before, cache=cache)
    lists: dict[str, list[Turned]] = {"admitted": [], "refused": [], "moved": [], "other": []}
    old, new = base.snapshot.gangs, situation.snapshot.gangs
    ranks_before, ranks_after = before.ranks(), after.ranks()
    for key in sorted({*old, *new, *before.waiting, *before.admitted}):
        turned = Turned(key, _fate(old.get(key), before, ranks_before), _fate(new.get(key), after, ranks_after))
        if (kind := _kind(turned)) is not None:
            lists[kind].append(replace(turned, after=replace(turned.after, behind=_behind(key, after))))
    return Supposed(
        said=supposed_text(what),
        at_s=situation.now_s,
        gangs={"admitted": len(after.admitted), "waiting": len(after.waiting)},
        notes=tuple(f"{gang.key}: {note}" for gang in gangs for note in mistakes(gang, situation)),
        **{kind: tuple(turned) for kind, turned in lists.items()},
    )


def supposed(base: Situation, what: WhatIf, *, gangs: Sequence[Gang] = (), policy: Policy | None = None) -> Situation:
    """`base` with all that is supposed. Errors: MisfitError. Cost: O(nodes + pods)."""
    before, now_s = base.snapshot, base.now_s + what.advance_s
    left, table = dict(before.gangs), before.table
    gone: dict[PodUid, Pod] = {}
    for job in what.remove_jobs:
        named, pods = left.get(GangKey(job)), (pod for gang in left.values() for pod in gang.members if pod.job == job)
        leave = {pod.uid: pod for pod in (named.members if named is not None else pods)}
        if not leave:
            raise MisfitError(f"remove_jobs: no gang and no job {job} is known{near_names(job, left)}")
        gone |= leave
        for key, gang in list(left.items()):
            members = tuple(pod for pod in gang.members if pod.uid not in leave)
            left[key] = gang if len(members) == len(gang.members) else replace(gang, members=members)
            if not members:
                del left[key]
    for gang in gangs:
        if gang.key in left:
            raise MisfitError(f"pods: gang {gang.key} exists already; netgang explain {gang.key} says how it stands")
        members = tuple(replace(pod, created_s=now_s) for pod in gang.members)
        left[gang.key] = replace(gang, members=members, created_s=now_s)
    for field, names in (("cordon", what.cordon), ("uncordon", what.uncordon)):
        if unknown := next((name for name in names if name not in table.index), None):
            raise MisfitError(f"{field}: there is no node {unknown}")
    if cordoned := dict.fromkeys(what.cordon, True) | dict.fromkeys(what.uncordon, False):  # in both: not cordoned
        nodes = (replace(node, unschedulable=cordoned.get(node.name, node.unschedulable)) for node in table.nodes)
        table = replace(table, version=_VERSION, nodes=tuple(nodes))
    assignments = {
        key: {uid: node for uid, node in reservation.assignment.items() if uid not in gone}
        for key, reservation in before.commitments.items()
    }
    snapshot = replace(
        before.without([pod for pod in gone.values() if not pod.terminal], ports=True),
        version=_VERSION,
        table=table,
        gangs=left,
        commitments={key: Reservation(key, left_over) for key, left_over in assignments.items() if left_over},
        backing_off_until_s={key: at_s for key, at_s in before.backing_off_until_s.items() if key in left},
        claims={key: claim for key, claim in before.claims.items() if key in left},
    )
    return Situation(snapshot, policy or base.policy, now_s)


def mistakes(gang: Gang, situation: Situation) -> tuple[str, ...]:
    """Sentences on what the gang's pods ask for and do not get: values that are not understood, or not counted."""
    snapshot, policy, namespace = situation.snapshot, situation.policy, gang.key.partition("/")[0]
    options = gang_options(dict(gang.options), policy, namespace=namespace)
    near = near_problem(options.near, snapshot.table, snapshot.network, policy)
    names, shows = uncounted_names(snapshot.table, gang.members), "no node's allocatable shows"
    uncounted = (f"{shows} {name}: kube-scheduler or another extender counts it" for name in names)
    return (*dict.fromkeys(slip for pod in gang.members for slip in pod.misspelt), *options.problems, *near, *uncounted)


def supposed_text(what: WhatIf) -> str:
    """What is supposed, in one sentence's worth of words, such as "team/a gone, node n1 cordoned, 4 min later"."""
    parts = [counted(sum(pod_set.count for pod_set in what.pods), "more pod")] if what.pods else []
    parts += [f"{some(what.remove_jobs)} gone"] if what.remove_jobs else []
    for names, how in ((what.cordon, "cordoned"), (what.uncordon, "uncordoned")):
        parts += [f"{'node' if len(names) == 1 else 'nodes'} {some(names)} {how}"] if names else []
    parts += [f"other settings: {', '.join(sorted(what.settings))}"] if what.settings else []
    parts += [f"{duration_text(what.advance_s)} later"] if what.advance_s else []
    return ", ".join(parts)


def _fate(gang: Gang | None, plan: Plan, ranks: Mapping[GangKey, int]) -> Fate:
    if gang is None:
        return Fate("absent")
    if (admission := plan.admitted.get(gang.key)) is not None:
        names = {pod.uid: str(pod.name) for pod in gang.members}
        members = dict(sorted((names.get(uid, str(uid)), node) for uid, node in admission.members.items()))
        return Fate("admitted", ranks[gang.key], ",".join(admission.zones) or None, members, score=admission.score)
    if (waiting := plan.waiting.get(gang.key)) is not None:
        reason, rank = waiting.reason, ranks.get(gang.key)
        return Fate("waiting", rank, code=reason.name, reason=reason.value, detail=waiting.detail)
    return Fate("settled")


def _behind(key: GangKey, plan: Plan) -> tuple[GangKey, ...]:
    if (waiting := plan.waiting.get(key)) is None or waiting.reason is not Reason.BEHIND:
        return ()
    ahead = {admission.gang: admission.rank for admission in plan.admitted.values() if admission.rank < waiting.rank}
    ahead |= {gang: plan.waiting[gang].rank for gang in plan.held if gang in plan.waiting and gang != key}
    return tuple(sorted(ahead, key=lambda gang: (ahead[gang], gang))[:MOST_BEHIND])


def _kind(turned: Turned) -> str | None:
    """The list to which it belongs; `None`: nothing that matters differs. A rank alone does not matter."""
    before, after = turned.before, turned.after
    if before.state == after.state:
        return "moved" if before.members != after.members else "other" if before.code != after.code else None
    if after.state == "admitted":
        return "admitted"
    return "refused" if (before.state, after.state) == ("admitted", "waiting") else "other"
