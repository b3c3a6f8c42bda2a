"""A node with bad links is marked on a real API server, and a kube-scheduler without netgang keeps off it."""

import json
from functools import partial
from itertools import permutations
from pathlib import Path

import pytest

from cli.removal import Removal
from extender.kube.client import OperatorApi
from extender.kube.credentials import load
from extender.ports import SystemClock
from lab.testbed.api import Object
from lab.testbed.objects import zone_nodes
from tests.e2e.objects import name_of
from tests.e2e.stage import LIMIT_S, Stage
from tests.e2e.tenants.test_confinement import BOUND, EXTRA

TAINT = {"key": "netgang.io/network-degraded", "effect": "NoSchedule"}


@pytest.mark.timeout(300)
async def test_a_plain_scheduler_keeps_off_a_node_that_netgang_marked(stage: Stage, tmp_path: Path) -> None:
    nodes = zone_nodes({"a": 4}, cpu="8")
    bad, *good = map(name_of, nodes)
    await stage.add_nodes(*nodes)
    await stage.api.apply([EXTRA, BOUND])  # with the taint the chart gives the right to patch nodes
    try:
        now_s = SystemClock().now_s()
        links = [
            {"source": one, "target": other, "loss_ratio": 0.012 if bad in (one, other) else 0.0, "measured_at": now_s}
            for one, other in permutations((bad, *good), 2)
        ]
        (tmp_path / "mesh.json").write_text(json.dumps(links))
        source = {"kind": "file", "path": str(tmp_path / "mesh.json")}
        await stage.start_netgang({"network": {"sources": [source], "taint": TAINT["effect"]}})
        read = partial(stage.api.get, "Node", bad)

        def mark(node: Object) -> list[Object]:
            return [one for one in node["status"]["conditions"] if one["type"] == "NetworkDegraded"]

        def tainted(node: Object) -> bool:
            return TAINT in node["spec"].get("taints", ())

        marked = await stage.api.until(read, tainted, what="it is tainted", limit_s=LIMIT_S)
        assert [one["status"] for one in mark(marked)] == ["True"]
        assert mark(marked)[0]["message"].startswith("loss up to 1.2 % (node1 → node2) on 6 of 6 links since ")
        await stage.cluster.remove("netgang")

        await stage.cluster.start_scheduler(name="default")
        fresh = {"key": "node.kubernetes.io/not-ready", "operator": "Exists"}  # no controller here removes it
        for plain in (stage.pod(f"plain-{number}") for number in range(9)):
            await stage.api.create(plain | {"spec": plain["spec"] | {"tolerations": [fresh]}})
        assert set((await stage.until_bound("plain-", 9)).values()) == set(good)

        async with OperatorApi(load(stage.cluster.kubeconfig(), clock=SystemClock())) as operator:
            await (removal := Removal(operator, SystemClock(), dry_run=False)).marks()
        assert removal.done.nodes == [bad]
        after = await read()
        assert (mark(after), tainted(after)) == ([], False)
    finally:
        for role in (BOUND, EXTRA):
            await stage.api.delete(role["kind"], role["metadata"]["name"])
