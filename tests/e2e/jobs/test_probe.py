"""Two agents of the probe with real tokens, each bound to a pod on a node: their links become the network's."""

from typing import Any

import httpx
import pytest

from lab.testbed.objects import zone_nodes
from lab.testbed.processes.network import LOOPBACK, free_ports
from tests.e2e.objects import kind
from tests.e2e.stage import Stage, document, metric

AGENTS = {"agent-1": "node1", "agent-2": "node2"}


class _Agent:
    def __init__(self, client: httpx.AsyncClient, url: str, node: str, token: str) -> None:
        self.client, self.url, self.node, self.token = client, url, node, token
        self.sequence = 0
        self.orders: dict[str, Any] = {}

    async def post(self) -> int:
        links = [
            {"peer": peer["node"], "sent": 50, "lost": 0, "lost_out": 0, "lost_back": 0, "rtt_ms": 3.0}
            for peer in self.orders.get("peers", ())
        ]
        body = {"node": self.node, "since_s": 1.0, "sequence": self.sequence, "reflector_port": 8862, "links": links}
        answer = await self.client.post(self.url, json=body, headers={"Authorization": f"Bearer {self.token}"})
        if answer.status_code == 200:
            self.sequence += 1
            self.orders = answer.json()
        return answer.status_code


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
    url = f"http://{LOOPBACK}:{port}/v1/probe"
    tokens = {name: await stage.token("netgang-probe", pod=name) for name in AGENTS}
    async with httpx.AsyncClient() as client:
        agents = [_Agent(client, url, where, tokens[name]) for name, where in AGENTS.items()]
        for agent in agents:
            await stage.api.until(agent.post, lambda status: status == 200, what="the first report is taken")
        wrong = {
            "the node of another pod": (tokens["agent-2"], 403),
            "bound to no pod": (await stage.token("netgang-probe"), 403),
            "another account's": (await stage.token("trainer"), 403),
            "no token of this cluster": ("wrong", 401),
            "a repeated report": (tokens["agent-1"], 409),
        }
        found = {name: await _Agent(client, url, "node1", token).post() for name, (token, _) in wrong.items()}
        assert found == {name: status for name, (_, status) in wrong.items()}

        async def both() -> dict[str, Any]:
            for agent in agents:
                await agent.post()
            return await document(netgang, "/v1/network/node1/node2")

        link = await stage.api.until(both, lambda found: "probe" in str(found), what="the link is known", limit_s=60.0)
    assert [peer["node"] for peer in agents[0].orders["peers"]] == ["node2"]
    assert len(agents[0].orders["reflect_for"]) == 1
    delay, loss = link["metrics"]["delay"], link["metrics"]["loss"]
    assert {(one["there"]["origin"], one["back"]["origin"], one["from"]) for one in (delay, loss)} == {
        ("probe", "probe", "both directions")
    }
    assert (delay["counts"], loss["counts"]) == (pytest.approx(1.5), 0.0)
    assert await metric(netgang, "netgang_probe_reports_total", outcome="other node") == 3
    assert await metric(netgang, "netgang_probe_reports_total", outcome="replayed") == 1
