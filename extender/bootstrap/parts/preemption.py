"""Put together what makes gangs leave for others; nothing of it exists unless it is switched on."""

from extender.controllers.context import ControllerContext
from extender.controllers.events.recorder import GangEvents
from extender.controllers.preemption.claims import PreemptionClaims
from extender.controllers.preemption.controller import Preemptions
from extender.controllers.preemption.words import PreemptionWords
from extender.controllers.restart.controller import Restarts
from extender.scheduling.planning.loop import Planner
from extender.scheduling.planning.preemption import Preempting as Deciding
from extender.settings.settings import Settings
from scoring.model.policy import Preempting


def preemptions_of(
    settings: Settings, context: ControllerContext, planner: Planner, restarts: Restarts, events: GangEvents
) -> Preemptions | None:
    """The controller of setting `preemption`; `None`: it is off."""
    if settings.preemption is Preempting.OFF:
        return None
    words = PreemptionWords(context, events)
    claims = PreemptionClaims(context, words, restarts, timeout_s=settings.preemption_timeout_s)
    return Preemptions(context, claims, words, restarts, decide=Deciding(planner, context.clock))
