"""Settings of leader election: the times that follow, for the Lease and for binds, and what is read where."""

import asyncio
import random
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.bootstrap.common import candidacy
from extender.errors import ApiUnavailableError
from extender.kube.credentials import ApiServer, Authorization, Token
from extender.leadership.election import LeaseTimes
from extender.ports import Binding, SystemClock
from extender.settings.settings import MARGIN_S, LeaderElection, LeaseSettings, Settings, longest_bind_s
from tests.extender.scheduling.world import node_json, unfinished
from tests.fakes.cluster_api import FakeClusterApi


@given(st.integers(1, 3600))
def test_the_times_of_every_duration_fit_together(duration_s: int) -> None:
    """What is sent at the last moment has half a second before another may lead; one lost answer ends no term."""
    times = LeaseTimes.of(duration_s)
    assert times.write_s - times.renew_deadline_s >= 0.5 - 1e-9
    assert 2.0 * times.retry_period_s <= times.renew_deadline_s


def test_the_defaults_leave_time_for_calls_within_the_five_seconds() -> None:
    """At worst 3.2 s pass before the other one writes; three answers of half a second, or two time-outs, fit in."""
    times = LeaseTimes()
    assert LeaseTimes.of(LeaseSettings().duration_s) == times
    assert times.duration_s + times.look_period_s == pytest.approx(3.2)
    assert times.renew_deadline_s / 2.0 > 1.0


SERVER = ApiServer(url="http://127.0.0.1:1", authorization=Authorization(lambda: Token(""), clock=SystemClock()))
SIZE = 40  # more than have a turn at a time
IN_A_POD = {"POD_NAME": "netgang-7", "POD_NAMESPACE": "team"}


@pytest.mark.parametrize(("pod", "environment"), [("netgang-7", IN_A_POD), ("", {})], ids=["in a pod", "in none"])
async def test_an_identity_is_of_one_process(pod: str, environment: Mapping[str, str]) -> None:
    """The pod's name, else the machine's, and something new each time: a restarted container is another candidate."""
    settings, seen = Settings(leader_election=LeaderElection.ON), set()
    for seed in range(3):
        async with candidacy(settings, SERVER, random.Random(seed), environment=environment, host="box") as stands:
            assert stands is not None
            assert stands.pod == pod
            assert stands.election.identity.startswith(f"{pod or 'box'}_")
            seen.add(stands.election.identity)
    assert len(seen) == 3


async def test_without_election_there_is_no_candidate() -> None:
    async with candidacy(Settings(), SERVER, random.Random(0), environment={}, host="h") as stands:
        assert stands is None


class Hanging(FakeClusterApi):
    """Answers no Binding, as a client whose API server hangs: it gives up after six seconds."""

    async def bind(self, binding: Binding) -> None:
        await asyncio.sleep(6.0)
        raise ApiUnavailableError("no answer")


@pytest.mark.looptime
@pytest.mark.parametrize(("hold_s", "commit_s", "http_s"), [(25.0, 15.0, 60.0), (8.0, 5.0, 20.0)])
async def test_the_slowest_call_ends_within_its_bound(hold_s: float, commit_s: float, http_s: float) -> None:
    limits: dict[str, Any] = {"hold_limit_s": hold_s, "commit_timeout_s": commit_s}
    async with unfinished(node_json("n1", cpu="64"), api=Hanging(), **limits) as world:
        names = world.gang("g", SIZE)
        await world.planned_pod("plain")
        world.filter("plain")
        calls = [*world.bind_offered(*names[:-1]), world.bind("plain", "n1")]
        took_s: dict[str, float] = {}
        for call in calls:
            call.task.add_done_callback(lambda _, call=call: took_s.setdefault(call.pod, world.now_s - call.began_s))  # type: ignore[misc]
        await world.settle(hold_s - 0.1)
        world.bind_offered(names[-1])
        await world.settle(http_s)
        assert len(took_s) == SIZE
        assert hold_s < max(took_s.values()) <= longest_bind_s(hold_s=hold_s, commit_s=commit_s) - MARGIN_S < http_s
