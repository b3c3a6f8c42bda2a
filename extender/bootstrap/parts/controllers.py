"""Put together the controllers for gangs that wait or run: repair, preemption, elastic jobs, and their Events."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from extender.bootstrap.common import Common
from extender.bootstrap.parts.preemption import preemptions_of
from extender.bootstrap.parts.reports import Reporting, reporting_of
from extender.bootstrap.parts.starts import Starting
from extender.cache.seen_groups import SeenGroups
from extender.controllers.elastic.controller import Elastic
from extender.controllers.elastic.follow import Limits as ElasticLimits
from extender.controllers.elastic.parts import Parts
from extender.controllers.events.ignored_notes import IgnoredNotes
from extender.controllers.events.label_problems import Complaints
from extender.controllers.events.overcommits import Overcommits
from extender.controllers.events.podgroup_status import GroupStatuses
from extender.controllers.events.recorder import GangEvents
from extender.controllers.events.unreadable_objects import UnreadableWords
from extender.controllers.events.waiting import Waits
from extender.controllers.gates.repins import Repins
from extender.controllers.owners.finishing import Finishing
from extender.controllers.preemption.controller import Preemptions
from extender.controllers.provisioning.controller import Decides, Provisioning
from extender.controllers.repair.controller import Repairs
from extender.controllers.repair.started_notes import Starts
from extender.controllers.restart.controller import Restarts
from extender.controllers.restart.eligibility import Judge
from extender.controllers.restart.one_gang import Recreation
from extender.scheduling.planning.starvation import Starvation
from extender.scheduling.planning.stranded_pods import Stranding
from extender.settings.features import AutoscalingMode
from scoring.explain.gang import explain_in_steps

Look = Callable[[], Iterator[None] | None]
"""What is to be called once a second; what takes long does it in steps"""


@dataclass(frozen=True, slots=True)
class Caring:
    """The parts; `None`: switched off."""

    restarts: Restarts
    repins: Repins
    repairs: Repairs
    starts: Starts
    preemptions: Preemptions | None
    statuses: GroupStatuses
    overcommits: Overcommits
    elastic: Elastic | None
    reported: Reporting | None
    provisioning: Provisioning | None
    unreadable: UnreadableWords
    ignored: IgnoredNotes
    looks: Sequence[Look]
    """In this order"""

    def recover(self) -> None:
        """Find again what another process, or this one before, had started."""
        if self.preemptions is not None:
            self.preemptions.recover()
        if self.elastic is not None:
            self.elastic.recover()

    def begin_anew(self) -> None:
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


def caring_of(common: Common, starting: Starting, groups: SeenGroups | None) -> Caring:
    """All of it; nothing runs yet."""
    cache, api, clock, policy = common.cache, common.api, common.clock, common.policy
    telemetry, planner = common.telemetry, common.planner
    context, events, health = starting.context, starting.events, starting.health
    groups = groups if groups is not None else SeenGroups(cache.pod_groups)
    judge = Judge(context, lost_of=health.lost_under)
    recreation = Recreation(context, lost_of=health.lost_under)
    restarts = Restarts(context, judge, recreation, limits=policy.restarts)
    stranding = Stranding(planner, clock)
    repins = Repins(
        context,
        restarts,
        stranded=stranding,
        removed=starting.admissions.name_no_nodes,
        timeout_s=common.settings.repin_timeout_s,
    )
    gang_events = GangEvents(groups, events.post)
    repairs = Repairs(
        context,
        policy,
        restarts,
        gang_events,
        lost_of=health.lost_under,
        silent=health.silent,
        wants_no_more=judge.wants_no_more,
    )
    preemptions = preemptions_of(common.settings, context, planner, restarts, gang_events)
    unreadable = UnreadableWords(common.unreadable, events.post)
    ignored = IgnoredNotes(clock, telemetry, events.post)
    common.notes.on_ignored = ignored.heard
    complaints = Complaints(context, policy, gang_events)
    statuses = GroupStatuses(
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
    overcommits = Overcommits(context, acting=common.acting)
    elastic, reported = _elastic_of(common, starting)
    starts = Starts(context)
    looks: list[Look] = [
        stranding.look,
        repins.look,
        repairs.look_in_steps,
        starts.look,
        Finishing(context, plan=common.current).look,
        *([preemptions.look] if preemptions is not None else []),
        *([reported.look] if reported is not None else []),
        complaints.look,
        unreadable.look,
        ignored.look,
        statuses.look,
        waits.look,
        Starvation(cache, planner, clock).look,
        overcommits.look,
    ]
    return Caring(
        restarts,
        repins,
        repairs,
        starts,
        preemptions,
        statuses,
        overcommits,
        elastic,
        reported,
        _provisioning_of(common, groups),
        unreadable,
        ignored,
        looks,
    )


def _provisioning_of(common: Common, groups: SeenGroups) -> Provisioning | None:
    """What asks an autoscaler for nodes; `None`: it is off."""
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


def _elastic_of(common: Common, starting: Starting) -> tuple[Elastic | None, Reporting | None]:
    """The controller of elastic jobs, and the books of what jobs report."""
    feeds, limits = common.feeds, common.settings.elastic
    if feeds is None:
        return None, None
    reported = reporting_of(common.settings, common.cache, common.planner, feeds.jobs, common.clock, common.telemetry)
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
        wishes=reported.wishes.in_steps,
    )
    return elastic, reported
