"""Fakes of the two protocols that the HTTP side asks, with the dullest possible answers.

`FakeVerbs` passes the even-numbered half by default, so that an answer is never by accident all nodes or none.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from starlette.types import ASGIApp

from extender.convert.wire import BindArgs, FilterAnswer, FilterArgs, Passed
from extender.runtime.telemetry import Telemetry
from extender.server.app import create_app
from scoring.model.reasons import Reason


def every_second(args: FilterArgs) -> FilterAnswer:
    """Pass every second node."""
    return Passed(args.node_names[::2])


def everything(args: FilterArgs) -> FilterAnswer:
    """Pass all nodes, with the request's own list."""
    return Passed(args.node_names)


def by_position(args: FilterArgs) -> Sequence[int]:
    """Score 0, 1, … 10, 0, … in the order of the request."""
    return [i % 11 for i in range(len(args.node_names))]


async def at_once(args: BindArgs, gone: asyncio.Future[None]) -> Reason | str | None:
    """Bind without waiting."""
    return None


@dataclass
class FakeVerbs:
    """Answers by the three functions, and remembers what it was asked."""

    on_filter: Callable[[FilterArgs], FilterAnswer] = every_second
    on_prioritize: Callable[[FilterArgs], Sequence[int]] = by_position
    on_bind: Callable[[BindArgs, asyncio.Future[None]], Any] = at_once
    on_caught_up: Callable[[FilterArgs], Awaitable[None] | None] = lambda _: None
    filtered: list[FilterArgs] = field(default_factory=list)
    prioritized: list[FilterArgs] = field(default_factory=list)
    bound: list[BindArgs] = field(default_factory=list)

    def caught_up(self, args: FilterArgs) -> Awaitable[None] | None:
        """Answer by `on_caught_up`: nothing is ever behind unless told otherwise."""
        return self.on_caught_up(args)

    def filter(self, args: FilterArgs) -> FilterAnswer:
        """Answer by `on_filter`."""
        self.filtered.append(args)
        return self.on_filter(args)

    def prioritize(self, args: FilterArgs) -> Sequence[int]:
        """Answer by `on_prioritize`."""
        self.prioritized.append(args)
        return self.on_prioritize(args)

    async def bind(self, args: BindArgs, gone: asyncio.Future[None]) -> Reason | str | None:
        """Answer by `on_bind`."""
        self.bound.append(args)
        answer: Reason | str | None = await self.on_bind(args, gone)
        return answer


@dataclass
class FakeViews:
    """Shows one gang, `team-a/resnet`, and is ready until told otherwise."""

    not_ready: tuple[str, ...] = ()

    def plan(self) -> Mapping[str, Any]:
        """A plan with one admitted gang."""
        return {"snapshot_version": 7, "admitted": {"team-a/resnet": {"zone": "a"}}, "waiting": {}}

    def explain(self, namespace: str, name: str) -> Mapping[str, Any] | None:
        """Only team-a/resnet is known."""
        return {"gang": "team-a/resnet"} if (namespace, name) == ("team-a", "resnet") else None

    async def explain_in_turns(self, namespace: str, name: str) -> Mapping[str, Any] | None:
        """The same."""
        return self.explain(namespace, name)

    def unreadable(self, namespace: str, name: str) -> str | None:
        """Only the PodGroup team-a/broken cannot be read."""
        return "PodGroup team-a/broken cannot be read" if (namespace, name) == ("team-a", "broken") else None

    def network(self, *, zone: str | None = None, limit: int = 40) -> Mapping[str, Any]:
        """No measurements."""
        return {"pairs": 0}

    def link(self, source: str, target: str) -> Mapping[str, Any] | None:
        """Only n1 and n2 are known."""
        return {"source": source, "target": target} if {source, target} <= {"n1", "n2"} else None

    def readiness(self) -> tuple[bool, Sequence[str], Mapping[str, Any]]:
        """Ready unless `not_ready` names reasons."""
        return not self.not_ready, self.not_ready, {"pods": 12}


class EchoVerbs:
    """What the Go echo of the benchmark does: pass everything, score 5 each."""

    def caught_up(self, args: FilterArgs) -> None:
        """Nothing is ever behind."""

    def filter(self, args: FilterArgs) -> FilterAnswer:
        """Pass all nodes."""
        return Passed(args.node_names)

    def prioritize(self, args: FilterArgs) -> Sequence[int]:
        """Score 5 each."""
        return [5] * len(args.node_names)

    async def bind(self, args: BindArgs, gone: asyncio.Future[None]) -> Reason | str | None:
        """Bind at once."""
        return None


def create_echo_app() -> ASGIApp:
    """The HTTP side alone, for the benchmark."""
    return create_app(EchoVerbs(), FakeViews(), Telemetry())
