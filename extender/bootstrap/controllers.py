"""The controllers for gangs that wait or run, and the probe's side of netgang. Nothing runs yet."""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from extender.api.reports import AgentPods, ProbePort
from extender.bootstrap.common import Common, Feeds
from extender.controllers.context import ControlLoop
from extender.controllers.elastic.controller import Elastic
from extender.controllers.elastic.records import ElasticParts, Records
from extender.controllers.elastic.reports import Reports
from extender.controllers.events.mistakes import GangFaults, IgnoredNotes, ProbableMistakes, UnreadableWords
from extender.controllers.events.nodes import NetworkAlarms, NodeConditions, Overcommits
from extender.controllers.events.statuses import GroupStatuses, PodConditions
from extender.controllers.events.waiting import ExpectedStarts, WaitingTimes, WaitReasons
from extender.controllers.owners import FinishingJobs
from extender.controllers.removal.losses import Repairs, Repins
from extender.controllers.removal.preemptions import Preemptions
from extender.controllers.removal.restarts import Restarts
from extender.controllers.started_gangs import StartedGangsConfigMap
from extender.network.probe_agents import Agents
from extender.network.probe_bursts import Bursts
from extender.network.probe_source import LOOK_S, ProbeSource
from extender.network.refresh import Polled
from extender.settings.settings import StatusMode
from scoring import NodeName
from scoring.model import Snapshot
from scoring.model.policy import Preempting


def _elastic(common: Common, feeds: Feeds) -> Elastic:
    options, records = common.settings.elastic, Records(common.telemetry)
    reports = Reports(records, options.metrics, common.clock)
    parts = ElasticParts(common.context, feeds.jobs, records, common.rng, options)
    return Elastic(parts, reports, ready=feeds.ready, synced=feeds.synced)


class Controllers:
    """The parts; `None`: switched off."""

    def __init__(self, common: Common) -> None:
        settings, context = common.settings, common.context
        self.elastic = _elastic(common, common.feeds) if common.feeds is not None else None
        self.restarts = restarts = Restarts(context)
        preempting = settings.preemption is not Preempting.OFF
        self.preemptions = Preemptions(context, restarts) if preempting else None
        removed, timeout_s = common.admissions.name_no_nodes, common.limits.repin_timeout_s
        repins = Repins(context, restarts, removed=removed, timeout_s=timeout_s)
        self.repairs = Repairs(context, restarts, silent=common.health.silent)
        self.unreadable = UnreadableWords(context, common.unreadable)
        self.ignored = IgnoredNotes(context)
        common.notes.on_ignored = self.ignored.heard
        self.expected = ExpectedStarts(context, common.planner.questions)
        reasons = WaitReasons(context, self.expected)
        self.overcommits, self.alarms = Overcommits(context), NetworkAlarms(context)
        self.owners, self.waiting_times = common.verbs.owners, WaitingTimes(context)
        store, mode = common.started_store, settings.pod_group_status
        self.started = StartedGangsConfigMap(context, store) if store is not None else None
        loops: Sequence[ControlLoop | None] = (
            self.preemptions, self.elastic, repins, self.repairs, restarts, self.waiting_times, self.owners,
            FinishingJobs(context), GangFaults(context), self.unreadable, self.ignored,
            ProbableMistakes(context, frozenset(settings.scheduler_names), self.owners),
            GroupStatuses(context, mode) if mode is not StatusMode.OFF else None,
            self.expected, reasons, PodConditions(context, reasons, repins, common.rng), self.overcommits, self.alarms,
            NodeConditions(context, self.alarms, settings.network.taint),
        )  # fmt: skip
        self.loops: Sequence[ControlLoop] = [loop for loop in loops if loop is not None]

    def recover(self) -> None:
        """Find again what another process, or this one before, had started."""
        if self.preemptions is not None:
            self.preemptions.claims.recover()
        if self.elastic is not None:
            self.elastic.recover()

    def reset(self) -> None:
        """Know nothing of what was under way: the next leader finds it again."""
        for loop in self.loops:
            loop.reset()
        if self.started is not None:
            self.started.reset()


class Probing:
    """Where `probe.enabled`: agents, their pods, and the source that makes a table of their reports."""

    def __init__(self, common: Common) -> None:
        chosen, cache = common.settings.probe, common.cache
        bursts = Bursts(
            common.clock,
            common.limits.bursts,
            with_gangs=lambda: nodes_of_gangs(cache.snapshot(), foreign=True),
            count=common.telemetry.probe_burst,
        )
        interval_s = common.limits.probe_interval_s
        agents = Agents(common.clock, common.notes, interval_s, bursts=bursts if chosen.throughput.enabled else None)
        account = f"system:serviceaccount:{chosen.service_account.replace('/', ':')}"
        self.port = ProbePort(agents, AgentPods(common.api.get_pod, common.clock), account)
        source = ProbeSource(
            agents,
            zones=lambda: {node.name: node.zone for node in cache.snapshot().table.nodes},
            wanted=lambda: nodes_of_gangs(cache.snapshot()),
            acting=common.acting,
            seed=chosen.service_account,
            on_agents=common.telemetry.probe_agents,
        )
        self.polled = Polled(source, LOOK_S)
        self.agents_seen = lambda: source.seen


def nodes_of_gangs(snapshot: Snapshot, *, foreign: bool = False) -> AbstractSet[NodeName]:
    """Nodes where gangs of ours, with `foreign` any gangs, run or are about to start. Cost: O(pods of gangs)."""
    counted = [gang for gang in snapshot.gangs.values() if gang.own or foreign]
    running = {pod.node for gang in counted for pod in gang.members if pod.node is not None and not pod.terminal}
    return running.union(*(commitment.nodes for commitment in snapshot.commitments.values()))
