"""Gangs on a real kube-scheduler: whole, in one zone, as soon as there is room; plain pods beside them (S13)."""

import asyncio
import random
from collections import Counter
from time import monotonic

from lab.testbed.objects import GangDialect, node, pod_group, training_job, zone_nodes
from lab.testbed.processes.pace import slowness
from scoring.model.reasons import Reason
from tests.e2e.objects import OURS, gang_of, not_scheduled
from tests.e2e.stage import Stage


async def test_g6_without_gangs_three_of_five_members_start(stage: Stage) -> None:
    """PAPERS.md G6, the control without netgang: 4 GPUs leave a job that hangs half started."""
    await stage.add_nodes(node("g1", gpu=2), node("g2", gpu=2))
    await stage.cluster.start_scheduler()
    await stage.api.create_all(training_job("tf", workers=4, worker_gpu=2, namespace=stage.namespace))
    await stage.until_refused(2)
    bound = await stage.bound()
    assert (len(bound), "tf-ps-0" in bound) == (3, True)


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


async def test_contention_never_leaves_a_gang_in_part(stage: Stage) -> None:
    await stage.netgang(on={"a": 5, "b": 5}, cpu="2500m")
    rng = random.Random(20)
    for number in range(8):
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


async def test_members_that_arrive_late_and_members_beyond_the_minimum(stage: Stage) -> None:
    await stage.netgang(on={"a": 4})
    await stage.api.create(pod_group("g", 3, namespace=stage.namespace))
    members = stage.gang("g", 5, least=3, dialect=GangDialect.POD_GROUP)
    await stage.api.create_all(members[:2])
    await stage.until_refused(2)
    assert await stage.bound() == {}
    await stage.api.create(members[2])
    await stage.until_bound("g", 3)
    await stage.api.create_all(members[3:])
    await stage.until_bound("g", 4)
    await stage.until_refused(1)
    assert len(await stage.bound()) == 4


DEFAULT = "default-scheduler"
SYSTEM = "system-cluster-critical"


async def test_a_plain_pod_does_not_take_what_is_reserved_for_a_starving_gang(stage: Stage) -> None:
    await stage.add_nodes(*zone_nodes({"a": 2}, cpu="4100m"))
    netgang = await stage.default_scheduler(queue={"starve_limit_s": 3.0, "reserve_after_s": 0.0})
    await stage.create_pod("busy", cpu="3")
    await stage.until_bound("busy", 1)
    await stage.create_gang("g", 2, scheduler=DEFAULT, cpu="3", gated=True)

    def reserved(queue: dict[str, list[dict[str, list[str]]]]) -> bool:
        return sum(len(one["held_nodes"]) for one in queue["gangs"]) == 2

    await stage.until_document(netgang, "/v1/queue", reserved, "two nodes reserved", limit_s=20.0)
    await stage.create_pod("plain", cpu="1")
    await stage.until_refused(1, reason=Reason.RESERVED, begin="plain")
    await stage.create_pod("system", cpu="1", priority_class=SYSTEM)
    await stage.until_bound("system", 1, limit_s=10.0)
    assert set(await stage.bound()) == {"busy", "system"}
    await stage.end("busy")
    await stage.until_bound("g", 2)
    await stage.until_bound("plain", 1)


async def test_a_plain_pod_does_not_take_a_committed_gangs_place(stage: Stage) -> None:
    await stage.add_nodes(*zone_nodes({"a": 2}, cpu="4100m"))
    pace = slowness()
    hold_s = 8.0 * pace
    netgang = await stage.default_scheduler(hold_limit_s=hold_s, commit_timeout_s=5.0 * pace, http_timeout_s=60.0)
    await stage.create_held_gang(netgang, "g", 2, scheduler=DEFAULT, cpu="3")
    began_s = monotonic()
    await stage.create_pod("big", cpu="2")
    await stage.until_refused(1, reason=Reason.RESERVED, begin="big", limit_s=6.0)
    await stage.create_pod("small", cpu="1")
    await stage.until_bound("small", 1, limit_s=5.0)
    assert set(await stage.bound()) == {"small"}
    assert monotonic() - began_s < hold_s, "too slow a machine: the hold is over"
    await stage.until_bound("big", 1)
    assert set(await stage.bound()) == {"small", "big"}
