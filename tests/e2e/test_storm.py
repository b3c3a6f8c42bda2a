"""Many waiting pods beside a busy cluster: the guard against refusal storms (ADR 4)."""

from __future__ import annotations

import asyncio
from time import monotonic

import pytest

from testbed.objects import gang_pods, node, pod
from tests.e2e.stage import Stage, filter_calls

POOL = {"pool": "train"}


@pytest.mark.timeout(240)
async def test_three_hundred_refused_pods_beside_five_new_ones_a_second(stage: Stage) -> None:
    """Once the guard holds they cost at most 60 filter calls a second, and a gang starts ≤ 13 s after there is room."""
    await stage.add_nodes(
        *(node(f"t{i}", cpu="1100m", zone="a", labels=POOL) for i in range(11)),
        node("big", cpu="1000", zone="b", pods=1000),
    )
    netgang = await stage.netgang()
    await stage.start_scheduler(name="plain", version=stage.version)
    for number in range(10):  # one node of eleven stays free, so that kube-scheduler has something to ask about
        taken = pod(f"x{number}", namespace=stage.namespace)
        taken["spec"]["nodeName"] = f"t{number}"
        await stage.api.create(taken)
    waiting = [
        one
        for number in range(30)
        for one in gang_pods(
            f"g{number}", 10, min_available=10, namespace=stage.namespace, scheduler="netgang", memory="1Mi"
        )
    ]
    for one in waiting:
        one["spec"]["nodeSelector"] = POOL
    await stage.api.create_all(waiting)
    churn = asyncio.create_task(_churn(stage))
    try:
        await asyncio.sleep(20.0)  # the guard needs a few refusals of each pod
        before, began_s = await filter_calls(netgang), monotonic()
        await asyncio.sleep(20.0)
        per_s = (await filter_calls(netgang) - before) / (monotonic() - began_s)
        assert per_s <= 60.0
        await asyncio.gather(*(_remove(stage, f"x{number}") for number in range(9)))
        await stage.until_bound("g", 10, limit_s=13.0)
    finally:
        churn.cancel()


async def _churn(stage: Stage) -> None:
    """Five pods a second for another scheduler, on a node that no gang may use."""
    number = 0
    while True:
        one = pod(f"u{number}", namespace=stage.namespace, cpu="10m", node_selector={"kubernetes.io/hostname": "big"})
        await stage.api.create(one)
        number += 1
        await asyncio.sleep(0.2)


async def _remove(stage: Stage, name: str) -> None:
    await stage.api.delete("Pod", name, namespace=stage.namespace, grace_s=0)
