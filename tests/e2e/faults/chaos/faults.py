"""What goes wrong by itself: nodes that vanish, fall silent or are cordoned, and processes that are killed."""

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from time import monotonic

import msgspec

from lab.testbed.api import Api, Object
from lab.testbed.cluster import Cluster
from lab.testbed.errors import ApiRefused
from lab.testbed.parts.replicas import Replicas
from lab.testbed.processes.stages import HOLD
from tests.e2e.faults.chaos.witness import Witness
from tests.e2e.objects import silence

_SHORT_S = (3.0, 12.0)
_LOST_AT_MOST = 3  # nodes away at one time, so that room is left


class Faults(msgspec.Struct):
    cluster: Cluster
    api: Api
    witness: Witness
    replicas: Replicas
    nodes: Mapping[str, Object]  # name → as it was created
    chance: random.Random
    done: Counter[str] = msgspec.field(default_factory=Counter)
    _down: set[str] = set()  # parts that do not run
    _away: set[str] = set()  # nodes that something is wrong with
    _under_way: set[asyncio.Task[None]] = set()
    _since_s: float | None = None
    _leader: tuple[str, ...] = ()

    def act(self) -> None:
        kinds: dict[str, tuple[int, Callable[[], Awaitable[None]] | None]] = {
            "node deleted": (2, self._with_node(self._delete)),
            "node silent": (2, self._with_node(self._silence)),
            "node cordoned": (4, self._with_node(self._cordon)),
            "netgang killed": (2, self._with_part("netgang-a", "netgang-b")),
            "kube-scheduler killed": (1, self._with_part("kube-scheduler", "netgang-scheduler")),
        }
        possible = {name: (weight, fault) for name, (weight, fault) in kinds.items() if fault is not None}
        if not possible:
            return
        [name] = self.chance.choices(list(possible), weights=[weight for weight, _ in possible.values()])
        fault = possible[name][1]
        assert fault is not None
        self.done[name] += 1
        task = asyncio.ensure_future(fault())
        self._under_way.add(task)
        task.add_done_callback(self._over)

    def calm_since(self) -> float | None:
        leader = self.replicas.selected
        if self._down or len(leader) != 1:
            self._since_s = None
        elif self._since_s is None or leader != self._leader:
            self._since_s = monotonic()
        self._leader = leader
        return self._since_s

    async def mend(self) -> None:
        while self._under_way:
            await asyncio.wait(self._under_way)

    async def kill_all_replicas(self) -> None:
        """Kill -9 every netgang at one time and start them again: the leader then has nothing but what it reads."""
        parts = {name: self.cluster.parts[name] for name in self.replicas.running}
        self._down.update(parts)
        for part in parts.values():
            await part.kill()
        for part in parts.values():
            part.start()
        for name in parts:
            await self.cluster.until_ready(name)
            self._down.discard(name)

    def _over(self, task: asyncio.Task[None]) -> None:
        self._under_way.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.witness.problems.append(f"a fault could not be undone: {str(error)[:200]}")

    def _with_node(self, fault: Callable[[str], Awaitable[None]]) -> Callable[[], Awaitable[None]] | None:
        free = sorted(self.nodes.keys() - self._away)
        if not free or len(self._away) >= _LOST_AT_MOST:
            return None
        node = self.chance.choice(free)
        length_s = self.chance.uniform(*_SHORT_S)

        async def carried_out() -> None:
            self._away.add(node)
            try:
                await fault(node)
                await asyncio.sleep(length_s)
            finally:
                await self._restore(node)
                self.witness.lost_nodes.discard(node)
                self._away.discard(node)

        return carried_out

    def _with_part(self, *names: str) -> Callable[[], Awaitable[None]] | None:
        up = [name for name in names if name not in self._down]
        if len(up) < len(names):
            return None  # one of two at a time
        name = self.chance.choice(up)
        pause_s = self.chance.uniform(0.0, 3.0)

        async def carried_out() -> None:
            self._down.add(name)
            part = self.cluster.parts[name]
            await part.kill()
            await asyncio.sleep(pause_s)
            part.start()
            await self.cluster.until_ready(name)
            self._down.discard(name)

        return carried_out

    async def _delete(self, node: str) -> None:
        self.witness.lost_nodes.add(node)
        await self.api.delete("Node", node)

    async def _silence(self, node: str) -> None:
        self.witness.lost_nodes.add(node)
        await silence(self.api, node)

    async def _cordon(self, node: str) -> None:
        await self.api.patch("Node", node, {"spec": {"unschedulable": True}})

    async def _restore(self, node: str) -> None:
        with suppress(ApiRefused):  # it is there
            await self.api.create(self.nodes[node])
        ready = self.nodes[node]["status"]["conditions"][0]
        await self.api.patch("Node", node, {"metadata": {"annotations": {HOLD: None}}})
        await self.api.patch("Node", node, {"status": {"conditions": [ready]}}, subresource="status")
        await self.api.patch("Node", node, {"spec": {"unschedulable": None, "taints": None}})
