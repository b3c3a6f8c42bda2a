"""The document behind /v1/queue.

Rule: it is of one moment.
"""

from extender.api.schemas import queue as schema
from extender.cache import ClusterCache
from extender.ports import Clock
from extender.scheduling.planning.loop import Planner
from scoring.explain.queue_report import Entry, QueueReport, report_in_steps
from scoring.plan.steps import Steps, finish
from scoring.queue.weights import Weight

_GANGS_A_STEP = 32


class QueueView:
    """The queue of a running service. Nothing here changes anything."""

    def __init__(self, cache: ClusterCache, planner: Planner, clock: Clock) -> None:
        self._cache = cache
        self._planner = planner
        self._clock = clock

    def document(self) -> schema.Queue:
        """All gangs with state, weight, clock and rank; those that wait first, in the order of their turns."""
        return finish(self.steps())

    def steps(self) -> Steps[schema.Queue]:
        """The same in steps (docs/safety.md S15); what it says is of the moment of the first one."""
        planner = self._planner
        snapshot = planner.snapshot or self._cache.snapshot()
        now_s = self._clock.now_s()
        queue = yield from report_in_steps(snapshot, planner.current, planner.policy, now_s=now_s, cache=planner.cache)
        gangs = []
        for one in queue.entries:
            gangs.append(_gang(one))
            if len(gangs) % _GANGS_A_STEP == 0:
                yield
        return _queue(queue, gangs)


def queue_document(queue: QueueReport) -> schema.Queue:
    """A report as it is served."""
    return _queue(queue, [_gang(one) for one in queue.entries])


def weight_document(weight: Weight) -> schema.Weight:
    """A weight as it is served."""
    return schema.Weight(
        omega_prime=weight.omega_prime, exact=str(weight.prime), omega=weight.omega, given=weight.given
    )


def _queue(queue: QueueReport, gangs: list[schema.QueuedGang]) -> schema.Queue:
    return schema.Queue(
        at_s=queue.at_s,
        order=queue.order.value,
        counts={state.value: count for state, count in queue.counts.items()},
        gangs=tuple(gangs),
        shares=tuple(
            schema.NamespaceShare(
                namespace=one.namespace, cap=one.cap, cpu=round(one.cpu, 6), memory=round(one.memory, 6)
            )
            for one in queue.shares
        ),
    )


def _gang(one: Entry) -> schema.QueuedGang:
    return schema.QueuedGang(
        gang=one.gang,
        queue=one.queue,
        state=one.state.value,
        rank=one.rank,
        priority=one.priority,
        weight=weight_document(one.weight),
        created_s=one.created_s,
        waiting_since_s=one.times.waiting_s,
        waited_s=one.waited_s,
        starves_in_s=one.starves_in_s,
        running_since_s=one.times.running_s if one.queue == "RQ" else None,
        members=schema.MemberCounts(
            min_available=one.members.least,
            pending=one.members.pending,
            running=one.members.running,
            succeeded=one.members.succeeded,
            failed=one.members.failed,
        ),
        admitted=one.admitted,
        zone=",".join(one.zones) if one.zones else None,
        held_nodes=one.held_nodes,
        makes_room=one.makes_room,
        leaves_for=one.leaves_for,
        code=one.reason.name if one.reason is not None else None,
        reason=str(one.reason) if one.reason is not None else None,
        detail=one.detail,
    )
