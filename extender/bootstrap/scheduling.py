"""Put together what starts gangs: planning, gates, nudges, held binds, and the removal of pods in the way."""

import socket

from extender.bootstrap.common import Common
from extender.controllers.context import ControllerContext
from extender.controllers.events.recorder import Events
from extender.controllers.removal.evictions import Evictions
from extender.controllers.removal.removals import Disruptions, Quiet
from extender.controllers.ungate_queue import UngateQueue
from extender.scheduling.admission.gates import Admissions
from extender.scheduling.admission.lapses import Lapses
from extender.scheduling.bind.held_binds import Binds
from extender.scheduling.offered_nodes import Offers
from extender.scheduling.parked_pods import Parking
from extender.scheduling.plain_pods import PlainPods
from extender.scheduling.unfit_nodes import Learning, NodeHealth
from extender.scheduling.verbs import Verbs
from extender.scheduling.watch_catchup import CatchUp


class Starting:
    """The parts; nothing runs yet."""

    def __init__(self, common: Common) -> None:
        limits, cache, api, clock = common.limits, common.cache, common.api, common.clock
        telemetry, log, planner = common.telemetry, common.log, common.planner
        self.health = NodeHealth(cache, clock, node_lost_s=limits.node_lost_s)
        self.offers = Offers()
        self.parking = Parking(cache.pod)
        self.events = Events(api, clock, telemetry, instance=socket.gethostname())
        self.context = ControllerContext(
            cache,
            common.groups,
            api,
            clock,
            telemetry,
            log,
            common.notes,
            quiet=Quiet(clock, relists=common.interruptions),
            disruptions=Disruptions(api, self.events, cache),
            events=self.events,
            planner=planner,
            lost_of=self.health.lost_under,
            acting=common.acting,
        )
        self.lapses = Lapses(self.context, timeout_s=limits.admit_timeout_s)
        self.admissions = Admissions(self.context, planner, self.lapses, timeout_s=limits.admit_timeout_s)
        self.wakes = UngateQueue(self.context, self.admissions, per_s=limits.writes_per_s, rng=common.rng)
        self.binds = Binds(
            self.context,
            planner,
            self.health,
            self.admissions,
            commit_s=limits.commit_timeout_s,
            held_max=limits.max_held_binds,
            nudge=lambda uids: self.wakes.add(self.parking.asleep(uids)),
            evict=lambda gang, uids: evictions.add(gang, uids),
        )
        evictions = Evictions(self.context, refused=self.binds.eviction_refused)
        self.plain = PlainPods(cache, planner, clock)
        self.catch_up = CatchUp(cache, clock)
        ttl_s, sees_all_nodes = common.policy.exclusion_ttl_s, common.settings.sees_all_nodes
        learning = Learning(cache, clock, ttl_s=ttl_s, sees_all_nodes=sees_all_nodes)
        self.verbs = Verbs(
            self.context, planner, self.binds, self.offers, self.parking, learning, self.plain, self.catch_up
        )
