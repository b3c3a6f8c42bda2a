"""Put together what starts gangs: planning, gates, nudges, held binds, and the removal of pods in the way."""

import socket
from dataclasses import dataclass

from extender.bootstrap.common import Common
from extender.controllers.context import ControllerContext
from extender.controllers.events.recorder import Events
from extender.controllers.gates.wakes import Gates, Wakes
from extender.controllers.removal.evictions import Evictions
from extender.controllers.removal.quiet_period import Quiet
from extender.controllers.removal.removals import Disruptions
from extender.scheduling.admission.arrivals import Arrivals
from extender.scheduling.admission.gates import AdmissionLimits, Admissions
from extender.scheduling.admission.lapses import Lapses
from extender.scheduling.bind.held_binds import Binds, Effects, Limits
from extender.scheduling.offers import Offers
from extender.scheduling.parked_pods import Parking
from extender.scheduling.plain_pods import PlainPods
from extender.scheduling.planning.lost_nodes import NodeHealth


@dataclass(frozen=True, slots=True)
class Starting:
    """The parts."""

    health: NodeHealth
    offers: Offers
    parking: Parking
    plain: PlainPods
    events: Events
    context: ControllerContext
    admissions: Admissions
    arrivals: Arrivals
    wakes: Wakes
    binds: Binds


def starting_of(common: Common) -> Starting:
    """All of it; nothing runs yet."""
    settings, cache, api, clock = common.settings, common.cache, common.api, common.clock
    telemetry, log, planner = common.telemetry, common.log, common.planner
    health = NodeHealth(cache, clock, node_lost_s=settings.node_lost_s)
    parking = Parking()
    events = Events(api, clock, telemetry, instance=socket.gethostname())
    quiet = _quiet_of(common)
    disruptions = Disruptions(api, events.announce, is_own=cache.is_own_as_read, post_event=events.post)
    context = ControllerContext(cache, api, clock, telemetry, log, common.notes, quiet, disruptions, events.post)
    lapses = Lapses(cache, clock, log, post_event=events.post)
    admissions = Admissions(
        cache,
        planner,
        lapses,
        clock,
        log,
        notes=common.notes,
        limits=AdmissionLimits(settings.admit_timeout_s, settings.exclusion_ttl_s),
        post_event=events.post,
    )
    arrivals = Arrivals(cache, planner, lapses, clock, timeout_s=settings.admit_timeout_s)
    wakes = Wakes(
        cache,
        api,
        clock,
        telemetry,
        Gates(admissions.patch_for, admissions.sent, admissions.refused),
        per_s=settings.writes_per_s,
        rng=common.rng,
        acting=common.acting,
    )
    binds = Binds(
        cache,
        api,
        clock,
        planner,
        health,
        telemetry,
        log,
        lapses=lapses,
        limits=Limits(settings.hold_limit_s, settings.commit_timeout_s, settings.max_held_binds),
        effects=Effects(
            nudge=lambda uids: wakes.add(parking.asleep(uids)),
            evict=lambda gang, uids: evictions.add(gang, uids),
            being_admitted=admissions.keeps,
            gives_up=admissions.gives_up,
        ),
    )
    evictions = Evictions(context, refused=binds.eviction_refused)
    return Starting(
        health, Offers(), parking, PlainPods(cache, planner, clock), events, context, admissions, arrivals, wakes, binds
    )


def _quiet_of(common: Common) -> Quiet:
    """Each list that was read again, and each take-over, restarts the quiet time."""
    leadership, feeds = common.leadership, common.feeds

    def news() -> int:
        relists = sum(reflector.status().relists for reflector in common.reflectors.values())
        relists += feeds.relists() if feeds is not None else 0
        return relists if leadership is None else relists + leadership.terms

    return Quiet(common.clock, relists=news)
