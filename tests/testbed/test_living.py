"""The demo that lives, in virtual time: what README and its page promise of it, and that nothing grows."""

import asyncio
import json
from itertools import groupby
from typing import Any

import httpx
import pytest

from cli.files import EXAMPLES, demo_settings
from extender.bootstrap.serve import running
from lab.testbed.living import told
from tests.fakes.clock import LoopClock


@pytest.mark.slow
@pytest.mark.looptime
async def test_jobs_come_wait_shrink_grow_and_go_while_a_link_goes_bad_and_recovers() -> None:
    """Jobs that come while node12 has bad links stay off it; requests of README are answered alike all the time."""

    async def ask(verb: str, args: Any) -> Any:
        return (await scheduler.post(f"/{verb}", json=args)).json()

    async def curl(verb: str, file: str) -> Any:
        body = json.loads((EXAMPLES / f"requests/{file}.json").read_text())
        return (await people.post(f"/{verb}", json=body)).json()

    ran, whys, bad, workers, sizes = set[str](), set[str](), list[bool](), set[int](), list[int]()
    clock = LoopClock()
    async with running(told(demo_settings(1), EXAMPLES, clock, ask)[1]) as service:
        door = httpx.ASGITransport(app=service.app)
        scheduler = httpx.AsyncClient(transport=door, base_url="http://netgang")
        people = httpx.AsyncClient(transport=door, base_url="http://netgang", headers={"User-Agent": "curl/8"})
        for second in range(4, 112, 4):
            await asyncio.sleep(4.0)
            gangs = (await people.get("/v1/queue")).json()["gangs"]
            ran |= {gang["gang"] for gang in gangs if gang["state"] == "RUNNING"}
            assert second < 10 or len(ran) > 3
            whys |= {str(start["text"]) for gang in gangs if (start := gang["expected_start"]) and start["promised"]}
            bad.append('"node12"' in (await people.get("/v1/network?limit=1")).text.partition('"degraded"')[2])
            if bad[-1]:
                there = [pod for pod in service.cache.pods if pod.node == "node12"]
                assert [pod.name for pod in there if pod.created_s > clock.now_s() - second + 22] == []
            jobs = (await people.get("/v1/jobs")).json()["jobs"]
            workers |= {job["workers"]["now"] for job in jobs if job["job"].startswith("demo/search-")}
            assert (await curl("filter", "filter-case1"))["NodeNames"] == ["node28"]
            assert len(await curl("prioritize", "prioritize-case1")) == 36
            assert len((await curl("filter", "filter-tf-smoke-gpu"))["FailedAndUnresolvableNodes"]) == 36
            sizes.append(len(asyncio.all_tasks()) + service.cache.sizes().pods)
    assert {"demo/case1", "demo/resnet50-2", "demo/mnist-3"} <= ran
    assert any("after demo/" in why for why in whys)
    assert [is_bad for is_bad, _ in groupby(bad)] == [False, True, False]
    assert {4, 8} <= workers
    assert max(sizes[15:]) < 1.3 * max(sizes[:15])
