"""The users of a cluster: gangs and plain pods that come at a pace, run for a time and go; lost members come again."""

import asyncio
import random
from collections import Counter
from collections.abc import Iterable, Sequence
from time import monotonic

import msgspec

from lab.testbed.api import Object
from lab.testbed.errors import ApiRefused
from tests.e2e.objects import OURS, name_of
from tests.e2e.stage import Stage

END_S = 120.0  # how long the gangs and pods that are there at the end may take until all of them have run
_TURN_S = 0.5


class _Gang(msgspec.Struct):
    pods: list[Object]
    least: int
    runs_s: float
    whole_s: float | None = None


class Load(msgspec.Struct):
    stage: Stage
    rng: random.Random
    until_s: float
    scheduler: str = OURS
    others: Sequence[str] = ("default-scheduler",)  # schedulers of the plain pods, in turns
    gang_every_s: float = 1.5
    other_every_s: float = 0.67
    sizes: tuple[int, int] = (2, 8)
    cpus: Sequence[str] = ("1", "1500m", "2")
    other_cpus: Sequence[str] = ("500m",)
    runs_s: tuple[float, float] = (5.0, 20.0)
    gangs: dict[str, _Gang] = {}
    plain: dict[str, float] = {}  # plain pod → when it ends
    plain_bound: set[str] = set()  # plain pods that were seen on a node, lost with it or not
    counts: Counter[str] = msgspec.field(default_factory=Counter)

    async def run(self) -> None:
        began_s = monotonic()
        while monotonic() < self.until_s or self.gangs or self.plain:
            assert monotonic() < self.until_s + END_S, f"stuck: {sorted({*self.gangs, *self.plain})}"
            if monotonic() < self.until_s:
                await self._more(monotonic() - began_s)
            await self._look()
            await asyncio.sleep(_TURN_S)

    async def _more(self, age_s: float) -> None:
        if self.counts["gangs"] < age_s / self.gang_every_s:
            await self._new_gang()
        while self.counts["others"] < age_s / self.other_every_s:
            await self._new_other()

    async def _new_gang(self) -> None:
        name, rng = f"g{self.counts['gangs']}", self.rng
        size = rng.randint(*self.sizes)
        least = size if rng.random() < 0.7 else rng.randint(1, size)
        gated = rng.random() < 0.5
        how = {"least": least, "cpu": rng.choice(self.cpus), "scheduler": self.scheduler, "gated": gated}
        self.gangs[name] = _Gang(self.stage.gang(name, size, **how), least, rng.uniform(*self.runs_s))
        self.counts.update(gangs=1, gated=int(gated))
        await self._create(self.gangs[name].pods)

    async def _new_other(self) -> None:
        number = self.counts["others"]
        self.counts["others"] += 1
        self.plain[f"p{number}"] = monotonic() + self.rng.uniform(*self.runs_s)
        how = {"cpu": self.rng.choice(self.other_cpus), "scheduler": self.others[number % len(self.others)]}
        await self._create([self.stage.pod(f"p{number}", **how)])

    async def _look(self) -> None:
        """One turn of an owner: pods of lost nodes go, lost members come again, gangs that ran are ended."""
        there = {name_of(one) for one in await self.stage.api.list_all("Node")}
        pods = {name_of(one): one for one in await self.stage.pods()}
        lost = [name for name, one in pods.items() if one["spec"].get("nodeName", "") not in (*there, "")]
        await self._delete(lost)
        self.counts["lost"] += len(lost)
        now_s = monotonic()
        for name, gang in list(self.gangs.items()):
            members = {name_of(one): one for one in gang.pods}
            bound = [one for one in members if one in pods and pods[one]["spec"].get("nodeName") in there]
            if gang.whole_s is None and len(bound) >= gang.least:
                gang.whole_s = now_s
                self.counts["whole"] += 1
            if gang.whole_s is not None and now_s - gang.whole_s > gang.runs_s:
                del self.gangs[name]
                await self._delete(members)
            elif gang.whole_s is None:
                await self._create([one for name, one in members.items() if name not in pods])
        self.plain_bound |= {name for name in self.plain if name in pods and pods[name]["spec"].get("nodeName")}
        ran = [name for name, end_s in self.plain.items() if now_s > end_s and name in self.plain_bound]
        over = {*ran, *(self.plain.keys() - pods.keys())}  # those that ran, and those that were lost with their nodes
        for name in over:
            del self.plain[name]
        await self._delete(over)

    async def _create(self, pods: Iterable[Object]) -> None:
        for one in pods:
            try:
                await self.stage.api.create(one)
            except ApiRefused as refused:
                if refused.status != 409:  # its predecessor is about to go: next turn
                    raise

    async def _delete(self, names: Iterable[str]) -> None:
        api, namespace = self.stage.api, self.stage.namespace
        await asyncio.gather(*(api.delete("Pod", name, namespace=namespace, grace_s=0) for name in names))
