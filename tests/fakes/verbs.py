"""Fakes of the two services that the HTTP side asks, with the dullest answers that are not all or none."""

import asyncio
from collections.abc import Callable, Sequence
from itertools import cycle, islice
from typing import Any

from extender.api.network import link_document, network_document
from extender.api.views import Views
from extender.convert.wire import BindArgs, FilterAnswer, FilterArgs, Passed
from extender.scheduling.verbs import Verbs
from extender.schemas import CacheSizes, LinkInFull, Network, PartStates, Readiness
from scoring import NodeName
from scoring.model.policy import ScorePolicy
from scoring.model.reasons import Reason
from scoring.records import PlanInForce
from tests.builders import node, snapshot

ARGS = {  # a request to filter and prioritize, as kube-scheduler sends it
    "Pod": {"metadata": {"name": "p", "namespace": "team-a", "uid": "u1"}},
    "Nodes": None,
    "NodeNames": ["n1", "n2", "n3"],
}
BINDING = {"PodName": "p", "PodNamespace": "team-a", "PodUID": "u1", "Node": "n1"}


async def at_once(args: BindArgs, gone: asyncio.Future[None]) -> Reason | None:
    return None


class FakeVerbs(Verbs):
    def __init__(
        self,
        on_filter: Callable[[FilterArgs], FilterAnswer] = lambda args: Passed(args.node_names[::2]),
        on_prioritize: Callable[[FilterArgs], Sequence[int]] = lambda args: [
            *islice(cycle(range(11)), len(args.node_names))
        ],
        on_bind: Callable[[BindArgs, asyncio.Future[None]], Any] = at_once,
    ) -> None:
        self.on_filter, self.on_prioritize, self.on_bind = on_filter, on_prioritize, on_bind
        self.filtered: list[FilterArgs] = []
        self.prioritized: list[FilterArgs] = []
        self.bound: list[BindArgs] = []

    def caught_up(self, args: FilterArgs) -> None:
        """Nothing is ever behind."""

    def filter(self, args: FilterArgs) -> FilterAnswer:
        self.filtered.append(args)
        return self.on_filter(args)

    def prioritize(self, args: FilterArgs) -> Sequence[int]:
        self.prioritized.append(args)
        return self.on_prioritize(args)

    async def bind(self, args: BindArgs, gone: asyncio.Future[None]) -> Any:
        self.bound.append(args)
        return await self.on_bind(args, gone)


class FakeViews(Views):
    """Shows no gang, and is ready until told otherwise; no jobs, and no decision log."""

    not_ready: tuple[str, ...]

    def __init__(self, not_ready: tuple[str, ...] = ()) -> None:
        shown = {"not_ready": not_ready, "jobs": None, "recorder": None}
        for name, value in shown.items():
            object.__setattr__(self, name, value)

    def plan(self) -> PlanInForce:
        return PlanInForce(version=7, admitted=(), waiting=(), committed={}, being_admitted=(), held_binds=0)

    async def explain(self, namespace: str, name: str) -> str:
        return f"no gang {namespace}/{name}"

    def network(self, *, zone: str | None = None, limit: int = 40) -> Network:
        return network_document(snapshot([]), None, zone=zone, limit=limit)

    async def link(self, source: str, target: str) -> LinkInFull | str:
        nodes = snapshot([node("n1"), node("n2")])
        if target not in nodes.table.index:
            return "no such node"
        return link_document(nodes, NodeName(source), NodeName(target), ScorePolicy())

    def readiness(self) -> Readiness:
        sizes = dict.fromkeys(CacheSizes.__struct_fields__, 0)
        return Readiness(
            ready=not self.not_ready, reasons=self.not_ready, detail=PartStates(sync={}, cache=CacheSizes(**sizes))
        )
