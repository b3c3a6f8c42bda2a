"""Honest tenants: gangs with and without the gate, pods of two schedulers, and a Job that runs again and again.

Rule: what they ask for always fits into the smallest zone of the empty cluster, and at most `WAITING_AT_MOST` pods wait
at one time, so that whatever is left over when the storm ends must start. Runs that were whole for their time end.
"""

import asyncio
import random
from collections import Counter
from contextlib import suppress
from time import monotonic
from typing import Any

import msgspec

from lab.testbed.api import Api
from lab.testbed.errors import ApiRefused
from lab.testbed.objects import pod
from tests.e2e.faults.chaos.witness import Run, Seen, Witness
from tests.e2e.objects import OURS, gang, indexed_job

NIGHTLY = "nightly"
NIGHTLY_SIZE = 3
WAITING_AT_MOST = 40
_LOOK_S = 0.5
_KEPT_JOBS = 2  # finished Jobs of the nightly run whose pods stay, as a CronJob keeps them
_LIFE_S = (2.0, 15.0)


class Tenants(msgspec.Struct):
    api: Api
    witness: Witness
    namespace: str
    chance: random.Random
    made: Counter[str] = msgspec.field(default_factory=Counter)  # kind → how many
    finished: int = 0
    hurried: bool = False  # whatever is whole ends at once
    _number: int = 0
    _life_s: dict[Run, float] = {}  # run → when it ends
    _plain_s: dict[str, float] = {}  # bound plain pod → when it ends

    async def act(self) -> None:
        there = [one for one in self.witness.pods.values() if one.namespace == self.namespace]
        if sum(one.alive and not one.node for one in there) < WAITING_AT_MOST:
            await self.create()

    async def create(self) -> None:
        kind = self.chance.choices(("gang", "gated gang", "plain", "plain of netgang"), weights=(3, 3, 3, 1))[0]
        self.made[kind] += 1
        self._number += 1
        name = f"{'g' if 'gang' in kind.split() else 'p'}{self._number}"
        if kind in ("gang", "gated gang"):
            size = self.chance.randint(2, 8)
            least = size if self.chance.random() < 0.7 else self.chance.randint(2, size)
            how: dict[str, Any] = {"least": least, "cpu": str(self.chance.randint(1, 3)), "gated": kind == "gated gang"}
            members = gang(name, size, self.namespace, **how)
        else:
            scheduler = OURS if kind == "plain of netgang" else "default-scheduler"
            cpu = f"{self.chance.randint(1, 4) * 500}m"
            members = [pod(name, namespace=self.namespace, cpu=cpu, scheduler=scheduler)]
        await self.api.create_all(members)

    def unfinished(self) -> list[Run]:
        return [
            run
            for run, members in self.witness.runs(self.namespace).items()
            if run not in self.witness.whole and _could_start(members)
        ]

    async def collect(self) -> None:
        """End what has run long enough, and what lost too many members to go on, until cancelled."""
        while True:
            await asyncio.sleep(_LOOK_S)
            now_s = monotonic()
            for run, members in self.witness.runs(self.namespace).items():
                if run.gang == NIGHTLY:
                    continue
                if not _could_start(members):
                    await self._remove(members)
                elif run in self.witness.whole:
                    ends_s = self._life_s.setdefault(run, now_s + self.chance.uniform(*_LIFE_S))
                    if now_s >= ends_s or self.hurried:
                        self.finished += 1
                        await self._remove(members)
            for one in list(self.witness.pods.values()):
                if one.namespace == self.namespace and one.run is None and one.node and not one.gone:
                    ends_s = self._plain_s.setdefault(one.name, now_s + self.chance.uniform(*_LIFE_S))
                    if now_s >= ends_s or self.hurried:
                        await self._remove([one])

    async def rerun(self) -> None:
        """A Job under the same gang labels again and again; its finished pods stay for a while. Until cancelled."""
        number = 0
        while True:
            name = f"{NIGHTLY}-{number}"
            self.made["nightly run"] += 1
            # the labels are those of every night's run; nodes are lost all the time
            job = indexed_job(name, self.namespace, NIGHTLY_SIZE, gang=NIGHTLY, gated=number % 2 == 0, backoff_limit=20)
            await self.api.create(job)
            while not await self._finished(name):  # noqa: ASYNC110 - it acts on what it finds
                await asyncio.sleep(_LOOK_S)
            number += 1
            if number > _KEPT_JOBS:
                await self.api.delete("Job", f"{NIGHTLY}-{number - _KEPT_JOBS - 1}", namespace=self.namespace)

    async def _finished(self, name: str) -> bool:
        """Let the run's pods succeed once it is whole; whether its Job is complete."""
        job = await self.api.get("Job", name, namespace=self.namespace)
        conditions = {one["type"] for one in job.get("status", {}).get("conditions", []) if one["status"] == "True"}
        if "Failed" in conditions:
            self.witness.problems.append(f"the Job {name} failed: {job['status']}")
            return True
        if "Complete" in conditions:
            self.finished += 1
            return True
        run = Run(self.namespace, NIGHTLY, job["metadata"]["uid"])
        if run in self.witness.whole:
            for one in self.witness.runs(self.namespace).get(run, []):
                if one.phase == "Running" and one.alive:  # else kwok, which is late, would let it run again
                    with suppress(ApiRefused):  # gone meanwhile
                        done = {"status": {"phase": "Succeeded"}}
                        await self.api.patch("Pod", one.name, done, namespace=one.namespace, subresource="status")
        return False

    async def _remove(self, members: list[Seen]) -> None:
        for one in members:
            if not (one.gone or one.deleting):
                await self.api.delete("Pod", one.name, namespace=one.namespace, grace_s=0)


def _could_start(members: list[Seen]) -> bool:
    return sum(one.alive or one.phase == "Succeeded" for one in members) >= max(one.minimum for one in members)
