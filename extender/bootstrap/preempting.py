"""Put together what makes gangs leave for others; nothing of it exists unless it is switched on."""

from extender.cache import ClusterCache
from extender.cache.seen_groups import SeenGroups
from extender.controller.events import TellOf
from extender.controller.preemption_claims import PreemptionClaims
from extender.controller.preemption_words import PreemptionWords
from extender.controller.preemptions import Preemptions
from extender.controller.quiet import Quiet
from extender.controller.restarts import Restarts
from extender.controller.together import Together
from extender.decision_log import DecisionLog
from extender.notes import Notes
from extender.ports import Clock, ClusterApi
from extender.service.planning import Planner
from extender.service.preempting import Preempting as Deciding
from extender.settings import Settings
from extender.telemetry import Telemetry
from scoring.policy import Preempting


def preemptions_of(
    settings: Settings,
    cache: ClusterCache,
    api: ClusterApi,
    clock: Clock,
    planner: Planner,
    restarts: Restarts,
    *,
    groups: SeenGroups,
    telemetry: Telemetry,
    log: DecisionLog,
    notes: Notes,
    quiet: Quiet,
    tell: TellOf,
) -> Preemptions | None:
    """The controller of setting `preemption`; `None`: it is off."""
    if settings.preemption is Preempting.OFF:
        return None
    words = PreemptionWords(cache, groups, clock, log, tell)
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
        together=Together(cache, api),
        quiet=quiet,
    )
