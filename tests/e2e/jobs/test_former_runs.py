"""What netgang learns of former runs on a real control plane: it outlives kill -9, and damage stops nothing."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from extender.kube.text_store import FORMER_RUNS
from lab.testbed.cluster import INSTALLED_IN
from lab.testbed.parts.service import ROOT, Netgang
from tests.e2e.gangs.test_runs import end_well
from tests.e2e.objects import name_of
from tests.e2e.stage import Stage, metric

SETTINGS = {"lengths": {"enabled": True}}
WRITTEN_S = 90.0  # it is written at most once a minute


@pytest.fixture
async def learning(stage: Stage) -> AsyncIterator[Stage]:
    made = await stage.api.apply(ROOT / "manifests/components/lengths/rbac.yaml")
    yield stage
    for one in made:
        await stage.api.delete(one["kind"], one["metadata"]["name"], namespace=INSTALLED_IN)


async def run_once(stage: Stage, name: str, number: int) -> None:
    names = [name_of(one) for one in await stage.create_gang(name, 2)]
    await stage.until_bound(f"{name}-", 2)

    async def seen() -> float:
        return await metric(stage.service, "netgang_gangs_by_length_source")

    await stage.api.until(seen, lambda found: found == 1.0, what=f"{name} is seen")
    await end_well(stage, names)

    async def learned() -> float:
        return await metric(stage.service, "netgang_former_runs_total")

    await stage.api.until(learned, lambda found: found == number + 1.0, what=f"{name} is learned from")
    await stage.end(*names)


async def by_source(netgang: Netgang) -> dict[str, float]:
    sources = ("learned", "unknown", "declared")
    return {one: await metric(netgang, "netgang_gangs_by_length_source", source=one) for one in sources}


async def kept(stage: Stage) -> dict[str, Any]:
    return await stage.api.get("ConfigMap", FORMER_RUNS.name, namespace=INSTALLED_IN)


async def killed(stage: Stage) -> None:
    await stage.service.part.kill()
    stage.service.part.start()
    await stage.cluster.until_ready(stage.service.part.name)


async def until_sources(stage: Stage, **wanted: float) -> None:
    async def now() -> dict[str, float]:
        found = await by_source(stage.service)
        return {name: found[name] for name in wanted}

    await stage.api.until(now, lambda found: found == wanted, what=f"gangs by source: {wanted}")


@pytest.mark.timeout(280)
async def test_former_runs_outlive_a_kill_and_damage_stops_nothing(learning: Stage) -> None:
    netgang = await learning.netgang(SETTINGS, on={"a": 2})
    for number in range(3):
        await run_once(learning, f"train-{number}", number)
    await learning.create_gang("train-9", 2, cpu="7")  # it waits, as no node has that much
    await learning.create_gang("said", 2, cpu="7", annotations={"netgang.io/expected-duration": "90m"})
    await until_sources(learning, learned=1.0, declared=1.0, unknown=0.0)

    await learning.api.until(
        lambda: kept(learning), lambda found: bool(found.get("data")), what="runs are written", limit_s=WRITTEN_S
    )
    await killed(learning)
    await until_sources(learning, learned=1.0, declared=1.0, unknown=0.0)
    assert await metric(netgang, "netgang_former_runs_kept") == 1.0

    text = (await kept(learning))["data"][FORMER_RUNS.entry]
    damaged = {"data": {FORMER_RUNS.entry: text + " "}}
    await learning.api.patch("ConfigMap", FORMER_RUNS.name, damaged, namespace=INSTALLED_IN)
    await killed(learning)
    await until_sources(learning, learned=0.0, declared=1.0, unknown=1.0)
    assert await metric(netgang, "netgang_former_runs_kept") == 0.0
    async with httpx.AsyncClient() as client:
        answer = await client.get(f"{netgang.url}/readyz")
    assert answer.status_code == 200
    assert "was not written by netgang, or was changed since" in answer.json()["detail"]["lengths"]
    await learning.create_gang("plain", 2)
    await learning.until_bound("plain-", 2)


@pytest.mark.timeout(120)
async def test_without_the_right_to_read_them_gangs_start(learning: Stage) -> None:
    await learning.api.delete("RoleBinding", "netgang-lengths", namespace=INSTALLED_IN)
    netgang = await learning.netgang(SETTINGS, on={"a": 2})
    await learning.create_gang("plain", 2)
    await learning.until_bound("plain-", 2)
    assert await metric(netgang, "netgang_former_runs_kept") == 0.0
    async with httpx.AsyncClient() as client:
        answer = await client.get(f"{netgang.url}/readyz")
    assert "forbidden" in answer.json()["detail"]["lengths"]
