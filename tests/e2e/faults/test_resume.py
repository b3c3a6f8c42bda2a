"""A Job that is suspended and resumed keeps its place in the queue and does not starve at once (docs/safety.md S14)."""

import asyncio
from collections.abc import Callable
from datetime import datetime
from typing import Any

from lab.testbed.objects import zone_nodes
from tests.e2e.objects import indexed_job
from tests.e2e.site import site_on
from tests.e2e.stage import Stage

LIMIT_S = 8.0  # STARVELIMIT
site = site_on(zone_nodes({"a": 2}, cpu="1500m"), {"queue": {"starve_limit_s": LIMIT_S}}, schedules=False)


async def test_suspended_for_long_then_resumed(site: Stage) -> None:
    """Older than a Job of the same weight and so before it, but its clock starts with its new pods."""
    for number in (1, 2):
        await site.create_pod(f"busy-{number}", on=f"node{number}")

    async def ranked() -> dict[str, dict[str, Any]]:
        return {name: one for name, one in (await site.waiting(site.service)).items() if one["rank"]}

    async def until(accept: Callable[[dict[str, dict[str, Any]]], bool], what: str) -> dict[str, dict[str, Any]]:
        return await site.api.until(ranked, accept, what=what)

    created = await site.api.create(indexed_job("old", site.namespace, 2))
    created_s = datetime.fromisoformat(created["metadata"]["creationTimestamp"]).timestamp()
    first = await until(lambda found: "old" in found, "the Job waits")
    assert first["old"]["state"] == "WAITING"
    await site.api.patch("Job", "old", {"spec": {"suspend": True}}, namespace=site.namespace)
    await until(lambda found: not found, "its pods are gone")
    await asyncio.sleep(LIMIT_S)  # this is what the test is about
    await site.api.create(indexed_job("young", site.namespace, 2))
    await site.api.patch("Job", "old", {"spec": {"suspend": False}}, namespace=site.namespace)

    def settled(found: dict[str, dict[str, Any]]) -> bool:
        return found.keys() == {"old", "young"} and found["old"]["created_s"] == created_s

    found = await until(settled, "both wait")
    old = found["old"]
    assert (old["state"], old["rank"], found["young"]["rank"]) == ("WAITING", 1, 2)
    assert old["waiting_since_s"] >= created_s + LIMIT_S
    assert old["waited_s"] < LIMIT_S
    await until(lambda found: found["old"]["state"] == "STARVING", "it starves")
