"""Filters of kube-scheduler's own that netgang does not model close most nodes to a gang (docs/safety.md S27)."""

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import ClassVar

import pytest

from lab.testbed.api import Object
from lab.testbed.cluster import NETGANG_SCHEDULER
from lab.testbed.objects import zone_nodes
from lab.testbed.parts.service import SECOND_SCHEDULER
from lab.testbed.processes import schedulers
from lab.testbed.processes.network import LOOPBACK
from tests.e2e.objects import indexed_job, needs_anchor, shuns_gangs
from tests.e2e.site import site_on
from tests.e2e.stage import LIMIT_S, Stage

CLOSED, OPEN = 6, 2
SETTINGS = {"repin_timeout_s": 5, "exclusion_ttl_s": 20}
site = site_on(zone_nodes({"a": CLOSED + OPEN}, cpu="1500m", prefix="n"), SETTINGS)


@pytest.mark.timeout(200)
async def test_anti_affinity_of_others_costs_the_job_nothing(site: Stage) -> None:
    for number in range(1, CLOSED + 1):
        await site.api.create(shuns_gangs(site.pod(f"blocker-{number}", on=f"n{number}", cpu="10m")))
    await site.api.create(indexed_job("train", site.namespace, 2, backoff_limit=1))
    assert set((await site.until_running("train", 2)).values()) == {"n7", "n8"}
    await _assert_spared(site, "train")

    await site.api.create(indexed_job("later", site.namespace, 4, backoff_limit=1))
    await site.until_events("GangWaiting", lambda told: any("later-" in one for one in told), limit_s=LIMIT_S)
    await _assert_spared(site, "later")
    assert await site.running("later") == {}
    await site.end(*(f"blocker-{number}" for number in range(1, CLOSED + 1)))
    await site.until_running("later", 4)
    await _assert_spared(site, "later")


class _OtherExtender(BaseHTTPRequestHandler):
    """Counts a resource of its own, as HAMi's scheduler does; here it has room everywhere."""

    asked: ClassVar[set[str]] = set()

    def do_POST(self) -> None:
        call = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.asked.add(call["Pod"]["metadata"]["name"])
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"NodeNames": call["NodeNames"]}).encode())


async def test_another_extender_counts_what_kube_scheduler_ignores(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`ignoredByScheduler`: no node shows the resource; the gang starts, a plain pod too, and the other was asked."""
    other, readdress = ThreadingHTTPServer((LOOPBACK, 0), _OtherExtender), schedulers.readdress
    Thread(target=other.serve_forever, daemon=True).start()
    url, managed = f"http://{LOOPBACK}:{other.server_port}", {"name": "example.com/gpumem", "ignoredByScheduler": True}
    monkeypatch.setattr(schedulers, "readdress", lambda at, base: at if at == url else readdress(at, base))
    configuration = schedulers.load_configuration(SECOND_SCHEDULER)
    entry = {"urlPrefix": url, "filterVerb": "filter", "nodeCacheCapable": True, "managedResources": [managed]}
    configuration["extenders"].insert(0, entry)
    await stage.add_nodes(*zone_nodes({"a": 3}, cpu="1500m"))
    netgang, own = await stage.start_netgang(), NETGANG_SCHEDULER
    await stage.cluster.start_scheduler(configuration, name=own, extender=netgang.url, account=own)
    pods = [*stage.gang("train", 2), stage.pod("plain", scheduler="netgang")]
    for one in pods:
        for part in ("requests", "limits"):
            one["spec"]["containers"][0].setdefault("resources", {}).setdefault(part, {})["example.com/gpumem"] = "3000"
    await stage.api.create_all(pods)
    await stage.until_bound("train", 2)
    await stage.until_bound("plain", 1)
    assert _OtherExtender.asked == {one["metadata"]["name"] for one in pods}
    other.shutdown()
    other.server_close()


LEADERS = {  # case: (which member needs nobody near it, all are gated)
    "leader first": (0, False),
    "leader last": (3, False),
    "each other": (None, False),
    "gated, leader first": (0, True),
    "gated, leader last": (3, True),
}


@pytest.mark.parametrize(("leader", "gated"), LEADERS.values(), ids=LEADERS)
async def test_members_that_need_each_other_near(stage: Stage, leader: int | None, gated: bool) -> None:
    """kube-scheduler refuses workers until their leader has a place, and forgets them but for a change of labels."""
    await stage.netgang(on={"a": 2, "b": 4})
    members = [needs_anchor(one) for one in stage.gang("serve", 4, gated=gated)]
    for number, one in enumerate(members):
        if leader in (None, number):
            one["metadata"]["labels"]["anchor"] = "yes"
        if leader == number:
            del one["spec"]["affinity"]
        await stage.api.create(one)
    nodes = await stage.until_bound("serve", 4)
    assert await stage.zones(set(nodes.values())) == {"b"}


async def _assert_spared(site: Stage, job: str) -> None:
    found: Object = await site.api.get("Job", job, namespace=site.namespace)
    assert found["status"].get("failed", 0) == 0
    assert not any(one["type"] == "Failed" for one in found["status"].get("conditions", []))
