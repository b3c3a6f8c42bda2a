"""Put together what starts gangs: planning, gates, nudges, held binds, and the removal of pods in the way."""

import socket

from extender.bootstrap.common import Common
from extender.cache.sinks import SeenGroups
from extender.controllers.context import ControllerContext
from extender.controllers.events.recorder import Events
from extender.controllers.gates.wakes import Gates, Wakes
from extender.controllers.removal.evictions import Evictions
from extender.controllers.removal.removals import Disruptions, Quiet
from extender.scheduling.admission.gates import Admissions
from extender.scheduling.admission.lapses import Lapses
from extender.scheduling.bind.held_binds import Binds
from extender.scheduling.offered_nodes import Offers
from extender.scheduling.parked_pods import Parking
from extender.scheduling.plain_pods import PlainPods
from extender.scheduling.unfit_nodes import NodeHealth


class Starting:
    """The parts; nothing runs yet."""

    def __init__(self, common: Common, groups: SeenGroups) -> None:
        limits, cache, api, clock = common.limits, common.cache, common.api, common.clock
        telemetry, log, planner = common.telemetry, common.log, common.planner
        self.health = NodeHealth(cache, clock, node_lost_s=limits.node_lost_s)
        self.offers = Offers()
        self.parking = Parking(cache.pod)
        self.events = Events(api, clock, telemetry, instance=socket.gethostname())
        self.context = ControllerContext(
            cache,
            groups,
            api,
            clock,
            telemetry,
            log,
            common.notes,
            quiet=Quiet(clock, relists=common.interruptions),
            disruptions=Disruptions(api, self.events.announce, is_own=cache.is_own, post_event=self.events.post),
            post_event=self.events.post,
            plan=common.current,
            acting=common.acting,
        )
        self.lapses = Lapses(cache, clock, log, post_event=self.events.post, timeout_s=limits.admit_timeout_s)
        self.admissions = Admissions(
            cache,
            planner,
            self.lapses,
            clock,
            log,
            notes=common.notes,
            post_event=self.events.post,
            timeout_s=limits.admit_timeout_s,
            exclusion_ttl_s=common.policy.exclusion_ttl_s,
        )
        self.wakes = Wakes(
            cache,
            api,
            clock,
            telemetry,
            Gates(self.admissions.patch_for, self.admissions.sent, self.admissions.refused),
            per_s=limits.writes_per_s,
            rng=common.rng,
            acting=common.acting,
        )
        self.binds = Binds(
            cache,
            api,
            clock,
            planner,
            self.health,
            telemetry,
            log,
            self.lapses,
            self.admissions,
            hold_s=common.policy.hold_limit_s,
            commit_s=limits.commit_timeout_s,
            held_max=limits.max_held_binds,
            nudge=lambda uids: self.wakes.add(self.parking.asleep(uids)),
            evict=lambda gang, uids: evictions.add(gang, uids),
        )
        evictions = Evictions(self.context, refused=self.binds.eviction_refused)
        self.plain = PlainPods(cache, planner, clock)
