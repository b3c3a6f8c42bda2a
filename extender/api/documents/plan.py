"""The plan as it is shown: behind /v1/plan, and `netgang plan`."""

from extender.api.schemas import plan as schema
from scoring.model.snapshot import Snapshot
from scoring.plan import Admission, Plan


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
