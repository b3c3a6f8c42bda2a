"""Plain pods beside gangs, with the cluster's own kube-scheduler asking netgang about both (docs/safety.md S13)."""

from __future__ import annotations

import asyncio
import random
import time
from typing import Any

import pytest

from scoring.model import GATE
from scoring.model.reasons import Reason
from testbed.objects import gang_pods, pod, zone_nodes
from testbed.parts.service import SCHEDULER_CONFIG, Netgang
from tests.e2e.faults.test_faults import needs_anchor
from tests.e2e.stage import Stage, document, metric, not_scheduled, say, until_held

core = pytest.mark.e2e_core
SYSTEM = "system-cluster-critical"


async def default_scheduler(stage: Stage, **settings: Any) -> Netgang:
    """Netgang beside the cluster's own kube-scheduler: every pod is one of ours."""
    netgang = await stage.start_netgang({"scheduler_names": ["default-scheduler"], **settings})
    await stage.start_scheduler(
        SCHEDULER_CONFIG / "default-scheduler.yaml", extender=netgang.url, version=stage.version, name="default"
    )
    return netgang


async def until_told(stage: Stage, name: str, reason: Reason, *, limit_s: float = 30.0) -> None:
    """Wait until the pod's status says this reason."""

    async def message() -> str:
        [one] = [one for one in await stage.pods() if one["metadata"]["name"] == name]
        return not_scheduled(one) or ""

    await stage.api.until(message, lambda told: reason in told, what=f"{name}: {reason}", limit_s=limit_s)


@core
async def test_a_plain_pod_does_not_take_what_a_starving_gang_saves_up(stage: Stage) -> None:
    """Its zone fills no more: a plain pod waits for the gang's start, a system pod does not wait at all."""
    await stage.add_nodes(*zone_nodes({"a": 2}, cpu="4100m"))
    netgang = await default_scheduler(stage, queue={"starve_limit_s": 3.0, "starving_share": 1.0})
    await stage.api.create_all([pod("busy", namespace=stage.namespace, cpu="3")])
    await stage.until_bound("busy", 1)
    await stage.api.create_all(gang_pods("g", 2, min_available=2, namespace=stage.namespace, cpu="3", gates=(GATE,)))

    async def holds() -> int:
        queue = await document(netgang, "/v1/queue")
        return sum(len(one["held_nodes"]) for one in queue["gangs"])

    await stage.api.until(holds, lambda found: found == 2, what="two nodes held", limit_s=20.0)
    await stage.api.create_all([pod("plain", namespace=stage.namespace, cpu="1")])
    await until_told(stage, "plain", Reason.RESERVED)
    await stage.api.create_all([pod("system", namespace=stage.namespace, cpu="1", priority_class=SYSTEM)])
    await stage.until_bound("system", 1, limit_s=10.0)
    assert set(await stage.bound()) == {"busy", "system"}
    await stage.end("busy")
    await stage.until_bound("g", 2)
    await stage.until_bound("plain", 1)


@core
async def test_a_plain_pod_does_not_take_a_committed_gangs_place(stage: Stage) -> None:
    """One member is at bind, the other has not come: what it needs is refused until that lapses."""
    await stage.add_nodes(*zone_nodes({"a": 2}, cpu="4100m"))
    netgang = await default_scheduler(stage, hold_limit_s=8.0, commit_timeout_s=5.0, http_timeout_s=60.0)
    members = gang_pods("g", 2, min_available=2, namespace=stage.namespace, cpu="3")
    needs_anchor(members[1])
    await stage.api.create_all(members)
    await until_held(stage, netgang, 1)
    began_s = time.monotonic()
    await stage.api.create_all([pod("big", namespace=stage.namespace, cpu="2")])
    await until_told(stage, "big", Reason.RESERVED, limit_s=6.0)
    await stage.api.create_all([pod("small", namespace=stage.namespace, cpu="1")])
    await stage.until_bound("small", 1, limit_s=5.0)
    assert set(await stage.bound()) == {"small"}
    assert time.monotonic() - began_s < 8.0, "too slow a machine: the hold is over"
    await stage.until_bound("big", 1)
    assert set(await stage.bound()) == {"small", "big"}


@pytest.mark.timeout(240)
async def test_gangs_and_plain_pods_share_a_scheduler(stage: Stage) -> None:
    """Forty seconds of both in a cluster that stays nearly full: gangs start whole, and every plain pod runs."""
    await stage.add_nodes(*zone_nodes({"a": 4}, cpu="4"))
    netgang = await default_scheduler(stage)
    rng, number = random.Random(7), 0
    until_s = time.monotonic() + 40.0
    ends_s: dict[str, float] = {}
    """plain pod → when it ends"""
    sizes: dict[str, int] = {}
    open_gangs: dict[str, float | None] = {}
    """gang → when it was first seen whole"""
    partly_since_s: dict[str, float] = {}
    while time.monotonic() < until_s or open_gangs or ends_s:
        now_s = time.monotonic()
        assert now_s < until_s + 60.0, f"stuck: {sorted(open_gangs)}, {len(ends_s)} plain pods"
        if now_s < until_s:
            number += 1
            await stage.api.create(pod(f"p{number}", namespace=stage.namespace, cpu=rng.choice(("500m", "1"))))
            ends_s[f"p{number}"] = now_s + rng.uniform(4.0, 10.0)
            if number % 5 == 0:
                name, size = f"g{number}", rng.randint(2, 4)
                gates = (GATE,) if rng.random() < 0.6 else ()
                members = gang_pods(name, size, min_available=size, namespace=stage.namespace, gates=gates)
                await stage.api.create_all(members)
                open_gangs[name], sizes[name] = None, size
        bound = await stage.bound()
        for name in [one for one, end_s in ends_s.items() if end_s < now_s and one in bound]:
            del ends_s[name]
            await stage.api.delete("Pod", name, namespace=stage.namespace, grace_s=0)
        for name, whole_s in list(open_gangs.items()):
            there = sum(one.startswith(f"{name}-") for one in bound)
            if whole_s is None and 0 < there < sizes[name]:
                assert now_s - partly_since_s.setdefault(name, now_s) < 5.0, f"{name} is bound in part"
            elif whole_s is None and there == sizes[name]:
                open_gangs[name] = now_s
            elif whole_s is not None and now_s - whole_s > 4.0:
                del open_gangs[name]
                for index in range(sizes[name]):
                    await stage.api.delete("Pod", f"{name}-worker-{index}", namespace=stage.namespace, grace_s=0)
        await asyncio.sleep(0.4)
    refused = await metric(netgang, "netgang_refusals_total", verb="filter", reason=Reason.RESERVED)
    lost = await metric(netgang, "netgang_refusals_total", verb="bind", reason=Reason.ROOM_TAKEN)
    say(f"{len(sizes)} gangs, {number} plain pods, refused held room {refused:g} times, places lost {lost:g}")
