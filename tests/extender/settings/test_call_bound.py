"""Every bind call is answered before kube-scheduler gives it up, however slowly the API server answers."""

import asyncio

import pytest

from extender.errors import ApiUnavailableError
from extender.ports import Binding
from extender.settings.call_bound import MARGIN_S, longest_bind_s
from tests.extender.scheduling.world import node_json, unfinished
from tests.fakes.cluster_api import FakeClusterApi

pytestmark = pytest.mark.looptime

TIMES = {"as shipped": (25.0, 15.0, 60.0), "short": (8.0, 5.0, 20.0)}
SIZE = 40  # more than have a turn at a time


class Hanging(FakeClusterApi):
    """Answers no Binding, as a client whose API server hangs: it gives up after six seconds."""

    async def bind(self, binding: Binding) -> None:
        await asyncio.sleep(6.0)
        raise ApiUnavailableError("no answer")


@pytest.mark.parametrize(("hold_s", "commit_s", "http_s"), TIMES.values(), ids=TIMES)
async def test_the_slowest_call_ends_within_its_bound(hold_s: float, commit_s: float, http_s: float) -> None:
    async with unfinished(
        node_json("n1", cpu="64"), api=Hanging(), hold_limit_s=hold_s, commit_timeout_s=commit_s
    ) as world:
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
