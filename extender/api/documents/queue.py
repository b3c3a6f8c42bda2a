"""The document behind /v1/queue: of one moment."""

from extender.cache import ClusterCache
from extender.ports import Clock
from extender.scheduling.planning.loop import Planner
from extender.schemas import queue as schema
from scoring.explain.queue_report import Entry, QueueReport, report_in_steps
from scoring.plan.steps import Steps
from scoring.queue.weights import Weight

_GANGS_A_STEP = 32


def queue_in_steps(cache: ClusterCache, planner: Planner, clock: Clock) -> Steps[schema.Queue]:
    """All gangs, those that wait first, of one moment, in steps (docs/safety.md S15)."""
    told = (planner.snapshot or cache.snapshot(), planner.current, planner.policy)
    queue = yield from report_in_steps(*told, now_s=clock.now_s(), cache=planner.cache)
    return (yield from queue_document(queue))


def queue_document(queue: QueueReport) -> Steps[schema.Queue]:
    """A report as it is served, in steps."""
    gangs = []
    for one in queue.entries:
        gangs.append(_gang(one))
        if len(gangs) % _GANGS_A_STEP == 0:
            yield
    return schema.Queue.copied(
        queue,
        counts={state.value: count for state, count in queue.counts.items()},
        gangs=tuple(gangs),
        shares=tuple(
            schema.NamespaceShare.copied(one, cpu=round(one.cpu, 6), memory=round(one.memory, 6))
            for one in queue.shares
        ),
    )


def weight_document(weight: Weight) -> schema.Weight:
    """A weight as it is served."""
    return schema.Weight.copied(weight, exact=str(weight.prime))


def _gang(one: Entry) -> schema.QueuedGang:
    return schema.QueuedGang.copied(
        one,
        weight=weight_document(one.weight),
        waiting_since_s=one.times.waiting_s,
        running_since_s=one.times.running_s if one.queue == "RQ" else None,
        members=schema.MemberCounts.copied(one.members, min_available=one.members.least),
        zone=",".join(one.zones) if one.zones else None,
        code=one.reason.name if one.reason is not None else None,
        reason=str(one.reason) if one.reason is not None else None,
    )
