"""`queue.order: srpt-by-report`: what a job reports before it is suspended decides when it comes back."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from extender.controllers.removal.removals import QUIET_S
from scoring.plan.steps import finish
from tests.extender.beside import playing
from tests.extender.controllers.elastic.reporting import SECRET, reports_with_secret
from tests.extender.controllers.operator import Operator
from tests.extender.controllers.preemption.test_controller import MAKES_ROOM_S, acting, arrives, job, nodes
from tests.extender.controllers.preemption.test_levels import AGE_S, LEVELS, SUSPENDABLE, says_since_when
from tests.extender.scheduling.world import World, key, running

pytestmark = pytest.mark.looptime

NOTE = "netgang.io/attained"
JOB: dict[str, Any] = {"spec": {"completionMode": "Indexed", "parallelism": 2, "completions": 2}, **SUSPENDABLE}


def settings(directory: Path, *, trusted: str = "default") -> dict[str, Any]:
    queue = {"starve_limit_s": 1e12, "order": "srpt-by-report", "report_namespaces": trusted}
    reports = reports_with_secret(directory)
    return {**LEVELS, "queue": queue, "elastic": {"enabled": True, "dry_run": True}, "reports": reports}


@asynccontextmanager
async def long_one(chosen: dict[str, Any]) -> AsyncIterator[tuple[World, Operator, AsyncExitStack]]:
    async with running(*nodes(2), **chosen) as world, AsyncExitStack() as stack:
        long = job(world, "long", 2, **JOB)
        await stack.enter_async_context(acting(world, long))
        await stack.enter_async_context(playing(says_since_when(world)))
        await world.settle(QUIET_S + 3.0)
        yield world, long, stack


async def says(world: World, total: int | None, *steps: int, **more: Any) -> None:
    """A report of a step a second up to now; all steps at once."""
    app, now_s = world.service.reports_app, world.clock.now_s()
    assert app is not None
    points = [{"step": step, "loss": 1.0, "time": now_s - (steps[-1] - step)} for step in steps]
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://netgang") as client:
        path, allowed = "/v1/jobs/default/long/metrics", {"authorization": f"Bearer {SECRET}"}
        answer = await client.post(path, headers=allowed, json={"points": points, "total_steps": total, **more})
    assert answer.status_code == 200, answer.text


async def suspended(world: World, stack: AsyncExitStack, *, after_s: float = AGE_S) -> None:
    await world.settle(after_s)
    await arrives(world, stack, 2, name="short", priority=0)
    await world.settle(MAKES_ROOM_S)


SAYS: dict[str, tuple[str, list[tuple[int | None, tuple[int, ...]]], float | None]] = {
    # case: (trusted namespaces, reports as (total, steps), hours that are believed: half an hour on all of the cluster)
    "believed": ("*", [(2000, (0, 100, 200))], 0.5),
    "a namespace that is not trusted": ("other", [(2000, (0, 100, 200))], None),
    "no total": ("*", [(None, (0, 100, 200))], None),
    "one report alone": ("*", [(2000, (100,))], None),
    "a total that was lowered": ("*", [(9000, (0, 100)), (2000, (200,))], None),
    "a step above the total": ("*", [(150, (0, 100, 200))], None),
    "one that should be about to end": ("*", [(201, (0, 100, 200))], 1.0 / 3600.0),
    "the largest numbers": ("*", [(2**53, (2**53 - 2, 2**53 - 1))], 1.0 / 3600.0),
    "longer than any": ("*", [(2**53, (0, 1))], 1e6),
}


@pytest.mark.parametrize(("trusted", "reports", "left_h"), SAYS.values(), ids=SAYS)
async def test_what_is_left_is_noted_when_it_is_suspended(
    trusted: str, reports: list[tuple[int | None, tuple[int, ...]]], left_h: float | None, tmp_path: Path
) -> None:
    async with long_one(settings(tmp_path, trusted=trusted)) as (world, long, stack):
        for total, steps in reports:
            await says(world, total, *steps)
        await suspended(world, stack)
        assert '"hours":0.1' in long.annotations_of_owner[NOTE]
        found = world.service.cache.snapshot().remaining_h.get(key("long"))
        assert found == (None if left_h is None else pytest.approx(left_h, rel=0.01))


@pytest.mark.slow
async def test_one_that_runs_on_beyond_its_end_is_not_believed_again(tmp_path: Path) -> None:
    async with long_one(settings(tmp_path)) as (world, long, stack):
        await says(world, 201, 0, 100, 200)
        await suspended(world, stack, after_s=900.0)
        first = long.annotations_of_owner[NOTE]
        assert '"remaining_h":null,"doubted":true' in first
        world.api.remove("short", kind="Job")
        world.delete("short-0", "short-1")
        await world.settle(5.0)
        await says(world, 9000, 300, 400)
        await world.settle(AGE_S)
        await arrives(world, stack, 2, name="next", priority=0)
        await world.settle(MAKES_ROOM_S)
        assert first != long.annotations_of_owner[NOTE]
        assert '"remaining_h":null,"doubted":true' in long.annotations_of_owner[NOTE]


@pytest.mark.parametrize("edited", [False, True], ids=["as it is", "edited by a tenant"])
async def test_what_is_left_survives_a_restart_and_no_edit(edited: bool, tmp_path: Path) -> None:
    """The job cannot report while it is suspended, and the new process has no reports."""
    chosen = settings(tmp_path)
    async with long_one(chosen) as (world, long, stack):
        await says(world, 2000, 0, 100, 200)
        await suspended(world, stack)
        api, note = world.api, long.annotations_of_owner[NOTE]
    if edited:
        wrong = note.replace('"remaining_h":0.5', '"remaining_h":0.0')
        assert wrong != note
        api.store.merge_patch(long.resource, "default", "long", {"metadata": {"annotations": {NOTE: wrong}}})
    async with running(api=api, **chosen) as world:
        await world.settle(5.0)
        assert world.service.cache.snapshot().remaining_h == ({} if edited else {key("long"): 0.5})
        [entry] = [one for one in finish(world.service.views.queue()).gangs if one.gang == "default/long"]
        assert entry.work is not None
        source = "nothing of the cluster so far" if edited else "0.5 cluster-hours left, as its job reported"
        assert source in entry.work.text
