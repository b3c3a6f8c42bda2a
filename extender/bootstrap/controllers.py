"""Put together the controllers for gangs that wait or run: repair, preemption, elastic jobs, and their Events."""

from collections.abc import Sequence

from extender.api.documents.jobs import JobsView
from extender.bootstrap.common import Common
from extender.bootstrap.feeds import Feeds
from extender.controllers.context import ControllerContext
from extender.controllers.elastic.controller import Elastic
from extender.controllers.elastic.records import ElasticParts, Records
from extender.controllers.elastic.reported import ReportBook
from extender.controllers.elastic.reports import Reports
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
from extender.controllers.preemption.controller import Preemptions
from extender.controllers.repair.controller import Repairs
from extender.controllers.repair.started_gangs import StartedGangs
from extender.controllers.restart.controller import Restarts
from extender.controllers.starts.expected_starts import ExpectedStarts
from extender.controllers.starts.waiting_times import WaitingTimes
from extender.scheduling.housekeeping import Look
from scoring.model.policy import Preempting


class Resizing:
    """The controller of elastic jobs, what jobs reported to it, and the reader of its records; nothing runs yet."""

    def __init__(self, common: Common, context: ControllerContext, feeds: Feeds) -> None:
        options, records = common.settings.elastic.options(common.limits.metrics), Records(common.telemetry)
        book = ReportBook(options.metrics, common.clock)
        self.reports = Reports(records, book, common.clock)
        self.view = JobsView(common.planner, records, book)
        parts = ElasticParts(context, feeds.jobs, records, common.rng)
        self.elastic = Elastic(parts, options, book, ready=feeds.ready, synced=feeds.synced)

    def forget(self) -> None:
        """A term starts or ends."""
        self.elastic.forget()
        self.reports.forget()


class Caring:
    """The parts; `None`: switched off. Nothing runs yet."""

    def __init__(self, common: Common) -> None:
        cache, clock, planner = common.cache, common.clock, common.planner
        context, events = common.context, common.events
        self.resizing = Resizing(common, context, common.feeds) if common.feeds is not None else None
        self.restarts = Restarts(context)
        self.repins = Repins(
            context,
            self.restarts,
            stranded=planner.stranded,
            removed=common.admissions.name_no_nodes,
            timeout_s=common.limits.repin_timeout_s,
        )
        self.repairs = Repairs(context, self.restarts, silent=common.health.silent)
        self.preemptions: Preemptions | None = None
        if common.settings.preemption is not Preempting.OFF:
            self.preemptions = Preemptions(context, self.restarts)
        self.unreadable = UnreadableWords(common.unreadable, events.post)
        self.ignored = IgnoredNotes(context)
        common.notes.on_ignored = self.ignored.heard
        label_problems = LabelProblems(context)
        self.statuses = GroupStatuses(context, common.settings.pod_group_status)
        self.expected = ExpectedStarts(context, planner.questions)
        waits = Waits(context, self.expected.of)
        self.conditions = PodConditions(context, waits.why, planner.stranded, common.rng.random)
        self.overcommits = Overcommits(context)
        self.alarms = NetworkAlarms(context)
        store = common.started_store
        self.started = StartedGangs(store, cache, clock, acting=common.acting) if store is not None else None
        self.waiting_times = WaitingTimes(context)
        self.looks: Sequence[Look] = [
            planner.find_stranded,
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
