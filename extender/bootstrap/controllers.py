"""Put together the controllers for gangs that wait or run: repair, preemption, elastic jobs, and their Events."""

from collections.abc import Sequence

from extender.api.documents.jobs import JobsView
from extender.bootstrap.common import Common
from extender.bootstrap.feeds import Feeds
from extender.bootstrap.scheduling import Starting
from extender.controllers.context import ControllerContext
from extender.controllers.elastic.controller import Elastic
from extender.controllers.elastic.elastic_context import Parts, Retries
from extender.controllers.elastic.records import Records
from extender.controllers.elastic.reports.demands import MetricDemands
from extender.controllers.elastic.reports.reports import Reports
from extender.controllers.elastic.reports.series import SeriesBook
from extender.controllers.events.label_problems import LabelProblems
from extender.controllers.events.left_out import IgnoredNotes, UnreadableWords
from extender.controllers.events.mistakes import Mistakes
from extender.controllers.events.network_alarms import NetworkAlarms
from extender.controllers.events.overcommits import Overcommits
from extender.controllers.events.pod_conditions import PodConditions
from extender.controllers.events.podgroup_status import GroupStatuses
from extender.controllers.events.waiting import Waits
from extender.controllers.gates.repins import Repins
from extender.controllers.owners.finishing import Finishing
from extender.controllers.preemption.claims import PreemptionClaims
from extender.controllers.preemption.controller import Preemptions
from extender.controllers.preemption.words import PreemptionWords
from extender.controllers.repair.controller import Repairs
from extender.controllers.repair.started_gangs import StartedGangs
from extender.controllers.restart.controller import Restarts
from extender.controllers.starts.expected_starts import ExpectedStarts
from extender.controllers.starts.waiting_times import WaitingTimes
from extender.scheduling.planning.housekeeping import Look
from extender.scheduling.planning.once_per_plan import Preempting as Decision
from extender.scheduling.planning.once_per_plan import Stranding
from scoring.model.policy import Preempting


class Resizing:
    """The controller of elastic jobs, what jobs reported to it, and the reader of its records; nothing runs yet."""

    def __init__(self, common: Common, context: ControllerContext, feeds: Feeds) -> None:
        clock, book, options = common.clock, SeriesBook(), common.settings.elastic
        records, demands = Records(common.telemetry), MetricDemands(book, options.metrics, clock)
        self.reports, self._demands = Reports(lambda: records.views, book, clock), demands
        self.view = JobsView(common.planner, records, book, demands)
        parts = Parts(context, feeds.jobs, feeds.autoscalers, records, Retries(common.rng))
        self.elastic = Elastic(parts, options, ready=feeds.ready, synced=feeds.synced, demands=demands.in_steps)

    def forget(self) -> None:
        """A term starts or ends."""
        for book in (self.elastic, self.reports, self._demands):
            book.forget()


class Caring:
    """The parts; `None`: switched off. Nothing runs yet."""

    def __init__(self, common: Common, starting: Starting) -> None:
        cache, clock, planner = common.cache, common.clock, common.planner
        context, events = starting.context, starting.events
        self.resizing = Resizing(common, context, common.feeds) if common.feeds is not None else None
        self.restarts = Restarts(context)
        stranding = Stranding(planner)
        self.repins = Repins(
            context,
            self.restarts,
            stranded=stranding,
            removed=starting.admissions.name_no_nodes,
            timeout_s=common.limits.repin_timeout_s,
        )
        self.repairs = Repairs(context, self.restarts, silent=starting.health.silent)
        self.preemptions: Preemptions | None = None
        if common.settings.preemption is not Preempting.OFF:
            words = PreemptionWords(context)
            claims = PreemptionClaims(context, words, self.restarts)
            self.preemptions = Preemptions(context, claims, words, self.restarts, decide=Decision(planner))
        self.unreadable = UnreadableWords(common.unreadable, events.post)
        self.ignored = IgnoredNotes(context)
        common.notes.on_ignored = self.ignored.heard
        label_problems = LabelProblems(context)
        self.statuses = GroupStatuses(context, common.settings.pod_group_status)
        self.expected = ExpectedStarts(context, planner.questions)
        waits = Waits(context, self.expected.of)
        self.conditions = PodConditions(context, waits.why, stranding, common.rng.random)
        self.overcommits = Overcommits(context)
        self.alarms = NetworkAlarms(context)
        store = common.started_store
        self.started = StartedGangs(store, cache, clock, acting=common.acting) if store is not None else None
        self.waiting_times = WaitingTimes(context)
        self.looks: Sequence[Look] = [
            stranding.look,
            self.repins.look,
            self.repairs.look,
            self.waiting_times.look,
            Finishing(context).look,
            *([self.preemptions.look] if self.preemptions is not None else []),
            *([self.resizing.reports.tidy] if self.resizing is not None else []),
            label_problems.look,
            Mistakes(context, frozenset(common.settings.scheduler_names)).look,
            self.unreadable.look,
            self.ignored.look,
            self.statuses.look,
            waits.look,
            self.conditions.look,
            self.overcommits.look,
        ]

    def recover(self) -> None:
        """Find again what another process, or this one before, had started."""
        if self.preemptions is not None:
            self.preemptions.claims.recover()
        if self.resizing is not None:
            self.resizing.elastic.recover()

    def forget(self) -> None:
        """Know nothing of what was under way, but of restarts and repairs: the next leader finds it again."""
        if self.started is not None:
            self.started.read_again()
        self.waiting_times.forget()
        for book in (self.resizing, self.preemptions):
            if book is not None:
                book.forget()
