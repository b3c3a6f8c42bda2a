"""The simulated scheduling queue does what kube-scheduler's does: order, backoff, parking, events."""

import asyncio
from collections.abc import Callable, Sequence

import pytest

from scoring.model import Pod
from simulator.pods.kube_scheduler.queue import Place, Queued, SchedulingQueue
from simulator.pods.kube_scheduler.queueing_hints import Event, Happened, Plugin
from simulator.pods.virtual_time import run_virtual
from tests.builders import node, pod

EXTENDER, FIT = frozenset({Plugin.EXTENDER}), frozenset({Plugin.FIT})
CONSTRAINTS, ERROR = frozenset({Plugin.CONSTRAINTS}), frozenset[Plugin]()
GONE, BOUND = Happened(Event.POD_GONE), Happened(Event.POD_BOUND)
LARGE, SMALL = node("large", cpu="8"), node("small", cpu="500m")
Step = Callable[[SchedulingQueue, Queued], None]


def refused(by: frozenset[Plugin], *, then: Sequence[Happened] = (), meanwhile: Sequence[Happened] = ()) -> Place:
    """Where a pod is after one refusal, with events while it was tried and after it; its backoff still runs."""

    async def body() -> Place:
        queue = SchedulingQueue(pops_backoff=False)
        queue.add(pod("p"))
        one = await queue.pop()
        for event in meanwhile:
            queue.happened(event)
        queue.back(one, by)
        for event in then:
            queue.happened(event)
        return one.place

    return run_virtual(body())


AFTER = {  # case: (expected place, who refused, events while it was tried, events after it)
    "nothing happens": (Place.PARKED, EXTENDER, [], []),
    "an error waits for its timer": (Place.ERROR_BACKOFF, ERROR, [], []),
    "extender: anything helps": (Place.BACKOFF, EXTENDER, [], [BOUND]),
    "extender: also while it was tried": (Place.BACKOFF, EXTENDER, [BOUND], []),
    "no room: a bound pod does not help": (Place.PARKED, FIT, [BOUND], [BOUND]),
    "no room: a pod that goes does": (Place.BACKOFF, FIT, [], [GONE]),
    "no room: so does a node that is large enough": (Place.BACKOFF, FIT, [], [Happened(Event.NODE_ADDED, LARGE)]),
    "no room: a node too small does not": (Place.PARKED, FIT, [], [Happened(Event.NODE_ADDED, SMALL)]),
    "no room: a node that grew does": (Place.BACKOFF, FIT, [], [Happened(Event.NODE_CHANGED, LARGE, SMALL)]),
    "no room: one that did not grow does not": (Place.PARKED, FIT, [], [Happened(Event.NODE_CHANGED, LARGE, LARGE)]),
    "labels: a pod that goes does not help": (Place.PARKED, CONSTRAINTS, [], [GONE]),
    "labels: a new node that is allowed does": (Place.BACKOFF, CONSTRAINTS, [], [Happened(Event.NODE_ADDED, LARGE)]),
    "labels: one that was allowed before does not": (
        Place.PARKED,
        CONSTRAINTS,
        [],
        [Happened(Event.NODE_CHANGED, LARGE, LARGE)],
    ),
}


@pytest.mark.parametrize(("expected", "by", "meanwhile", "then"), AFTER.values(), ids=AFTER)
def test_what_helps_a_refused_pod(
    expected: Place, by: frozenset[Plugin], meanwhile: list[Happened], then: list[Happened]
) -> None:
    """A pod is parked until an event comes that one of those that refused it is interested in."""
    assert expected == refused(by, then=then, meanwhile=meanwhile)


async def tried_at(queue: SchedulingQueue, times: int, how: Callable[[Queued], frozenset[Plugin]]) -> list[float]:
    """When one pod is tried, if it always ends so."""
    loop, found = asyncio.get_running_loop(), list[float]()
    for _ in range(times):
        one = await queue.pop()
        found.append(round(loop.time(), 3))
        queue.back(one, how(one))
        queue.happened(BOUND)
    return found


BACKOFF = {  # case: (times of the tries, whether ordinary backoffs are cut short, who refuses)
    "refused": ([0.0, 2.0, 5.0, 10.0, 19.0, 30.0], False, EXTENDER),
    "errors": ([0.0, 2.0, 5.0, 10.0, 19.0, 30.0], True, ERROR),
    "refused, with nothing else to do": ([0.0] * 6, True, EXTENDER),
}


@pytest.mark.parametrize(("expected", "pops", "by"), BACKOFF.values(), ids=BACKOFF)
def test_backoff(expected: list[float], pops: bool, by: frozenset[Plugin]) -> None:
    """1, 2, 4, 8, 10 s, looked at each second; an idle scheduler cuts refusals short where the feature is on."""

    async def body() -> list[float]:
        queue = SchedulingQueue(pops_backoff=pops)
        looking = asyncio.create_task(queue.run())
        queue.add(pod("p"))
        found = await tried_at(queue, 6, lambda _: by)
        looking.cancel()
        return found

    assert expected == run_virtual(body())


def test_parked_pods_are_tried_again_after_five_minutes() -> None:
    """Even when nothing happens: looked at twice a minute."""

    async def body() -> float:
        queue = SchedulingQueue()
        looking = asyncio.create_task(queue.run())
        queue.add(pod("p"))
        queue.back(await queue.pop(), FIT)
        await queue.pop()
        looking.cancel()
        return asyncio.get_running_loop().time()

    assert run_virtual(body()) == 330.0


def test_the_order() -> None:
    """The higher priority, then the earlier arrival; who was refused stands behind who was never tried."""

    async def body() -> list[str]:
        queue = SchedulingQueue(pops_backoff=False, initial_backoff_s=0.0)
        for name, priority in (("a", 0), ("b", 0), ("c", 5)):
            queue.add(pod(name, priority=priority))
            await asyncio.sleep(0.1)
        first = await queue.pop()
        second = await queue.pop()
        queue.back(second, EXTENDER)
        await asyncio.sleep(0.1)
        queue.happened(BOUND)
        rest = [await queue.pop(), await queue.pop()]
        return [str(one.pod.name) for one in (first, second, *rest)]

    assert run_virtual(body()) == ["c", "a", "b", "a"]


def changed(before: Pod, after: Pod, *, by: frozenset[Plugin] | None = None) -> Place:
    """Where a pod is after it was changed: never tried, or long ago refused `by` somebody."""

    async def body() -> Place:
        queue = SchedulingQueue(pops_backoff=False)
        queue.add(before)
        if by is not None:
            queue.back(await queue.pop(), by)
            await asyncio.sleep(5.0)
        queue.update(after)
        one = queue.get(after.uid)
        assert one is not None
        return one.place

    return run_virtual(body())


PLAIN, GATED = pod("p"), pod("p", gates=("netgang.io/gang",))
CHANGES = {  # case: (expected place, before, after, who refused it)
    "our gate goes": (Place.NEXT, GATED, PLAIN, None),
    "still gated": (Place.PARKED, GATED, pod("p", gates=("other",)), None),
    "a nudge wakes whom an extender refused": (Place.NEXT, PLAIN, PLAIN, EXTENDER),
    "and nobody else": (Place.PARKED, PLAIN, PLAIN, FIT),
    "new to the scheduler": (Place.NEXT, pod("other"), PLAIN, None),
}


@pytest.mark.parametrize(("expected", "before", "after", "by"), CHANGES.values(), ids=CHANGES)
def test_a_pod_that_changes_itself(expected: Place, before: Pod, after: Pod, by: frozenset[Plugin] | None) -> None:
    """Gates that go let it in at once; annotations wake only those that an extender refused."""
    assert expected == changed(before, after, by=by)


def test_gated_pods_hear_nothing() -> None:
    """Neither events nor the five minutes nor an activation take a gated pod out."""

    async def body() -> dict[Place, int]:
        queue = SchedulingQueue()
        looking = asyncio.create_task(queue.run())
        queue.add(GATED)
        queue.happened(GONE)
        queue.activate([GATED.uid])
        await asyncio.sleep(700.0)
        looking.cancel()
        return queue.counts()

    assert run_virtual(body())[Place.PARKED] == 1


def test_activation_skips_the_backoff_and_counts_in_flight() -> None:
    """An activated pod is next at once; one that is being tried is not parked when it comes back."""

    async def body() -> list[Place]:
        queue = SchedulingQueue(pops_backoff=False)
        queue.add(PLAIN)
        one = await queue.pop()
        queue.back(one, FIT)
        queue.activate([PLAIN.uid])
        places = [one.place]
        one = await queue.pop()
        queue.activate([PLAIN.uid])
        queue.back(one, FIT)
        return [*places, one.place]

    assert run_virtual(body()) == [Place.NEXT, Place.BACKOFF]


def test_pods_that_go_leave_no_trace() -> None:
    """A pod removed while it waits, is parked or tried never comes back."""

    async def body() -> dict[Place, int]:
        queue = SchedulingQueue()
        for name in ("waits", "tried", "parked"):
            queue.add(pod(name))
        waits, tried, parked = await queue.pop(), await queue.pop(), await queue.pop()
        queue.back(parked, FIT)
        queue.back(waits, ERROR)
        for one in (waits, tried, parked):
            queue.remove(one.uid)
        queue.back(tried, FIT)
        queue.happened(GONE)
        return queue.counts()

    assert set(run_virtual(body()).values()) == {0}
