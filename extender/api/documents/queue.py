"""The document behind /v1/queue, and the part of it that `netgang plan` shows.

Rule: plain JSON values of one moment; times are Unix seconds. ω′ is given as a number and, exactly, as a fraction.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from extender.cache import ClusterCache
from extender.ports import Clock
from extender.runtime.slices import in_slices
from extender.scheduling.planning.loop import Planner
from scoring.explain.queue_report import Entry, QueueReport, report_in_steps
from scoring.plan.steps import Steps, finish
from scoring.queue.weights import Weight

Document = dict[str, Any]

_GANGS_A_STEP = 32


class QueueView:
    """The queue of a running service. Nothing here changes anything."""

    def __init__(self, cache: ClusterCache, planner: Planner, clock: Clock) -> None:
        self._cache = cache
        self._planner = planner
        self._clock = clock

    def document(self) -> Document:
        """All gangs with state, weight, clock and rank; those that wait first, in the order of their turns."""
        return finish(self.steps())

    async def body_in_turns(self) -> bytes:
        """The same as JSON, with a turn for everybody else every few milliseconds: a long queue takes a while."""
        return await in_slices(self.body_steps())

    def body_steps(self) -> Steps[bytes]:
        """The same as JSON in steps; each gang is encoded in the step that it is looked at in."""
        return msgspec.json.encode((yield from self._made(lambda one: msgspec.Raw(msgspec.json.encode(_entry(one))))))

    def steps(self) -> Steps[Document]:
        """The document in steps; what it says is of the moment of the first one."""
        return self._made(_entry)

    def _made(self, entry: Callable[[Entry], Any]) -> Steps[Document]:
        planner = self._planner
        snapshot = planner.snapshot or self._cache.snapshot()
        now_s = self._clock.now_s()
        queue = yield from report_in_steps(snapshot, planner.current, planner.policy, now_s=now_s, memo=planner.memo)
        gangs: list[Any] = []
        for one in queue.entries:
            gangs.append(entry(one))
            if len(gangs) % _GANGS_A_STEP == 0:
                yield
        return _document(queue, gangs)


def queue_document(queue: QueueReport) -> Document:
    """A report in JSON's words."""
    return _document(queue, [_entry(one) for one in queue.entries])


def _document(queue: QueueReport, gangs: list[Any]) -> Document:
    return {
        "at_s": queue.at_s,
        "order": queue.order.value,
        "counts": {state.value: count for state, count in queue.counts.items()},
        "gangs": gangs,
        "shares": [
            {"namespace": one.namespace, "cap": one.cap, "cpu": round(one.cpu, 6), "memory": round(one.memory, 6)}
            for one in queue.shares
        ],
    }


def weight_document(weight: Weight) -> Document:
    """ω′ as a number and as a fraction, ω, and whether an operator set it."""
    return {
        "omega_prime": weight.omega_prime,
        "exact": str(weight.prime),
        "omega": weight.omega,
        "given": weight.given,
    }


def _entry(one: Entry) -> Document:
    return {
        "gang": one.gang,
        "queue": one.queue,
        "state": one.state.value,
        "rank": one.rank,
        "priority": one.priority,
        "weight": weight_document(one.weight),
        "created_s": one.created_s,
        "waiting_since_s": one.times.waiting_s,
        "waited_s": one.waited_s,
        "starves_in_s": one.starves_in_s,
        "running_since_s": one.times.running_s if one.queue == "RQ" else None,
        "members": {
            "min_available": one.members.least,
            "pending": one.members.pending,
            "running": one.members.running,
            "succeeded": one.members.succeeded,
            "failed": one.members.failed,
        },
        "admitted": one.admitted,
        "zone": ",".join(one.zones) if one.zones else None,
        "held_nodes": list(one.held_nodes),
        "makes_room": list(one.makes_room),
        "leaves_for": one.leaves_for,
        "code": one.reason.name if one.reason is not None else None,
        "reason": str(one.reason) if one.reason is not None else None,
        "detail": one.detail,
    }
