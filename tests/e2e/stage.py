"""Where scenarios run: one object with everything a test needs, and questions asked of netgang."""

import asyncio
import re
import ssl
import sys
from collections import defaultdict
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import httpx
import msgspec

from extender.decision_log import decisions
from lab.testbed.api import Api, Object
from lab.testbed.cluster import NETGANG_SCHEDULER, Cluster
from lab.testbed.objects import ZONE_LABEL, pod, zone_nodes
from lab.testbed.parts.service import SCHEDULER_CONFIG, Netgang, start_netgang, start_second_scheduler
from lab.testbed.processes.network import LOOPBACK, free_ports
from lab.testbed.processes.pace import LIVENESS_S
from lab.testbed.processes.process import Child
from tests.e2e.objects import gang, gates, name_of, needs_anchor, not_scheduled, placed, runs

LIMIT_S = 120.0  # for jobs: half a minute of quiet after the start, a minute until lost pods are collected
_NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


class Stage(msgspec.Struct, frozen=True):
    cluster: Cluster
    api: Api
    namespace: str
    started: list[Netgang] = []  # all netgangs of the test

    @property
    def service(self) -> Netgang:
        return self.started[-1]

    async def add_nodes(self, *nodes: Object) -> None:
        await self.cluster.add_nodes(nodes)

    async def netgang(
        self, settings: Mapping[str, Any] | None = None, *, on: Mapping[str, int] | None = None, cpu: str = "1500m"
    ) -> Netgang:
        """Netgang and its second scheduler, both ready, `on` so many nodes a zone: by default each for one pod."""
        await self.add_nodes(*zone_nodes(on or {}, cpu=cpu))
        [port] = free_ports(1)
        running, _ = await asyncio.gather(
            self.start_netgang(settings, port=port), start_second_scheduler(self.cluster, f"http://{LOOPBACK}:{port}")
        )
        return running

    async def start_netgang(self, settings: Mapping[str, Any] | None = None, **how: Any) -> Netgang:
        one = await start_netgang(self.cluster, {"record": {"enabled": True}} | dict(settings or {}), **how)
        self.started.append(one)
        return one

    async def start_second_scheduler(self, netgang: Netgang) -> Child:
        return await start_second_scheduler(self.cluster, netgang.url)

    async def default_scheduler(self, **settings: Any) -> Netgang:
        netgang = await self.start_netgang({"scheduler_names": ["default-scheduler"], **settings})
        config = SCHEDULER_CONFIG / "default-scheduler.yaml"
        await self.cluster.start_scheduler(config, extender=netgang.url, name="default")
        return netgang

    def gang(self, name: str, size: int, **fields: Any) -> list[Object]:
        return gang(name, size, self.namespace, **fields)

    async def create_gang(self, name: str, size: int, **fields: Any) -> list[Object]:
        return await self.api.create_all(self.gang(name, size, **fields))

    async def create_held_gang(self, netgang: Netgang, name: str, size: int, **fields: Any) -> dict[str, Any]:
        """Create a gang whose last member waits for an anchor, and wait until the others are held; the plan."""
        members = self.gang(name, size, **fields)
        needs_anchor(members[-1])
        await self.api.create_all(members)
        return await self.until_document(netgang, "/v1/plan", lambda p: p["held_binds"] == size - 1, "binds held")

    async def create_anchor(self, node: str) -> None:
        await self.create_pod("anchor", on=node, labels={"anchor": "yes"}, cpu="100m")

    def pod(self, name: str, *, on: str = "", **fields: Any) -> Object:
        """A pod, by default of the default scheduler; `on`: another client has put it there."""
        made = pod(name, namespace=self.namespace, **fields)
        return placed(made, on) if on else made

    async def create_pod(self, name: str, **fields: Any) -> Object:
        return await self.api.create(self.pod(name, **fields))

    async def patch_pod(self, name: str, **change: Any) -> Object:
        subresource = "status" if "status" in change else ""
        return await self.api.patch("Pod", name, change, namespace=self.namespace, subresource=subresource)

    async def annotate_pod(self, name: str, **annotations: str | None) -> Object:
        return await self.patch_pod(name, metadata={"annotations": annotations})

    async def pods(self, begin: str = "") -> list[Object]:
        found = await self.api.list_all("Pod", namespace=self.namespace)
        return sorted((one for one in found if name_of(one).startswith(begin)), key=name_of)

    async def bound(self, begin: str = "") -> dict[str, str]:
        return {name: node for name, node in (await self.api.bound(self.namespace)).items() if name.startswith(begin)}

    async def until_pods(
        self, accept: Callable[[list[Object]], bool], what: str, *, begin: str = "", limit_s: float = LIVENESS_S
    ) -> list[Object]:
        return await self.api.until(partial(self.pods, begin), accept, what=what, limit_s=limit_s)

    async def until_bound(self, begin: str, count: int, *, limit_s: float = LIVENESS_S) -> dict[str, str]:
        read, what = partial(self.bound, begin), f"{count} of {begin} bound"
        return await self.api.until(read, lambda found: len(found) >= count, what=what, limit_s=limit_s)

    async def until_admitted(self, begin: str, count: int, *, limit_s: float = LIVENESS_S) -> list[Object]:
        def admitted(found: list[Object]) -> bool:
            return sum(not gates(one) for one in found) >= count

        return await self.until_pods(admitted, f"{count} of {begin} admitted", begin=begin, limit_s=limit_s)

    async def until_refused(
        self, count: int, *, reason: str = "", begin: str = "", limit_s: float = LIVENESS_S
    ) -> None:
        def refused(found: list[Object]) -> bool:
            said = [not_scheduled(one) for one in found]
            return sum(one is not None and reason in one for one in said) >= count

        await self.until_pods(refused, f"{count} pods refused {reason}", begin=begin, limit_s=limit_s)

    async def attempts(self) -> dict[str, float]:
        argv = self.cluster.parts[NETGANG_SCHEDULER].argv
        ports = [one.partition("=")[2] for one in argv if "--secure-port=" in one]
        async with httpx.AsyncClient(verify=False) as client:  # it signs its own certificate
            text = (await client.get(f"https://{LOOPBACK}:{ports[0]}/metrics")).text
        found: dict[str, float] = defaultdict(float)
        for labels, value in re.findall(r"^scheduler_schedule_attempts_total{([^}]*)} (\S+)$", text, re.MULTILINE):
            found[re.findall(r'result="([^"]*)"', labels)[0]] += float(value)
        return dict(found)

    async def token(self, account: str, *audiences: str, pod: str = "", namespace: str = "") -> str:
        """A token of a service account as the kubelet asks for it, by default for the API server, bound to a `pod`."""
        path = f"/api/v1/namespaces/{namespace or self.namespace}/serviceaccounts/{account}/token"
        spec: Object = {"audiences": audiences} if audiences else {}
        if pod:
            spec["boundObjectRef"] = {"apiVersion": "v1", "kind": "Pod", "name": pod}
        asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        return str((await self.api.request("POST", path, body=asked))["status"]["token"])

    async def end(self, *names: str) -> None:
        for name in names:
            await self.api.delete("Pod", name, namespace=self.namespace, grace_s=0)
        await self.until_pods(lambda found: not {*map(name_of, found)} & {*names}, f"{len(names)} pods gone")

    async def events(self, reason: str, *, kind: str = "") -> dict[str, str]:
        found = await self.api.list_all("Event", namespace=self.namespace, fields=f"reason={reason}")
        about = [(one["involvedObject"], one["message"]) for one in found]
        return {one["name"]: note for one, note in about if kind in ("", one["kind"])}

    async def until_events(
        self, reason: str, accept: Callable[[dict[str, str]], bool] = bool, *, limit_s: float = LIVENESS_S
    ) -> dict[str, str]:
        return await self.api.until(partial(self.events, reason), accept, what=f"Events {reason}", limit_s=limit_s)

    async def explain(self, netgang: Netgang, gang: str) -> dict[str, Any]:
        return await document(netgang, f"/v1/explain/{self.namespace}/{gang}")

    async def until_document(
        self, netgang: Netgang, path: str, accept: Callable[[Object], bool], what: str, *, limit_s: float = LIVENESS_S
    ) -> Object:
        return await self.api.until(partial(document, netgang, path), accept, what=what, limit_s=limit_s)

    async def waiting(self, netgang: Netgang) -> dict[str, dict[str, Any]]:
        gangs = (await document(netgang, "/v1/queue"))["gangs"]
        return {one["gang"].partition("/")[2]: one for one in gangs if one["queue"] == "WQ"}

    async def zones(self, nodes: set[str]) -> set[str]:
        found = await self.api.list_all("Node")
        return {one["metadata"]["labels"].get(ZONE_LABEL, "") for one in found if name_of(one) in nodes}

    async def running(self, job: str) -> dict[str, str]:
        pods = await self.pods(f"{job}-")
        return {one["metadata"]["uid"]: one["spec"]["nodeName"] for one in pods if runs(one)}

    async def until_running(self, job: str, count: int, *, without: frozenset[str] = frozenset()) -> dict[str, str]:
        def run(found: dict[str, str]) -> bool:
            return len(found) == count and without.isdisjoint(found)

        return await self.api.until(partial(self.running, job), run, what=f"{count} pods of {job}", limit_s=LIMIT_S)

    async def until_job(self, name: str, accept: Callable[[Object], Any], what: str, *, kind: str = "Job") -> Object:
        read = partial(self.api.get, kind, name, namespace=self.namespace)
        return await self.api.until(read, accept, what=what, limit_s=LIMIT_S)

    async def end_job(self, name: str) -> None:
        await self.api.delete("Job", name, namespace=self.namespace)
        await self.until_pods(lambda found: not found, f"{name} gone", begin=f"{name}-")


def say(figure: str) -> None:
    """A figure that is interesting and decides nothing; `pytest -rP` or `-s` shows it."""
    sys.stdout.write(f"\n  {figure}\n")


def plain_client() -> httpx.AsyncClient:
    """A client for HTTP without TLS. Certificates that it never needs take 24 ms of CPU, at each look of a wait."""
    return httpx.AsyncClient(verify=_NO_TLS)


async def metric(netgang: Netgang, name: str, **labels: str) -> float:
    """The sum of a metric's samples that carry these labels, as it is now: /metrics is up to a second old."""
    await asyncio.sleep(1.0)
    async with plain_client() as client:
        text = (await client.get(f"{netgang.url}/metrics")).text
    wanted = {f'{key}="{value}"' for key, value in labels.items()}
    samples = re.findall(rf"^{name}(?:{{([^}}]*)}})? (\S+)$", text, re.MULTILINE)
    return sum(float(value) for of, value in samples if wanted <= set(re.findall(r'\w+="[^"]*"', of)))


async def filter_calls(netgang: Netgang) -> float:
    return await metric(netgang, "netgang_requests_total", verb="filter")


async def document(netgang: Netgang, path: str) -> dict[str, Any]:
    async with plain_client() as client:
        return dict((await client.get(f"{netgang.url}{path}")).json())


async def assert_decides_again(one: Netgang) -> None:
    """Fetch the log and decide again. One that was killed, or that shows its documents to no caller, is silent."""
    try:
        async with httpx.AsyncClient(timeout=30.0) as client:
            answer = await client.get(f"{one.debug_url}/v1/record")
    except httpx.HTTPError:
        return
    if answer.status_code != httpx.codes.OK:
        assert "record.enabled" not in answer.text, f"{one.part.name}: keeps no decisions to be made again"
        return
    different = [made.at_s for made in decisions(answer.content) if not made.same]
    assert different == [], f"{one.part.name}: decided differently"
