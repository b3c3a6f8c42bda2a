"""Five minutes of everything at once: gangs with and without gates, pods of others, DaemonSets, nodes that come and go.

Chance is seeded, and what must hold is looked at all the time. `MIXED_LOAD_S` makes it shorter or longer.
"""

import asyncio
import os
import random
from functools import partial
from pathlib import Path
from statistics import median
from time import monotonic

import pytest

from lab.testbed.objects import zone_nodes
from lab.testbed.parts.service import Netgang
from lab.testbed.processes.schedulers import PLAIN
from tests.e2e.invariants import invariants_hold, until_nothing_is_promised
from tests.e2e.load import END_S, Load
from tests.e2e.objects import daemon_set, name_of
from tests.e2e.site import site_on
from tests.e2e.stage import Stage, metric, say

LENGTH_S = float(os.environ.get("MIXED_LOAD_S", "300"))
OTHERS = ("default-scheduler", "other")
NODES = zone_nodes({"a": 8, "b": 8, "c": 8})
site = site_on(NODES, {})


async def nodes_come_and_go(load: Load) -> None:
    while monotonic() < load.until_s:
        await asyncio.sleep(2.0)
        node = load.rng.choice(NODES)
        await load.stage.api.delete("Node", name_of(node))
        load.counts["nodes left"] += 1
        await asyncio.sleep(10.0)
        await load.stage.add_nodes(node)


async def daemon_sets_come(load: Load) -> None:
    await load.stage.api.create(daemon_set("agent", load.stage.namespace, "200m"))
    await asyncio.sleep(max(load.until_s - monotonic(), 0.0) / 2)
    await load.stage.api.create(daemon_set("late-agent", load.stage.namespace, "200m"))


async def memory_of(netgang: Netgang, samples: list[tuple[float, int]]) -> None:
    """When, and how many bytes of netgang's process are resident; every two seconds until cancelled."""
    while True:
        samples.append((monotonic(), _resident_bytes(netgang)))
        await asyncio.sleep(2.0)


def _resident_bytes(netgang: Netgang) -> int:
    return int(Path(f"/proc/{netgang.part.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.timeout(LENGTH_S + END_S + 120.0, func_only=True)
async def test_mixed_load(site: Stage) -> None:
    """No gang is bound in part, no node over-committed, no reservation forgotten, no gang stuck, memory is flat."""
    accounts = partial(site.api.list_all, "ServiceAccount", namespace=site.namespace)
    await site.api.until(accounts, bool, what="a service account for the pods")
    await site.start_scheduler({**PLAIN, "profiles": [{"schedulerName": name} for name in OTHERS]})
    netgang, began_s = site.service, monotonic()
    memory: list[tuple[float, int]] = []
    watching = asyncio.create_task(memory_of(netgang, memory))
    try:
        async with invariants_hold(site.api, netgang, site.namespace, commit_s=20.0, grace_s=10.0):
            load = Load(site, random.Random(4), monotonic() + LENGTH_S, others=OTHERS)
            async with asyncio.TaskGroup() as tasks:
                for act in (load.run(), nodes_come_and_go(load), daemon_sets_come(load)):
                    tasks.create_task(act)
            await until_nothing_is_promised(site.api, netgang)
    finally:
        watching.cancel()
    bound = await metric(netgang, "netgang_bindings_total", outcome="bound")
    say(f"{dict(load.counts)}, {bound:g} Bindings in {monotonic() - began_s:.0f} s")
    assert await metric(netgang, "netgang_internal_errors_total") == 0
    assert "Traceback" not in netgang.part.log.read_text()
    assert load.counts["whole"] == load.counts["gangs"]
    assert len(load.plain_bound) > 0.9 * load.counts["others"]
    warm = median(size for at_s, size in memory if 0.25 < (at_s - began_s) / LENGTH_S < 0.45)
    late = median(size for at_s, size in memory if 0.8 < (at_s - began_s) / LENGTH_S < 1.0)
    say(f"resident: {warm / 2**20:.1f} MiB when warm, {late / 2**20:.1f} MiB at the end")
    assert late < 1.1 * warm
