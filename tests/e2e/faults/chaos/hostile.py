"""What a hostile tenant with the rights of `edit` in one namespace may do: all of it must leave the others alone.

Rule: only the tenant's own namespace, its own pods and Jobs, and the address that kube-scheduler's calls go to. At most
`KEPT` of its objects stay; what it did last stays until after the storm.
"""

import asyncio
import json
import random
from collections import Counter, deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import httpx
import msgspec

from lab.testbed.api import Api, Object
from lab.testbed.errors import ApiRefused
from lab.testbed.objects import MIN_AVAILABLE_LABEL, pod, pod_group
from lab.testbed.processes.network import LOOPBACK
from tests.e2e.faults.chaos.witness import Witness
from tests.e2e.objects import gang, indexed_job, pinned, placed, shuns_gangs, with_claim

KEPT = 400
BYSTANDER = "bystander"  # a Job of the default scheduler in the honest namespace, whose name the forged notes use
_HUGE = 900_000
_HALF_SENT_S = 8.0


class Mallory(msgspec.Struct):
    api: Api
    witness: Witness
    namespace: str
    victims: str  # the honest namespace
    nodes: Sequence[str]
    verbs_port: int
    chance: random.Random
    done: Counter[str] = msgspec.field(default_factory=Counter)
    refused: Counter[str] = msgspec.field(default_factory=Counter)  # what the API server itself did not accept
    _number: int = 0
    _first: list[str] = []  # attacks that still have to be made once, in an order of chance
    _kept: deque[tuple[str, str]] = msgspec.field(default_factory=deque)  # (kind, name) of what is there, oldest first

    async def act(self) -> None:
        """One attack: each of them once before any of them comes again."""
        every = (
            self.huge_quantity, self.nested_notes, self.forged_notes, self.phantom_load, self.changing_minimum,
            self.mixed_schedulers, self.missing_claim, self.closed_by_anti_affinity, self.weightless_and_greedy,
            self.long_lists, self.member_deleted_while_held, self.half_sent_calls, self.bind_of_others,
        )  # fmt: skip
        attacks = {one.__name__.replace("_", " "): one for one in every}
        if not self._number:
            self._first = self.chance.sample(list(attacks), len(attacks))
        self._number += 1
        name = self._first.pop() if self._first else self.chance.choice(list(attacks))
        try:
            await attacks[name]()
            self.done[name] += 1
        except ApiRefused:
            self.refused[name] += 1
        while len(self._kept) > KEPT:
            kind, old = self._kept.popleft()
            await self.api.delete(kind, old, namespace=self.namespace, grace_s=0 if kind == "Pod" else None)

    async def huge_quantity(self) -> None:
        amount = self.chance.choice(["1" * _HUGE, "1e999999999", "9" * 4000 + "Ei", "0." + "0" * _HUGE + "1"])
        group = pod_group(self.name, 2, namespace=self.namespace)
        group["spec"]["minResources"] = {"cpu": amount}
        await self._create(group)
        await self._create(*self._gang(2))

    async def nested_notes(self) -> None:
        tower = '{"x":' + "[" * 100_000
        notes = {f"netgang.io/{one}": tower for one in ("preempts", "admitted")}
        await self._create(*self._gang(2, annotations=notes, gated=True))
        await self._create(self._job({f"netgang.io/{one}": tower for one in ("resume", "last-change")}))

    async def forged_notes(self) -> None:
        others = [f"{run.namespace}/{run.gang}" for run in self.witness.runs(self.victims)]
        named = [*others[:8], f"{self.victims}/{BYSTANDER}"]
        [made, *_] = await self._create(*self._gang(2, gated=True))
        uid = made["metadata"]["uid"]
        note = {"uid": uid, "at_s": 0.0, "victims": named, "pods": 8, "nodes": {uid: self.nodes[0]}}
        notes = {"netgang.io/preempts": json.dumps(note), "netgang.io/admitted": f"{uid}/{self.nodes[0]}"}
        change = {"metadata": {"annotations": notes}}
        await self.api.patch("Pod", made["metadata"]["name"], change, namespace=self.namespace)
        resume = {"gang": f"{self.victims}/{BYSTANDER}", "uid": uid, "at_s": 0.0}
        await self._create(self._job({"netgang.io/resume": json.dumps(resume)}))

    async def phantom_load(self) -> None:
        """On every node a pending pod that asks for all of it, and that no scheduler places."""
        for node in self.nodes:
            one = pod(f"{self.name}-{node}", namespace=self.namespace, cpu="8", scheduler="nobody")
            await self._create(pinned(one, node))

    async def changing_minimum(self) -> None:
        """A gang whose members disagree on the minimum as soon as the first are on their way."""
        members = await self._create(*self._gang(3))
        late = {"metadata": {"labels": {MIN_AVAILABLE_LABEL: "7"}}}
        await self.api.patch("Pod", members[-1]["metadata"]["name"], late, namespace=self.namespace)

    async def mixed_schedulers(self) -> None:
        members = self._gang(4)
        for one in members[:-1]:
            one["spec"]["schedulerName"] = "default-scheduler"
        await self._create(*members)

    async def missing_claim(self) -> None:
        await self._create(*with_claim(self._gang(2)))

    async def closed_by_anti_affinity(self) -> None:
        for node in self.nodes[: len(self.nodes) // 2]:
            guard = pod(f"{self.name}-guard-{node}", namespace=self.namespace, cpu="10m")
            await self._create(shuns_gangs(placed(guard, node), [self.name]))
        await self._create(*self._gang(3, gated=True))

    async def weightless_and_greedy(self) -> None:
        """A gang that asks for GPUs that do not exist and nothing else, and one that asks for nothing at all."""
        gpus = {"nvidia.com/gpu": "4"}
        for suffix, resources in (("", {"requests": gpus, "limits": gpus}), ("-idle", {})):
            members = self._gang(2, suffix)
            for one in members:
                one["spec"]["containers"][0]["resources"] = resources
            await self._create(*members)

    async def long_lists(self) -> None:
        zones = ",".join(f"z{self._number}-{number}" for number in range(20_000))
        members = self._gang(3, annotations={"netgang.io/zones": zones})
        for number, one in enumerate(members):
            one["metadata"]["annotations"]["netgang.io/ratios"] = f"{self._number}.{number}:40:40"
        await self._create(*members)

    async def member_deleted_while_held(self) -> None:
        members = await self._create(*self._gang(5))
        await asyncio.sleep(self.chance.uniform(0.0, 0.1))
        await self.api.delete("Pod", members[-1]["metadata"]["name"], namespace=self.namespace, grace_s=0)

    async def half_sent_calls(self) -> None:
        for _ in range(30):
            with suppress(OSError):
                _, writer = await asyncio.open_connection(LOOPBACK, self.verbs_port)
                writer.write(b"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Le")
                asyncio.get_running_loop().call_later(_HALF_SENT_S, writer.close)

    async def bind_of_others(self) -> None:
        pending = [
            (uid, one) for uid, one in list(self.witness.pods.items()) if one.alive and not one.node and one.run is None
        ]
        async with httpx.AsyncClient(base_url=f"http://{LOOPBACK}:{self.verbs_port}", timeout=2.0) as client:
            for uid, one in pending[:5]:
                body = {"PodName": one.name, "PodNamespace": one.namespace, "PodUID": uid}
                body["Node"] = self.chance.choice(self.nodes)
                with suppress(httpx.HTTPError):
                    await client.post("/bind", json=body)

    @property
    def name(self) -> str:
        return f"m{self._number}"

    def _gang(self, size: int, suffix: str = "", cpu: str = "100m", **fields: Any) -> list[Object]:
        return gang(self.name + suffix, size, self.namespace, cpu=cpu, **fields)  # Small: a full cluster is no attack

    def _job(self, annotations: dict[str, str]) -> Object:
        job = indexed_job(self.name, self.namespace, 1)
        job["metadata"]["annotations"], job["spec"]["suspend"] = annotations, True
        del job["spec"]["template"]["metadata"]
        return job

    async def _create(self, *items: Object) -> list[Object]:
        made = []
        for one in items:
            made.append(await self.api.create(one))
            self._kept.append((one["kind"], one["metadata"]["name"]))
        return made
