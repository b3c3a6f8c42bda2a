"""The simulated scheduling queue does what kube-scheduler's does: order, backoff, parking, events."""

import asyncio

import pytest

from lab.simulator.pods.kube_scheduler.queue import Place, SchedulingQueue
from lab.simulator.pods.kube_scheduler.queueing_hints import Event, Happened, Plugin
from scoring.model import Pod
from tests.builders import node, pod

EXTENDER, FIT = frozenset({Plugin.EXTENDER}), frozenset({Plugin.FIT})
CONSTRAINTS, ERROR = frozenset({Plugin.CONSTRAINTS}), frozenset[Plugin]()
GONE, BOUND = Happened(Event.POD_GONE), Happened(Event.POD_BOUND)
LARGE, SMALL = node("large", cpu="8"), node("small", cpu="500m")
pytestmark = pytest.mark.looptime


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
async def test_what_helps_a_refused_pod(
    expected: Place, by: frozenset[Plugin], meanwhile: list[Happened], then: list[Happened]
) -> None:
    """Parked until an event comes that one of those that refused it is interested in; its backoff still runs."""
    queue = SchedulingQueue(pops_backoff=False)
    queue.add(pod("p"))
    one = await queue.pop()
    for event in meanwhile:
        queue.happened(event)
    queue.back(one, by)
    for event in then:
        queue.happened(event)
    assert one.place is expected


BACKOFF = {  # case: (times of the tries, whether ordinary backoffs are cut short, who refuses)
    "refused": ([0.0, 2.0, 5.0, 10.0, 19.0, 30.0], False, EXTENDER),
    "errors": ([0.0, 2.0, 5.0, 10.0, 19.0, 30.0], True, ERROR),
    "refused, with nothing else to do": ([0.0] * 6, True, EXTENDER),
}


@pytest.mark.parametrize(("expected", "pops", "by"), BACKOFF.values(), ids=BACKOFF)
async def test_backoff(expected: list[float], pops: bool, by: frozenset[Plugin]) -> None:
    """1, 2, 4, 8, 10 s, looked at each second; an idle scheduler cuts refusals short where the feature is on."""
    queue, tried_at = SchedulingQueue(pops_backoff=pops), []
    looking = asyncio.create_task(queue.run())
    queue.add(pod("p"))
    for _ in expected:
        one = await queue.pop()
        tried_at.append(round(asyncio.get_running_loop().time(), 3))
        queue.back(one, by)
        queue.happened(BOUND)
    looking.cancel()
    assert tried_at == expected


async def test_parked_pods_are_tried_again_after_five_minutes() -> None:
    """Even when nothing happens: looked at twice a minute."""
    queue = SchedulingQueue()
    looking = asyncio.create_task(queue.run())
    queue.add(pod("p"))
    queue.back(await queue.pop(), FIT)
    await queue.pop()
    looking.cancel()
    assert asyncio.get_running_loop().time() == 330.0


async def test_the_order() -> None:
    """The higher priority, then the earlier arrival; who was refused stands behind who was never tried."""
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
    assert [str(one.pod.name) for one in (first, second, *rest)] == ["c", "a", "b", "a"]


PLAIN, GATED = pod("p"), pod("p", gates=("netgang.io/gang",))
CHANGES = {  # case: (expected place, before, after, who refused it)
    "our gate goes": (Place.NEXT, GATED, PLAIN, None),
    "still gated": (Place.PARKED, GATED, pod("p", gates=("other",)), None),
    "a nudge wakes whom an extender refused": (Place.NEXT, PLAIN, PLAIN, EXTENDER),
    "and nobody else": (Place.PARKED, PLAIN, PLAIN, FIT),
    "new to the scheduler": (Place.NEXT, pod("other"), PLAIN, None),
}


@pytest.mark.parametrize(("expected", "before", "after", "by"), CHANGES.values(), ids=CHANGES)
async def test_a_pod_that_changes_itself(
    expected: Place, before: Pod, after: Pod, by: frozenset[Plugin] | None
) -> None:
    """Never tried, or refused long ago: gates that go let it in; annotations wake only what an extender refused."""
    queue = SchedulingQueue(pops_backoff=False)
    queue.add(before)
    if by is not None:
        queue.back(await queue.pop(), by)
        await asyncio.sleep(5.0)
    queue.update(after)
    one = queue.get(after.uid)
    assert one is not None
    assert one.place is expected


async def test_gated_pods_hear_nothing() -> None:
    """Neither events nor the five minutes nor an activation take a gated pod out."""
    queue = SchedulingQueue()
    looking = asyncio.create_task(queue.run())
    queue.add(GATED)
    queue.happened(GONE)
    queue.activate([GATED.uid])
    await asyncio.sleep(700.0)
    looking.cancel()
    assert queue.counts()[Place.PARKED] == 1


async def test_activation_skips_the_backoff_and_counts_in_flight() -> None:
    """An activated pod is next at once; one that is being tried is not parked when it comes back."""
    queue = SchedulingQueue(pops_backoff=False)
    queue.add(PLAIN)
    one = await queue.pop()
    queue.back(one, FIT)
    queue.activate([PLAIN.uid])
    first = one.place
    one = await queue.pop()
    queue.activate([PLAIN.uid])
    queue.back(one, FIT)
    assert (first, one.place) == (Place.NEXT, Place.BACKOFF)


async def test_pods_that_go_leave_no_trace() -> None:
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
    assert set(queue.counts().values()) == {0}
