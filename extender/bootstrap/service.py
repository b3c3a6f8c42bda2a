"""The running service as its owner sees it: parts to look at, applications to serve, tasks to run, an orderly end.

Why apart: servers, tests and benchmarks hold one, and need not know how it is put together.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from starlette.types import ASGIApp

from extender.api.documents.views import Views
from extender.cache import ClusterCache
from extender.controllers.restart.controller import Restarts
from extender.leadership.lease_loop import Leadership
from extender.runtime.telemetry import Telemetry
from extender.scheduling.admission.gates import Admissions
from extender.scheduling.bind.held_binds import Binds
from extender.scheduling.planning.loop import Planner
from extender.scheduling.verbs import Verbs
from extender.server.tls.rotation import Rotation
from extender.web.feed import Feed


@dataclass(frozen=True, slots=True)
class Service:
    """The parts of one running netgang."""

    cache: ClusterCache
    planner: Planner
    binds: Binds
    admissions: Admissions
    verbs: Verbs
    views: Views
    telemetry: Telemetry
    app: ASGIApp
    debug_app: ASGIApp
    health_app: ASGIApp
    """`app` for probes and metrics alone."""
    tls: Rotation | None
    tasks: Mapping[str, Callable[[], Any]]
    """name → coroutine function that runs until cancelled"""
    leadership: Leadership | None = None
    reports_app: ASGIApp | None = None
    """For training jobs alone: what they report. None: they cannot."""
    restarts: Restarts | None = None
    page: Feed | None = None

    async def run(self) -> None:
        """Run everything behind the HTTP face until cancelled; the first task that fails ends all of them."""
        async with asyncio.TaskGroup() as group:
            for name, run in self.tasks.items():
                group.create_task(run(), name=name)

    async def shut_down(self) -> None:
        """Answer every held call, so that connections can drain; then let another replica lead."""
        if self.page is not None:
            self.page.close()
        if self.leadership is not None:
            self.leadership.retire()
        self.binds.stand_down()
        await self.binds.posts.over()
        if self.leadership is not None:
            await self.leadership.resign()
