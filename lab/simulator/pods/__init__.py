"""The engine that follows every pod: the real service, an API server in memory, a kube-scheduler, and virtual time.

Why beside the engine for whole jobs (`simulator.world`): that one asks the planner and lets it have its will; here the
service must get it done through kube-scheduler, with gates, refusals, held binds, backoff, late watches and lost pods.
`run` gives the result that all engines give, `record` also where each pod was and when.
"""

from extender.settings.settings import Settings
from lab.simulator.model import RunResult, Scenario
from lab.simulator.pods.engine import Options, record
from lab.simulator.pods.kube_scheduler.scheduler import COSCHEDULING, DEFAULT, SECOND, SchedulerProfile
from lab.simulator.pods.record import JobRecord, PodRun

__all__ = ["COSCHEDULING", "DEFAULT", "SECOND", "JobRecord", "Options", "PodRun", "SchedulerProfile", "record", "run"]


def run(
    scenario: Scenario,
    *,
    settings: Settings | None = None,
    seed: int | None = None,
    scheduler: SchedulerProfile = SECOND,
    options: Options | None = None,
) -> RunResult:
    """Simulate the scenario pod by pod; see `record` for the arguments and for more of what happened."""
    return record(scenario, settings=settings, seed=seed, scheduler=scheduler, options=options).result
