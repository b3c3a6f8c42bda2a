"""Bind calls: held until quorum, committed together, every one answered once, nothing left behind (DESIGN §5)."""

import pytest

from extender.errors import ApiError, ApiUnavailableError, ConflictError, NotFoundError
from scoring.reasons import Reason
from tests.extender.service.world import HOLD_S, answers, key, node_json, running

pytestmark = pytest.mark.looptime

N1, N2, N3 = node_json("n1"), node_json("n2"), node_json("n3")


async def test_calls_are_held_until_quorum_then_all_succeed() -> None:
    """No Binding exists while one member is missing; with it all are posted and every call is answered success."""
    async with running(N1, N2) as world:
        first, second, third = world.gang("g", 3)
        await world.settle()
        early = world.bind_offered(first, second)
        await world.settle(10.0)
        assert [call.waits for call in early] == [True, True]
        assert (world.bound(), world.service.binds.held_count) == ({}, 2)
        late = world.bind_offered(third)
        await world.settle()
        assert answers([*early, *late]) == [None, None, None]
        assert set(world.bound()) == {first, second, third}
