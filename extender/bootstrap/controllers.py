"""Put together the controllers for gangs that wait or run: repair, preemption, elastic jobs, and their Events."""

from collections.abc import Callable, Iterator, Sequence

from extender.api.documents.jobs import JobsView
from extender.bootstrap.common import Common
from extender.bootstrap.starts import Starting
from extender.cache.seen_groups import SeenGroups
from extender.controllers.context import ControllerContext
from extender.controllers.elastic.controller import Elastic
from extender.controllers.elastic.follow import Limits as ElasticLimits
from extender.controllers.elastic.jobs.objects import Jobs
from extender.controllers.elastic.metering import Metering
from extender.controllers.elastic.parts import Parts
from extender.controllers.elastic.records import Records
from extender.controllers.elastic.reports.reports import Reports
from extender.controllers.elastic.reports.series import SeriesBook
from extender.controllers.elastic.reports.wishes import MetricWishes
from extender.controllers.events.ignored_notes import IgnoredNotes
from extender.controllers.events.label_problems import Complaints
from extender.controllers.events.overcommits import Overcommits
from extender.controllers.events.podgroup_status import GroupStatuses
from extender.controllers.events.recorder import GangEvents
from extender.controllers.events.unreadable_objects import UnreadableWords
from extender.controllers.events.waiting import Waits
from extender.controllers.gates.repins import Repins
from extender.controllers.owners.finishing import Finishing
from extender.controllers.preemption.claims import PreemptionClaims
from extender.controllers.preemption.controller import Preemptions
from extender.controllers.preemption.words import PreemptionWords
from extender.controllers.provisioning.controller import Decides, Provisioning
from extender.controllers.repair.controller import Repairs
from extender.controllers.repair.started_notes import Starts
from extender.controllers.restart.controller import Restarts
from extender.controllers.restart.eligibility import Judge
from extender.controllers.restart.one_gang import Recreation
from extender.scheduling.planning.once_per_plan import Preempting as Decision
from extender.scheduling.planning.once_per_plan import Stranding
from extender.settings.features import AutoscalingMode
from scoring.explain.gang import explain_in_steps
from scoring.model.policy import Preempting

Look = Callable[[], Iterator[None] | None]
"""What is to be called once a second; what takes long does it in steps"""


class Reported:
    """The records of what jobs reported and what was done about it, and their readers; nothing is served yet."""

    def __init__(self, common: Common, jobs: Jobs) -> None:
        clock, book = common.clock, SeriesBook()
        self.records = Records()
        self.reports = Reports(lambda: self.records.views, book, clock)
        self.demands = MetricWishes(book, common.settings.elastic.options().metrics, clock)
        self.view = JobsView(common.cache, common.planner, self.records, book, clock, demands=self.demands)
        self.metering = Metering(self.records, self.reports, common.telemetry)
        self.jobs = jobs

    def look(self) -> None:
        """Take what statuses report, and count what ended; due once a second."""
        self.reports.take_statuses(self.jobs.all())
        self.metering.look()

    def forget(self) -> None:
        """Forget all reports and demands: a term starts or ends."""
        self.reports.forget()
        self.demands.forget()
        self.metering.forget()


class Caring:
    """The parts; `None`: switched off. Nothing runs yet."""

    def __init__(self, common: Common, starting: Starting, groups: SeenGroups) -> None:
        cache, api, clock, policy = common.cache, common.api, common.clock, common.policy
        telemetry, planner = common.telemetry, common.planner
        context, events, health = starting.context, starting.events, starting.health
        judge = Judge(context, lost_of=health.lost_under)
        recreation = Recreation(context, lost_of=health.lost_under)
        self.restarts = Restarts(context, judge, recreation, limits=policy.restarts)
        stranding = Stranding(planner, clock)
        self.repins = Repins(
            context,
            self.restarts,
            stranded=stranding,
            removed=starting.admissions.name_no_nodes,
            timeout_s=common.settings.repin_timeout_s,
        )
        gang_events = GangEvents(groups, events.post)
        self.repairs = Repairs(
            context,
            policy,
            self.restarts,
            gang_events,
            lost_of=health.lost_under,
            silent=health.silent,
            wants_no_more=judge.wants_no_more,
        )
        self.preemptions = _preemptions_of(common, context, self.restarts, gang_events)
        self.unreadable = UnreadableWords(common.unreadable, events.post)
        self.ignored = IgnoredNotes(clock, telemetry, events.post)
        common.notes.on_ignored = self.ignored.heard
        complaints = Complaints(context, policy, gang_events)
        self.statuses = GroupStatuses(
            cache,
            groups,
            api,
            clock,
            mode=common.settings.pod_group_status,
            plan=common.current,
            may_write=common.acting,
        )
        waits = Waits(
            context,
            gang_events,
            plan=common.current,
            may_post=common.acting,
            explain=lambda gang: explain_in_steps(
                cache.snapshot(), planner.current, gang, policy, now_s=clock.now_s(), cache=planner.cache, closest=1
            ),
        )
        self.overcommits = Overcommits(context, acting=common.acting)
        self.elastic, self.reported = _elastic_of(common, starting)
        self.starts = Starts(context)
        self.looks: Sequence[Look] = [
            stranding.look,
            self.repins.look,
            self.repairs.look,
            self.starts.look,
            Finishing(context, plan=common.current).look,
            *([self.preemptions.look] if self.preemptions is not None else []),
            *([self.reported.look] if self.reported is not None else []),
            complaints.look,
            self.unreadable.look,
            self.ignored.look,
            self.statuses.look,
            waits.look,
            self.overcommits.look,
        ]
        self.provisioning = _provisioning_of(common, groups)

    def recover(self) -> None:
        """Find again what another process, or this one before, had started."""
        if self.preemptions is not None:
            self.preemptions.recover()
        if self.elastic is not None:
            self.elastic.recover()

    def restart(self) -> None:
        """Both, as a term begins."""
        self.starts.forget()
        if self.elastic is not None:
            self.elastic.forget()
            self.elastic.recover()
        if self.reported is not None:
            self.reported.forget()
        if self.preemptions is not None:
            self.preemptions.forget()
            self.preemptions.recover()

    def forget(self) -> None:
        """Know nothing of what was under way, but of restarts and repairs: the next leader finds it again."""
        for book in (self.elastic, self.reported, self.preemptions, self.provisioning):
            if book is not None:
                book.forget()


def _preemptions_of(
    common: Common, context: ControllerContext, restarts: Restarts, events: GangEvents
) -> Preemptions | None:
    if common.settings.preemption is Preempting.OFF:
        return None
    words = PreemptionWords(context, events)
    claims = PreemptionClaims(context, words, restarts, timeout_s=common.settings.preemption_timeout_s)
    return Preemptions(context, claims, words, restarts, decide=Decision(common.planner, common.clock))


def _provisioning_of(common: Common, groups: SeenGroups) -> Provisioning | None:
    asked = common.settings.autoscaling
    if asked.mode is AutoscalingMode.OFF:
        return None
    by = Decides(
        common.policy,
        asked.limits(),
        asked.class_name.value,
        plan=common.current,
        planner_cache=lambda: common.planner.cache,
    )
    return Provisioning(by, common.cache, groups, common.api, common.clock, acting=common.acting)


def _elastic_of(common: Common, starting: Starting) -> tuple[Elastic | None, Reported | None]:
    feeds, limits = common.feeds, common.settings.elastic
    if feeds is None:
        return None, None
    reported = Reported(common, feeds.jobs)
    parts = Parts(
        feeds.kinds,
        common.cache,
        common.planner,
        feeds.jobs,
        feeds.autoscalers,
        common.api,
        starting.context.disruptions,
        common.notes,
        common.clock,
        reported.records,
        common.telemetry,
        common.log,
        starting.context.quiet,
        starting.events.post,
        common.rng,
    )
    elastic = Elastic(
        parts,
        limits.options(),
        ElasticLimits(removal_s=limits.removal_timeout_s),
        acting=common.acting,
        feed=feeds,
        wishes=reported.demands.in_steps,
    )
    return elastic, reported
