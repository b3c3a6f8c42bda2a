"""The comparison's watch: when pods appear, are admitted and are bound, and what is lost is said."""

import asyncio
import json

import pytest

from bench.peers.watch import PodTimes, WatchLost
from bench.peers.ways import GATE
from tests.liveness import LIVENESS_S


def event(
    name: str, *, kind: str = "MODIFIED", node: str = "", gates: tuple[str, ...] = (), version: str = "1"
) -> bytes:
    """One line of a watch."""
    spec = {"nodeName": node, "schedulingGates": [{"name": gate} for gate in gates]}
    return json.dumps(
        {"type": kind, "object": {"metadata": {"name": name, "resourceVersion": version}, "spec": spec}}
    ).encode()


def test_a_pod_is_timed_when_its_node_first_shows() -> None:
    """Later events of a bound pod change nothing."""
    times = PodTimes()
    times.take(event("p", kind="ADDED"), now_s=1.0)
    assert times.bound_s == {}
    times.take(event("p", node="n1"), now_s=2.0)
    times.take(event("p", node="n1"), now_s=3.0)
    assert times.bound_s == {"p": 2.0}


def test_a_gate_that_goes_is_timed() -> None:
    """Pods without a gate from the start were never let in."""
    times = PodTimes()
    times.take(event("p", kind="ADDED", gates=(GATE,)), now_s=1.0)
    times.take(event("q", kind="ADDED"), now_s=1.5)
    times.take(event("p"), now_s=2.0)
    assert times.let_in_s == {"p": 2.0}


def test_the_watch_goes_on_from_the_last_event() -> None:
    """Bookmarks count: they carry the version to resume from and nothing else."""
    times = PodTimes()
    assert times.take(event("", kind="BOOKMARK", version="77"), now_s=1.0) == "77"
    assert (times.bound_s, times.gone) == ({}, set())


def test_a_watch_that_lost_events_is_an_error() -> None:
    """Times after a gap would be wrong, so there are none."""
    with pytest.raises(WatchLost, match="too old"):
        PodTimes().take(b'{"type":"ERROR","object":{"message":"too old resource version"}}', now_s=1.0)


async def test_waiting_for_what_does_not_happen_ends() -> None:
    """Every half is bounded in time."""
    assert not await PodTimes().until(lambda: False, limit_s=0.01)


async def test_waiting_ends_with_the_binding() -> None:
    """What is waited for is asked after each change."""
    times = PodTimes()
    asyncio.get_running_loop().call_soon(lambda: times.take(event("p", node="n1"), now_s=1.0))
    assert await times.until(lambda: "p" in times.bound_s, limit_s=LIVENESS_S)


def test_a_pod_is_first_seen_once() -> None:
    """Waits count from the first event, whatever comes later."""
    times = PodTimes()
    times.take(event("p", kind="ADDED"), now_s=1.0)
    times.take(event("p"), now_s=2.0)
    assert times.seen_s == {"p": 1.0}
