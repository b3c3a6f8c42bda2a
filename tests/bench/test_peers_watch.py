"""The comparison's watch: when pods appear, are admitted and are bound, and what is lost is said."""

import asyncio
import json

import pytest

from lab.bench.peers.watch import PodTimes, WatchLost
from lab.bench.peers.ways import GATE
from tests.liveness import LIVENESS_S


def event(
    name: str, *, kind: str = "MODIFIED", node: str = "", gates: tuple[str, ...] = (), version: str = "1"
) -> bytes:
    spec = {"nodeName": node, "schedulingGates": [{"name": gate} for gate in gates]}
    made = {"metadata": {"name": name, "resourceVersion": version}, "spec": spec}
    return json.dumps({"type": kind, "object": made}).encode()


def test_a_pod_is_timed_by_its_first_events() -> None:
    times = PodTimes()
    times.take(event("p", kind="ADDED", gates=(GATE,)), now_s=1.0)
    times.take(event("q", kind="ADDED"), now_s=1.5)
    times.take(event("p"), now_s=2.0)
    assert (times.seen_s, times.let_in_s, times.bound_s) == ({"p": 1.0, "q": 1.5}, {"p": 2.0}, {})
    for now_s in (3.0, 4.0):
        times.take(event("p", node="n1"), now_s=now_s)
    assert (times.seen_s["p"], times.let_in_s, times.bound_s) == (1.0, {"p": 2.0}, {"p": 3.0})


def test_the_watch_goes_on_from_the_last_event() -> None:
    times = PodTimes()
    assert times.take(event("", kind="BOOKMARK", version="77"), now_s=1.0) == "77"
    assert (times.bound_s, times.gone) == ({}, set())


def test_a_watch_that_lost_events_is_an_error() -> None:
    """Times after a gap would be wrong, so there are none."""
    with pytest.raises(WatchLost, match="too old"):
        PodTimes().take(b'{"type":"ERROR","object":{"message":"too old resource version"}}', now_s=1.0)


async def test_waiting_ends_with_the_binding_or_its_limit() -> None:
    times = PodTimes()
    assert not await times.until(lambda: False, limit_s=0.01)
    asyncio.get_running_loop().call_soon(lambda: times.take(event("p", node="n1"), now_s=1.0))
    assert await times.until(lambda: "p" in times.bound_s, limit_s=LIVENESS_S)


def test_pods_of_jobs_are_known_before_by_their_jobs_and_numbers() -> None:
    times = PodTimes(of_jobs=True)
    times.take(event("g-worker-3-x7k2p", node="n1"), now_s=1.0)
    assert (times.bound_s, times.moves) == ({"g-worker-3": 1.0}, 1)


def test_a_pod_that_goes_and_comes_back_moves_each_time_and_is_timed_once() -> None:
    """A preempted Job's pod has another name when it comes back, which is the same to us."""
    times = PodTimes(of_jobs=True)
    times.take(event("g-worker-0-aaaaa", node="n1"), now_s=1.0)
    times.take(event("g-worker-0-aaaaa", kind="DELETED", node="n1"), now_s=2.0)
    assert times.bound_now == set()
    times.take(event("g-worker-0-bbbbb"), now_s=3.0)
    times.take(event("g-worker-0-bbbbb", node="n2"), now_s=4.0)
    times.take(event("g-worker-0-bbbbb", node="n2"), now_s=5.0)
    assert (times.bound_now, times.moves, times.bound_s) == ({"g-worker-0"}, 3, {"g-worker-0": 1.0})
