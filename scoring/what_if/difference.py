"""What a change would make of the plan: which gangs would be admitted, refused or moved, before and after.

Rule: the plan after is made as the running service would make it: places that the plan before gave are kept where they
still stand. So what differs is due to the change, and not to another way of choosing among equals.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from scoring.ids import GangKey, NodeName, ZoneName
from scoring.model import Gang
from scoring.model.reasons import Reason
from scoring.plan import Plan, PlannerCache, plan_in_steps
from scoring.plan.steps import Steps, finish
from scoring.what_if.apply import apply
from scoring.what_if.changes import Change
from scoring.what_if.draft import Situation


class Standing(StrEnum):
    """How a gang stands in a plan."""

    ADMITTED = "admitted"
    WAITING = "waiting"
    SETTLED = "settled"
    """It wants no nodes: all of it runs, or has ended."""
    ABSENT = "absent"


@dataclass(frozen=True, slots=True)
class Fate:
    """One gang in one plan."""

    standing: Standing
    rank: int | None = None
    zones: tuple[ZoneName, ...] = ()
    members: Mapping[str, NodeName] | None = None
    """pod → planned node, of an admitted gang"""
    reason: Reason | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Turned:
    """A gang for which something differs."""

    gang: GangKey
    before: Fate
    after: Fate


@dataclass(frozen=True, slots=True)
class Difference:
    """All gangs for which something differs, each in one of the lists, by name."""

    admitted: tuple[Turned, ...] = ()
    """Would be admitted, and were not."""
    refused: tuple[Turned, ...] = ()
    """Were admitted, and would wait."""
    moved: tuple[Turned, ...] = ()
    """Admitted both times, at other nodes, or with other members."""
    other: tuple[Turned, ...] = ()
    """Wait for another reason, came, went, or have settled."""


@dataclass(frozen=True, slots=True)
class Supposed:
    """A changed situation and the plan for it."""

    situation: Situation
    plan: Plan
    difference: Difference


def what_if(base: Situation, plan: Plan, changes: Sequence[Change], *, cache: PlannerCache | None = None) -> Supposed:
    """What the changes would make of `plan`, which was made from `base`. Cost: as planning everything once.

    Errors: MisfitError as `apply`.
    """
    cache = cache if cache is not None else PlannerCache()
    return finish(supposed_in_steps(base, plan, apply(base, changes, version=cache.supposition()), cache=cache))


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
        kind = _kind(one)
        if kind is not None:
            lists[kind].append(one)
    return Difference(**{name: tuple(found) for name, found in lists.items()})


def fate(gang: Gang | None, plan: Plan) -> Fate:
    """How a gang stands in a plan. Cost: O(members)."""
    if gang is None:
        return Fate(Standing.ABSENT)
    admission, waiting = plan.admitted.get(gang.key), plan.waiting.get(gang.key)
    if admission is not None:
        names = {pod.uid: str(pod.name) for pod in gang.members}
        members = {names.get(uid, str(uid)): node for uid, node in admission.members.items()}
        return Fate(Standing.ADMITTED, admission.rank, admission.zones, dict(sorted(members.items())))
    if waiting is not None:
        return Fate(Standing.WAITING, waiting.rank, reason=waiting.reason, detail=waiting.detail)
    return Fate(Standing.SETTLED)


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
