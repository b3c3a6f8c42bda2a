"""The document behind /v1/queue: of one moment."""

from collections.abc import Callable

from extender.cache import ClusterCache
from extender.ports import Clock
from extender.scheduling.planning.loop import Planner
from extender.schemas import queue as schema
from scoring.explain.expected_words import expected_text
from scoring.explain.queue_report import Entry, QueueReport, report
from scoring.ids import GangKey
from scoring.plan import PlannerCache
from scoring.plan.expected_starts import ExpectedStart
from scoring.queue.weights import Weight

ExpectedStartOf = Callable[[GangKey], ExpectedStart | None]  # When a gang that waits starts


async def queue_of(
    cache: ClusterCache,
    planner: Planner,
    clock: Clock,
    expected_start_of: ExpectedStartOf = lambda _: None,
) -> schema.Queue:
    """All gangs, those that wait first, of one moment."""
    told = (planner.snapshot or cache.snapshot(), planner.current, planner.policy)

    def made(*, cache: PlannerCache) -> schema.Queue:
        return queue_document(report(*told, now_s=now_s, cache=cache), expected_start_of)

    now_s = clock.now_s()
    return await planner.ask(made)


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
