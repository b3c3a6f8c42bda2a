"""Put together the controllers for gangs that wait or run: repair, preemption, elastic jobs, and their Events."""

from collections.abc import Sequence

from extender.api.documents.jobs import JobsView
from extender.bootstrap.common import Common
from extender.bootstrap.scheduling import Starting
from extender.controllers.elastic.controller import Elastic
from extender.controllers.elastic.elastic_context import Parts
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
from scoring.explain.gang import explain
from scoring.model.policy import Preempting


class Reported:
    """The records of what jobs reported and what was done about it, and their readers; nothing is served yet."""

    def __init__(self, common: Common) -> None:
        clock, book = common.clock, SeriesBook()
        self.records = Records(common.telemetry)
        self.reports = Reports(lambda: self.records.views, book, clock)
        self.demands = MetricDemands(book, common.settings.elastic.options(common.limits.metrics).metrics, clock)
        self.view = JobsView(common.cache, common.planner, self.records, book, clock, demands=self.demands)

    def forget(self) -> None:
        """Forget all reports and demands: a term starts or ends."""
        self.reports.forget()
        self.demands.forget()


class Caring:
    """The parts; `None`: switched off. Nothing runs yet."""

    def __init__(self, common: Common, starting: Starting) -> None:
        cache, clock, policy, planner = common.cache, common.clock, common.policy, common.planner
        context, events, health = starting.context, starting.events, starting.health
        self.elastic, self.reported = _elastic_of(common, starting)
        levels = policy.preemption is Preempting.LEVELS
        self.restarts = Restarts(context, lost_of=health.lost_under, limits=policy.restarts, levels=levels)
        stranding = Stranding(planner, clock)
        self.repins = Repins(
            context,
            self.restarts,
            stranded=stranding,
            removed=starting.admissions.name_no_nodes,
            timeout_s=common.limits.repin_timeout_s,
        )
        self.repairs = Repairs(
            context,
            policy,
            self.restarts,
            lost_of=health.lost_under,
            silent=health.silent,
            wants_no_more=self.restarts.judge.wants_no_more,
        )
        self.preemptions: Preemptions | None = None
        if common.settings.preemption is not Preempting.OFF:
            words = PreemptionWords(context)
            claims = PreemptionClaims(context, words, self.restarts)
            self.preemptions = Preemptions(context, claims, words, self.restarts, decide=Decision(planner, clock))
        self.unreadable = UnreadableWords(common.unreadable, events.post)
        self.ignored = IgnoredNotes(context)
        common.notes.on_ignored = self.ignored.heard
        label_problems = LabelProblems(context, policy)
        self.statuses = GroupStatuses(context, common.settings.pod_group_status)
        planned = lambda: (planner.snapshot, planner.current) if planner.snapshot is not None else None  # noqa: E731
        self.expected = ExpectedStarts(policy, clock, planned, planner.questions)
        waits = Waits(
            context,
            explain=lambda gang: planner.ask(
                explain, cache.snapshot(), planner.current, gang, policy, now_s=clock.now_s(), closest=1
            ),
            expected=self.expected.of,
        )
        self.conditions = PodConditions(context, waits.why, stranding, common.rng.random)
        self.overcommits = Overcommits(context)
        self.alarms = NetworkAlarms(context, policy.score)
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
            *([self.reported.reports.tidy] if self.reported is not None else []),
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
        if self.elastic is not None:
            self.elastic.recover()

    def forget(self) -> None:
        """Know nothing of what was under way, but of restarts and repairs: the next leader finds it again."""
        if self.started is not None:
            self.started.read_again()
        self.waiting_times.forget()
        for book in (self.elastic, self.reported, self.preemptions):
            if book is not None:
                book.forget()


def _elastic_of(common: Common, starting: Starting) -> tuple[Elastic | None, Reported | None]:
    feeds = common.feeds
    if feeds is None:
        return None, None
    reported = Reported(common)
    parts = Parts(starting.context, common.planner, feeds.jobs, feeds.autoscalers, reported.records, common.rng)
    elastic = Elastic(
        parts,
        common.settings.elastic.options(common.limits.metrics),
        ready=feeds.ready,
        synced=feeds.synced,
        demands=reported.demands.in_steps,
    )
    return elastic, reported
