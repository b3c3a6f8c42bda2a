"""The extender as kube-scheduler meets it: netgang's three verbs, called in process, each with its time on the wire.

Why the verbs and no HTTP: bytes decide nothing, and the wire has tests of its own. Rules: filter and prioritize keep
the scheduler waiting; a bind call may be held, is given up after the entry's `httpTimeout`, and then the service is
notified that its caller is gone.
"""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass

from extender.convert.wire import BindArgs, Failed, FilterArgs, Passed, PodRef, Refused
from extender.server.dispatch import Verbs
from lab.simulator.pods.record import Record
from lab.simulator.pods.virtual_time import Latencies
from scoring.ids import NodeName
from scoring.model import Pod


@dataclass(frozen=True, slots=True)
class FilterReply:
    """What is left of the nodes asked; `reason` of the others; with an `error` nothing was decided."""

    names: Sequence[NodeName]
    reason: str = ""
    error: str = ""


class Extender:
    """Netgang behind one kube-scheduler."""

    def __init__(
        self, verbs: Verbs, latencies: Latencies, rng: random.Random, record: Record, *, http_timeout_s: float
    ) -> None:
        self._verbs = verbs
        self._latencies = latencies
        self._rng = rng
        self._record = record
        self._http_timeout_s = http_timeout_s
        self._calls: set[asyncio.Task[str]] = set()
        """Bind calls that are not answered yet"""

    async def filter(self, pod: Pod, body: bytes, names: list[NodeName]) -> FilterReply:
        """POST /filter."""
        self._record.asked["filter"] += 1
        await self._on_the_wire(len(names))
        args = _args(pod, body, names)
        if (wait := self._verbs.caught_up(args)) is not None:
            await wait
        answer = self._verbs.filter(args)
        match answer:
            case Passed(passed, others):
                return FilterReply(passed, str(others))
            case Refused(reason):
                return FilterReply((), str(reason))
            case Failed(error):
                return FilterReply((), error=str(error))

    async def prioritize(self, pod: Pod, body: bytes, names: list[NodeName]) -> Sequence[int]:
        """POST /prioritize; 0–10 for each name."""
        self._record.asked["prioritize"] += 1
        await self._on_the_wire(len(names))
        return self._verbs.prioritize(_args(pod, body, names))

    async def bind(self, pod: Pod, node: NodeName) -> str:
        """POST /bind, answered when the service likes, or given up; why not, "" is success."""
        self._record.asked["bind"] += 1
        await self._on_the_wire(0)
        gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        args = BindArgs(pod.name, pod.namespace, pod.uid, node)
        call = asyncio.create_task(self._answer(args, gone))
        self._calls.add(call)
        call.add_done_callback(self._calls.discard)
        await asyncio.wait({call}, timeout=self._http_timeout_s)
        if not call.done():
            gone.set_result(None)
            return "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
        return call.result()

    async def _answer(self, args: BindArgs, gone: asyncio.Future[None]) -> str:
        """What the service says; it goes on by itself when its caller is gone."""
        refusal = await self._verbs.bind(args, gone)
        return str(refusal) if refusal is not None else ""

    async def _on_the_wire(self, names: int) -> None:
        await asyncio.sleep(self._latencies.verb.draw(self._rng) + names * self._latencies.name_s)


def _args(pod: Pod, body: bytes, names: list[NodeName]) -> FilterArgs:
    return FilterArgs(PodRef(pod.uid, pod.namespace, pod.name), body, names)
