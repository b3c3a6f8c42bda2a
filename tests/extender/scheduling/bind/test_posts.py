"""Bindings on their way to the API server: lost, refused, late, and done by another client."""

import pytest

from extender.errors import ApiError, ApiUnavailableError, ConflictError, NotFoundError
from scoring.model.reasons import Reason
from tests.extender.scheduling.bind.test_held_binds import N1
from tests.extender.scheduling.world import COMMIT_S, HOLD_S, answers, running

pytestmark = pytest.mark.looptime


FAILURES = {  # case: (what the API server does, whether it took effect all the same, answer)
    "conflict": (ConflictError(409, "is already assigned"), False, Reason.COMMIT_FAILED),
    "not found": (NotFoundError(404, "pods not found"), False, Reason.COMMIT_FAILED),
    "invalid": (ApiError(422, "is invalid"), False, Reason.COMMIT_FAILED),
    "overloaded": (ApiError(429, "too many requests"), False, Reason.COMMIT_FAILED),
    "internal": (ApiError(500, "etcd is away"), False, Reason.COMMIT_FAILED),
    "unreachable": (ApiUnavailableError("connection refused"), False, Reason.COMMIT_FAILED),
    "answer lost": (ApiUnavailableError("connection reset"), True, Reason.COMMIT_FAILED),
}


@pytest.mark.parametrize(("error", "applied", "answer"), FAILURES.values(), ids=FAILURES)
async def test_a_failed_post_rolls_forward(error: Exception, applied: bool, answer: Reason) -> None:
    async with running(N1) as world:
        names = await world.planned_gang("g", 3)
        world.api.fail_next("bind", error, applied=applied)
        calls = await world.bind_and_settle(*names)
        [failed] = [call for call in calls if call.answer is not None]
        assert failed.answer is answer
        assert len(world.bound()) == (3 if applied else 2)
        assert world.committed == {}
        again = world.bind(failed.pod, failed.node) if applied else world.bind_offered(failed.pod)[0]
        await world.settle()
        assert again.answer is None
        assert set(world.bound()) == set(names)


async def test_an_api_server_that_does_not_answer_ends_at_the_commit_limit() -> None:
    async with running(N1) as world:
        names = await world.planned_gang("g", 2)
        world.api.hold("bind")
        calls = world.bind_offered(*names)
        await world.until(calls[0].began_s + COMMIT_S - 0.01)
        assert all(call.waits for call in calls)
        await world.until(calls[0].began_s + COMMIT_S + 0.01)
        assert answers(calls) == [Reason.COMMIT_FAILED] * 2
        assert world.bound() == {}


async def test_a_pod_deleted_between_commit_and_post_is_not_posted() -> None:
    """The last look before the POST: the pod is gone, the other member is bound."""
    async with running(N1) as world:
        first, second = await world.planned_gang("g", 2)
        calls = world.bind_offered(first, second)
        world.service.cache.pods.delete(f"default/{second}")
        world.api.remove(second)
        await world.settle()
        assert calls[1].answer in (Reason.COMMIT_FAILED, Reason.POD_DELETED)
        assert world.api.calls["bind"] <= 1


async def test_a_defect_in_posting_still_answers_the_call(caplog: pytest.LogCaptureFixture) -> None:
    async with running(N1) as world:
        [name] = await world.planned_gang("g", 1)
        world.api.fail_next("bind", RuntimeError("a defect"))
        [call] = await world.bind_and_settle(name)
        assert call.answer is Reason.COMMIT_FAILED
        assert world.counted("internal_errors_total", place="post") == 1.0
        assert "a defect" in caplog.text


async def test_every_answer_leaves_a_line_that_names_pod_and_node(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", logger="netgang.decisions")
    async with running(N1) as world:
        first, second = await world.planned_gang("g", 2)
        [held] = world.bind_offered(first)
        await world.until(held.began_s + HOLD_S + 11.0)
        await world.bind_and_settle(first, second)
        lines = [record.fields for record in caplog.records if record.getMessage() == "bind"]  # type: ignore[attr-defined]
    told = [(line["pod"], line["node"], line.get("reason")) for line in lines]
    assert told == [
        ("default/g-0", "n1", Reason.QUORUM_TIMEOUT),
        ("default/g-0", "n1", None),
        ("default/g-1", "n1", None),
    ]
