"""What controllers work with, for tests that build one alone over a fake API server."""

from types import SimpleNamespace
from typing import cast

from extender.cache.cluster import ClusterCache
from extender.controllers.context import ControllerContext
from extender.controllers.recorder import Events
from extender.controllers.removals import Disruptions, Quiet
from extender.ports import Clock, CurrentPlan
from extender.runtime.decision_lines import DecisionLog
from extender.runtime.telemetry import Telemetry
from scoring.model import Policy
from scoring.plan import Plan
from tests.fakes.cluster_api import FakeClusterApi
from tests.fakes.notes import notes_of_a_former_process


def context_over(
    api: FakeClusterApi, cache: ClusterCache, clock: Clock, *, plan: Plan | None = None
) -> ControllerContext:
    telemetry = Telemetry()
    events = Events(api, clock, telemetry, instance="netgang-0")
    return ControllerContext(
        cache,
        api,
        clock,
        telemetry,
        DecisionLog(),
        notes_of_a_former_process(),
        Quiet(clock),
        Disruptions(api, events, cache),
        events,
        cast("CurrentPlan", SimpleNamespace(current=plan, snapshot=plan and cache.snapshot(), policy=Policy())),
        lambda _: frozenset(),
        lambda: True,
    )
