"""The plan as it is shown (/v1/plan, `netgang plan`), and what it would be (/v1/what-if)."""

from extender.schemas import plan as schema
from scoring.explain.words import supposed_text
from scoring.model.snapshot import Snapshot
from scoring.plan import Admission, Plan
from scoring.what_if import Supposed, WhatIf


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


def supposed_document(supposed: Supposed, what: WhatIf) -> schema.Supposed:
    """What would differ from the plan of now."""
    return schema.Supposed.copied(
        supposed.difference,
        said=supposed_text(what),
        at_s=supposed.situation.now_s,
        gangs={"admitted": len(supposed.plan.admitted), "waiting": len(supposed.plan.waiting)},
    )
