"""Put together what starts gangs: planning, gates, nudges, held binds, and the removal of pods in the way."""

import socket

from extender.bootstrap.common import Common
from extender.controllers.context import ControllerContext
from extender.controllers.events.recorder import Events
from extender.controllers.gates.wakes import Gates, Wakes
from extender.controllers.removal.removals import Disruptions, Quiet
from extender.scheduling.admissions import Admissions
from extender.scheduling.held_binds import Binds
from extender.scheduling.refused_pods import Parking
from extender.scheduling.unfit_nodes import NodeHealth
from extender.scheduling.verbs import Verbs


class Starting:
    """The parts; nothing runs yet."""

    def __init__(self, common: Common) -> None:
        limits, cache, api, clock, planner = common.limits, common.cache, common.api, common.clock, common.planner
        self.health = NodeHealth(cache, clock, node_lost_s=limits.node_lost_s)
        self.events = Events(api, clock, common.telemetry, instance=socket.gethostname())
        self.context = ControllerContext(
            cache,
            common.groups,
            api,
            clock,
            common.telemetry,
            common.log,
            common.notes,
            quiet=Quiet(clock, relists=common.interruptions),
            disruptions=Disruptions(api, self.events.announce, is_own=cache.is_own, post_event=self.events.post),
            post_event=self.events.post,
            planner=planner,
            lost_of=self.health.lost_under,
            acting=common.acting,
        )
        self.admissions = Admissions(self.context, planner, timeout_s=limits.admit_timeout_s)
        gates = Gates(self.admissions.patch_for, self.admissions.sent, self.admissions.refused)
        self.wakes = Wakes(self.context, gates, per_s=limits.writes_per_s, rng=common.rng)
        self.binds = Binds(
            self.context,
            planner,
            self.health,
            self.admissions,
            Parking(cache),
            self.wakes,
            commit_s=limits.commit_timeout_s,
            held_max=limits.max_held_binds,
        )
        self.verbs = Verbs(self.context, planner, self.binds, sees_all_nodes=common.settings.sees_all_nodes)
