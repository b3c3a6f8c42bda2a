"""The documents behind /v1 and /readyz: read-only looks at the service."""

from collections.abc import Awaitable, Callable
from dataclasses import KW_ONLY, dataclass
from typing import Final

from msgspec import UNSET
from msgspec.structs import replace

from extender import schemas
from extender.api.jobs import JobsView
from extender.api.network import USUAL_NODES, link_document, network_document
from extender.api.what_if import WhatIfs
from extender.controllers.context import ControllerContext
from extender.controllers.events.mistakes import UnreadableWords
from extender.controllers.events.nodes import NetworkAlarms
from extender.controllers.events.waiting import ExpectedStarts
from extender.controllers.owners import kept_notes
from extender.decision_log import Recorder
from extender.network.mapping import MOST_NAMED
from extender.network.refresh import NetworkRefresh
from extender.runtime.decision_lines import RecentDecisions
from extender.scheduling.held_binds import Binds
from extender.scheduling.planner_loop import Planner
from scoring.explain.gang import Explained, ExplainedPod, PodPlace, explain, wants_nodes
from scoring.explain.queue_report import PlanInForce, Queue, planned_gangs, report
from scoring.explain.words import expected_text
from scoring.ids import GangKey, NodeName, gang_key
from scoring.model import Gang

STALE_S: Final = 300.0
"""Age of the last word about a kind of objects from which `/readyz` says no. An idle watch brings a bookmark about once
a minute; one that was silent for 120 s is opened again: below 180 an idle cluster could look stale."""


@dataclass(frozen=True, slots=True)
class Views:
    """What the service shows."""

    context: ControllerContext
    planner: Planner
    binds: Binds
    _: KW_ONLY
    jobs: JobsView | None
    recorder: Recorder | None
    sync: Callable[[], dict[str, schemas.Watch]]  # kind → how its reflector does
    refresh: NetworkRefresh | None  # `None`: there are no sources
    alarms: NetworkAlarms
    probe_agents: Callable[[], schemas.ProbeAgents | None]  # `None`: the probe is off, or this replica does not lead
    leadership: Callable[[], schemas.Standing] | None  # How the election stands; `None`: there is none
    repair: Callable[[GangKey], str]  # What is wrong with a gang that lost members; empty: nothing
    preemption_blocked: Callable[[GangKey], str | None]
    recent: RecentDecisions
    what_ifs: WhatIfs
    circumstances: Callable[[Gang], Awaitable[tuple[str, ...]]]
    unreadable_objects: UnreadableWords
    ignored_notes: Callable[[Gang], tuple[str, ...]]
    expected: ExpectedStarts
    started_problem: Callable[[], str]  # Why gangs that have started are not kept; empty: they are
    demo: bool  # A saved cluster in memory, and no real one

    def plan(self) -> PlanInForce:
        """The current plan."""
        made = planned_gangs(self.planner.current, self.planner.snapshot or self.context.cache.snapshot())
        commitments = self.context.cache.snapshot().commitments
        return PlanInForce(
            made.version,
            made.admitted,
            made.waiting,
            held_binds=self.binds.held_count,
            committed={key: len(one.assignment) for key, one in sorted(commitments.items())},
            being_admitted=tuple(sorted(self.binds.admissions.open)),
        )

    async def queue(self) -> Queue:
        """The queue in order."""
        planner = self.planner
        snapshot = planner.snapshot or self.context.cache.snapshot()
        return await planner.ask(
            report, snapshot, planner.current, planner.policy, now_s=planner.now_s, expected=self.expected.of
        )

    async def explain(self, namespace: str, name: str) -> Explained | ExplainedPod | None:
        """Why a gang or a pod is where it is, with what the API server says of it; `None`: nothing of it is known."""
        cache, planner = self.context.cache, self.planner
        known = self._gang(namespace, name)
        read = await self.circumstances(known) if known is not None else ()
        gang = self._gang(namespace, name)  # as it is once the API server has answered
        if gang is None:
            if (pod := cache.pod_by_name(namespace, name)) is None:
                return None
            return ExplainedPod(pod=PodPlace(name=pod.key, uid=pod.uid, own=cache.is_own(pod), node=pod.node))
        binds, members = self.binds.state(gang.key), [cache.pod(pod.uid) for pod in gang.pending]
        notes = (*self.unreadable_objects.of_gang(gang.key), *read, *self.ignored_notes(gang))
        if wants_nodes(planner.current.waiting.get(gang.key)):
            notes += kept_notes(cache.daemon_sets.kept(), now_s=planner.now_s)
        found = await planner.ask(
            explain,
            cache.snapshot(),
            planner.current,
            gang,
            planner.policy,
            now_s=planner.now_s,
            notes=notes,
            held=tuple(binds.held) if binds is not None else (),
            refusals={pod.uid: pod.refusal for pod in members if pod is not None and pod.refusal},
        )
        start = self.expected.of(gang.key) if gang.key in planner.current.waiting else None
        return replace(
            found,
            turn=replace(found.turn, ahead=found.turn.ahead.first(10)),  # the others are counted
            preemption=replace(found.preemption, blocked=self.preemption_blocked(gang.key)),
            decisions=self.recent.of(gang.key),
            expected_start=start and replace(start, text=expected_text(start, now_s=planner.now_s)),
            being_admitted=gang.key in self.binds.admissions.open,
            admission_refused=self.binds.admissions.refusal(gang.key),
            admission_lapses_in_s=self.binds.admissions.lapses_in_s(gang.key),
            repair=self.repair(gang.key),
        )

    def _gang(self, namespace: str, name: str) -> Gang | None:
        gangs = self.context.cache.snapshot().gangs
        pod = self.context.cache.pod_by_name(namespace, name)
        found = gangs.get(gang_key(namespace, name))
        return gangs.get(pod.group.key) if found is None and pod is not None and pod.group is not None else found

    def network_status(self, *, most: int = MOST_NAMED) -> schemas.SourcesStatus | None:
        """How sources and mapping do, with `most` names of each list; `None`: there are no sources."""
        return self.refresh.status(most=most) if self.refresh is not None else None

    def network(self, *, zone: str | None = None, limit: int = USUAL_NODES) -> schemas.Network:
        """Sources, mapping and coverage of the network data, and the values between some nodes."""
        snapshot, probe = self.context.cache.snapshot(), self.probe_agents() or UNSET
        degraded = self.alarms.bad_now()
        return network_document(snapshot, self.network_status(), zone=zone, limit=limit, degraded=degraded, probe=probe)

    def link(self, source: str, target: str) -> schemas.LinkInFull | None:
        """Both directions of the link between two nodes: value, age and source; `None` if there is no such node."""
        snapshot = self.context.cache.snapshot()
        return link_document(snapshot, NodeName(source), NodeName(target), self.planner.policy.score)

    def readiness(self) -> schemas.Readiness:
        """Ready once every kind that decides was read (or is absent) and planned from, and while it is followed."""
        sync = self.sync()
        reasons = [f"{kind} are not read yet" for kind, watch in sync.items() if not watch.synced]
        reasons.extend(
            f"{kind} are out of step: nothing heard for {age_s:.0f} s ({watch.last_error or 'no error'})"
            for kind, watch in sync.items()
            if watch.synced and (age_s := watch.contact_age_s or 0.0) >= STALE_S
        )
        if not reasons and self.planner.snapshot is None:
            reasons.append("the first plan is not made yet")
        network = self.network_status(most=10)
        if network is not None and network.crash is not None:  # failing sources alone do not make it unready
            reasons.append(f"reading network data failed inside: {network.crash}")
        probe, problem, started = self.probe_agents() or UNSET, self.context.notes.problem, self.started_problem()
        sources = UNSET if network is None else schemas.NetworkSources(network.sources, network.mapping or UNSET, probe)
        detail = schemas.PartStates(
            sync=sync,
            cache=self.context.cache.sizes(),
            notes=f"no gang is suspended and no job resized: {problem}" if problem else UNSET,
            started=f"the next netgang would not know which gangs have started: {started}" if started else UNSET,
            leadership=self.leadership() if self.leadership is not None else UNSET,
            network=sources,
        )
        return schemas.Readiness(ready=not reasons, reasons=tuple(reasons), detail=detail)
