"""What changes would make of the plan."""

from collections.abc import Iterable, Sequence

from extender.api.schemas import what_if as schema
from scoring.explain.words import changes_text
from scoring.what_if.changes import Change
from scoring.what_if.difference import Fate, Supposed, Turned


def supposed_document(supposed: Supposed, changes: Sequence[Change], *, now_s: float) -> schema.Supposed:
    """What the changes would make of the plan."""
    found = supposed.difference
    return schema.Supposed(
        said=changes_text(changes, now_s=now_s),
        at_s=supposed.situation.now_s,
        gangs={"admitted": len(supposed.plan.admitted), "waiting": len(supposed.plan.waiting)},
        admitted=_turned(found.admitted),
        refused=_turned(found.refused),
        moved=_turned(found.moved),
        other=_turned(found.other),
    )


def _turned(gangs: Iterable[Turned]) -> tuple[schema.Turned, ...]:
    return tuple(schema.Turned(gang=one.gang, before=_fate(one.before), after=_fate(one.after)) for one in gangs)


def _fate(one: Fate) -> schema.Fate:
    return schema.Fate.copied(
        one,
        state=one.standing.value,
        zone=",".join(one.zones) if one.zones else None,
        members=dict(one.members) if one.members is not None else {},
        code=one.reason.name if one.reason is not None else None,
        reason=str(one.reason) if one.reason is not None else None,
    )
