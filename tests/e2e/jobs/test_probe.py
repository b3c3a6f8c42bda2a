"""Reports of the probe's agents with real tokens: only one that is bound to a pod of its node is taken.

That real agents' reports become the network: tests/e2e/bed/test_probe_mesh.py.
"""

from functools import partial

import httpx

from lab.testbed.objects import zone_nodes
from lab.testbed.processes.network import LOOPBACK, free_ports
from tests.e2e.objects import kind
from tests.e2e.stage import Stage, metric

AGENTS = {"agent-1": "node1", "agent-2": "node2"}


async def test_agents_report_with_the_tokens_of_their_pods(stage: Stage) -> None:
    await stage.add_nodes(*zone_nodes({"A": 2}))
    await stage.api.create(kind("v1", "ServiceAccount", "netgang-probe", stage.namespace))
    await stage.api.create(kind("v1", "ServiceAccount", "trainer", stage.namespace))
    for name, where in AGENTS.items():
        made = stage.pod(name, on=where)
        made["spec"]["serviceAccountName"] = "netgang-probe"
        await stage.api.create(made)
    [port] = free_ports(1)
    probe = {"enabled": True, "service_account": f"{stage.namespace}/netgang-probe", "interval_s": 2.0}
    netgang = await stage.start_netgang({"reports": {"port": port}, "probe": probe})
    tokens = {name: await stage.token("netgang-probe", pod=name) for name in AGENTS}
    async with httpx.AsyncClient(base_url=f"http://{LOOPBACK}:{port}") as client:

        async def post(node: str, token: str) -> int:
            body = {"node": node, "since_s": 1.0, "sequence": 0, "reflector_port": 8862, "links": []}
            return (await client.post("/v1/probe", json=body, headers={"Authorization": f"Bearer {token}"})).status_code

        for name, where in AGENTS.items():
            taken = partial(post, where, tokens[name])
            await stage.api.until(taken, lambda status: status == 200, what="the first report is taken")
        wrong = {
            "the node of another pod": (tokens["agent-2"], 403),
            "bound to no pod": (await stage.token("netgang-probe"), 403),
            "another account's": (await stage.token("trainer"), 403),
            "no token of this cluster": ("wrong", 401),
            "a repeated report": (tokens["agent-1"], 409),
        }
        found = {name: await post("node1", token) for name, (token, _) in wrong.items()}
        assert found == {name: status for name, (_, status) in wrong.items()}
    assert await metric(netgang, "netgang_probe_reports_total", outcome="other node") == 3
    assert await metric(netgang, "netgang_probe_reports_total", outcome="replayed") == 1
