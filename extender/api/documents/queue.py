"""The queue (/v1/queue) and the plan (/v1/plan, `netgang plan`) of one moment, and what it would be (/v1/what-if)."""

from collections.abc import Callable

from extender.schemas import plan as plan_schema
from extender.schemas import queue as schema
from scoring.explain.queue_report import Entry, QueueReport
from scoring.explain.words import expected_text, supposed_text
from scoring.ids import GangKey
from scoring.model import Snapshot
from scoring.plan import Admission, Plan
from scoring.plan.expected_starts import ExpectedStart
from scoring.queue.weights import Weight
from scoring.what_if import Supposed, WhatIf

ExpectedStartOf = Callable[[GangKey], ExpectedStart | None]  # When a gang that waits starts


def queue_document(
    queue: QueueReport,
    expected_start_of: ExpectedStartOf = lambda _: None,
) -> schema.Queue:
    """A report as it is served."""
    return schema.Queue.copied(
        queue,
        counts={state.value: count for state, count in queue.counts.items()},
        gangs=tuple(_gang(one, expected_start_of(one.gang), queue.at_s) for one in queue.entries),
        shares=tuple(
            schema.NamespaceShare.copied(one, cpu=round(one.cpu, 6), memory=round(one.memory, 6))
            for one in queue.shares
        ),
    )


def weight_document(weight: Weight) -> schema.Weight:
    """A weight as it is served."""
    return schema.Weight.copied(weight, exact=str(weight.prime))


def expected_start_document(one: ExpectedStart | None, *, now_s: float) -> schema.ExpectedStart | None:
    """What is expected; null: the gang does not wait, or was not looked at yet."""
    if one is None:
        return None
    why = one.unknown.name if one.unknown is not None else None
    return schema.ExpectedStart.copied(one, unknown=why, text=expected_text(one, now_s=now_s))


def _gang(one: Entry, expected: ExpectedStart | None, now_s: float) -> schema.QueuedGang:
    return schema.QueuedGang.copied(
        one,
        weight=weight_document(one.weight),
        waiting_since_s=one.times.waiting_s,
        running_since_s=one.times.running_s if one.queue == "RQ" else None,
        members=schema.MemberCounts.copied(one.members, min_available=one.members.least),
        zone=",".join(one.zones) if one.zones else None,
        expected_start=None if one.reason is None else expected_start_document(expected, now_s=now_s),
        code=one.reason.name if one.reason is not None else None,
        reason=str(one.reason) if one.reason is not None else None,
    )


def plan_document(plan: Plan, snapshot: Snapshot) -> plan_schema.Plan:
    """Admitted gangs with their nodes, waiting ones with their reasons, both in the order of their rank."""
    started = [snapshot.gangs[key] for key in plan.admitted if key in snapshot.gangs]
    pod_name = {pod.uid: str(pod.name) for gang in started for pod in gang.members}

    def members(admission: Admission) -> dict[str, str]:
        return dict(sorted((pod_name.get(uid, uid), node) for uid, node in admission.members.items()))

    return plan_schema.Plan(
        version=plan.version,
        admitted=tuple(
            plan_schema.AdmittedGang.copied(
                admission,
                zone=",".join(admission.zones),
                score=None if admission.score is None else round(admission.score, 3),
                members=members(admission),
            )
            for admission in sorted(plan.admitted.values(), key=lambda admission: admission.rank)
        ),
        waiting=tuple(
            plan_schema.WaitingGang.copied(waiting, code=waiting.reason.name, reason=str(waiting.reason))
            for waiting in sorted(plan.waiting.values(), key=lambda waiting: waiting.rank)
        ),
    )


def supposed_document(supposed: Supposed, what: WhatIf) -> plan_schema.Supposed:
    """What would differ from the plan of now."""
    return plan_schema.Supposed.copied(
        supposed.difference,
        said=supposed_text(what),
        at_s=supposed.situation.now_s,
        gangs={"admitted": len(supposed.plan.admitted), "waiting": len(supposed.plan.waiting)},
    )
