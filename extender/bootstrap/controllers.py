"""Put together the controllers for gangs that wait or run: repair, preemption, elastic jobs, and their Events."""

from collections.abc import Sequence

from extender.api.jobs import JobsView
from extender.bootstrap.common import Common
from extender.bootstrap.feeds import Feeds
from extender.controllers.context import ControllerContext, ControlLoop
from extender.controllers.elastic.controller import Elastic
from extender.controllers.elastic.records import ElasticParts, Records
from extender.controllers.elastic.reports import ReportBook, Reports
from extender.controllers.events.mistakes import GangFaults, IgnoredNotes, ProbableMistakes, UnreadableWords
from extender.controllers.events.nodes import NetworkAlarms, Overcommits
from extender.controllers.events.statuses import GroupStatuses, PodConditions
from extender.controllers.events.waiting import ExpectedStarts, WaitingTimes, WaitReasons
from extender.controllers.owners import FinishingJobs, OwnerReader
from extender.controllers.removal.losses import Repairs, Repins
from extender.controllers.removal.preemptions import Preemptions
from extender.controllers.removal.restarts import Restarts
from extender.controllers.started_gangs import StartedGangsConfigMap
from extender.settings.settings import StatusMode
from scoring.model.policy import Preempting


class Resizing(ControlLoop):
    """The controller of elastic jobs, what jobs reported to it, and the reader of its records; nothing runs yet."""

    def __init__(self, common: Common, context: ControllerContext, feeds: Feeds) -> None:
        super().__init__(context)
        options, records = common.settings.elastic, Records(common.telemetry)
        book = ReportBook(options.metrics, common.clock)
        self.reports = Reports(records, book, common.clock)
        self.view = JobsView(common.planner, records, book)
        parts = ElasticParts(context, feeds.jobs, records, common.rng)
        self.elastic = Elastic(parts, options, book, ready=feeds.ready, synced=feeds.synced)

    def look(self) -> None:
        """Drop reports of jobs that are gone."""
        self.reports.tidy()

    def forget(self) -> None:
        """A term starts or ends."""
        self.elastic.forget()
        self.reports.forget()


class Controllers:
    """The parts; `None`: switched off. Nothing runs yet."""

    def __init__(self, common: Common) -> None:
        settings, context = common.settings, common.context
        self.resizing = Resizing(common, context, common.feeds) if common.feeds is not None else None
        self.restarts = restarts = Restarts(context)
        self.preemptions: Preemptions | None = None
        if settings.preemption is not Preempting.OFF:
            self.preemptions = Preemptions(context, restarts)
        removed, timeout_s = common.admissions.name_no_nodes, common.limits.repin_timeout_s
        repins = Repins(context, restarts, removed=removed, timeout_s=timeout_s)
        self.repairs = Repairs(context, restarts, silent=common.health.silent)
        self.unreadable = UnreadableWords(context, common.unreadable)
        self.ignored = IgnoredNotes(context)
        common.notes.on_ignored = self.ignored.heard
        self.expected = ExpectedStarts(context, common.planner.questions)
        reasons = WaitReasons(context, self.expected)
        self.overcommits, self.alarms = Overcommits(context), NetworkAlarms(context)
        self.owners, self.waiting_times = OwnerReader(context), WaitingTimes(context)
        store, mode = common.started_store, settings.pod_group_status
        self.started = StartedGangsConfigMap(context, store) if store is not None else None
        self.loops: Sequence[ControlLoop] = [
            *([self.preemptions] if self.preemptions is not None else []),
            *([self.resizing] if self.resizing is not None else []),
            repins,
            self.repairs,
            restarts,
            self.waiting_times,
            self.owners,
            FinishingJobs(context),
            GangFaults(context),
            ProbableMistakes(context, frozenset(settings.scheduler_names)),
            self.unreadable,
            self.ignored,
            *([GroupStatuses(context, mode)] if mode is not StatusMode.OFF else []),
            self.expected,
            reasons,
            PodConditions(context, reasons, repins, common.rng),
            self.overcommits,
            self.alarms,
        ]

    def recover(self) -> None:
        """Find again what another process, or this one before, had started."""
        if self.preemptions is not None:
            self.preemptions.claims.recover()
        if self.resizing is not None:
            self.resizing.elastic.recover()

    def forget(self) -> None:
        """Know nothing of what was under way: the next leader finds it again."""
        for loop in (*self.loops, *([self.started] if self.started is not None else [])):
            loop.forget()
