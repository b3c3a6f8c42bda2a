"""Put together what makes gangs leave for others; nothing of it exists unless it is switched on."""

from extender.cache import ClusterCache
from extender.controllers.events.recorder import GangEvents
from extender.controllers.preemption.claims import PreemptionClaims
from extender.controllers.preemption.controller import Preemptions
from extender.controllers.preemption.words import PreemptionWords
from extender.controllers.removal.quiet_period import Quiet
from extender.controllers.restart.controller import Restarts
from extender.notes import Notes
from extender.ports import Clock, ClusterApi
from extender.runtime.decision_lines import DecisionLog
from extender.runtime.telemetry import Telemetry
from extender.scheduling.planning.loop import Planner
from extender.scheduling.planning.preemption import Preempting as Deciding
from extender.settings.settings import Settings
from scoring.model.policy import Preempting


def preemptions_of(
    settings: Settings,
    cache: ClusterCache,
    api: ClusterApi,
    clock: Clock,
    planner: Planner,
    restarts: Restarts,
    *,
    events: GangEvents,
    telemetry: Telemetry,
    log: DecisionLog,
    notes: Notes,
    quiet: Quiet,
) -> Preemptions | None:
    """The controller of setting `preemption`; `None`: it is off."""
    if settings.preemption is Preempting.OFF:
        return None
    words = PreemptionWords(cache, clock, log, events)
    claims = PreemptionClaims(
        cache,
        api,
        clock,
        telemetry,
        words,
        restarts,
        notes=notes,
        quiet=quiet,
        timeout_s=settings.preemption_timeout_s,
    )
    return Preemptions(
        claims,
        clock,
        telemetry,
        words,
        restarts,
        decide=Deciding(planner, clock),
        quiet=quiet,
    )
