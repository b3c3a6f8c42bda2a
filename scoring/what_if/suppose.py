"""Suppose changes: what they make of a situation and of its plan: gangs admitted, refused or moved by them.

Rule: the plan after is made as the running service would make it: places that the plan before gave are kept where they
still stand. So what differs is due to the change, and not to another way of choosing among equals.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import Final, assert_never

from scoring.ids import GangKey, NodeName, ZoneName
from scoring.model import Gang, Reason
from scoring.plan import Plan, PlannerCache, plan_in_steps
from scoring.plan.expected import AnyStart, Calibration, expected_starts
from scoring.plan.steps import Steps, finish
from scoring.what_if import changes as c
from scoring.what_if.changes import Change, MisfitError
from scoring.what_if.draft import Draft, Situation
from scoring.what_if.jobs import add_job, add_pods, end_job, mend, remove_pods, resize_job, set_option
from scoring.what_if.nodes import add_capacity, add_nodes, change_nodes, remove_nodes, set_link
from scoring.what_if.pod_templates import ignore_node_label, lower_request, tolerate

MOST_ADVANCE_S: Final = 366 * 86_400.0  # Farther ahead nothing is known of what happens
MOST_BEHIND: Final = 10  # Gangs that are named


class Standing(StrEnum):
    """How a gang stands in a plan."""

    ADMITTED = "admitted"
    WAITING = "waiting"
    SETTLED = "settled"  # It wants no nodes: all of it runs, or has ended
    ABSENT = "absent"


@dataclass(frozen=True, slots=True)
class Fate:
    """One gang in one plan."""

    standing: Standing
    rank: int | None = None
    zones: tuple[ZoneName, ...] = ()
    members: Mapping[str, NodeName] | None = None  # pod → planned node, of an admitted gang
    reason: Reason | None = None
    detail: str = ""
    score: float | None = None  # Mean points of an admitted gang's links; `None`: too few members on different nodes
    behind: tuple[GangKey, ...] = ()  # Of one that waits: gangs ahead that were given room or hold it, in their order
    expected: AnyStart | None = None  # Of one that waits: when it would start; `None`: it was not looked at


@dataclass(frozen=True, slots=True)
class Turned:
    """A gang for which something differs."""

    gang: GangKey
    before: Fate
    after: Fate


@dataclass(frozen=True, slots=True)
class Difference:
    """All gangs for which something differs, each in one of the lists, by name."""

    admitted: tuple[Turned, ...] = ()  # Would be admitted, and were not
    refused: tuple[Turned, ...] = ()  # Were admitted, and would wait
    moved: tuple[Turned, ...] = ()  # Admitted both times, at other nodes, or with other members
    other: tuple[Turned, ...] = ()  # Wait for another reason, came, went, or have settled


@dataclass(frozen=True, slots=True)
class Supposed:
    """A changed situation and the plan for it."""

    situation: Situation
    plan: Plan
    difference: Difference


def apply(base: Situation, changes: Sequence[Change], *, version: int) -> Situation:
    """`base` with all changes, one after the other. The same arguments always give the same result.

    `version` stands for what differs (snapshot, node table, links): it must be one that nothing else has with the cache
    that the result is planned with; negative ones are unused. Errors: MisfitError names the first change that does not
    fit the cluster, and its field, as `changes.2.zone: …`. Cost: O(nodes + pods), and O(changes).
    """
    draft = Draft(base)
    for number, change in enumerate(changes):
        try:
            _apply(draft, change)
        except MisfitError as error:
            raise MisfitError(f"changes.{number}.{error}") from error
    return draft.finished(version=version)


def _apply(draft: Draft, change: Change) -> None:
    match change:
        case c.AddCapacity():
            add_capacity(draft, change)
        case c.AddNodes():
            add_nodes(draft, change)
        case c.RemoveNodes():
            remove_nodes(draft, change)
        case c.CordonNodes() | c.UncordonNodes() | c.TaintNodes() | c.UntaintNodes():
            change_nodes(draft, change)
        case c.AddJob():
            add_job(draft, change)
        case c.AddPods():
            add_pods(draft, change)
        case c.RemovePods():
            remove_pods(draft, change)
        case c.JobEnds():
            end_job(draft, change)
        case c.JobShrinks() | c.JobGrows():
            resize_job(draft, change)
        case c.ClockAdvances():
            to_s = change.moment_s(draft.base.now_s)
            if not draft.now_s <= to_s <= draft.now_s + MOST_ADVANCE_S:
                raise MisfitError(f"to_s: is not between now ({draft.now_s:.0f}) and a year from now")
            draft.now_s = to_s
        case c.SetLink():
            set_link(draft, change)
        case c.SetOption():
            set_option(draft, change)
        case c.SetShare(namespace, cap):
            queue = draft.policy.queue
            others = tuple(one for one in queue.share_cap_by_namespace if one[0] != namespace)
            shares = tuple(sorted((*others, (namespace, cap))))
            draft.policy = replace(draft.policy, queue=replace(queue, share_cap_by_namespace=shares))
        case c.SetSettings(settings):
            draft.policy = draft.base.policy_with(settings)
        case c.OpenGates() | c.MendGroup() | c.ForgetRefusals():
            mend(draft, change)
        case c.Tolerate():
            tolerate(draft, change)
        case c.LowerRequest():
            lower_request(draft, change)
        case c.IgnoreNodeLabel():
            ignore_node_label(draft, change)
        case _:  # pragma: no cover
            assert_never(change)


def what_if(base: Situation, plan: Plan, changes: Sequence[Change], *, cache: PlannerCache | None = None) -> Supposed:
    """What the changes would make of `plan` of `base`. Cost: as planning everything once. Errors: as `apply`."""
    cache = cache if cache is not None else PlannerCache()
    made = apply(base, changes, version=cache.supposition())
    return with_expected_starts(finish(supposed_in_steps(base, plan, made, cache=cache)), cache=cache)


def with_expected_starts(
    supposed: Supposed, *, cache: PlannerCache, calibration: Calibration | None = None
) -> Supposed:
    """The same, with when those start that would wait. Cost: as `expected_starts`, once, if there are any.

    Apart from supposing, because a trial that only looks whether a gang is admitted does not pay for it.
    """
    lists = {field.name: getattr(supposed.difference, field.name) for field in fields(supposed.difference)}
    if not any(one.after.standing is Standing.WAITING for found in lists.values() for one in found):
        return supposed
    made, asked = supposed.situation, (supposed.situation.snapshot, supposed.plan, supposed.situation.policy)
    starts = expected_starts(*asked, now_s=made.now_s, calibration=calibration, cache=cache)
    lists = {
        name: tuple(replace(one, after=replace(one.after, expected=starts.get(one.gang))) for one in found)
        for name, found in lists.items()
    }
    return replace(supposed, difference=Difference(**lists))


def supposed_in_steps(base: Situation, plan: Plan, made: Situation, *, cache: PlannerCache) -> Steps[Supposed]:
    """Plan what was `made` of `base` by changes, in steps of a gang or a few."""
    after = yield from plan_in_steps(made.snapshot, made.policy, now_s=made.now_s, previous=plan, cache=cache)
    yield
    return Supposed(made, after, difference(base, plan, made, after))


def difference(base: Situation, before: Plan, made: Situation, after: Plan) -> Difference:
    """What differs between two plans. Cost: O(gangs + members of admitted ones)."""
    lists: dict[str, list[Turned]] = {"admitted": [], "refused": [], "moved": [], "other": []}
    for key in sorted({*base.snapshot.gangs, *made.snapshot.gangs, *before.waiting, *before.admitted}):
        one = Turned(key, fate(base.snapshot.gangs.get(key), before), fate(made.snapshot.gangs.get(key), after))
        if (kind := _kind(one)) is not None:
            lists[kind].append(replace(one, after=replace(one.after, behind=_behind(key, after))))
    return Difference(**{name: tuple(found) for name, found in lists.items()})


def fate(gang: Gang | None, plan: Plan) -> Fate:
    """How a gang stands in a plan. Cost: O(members)."""
    if gang is None:
        return Fate(Standing.ABSENT)
    admission, waiting = plan.admitted.get(gang.key), plan.waiting.get(gang.key)
    if admission is not None:
        names = {pod.uid: str(pod.name) for pod in gang.members}
        members = {names.get(uid, str(uid)): node for uid, node in admission.members.items()}
        placed = dict(sorted(members.items()))
        return Fate(Standing.ADMITTED, admission.rank, admission.zones, placed, score=admission.score)
    if waiting is not None:
        return Fate(Standing.WAITING, waiting.rank, reason=waiting.reason, detail=waiting.detail)
    return Fate(Standing.SETTLED)


def _behind(key: GangKey, plan: Plan) -> tuple[GangKey, ...]:
    """Gangs ahead of one whose room they have: given in this plan, or reserved. Cost: O(gangs)."""
    waiting = plan.waiting.get(key)
    if waiting is None or waiting.reason is not Reason.BEHIND:
        return ()
    ahead = {one.gang: one.rank for one in plan.admitted.values() if one.rank < waiting.rank}
    ahead |= {gang: plan.waiting[gang].rank for gang in plan.reservations if gang in plan.waiting and gang != key}
    return tuple(sorted(ahead, key=lambda gang: (ahead[gang], gang))[:MOST_BEHIND])


def _kind(one: Turned) -> str | None:
    """The list to which it belongs; `None`: nothing that matters differs. A rank alone does not matter."""
    before, after = one.before, one.after
    if before.standing is not after.standing:
        if after.standing is Standing.ADMITTED:
            return "admitted"
        return "refused" if (before.standing, after.standing) == (Standing.ADMITTED, Standing.WAITING) else "other"
    if before.members != after.members:
        return "moved"
    return "other" if before.reason is not after.reason else None
