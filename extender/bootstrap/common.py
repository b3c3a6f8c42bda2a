"""What every part of the service is built on: settings, the cluster as it is seen, the plan, and whether we may act."""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from extender.bootstrap.candidacy import Candidacy
from extender.bootstrap.parts.elastic import Feeds
from extender.cache import ClusterCache
from extender.cache.unreadable import UnreadableObjects
from extender.kube.watch.reflector import Reflector
from extender.leadership.fencing import FencedApi
from extender.leadership.lease_loop import Leadership
from extender.notes import Notes
from extender.ports import Clock, ClusterApi
from extender.runtime.decision_lines import DecisionLog
from extender.runtime.recent_decisions import RecentDecisions
from extender.runtime.telemetry import Telemetry
from extender.scheduling.planning.loop import Planner
from extender.settings.settings import Settings
from scoring.model.policy import Policy
from scoring.plan import Plan


@dataclass(frozen=True, slots=True)
class Common:
    """Handed to all modules that put parts together."""

    settings: Settings
    cache: ClusterCache
    api: ClusterApi
    """Nothing is written through it by a process that lost the lease"""
    notes: Notes
    """What is written on tenants' objects for our successor"""
    clock: Clock
    rng: random.Random
    telemetry: Telemetry
    log: DecisionLog
    policy: Policy
    planner: Planner
    recent: RecentDecisions
    reflectors: Mapping[str, Reflector[Any]]
    """name → what keeps the cache; the caller does where there are none"""
    unreadable: UnreadableObjects
    feeds: Feeds | None
    leadership: Leadership | None
    """Our part in the election; `None`: there is none, and we act"""
    fenced: FencedApi | None
    """`api`, where there is an election"""
    acting: Callable[[], bool]

    def synced(self) -> bool:
        """Whether there is a plan."""
        return self.planner.snapshot is not None

    def current(self) -> Plan | None:
        """The plan of now; `None`: there was no first one yet."""
        return self.planner.current if self.synced() else None


def common_of(
    settings: Settings,
    cache: ClusterCache,
    api: ClusterApi,
    clock: Clock,
    rng: random.Random,
    *,
    notes: Notes,
    reflectors: Mapping[str, Reflector[Any]],
    unreadable: UnreadableObjects,
    stands: Candidacy | None,
    feeds: Feeds | None,
) -> Common:
    """The log, the planner, and the fence around `api` where there is an election."""
    telemetry = Telemetry()
    leadership = stands.leadership(clock, telemetry) if stands is not None else None
    acting: Callable[[], bool] = leadership.leading if leadership is not None else lambda: True
    fenced = FencedApi(api, leadership.room_s) if leadership is not None else None
    recent = RecentDecisions(clock, exists=cache.gang)
    log = DecisionLog(telemetry, acting=acting, heard=recent.add)
    policy = settings.policy()
    return Common(
        settings=settings,
        cache=cache,
        api=cast("ClusterApi", fenced) if fenced is not None else api,
        notes=notes,
        clock=clock,
        rng=rng,
        telemetry=telemetry,
        log=log,
        policy=policy,
        planner=Planner(cache, policy, clock, telemetry, log),
        recent=recent,
        reflectors=reflectors,
        unreadable=unreadable,
        feeds=feeds,
        leadership=leadership,
        fenced=fenced,
        acting=acting,
    )
