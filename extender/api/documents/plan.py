"""The plan as it is shown (/v1/plan, `netgang plan`), and what it would be (/v1/what-if)."""

from collections.abc import Iterable

from extender.schemas import plan as schema
from extender.schemas import what_if
from scoring.explain.words import supposed_text
from scoring.model.snapshot import Snapshot
from scoring.plan import Admission, Plan
from scoring.what_if import Fate, Supposed, Turned, WhatIf


def plan_document(plan: Plan, snapshot: Snapshot) -> schema.Plan:
    """Admitted gangs with their nodes, waiting ones with their reasons, both in the order of their rank."""
    started = [snapshot.gangs[key] for key in plan.admitted if key in snapshot.gangs]
    pod_name = {pod.uid: str(pod.name) for gang in started for pod in gang.members}

    def members(admission: Admission) -> dict[str, str]:
        return dict(sorted((pod_name.get(uid, uid), node) for uid, node in admission.members.items()))

    return schema.Plan(
        version=plan.version,
        admitted=tuple(
            schema.AdmittedGang.copied(
                admission,
                zone=",".join(admission.zones),
                score=None if admission.score is None else round(admission.score, 3),
                members=members(admission),
            )
            for admission in sorted(plan.admitted.values(), key=lambda admission: admission.rank)
        ),
        waiting=tuple(
            schema.WaitingGang.copied(waiting, code=waiting.reason.name, reason=str(waiting.reason))
            for waiting in sorted(plan.waiting.values(), key=lambda waiting: waiting.rank)
        ),
    )


def supposed_document(supposed: Supposed, what: WhatIf) -> what_if.Supposed:
    """What would differ from the plan of now."""
    found = supposed.difference
    return what_if.Supposed(
        said=supposed_text(what),
        at_s=supposed.situation.now_s,
        gangs={"admitted": len(supposed.plan.admitted), "waiting": len(supposed.plan.waiting)},
        admitted=_turned(found.admitted),
        refused=_turned(found.refused),
        moved=_turned(found.moved),
        other=_turned(found.other),
    )


def _turned(gangs: Iterable[Turned]) -> tuple[what_if.Turned, ...]:
    return tuple(what_if.Turned(gang=one.gang, before=_fate(one.before), after=_fate(one.after)) for one in gangs)


def _fate(one: Fate) -> what_if.Fate:
    return what_if.Fate.copied(
        one,
        state=one.standing.value,
        zone=",".join(one.zones) if one.zones else None,
        members=dict(one.members) if one.members is not None else {},
        code=one.reason.name if one.reason is not None else None,
        reason=str(one.reason) if one.reason is not None else None,
    )
