"""Gangs on a real kube-scheduler: whole or not at all, in one zone, and as soon as there is room."""

import asyncio
import random
from collections import Counter

import pytest

from lab.testbed.objects import ZONE_LABEL, GangDialect, node, pod_group, training_job, zone_nodes
from tests.e2e.objects import OURS, gang_of, not_scheduled, shuns_gangs
from tests.e2e.stage import Stage


async def test_g6_starts_when_the_missing_gpus_appear(stage: Stage) -> None:
    """PAPERS.md G6: ps and four workers of 2 GPUs wait on 4 GPUs, all of them, and start when four more are there."""
    await stage.add_nodes(node("g1", gpu=2, zone="a"), node("g2", gpu=2, zone="a"))
    await stage.netgang()
    await stage.api.create_all(training_job("tf", workers=4, worker_gpu=2, namespace=stage.namespace, scheduler=OURS))
    await stage.until_refused(5)
    assert await stage.bound() == {}
    assert all("0/2 nodes are available: 2 netgang: the" in (not_scheduled(one) or "") for one in await stage.pods())
    await stage.add_nodes(node("g3", gpu=2, zone="a"), node("g4", gpu=2, zone="a"))
    await stage.until_bound("tf", 5, limit_s=3.0)


async def test_two_gangs_in_room_for_six(stage: Stage) -> None:
    """PAPERS.md G6: of JobA and JobB with four pods each one runs whole and the other not at all, then the other."""
    await stage.netgang(on={"a": 6})
    for name in ("job-a", "job-b"):
        await stage.create_gang(name, 4)
    first = await stage.until_bound("", 4)
    assert len(set(first.values())) == 4
    [winner] = {gang_of(name) for name in first}
    loser = "job-b" if winner == "job-a" else "job-a"
    await stage.until_refused(4)
    assert len(await stage.bound(winner)) == 4
    assert await stage.bound(loser) == {}
    await stage.end(*first)
    await stage.until_bound(loser, 4)


async def test_contention_never_leaves_a_gang_in_part(stage: Stage) -> None:
    """Twenty rounds of two to five gangs that do not all fit: no gang stays between 0 and its minimum, no deadlock."""
    await stage.netgang(on={"a": 5, "b": 5}, cpu="2500m")
    rng = random.Random(20)
    for number in range(20):
        sizes = {f"r{number}-g{i}": rng.randint(2, 8) for i in range(rng.randint(2, 5))}
        pods = [one for name, size in sizes.items() for one in stage.gang(name, size)]
        rng.shuffle(pods)
        await stage.api.create_all(pods)
        started: set[str] = set()
        while len(started) < len(sizes):
            whole = await stage.api.until(
                lambda: _whole(stage, sizes),  # noqa: B023 - awaited in the same turn
                lambda found: bool(found - started),  # noqa: B023
                what=f"another gang of {sizes} beside {started}",
            )
            started |= whole
            await stage.end(*[name for name in await stage.bound() if gang_of(name) in whole])


async def _whole(stage: Stage, sizes: dict[str, int]) -> set[str]:
    """Gangs that are bound whole; a gang seen in part is given the time of a commit, then it is a failure."""
    for _ in range(40):
        counts = Counter(gang_of(name) for name in await stage.bound())
        partial = {name for name, count in counts.items() if count < sizes[name]}
        if not partial:
            return set(counts)
        await asyncio.sleep(0.05)
    raise AssertionError(f"bound in part for two seconds: {partial} of {sizes}")


@pytest.mark.timeout(240)
async def test_a_hundred_gangs_of_ten_created_interleaved(stage: Stage) -> None:
    """100 gangs × 10 pods on 100 nodes of four zones, members interleaved: all bound, each gang in one zone."""
    nodes = zone_nodes(dict.fromkeys("abcd", 25), cpu="12")
    zone_of = {one["metadata"]["name"]: one["metadata"]["labels"][ZONE_LABEL] for one in nodes}
    await stage.add_nodes(*nodes)
    await stage.netgang()
    gangs = [stage.gang(f"g{i:03}", 10) for i in range(100)]
    await stage.api.create_all([members[i] for i in range(10) for members in gangs])
    bound = await stage.until_bound("g", 1000, limit_s=120.0)
    zones = {(gang_of(name), zone_of[where]) for name, where in bound.items()}
    assert len(zones) == len({name for name, _ in zones}) == 100


@pytest.mark.parametrize("dialect", list(GangDialect))
async def test_members_that_arrive_late_and_members_beyond_the_minimum(stage: Stage, dialect: GangDialect) -> None:
    """Two of three wait for the third; a fourth and fifth that come later join where there is room, one stays."""
    await stage.netgang(on={"a": 4})
    if dialect is GangDialect.POD_GROUP:
        await stage.api.create(pod_group("g", 3, namespace=stage.namespace))
    members = stage.gang("g", 5, least=3, dialect=dialect)
    await stage.api.create_all(members[:2])
    await stage.until_refused(2)
    assert await stage.bound() == {}
    await stage.api.create(members[2])
    await stage.until_bound("g", 3)
    await stage.api.create_all(members[3:])
    await stage.until_bound("g", 4)
    await stage.until_refused(1)
    assert len(await stage.bound()) == 4


async def test_roles_taints_and_selectors(stage: Stage) -> None:
    """A ps without GPU beside workers with GPUs, each where it fits; workers only on nodes their selector names."""
    fast = {"fast": "yes"}
    await stage.add_nodes(
        node("plain", cpu="8", zone="a"),
        node("gpu-1", cpu="2", gpu=2, zone="a"),
        *(node(name, cpu="2", gpu=2, zone="a", labels=fast) for name in ("gpu-2", "gpu-3")),
    )
    await stage.netgang()
    job = training_job("tf", workers=2, worker_gpu=2, cpu="2", namespace=stage.namespace, scheduler=OURS)
    for one in job[1:]:
        one["spec"]["nodeSelector"] = fast
    job[0]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "4"
    await stage.api.create_all(job)
    bound = await stage.until_bound("tf", 3)
    assert bound["tf-ps-0"] == "plain"
    assert {bound["tf-worker-0"], bound["tf-worker-1"]} == {"gpu-2", "gpu-3"}


async def test_a_filter_that_is_not_modelled(stage: Stage) -> None:
    """One planned node is refused by anti-affinity, which only kube-scheduler knows: it is learned, the gang starts."""
    await stage.netgang(on={"a": 4}, cpu="4")
    await stage.api.create(shuns_gangs(stage.pod("blocker", on="node1", cpu="10m")))
    await stage.create_gang("g", 3, cpu="3")
    bound = await stage.until_bound("g", 3)
    assert sorted(bound.values()) == ["node2", "node3", "node4"]
