"""What the service is built on: the cluster as seen, the plan, whether we may act, what starts gangs. Nothing runs."""

import asyncio
import logging
import random
import socket
import uuid
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import KW_ONLY, InitVar, dataclass, field
from typing import Any, Final, cast

import msgspec

from extender.cache.cluster import ClusterCache
from extender.cache.state import UnreadableObjects
from extender.controllers.context import ControllerContext
from extender.controllers.elastic.kinds import KINDS
from extender.controllers.elastic.records import FollowedJobs, reduce_by, target_from_json
from extender.controllers.recorder import Events
from extender.controllers.removals import Disruptions, Quiet
from extender.controllers.ungate_queue import UngateQueue
from extender.kube.calls import AUTOSCALERS
from extender.kube.credentials import ApiServer
from extender.kube.own_objects import KubeLeases
from extender.kube.reflector import Reflector
from extender.kube.transport import FEW, Transport
from extender.leadership.election import Election, LeaseTimes
from extender.leadership.lease_loop import Candidacy, FencedApi, Leadership
from extender.network.probe_agents import INTERVAL_S
from extender.network.probe_bursts import BurstOptions
from extender.network.refresh import Polled
from extender.ports import Clock, ClusterApi, Reviews, TextStore
from extender.runtime.decision_lines import DecisionLog, RecentDecisions
from extender.runtime.slices import Worker
from extender.runtime.telemetry import Telemetry
from extender.scheduling.admissions import Admissions
from extender.scheduling.answered_pods import Parking
from extender.scheduling.held_binds import Binds, NodeHealth
from extender.scheduling.planner_loop import Planner, at_once
from extender.scheduling.verbs import Verbs
from extender.settings.settings import COMMIT_TIMEOUT_S, HOME, LEASE_NAME, Settings, own_pod
from extender.signed_notes import NoteReader, Notes
from scoring.model.gang import MOST_HELD


class Limits(msgspec.Struct, frozen=True):
    """Bounds that no installation sets; tests give others to the composition root, and nothing else can."""

    commit_timeout_s: float = COMMIT_TIMEOUT_S  # Until a gang's Bindings that got no turn or no answer have failed
    max_held_binds: int = 2 * MOST_HELD  # Open connections, half of them of one namespace; so many without a gang, too
    node_lost_s: float = 60.0  # How long a node may be not ready before its members stop counting
    node_settle_s: float = 120.0  # How long a node keeps room for the pod of a DaemonSet that it lacks
    admit_timeout_s: float = 60.0  # How long an admitted gang may take to come to bind
    repin_timeout_s: float = 300.0  # How long all nodes that a pod was admitted to may stay full before it is removed
    writes_per_s: float = 1000.0  # Most patches a second (gates removed, parked pods woken)
    probe_interval_s: float = INTERVAL_S  # Between two reports of one agent, while they are few
    bursts: BurstOptions = msgspec.field(default_factory=BurstOptions)


LIMITS: Final = Limits()
Follow = Callable[..., Reflector[Any]]  # Make a reflector: `path`, `reduce` and `sink` are still to be given
_log = logging.getLogger(__name__)


def empty_cache(settings: Settings, limits: Limits = LIMITS) -> ClusterCache:
    """A cache that knows which pods are ours."""
    ours, settle_s = frozenset(settings.scheduler_names), limits.node_settle_s
    return ClusterCache(scheduler_names=ours, extender=settings.extender, node_settle_s=settle_s)


class Feeds(msgspec.Struct, frozen=True):
    """Elastic jobs that are followed. The plan needs none: a missing right must not keep gangs from starting."""

    jobs: FollowedJobs = msgspec.field(default_factory=FollowedJobs)
    reflectors: Mapping[str, Reflector[Any]] = {}

    async def synced(self) -> None:
        """Wait until everything was read once, or is absent. What cannot be read is said: mostly a right."""
        for name, reflector in self.reflectors.items():
            try:
                async with asyncio.timeout(20.0):
                    await reflector.synced.wait()
            except TimeoutError:
                why = reflector.status().last_error or "no answer yet"
                _log.warning("elastic jobs wait for %s: %s (helm upgrade gives the rights)", name, why)
                await reflector.synced.wait()

    def ready(self) -> bool:
        """Whether everything has been read once."""
        return all(reflector.synced.is_set() for reflector in self.reflectors.values())


def feeds_of(settings: Settings, follow: Follow, unreadable: UnreadableObjects, notes: NoteReader) -> Feeds | None:
    """Reflectors for every kind that we know; `None`: elastic jobs are switched off."""
    if not settings.elastic.enabled:
        return None
    jobs = FollowedJobs()
    reflectors = {
        f"{kind.plural}.{kind.group}": follow(
            path=kind.collection,
            reduce=reduce_by(kind, notes),
            sink=jobs.of_kind[kind.name],
            unreadable=unreadable.of_kind(kind.api_version, kind.kind),
        )
        for kind in KINDS.values()
    }
    reflectors["horizontalpodautoscalers"] = follow(
        path=AUTOSCALERS.collection(),
        reduce=target_from_json,
        sink=jobs.scaled,
        unreadable=unreadable.of_kind("autoscaling/v2", "HorizontalPodAutoscaler"),
    )
    return Feeds(jobs, reflectors)


@asynccontextmanager
async def candidacy(
    settings: Settings, server: ApiServer, rng: random.Random, *, environment: Mapping[str, str], host: str
) -> AsyncIterator[Candidacy | None]:
    """`None`: there is no election. The identity is new with each process: none is taken for its predecessor."""
    if not settings.leader_election:
        yield None
        return
    (ours, name), times = own_pod(environment), LeaseTimes.for_duration(settings.lease.duration_s)
    identity = f"{name or host}_{uuid.UUID(int=rng.getrandbits(128), version=4)}"
    async with Transport(server, concurrency=FEW) as transport:
        call_s = times.renew_deadline_s / 2.0  # one lost answer costs no lease
        api = KubeLeases(transport, ours or HOME, LEASE_NAME, pods_namespace=ours, call_s=call_s)
        yield Candidacy(Election(identity, times, rng=rng), api, name)


@dataclass(eq=False, repr=False)
class Common:
    """What all parts share. Without `reflectors` the caller keeps the cache; `stands`: it acts only while it leads."""

    settings: Settings
    cache: ClusterCache
    api: ClusterApi  # Nothing is written through it by a process that lost the lease
    clock: Clock
    rng: random.Random
    _: KW_ONLY
    notes: Notes  # What is written on tenants' objects for our successor
    reflectors: Mapping[str, Reflector[Any]] = field(default_factory=dict)
    unreadable: UnreadableObjects = field(default_factory=UnreadableObjects)
    stands: InitVar[Candidacy | None] = None
    feeds: Feeds | None = None
    limits: Limits = LIMITS
    worker: Worker = at_once  # What plans
    questions: Worker = at_once  # What explains, and decides who is resized or leaves
    started_store: TextStore | None = None  # Where gangs that have started are kept; `None`: they are not
    sources: Sequence[Polled] = ()
    reviews: Reviews | None = None  # Whose tokens reports carry
    curl_looks: bool = True  # Calls of curl are a person's
    heard: Callable[[], None] = lambda: None  # The API server answered the election
    demo: str = ""  # What this cluster is, for people; empty: a real one

    def __post_init__(self, stands: Candidacy | None) -> None:
        cache, clock, limits, policy = self.cache, self.clock, self.limits, self.settings.policy()
        self.telemetry = telemetry = Telemetry()
        self.leadership: Leadership | None = None  # Our part in the election; `None`: there is none, and we act
        self.acting: Callable[[], bool] = lambda: True
        self.fenced: FencedApi | None = None
        if stands is not None:
            self.leadership = Leadership(stands, clock, telemetry)
            self.acting, self.fenced = self.leadership.leading, FencedApi(self.api, self.leadership.room_s)
            self.api = cast("ClusterApi", self.fenced)
        self.recent = RecentDecisions(clock, exists=cache.gang)
        self.log = DecisionLog(acting=self.acting, heard=self.recent.add)
        self.planner = Planner(cache, policy, clock, telemetry, self.log, worker=self.worker, questions=self.questions)
        self.health = NodeHealth(cache, clock, node_lost_s=limits.node_lost_s)
        self.events = Events(self.api, clock, telemetry, instance=socket.gethostname())
        self.context = ControllerContext(
            cache,
            self.api,
            clock,
            telemetry,
            self.log,
            self.notes,
            quiet=Quiet(clock, relists=self._interruptions),
            disruptions=Disruptions(self.api, self.events, cache),
            events=self.events,
            planner=self.planner,
            lost_of=self.health.lost_under,
            acting=self.acting,
        )
        self.admissions = Admissions(self.context, self.planner, timeout_s=limits.admit_timeout_s)
        self.wakes = UngateQueue(self.context, self.admissions, per_s=limits.writes_per_s, rng=self.rng)
        self.binds = Binds(
            self.context,
            self.planner,
            self.health,
            self.admissions,
            Parking(cache),
            self.wakes,
            commit_s=limits.commit_timeout_s,
            held_max=limits.max_held_binds,
        )
        self.verbs = Verbs(self.context, self.planner, self.binds, sees_all_nodes=self.settings.sees_all_nodes)

    @property
    def followed(self) -> dict[str, Reflector[Any]]:
        """Every reflector by name: of what decides, and of elastic jobs."""
        return {**self.reflectors, **(self.feeds.reflectors if self.feeds is not None else {})}

    def _interruptions(self) -> int:
        relists = sum(reflector.status().relists for reflector in self.followed.values())
        return relists + (self.leadership.terms if self.leadership is not None else 0)
