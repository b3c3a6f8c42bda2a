"""Scenarios on the engine that follows every pod: `--engine pods`.

Why apart: it drives the real service through a model of kube-scheduler, so it knows other policies, and is hundreds of
times slower than whole jobs. Rule: the same jobs, nodes, links and training-speed model; what it cannot run is said
before anything runs.
"""

from simulator.compare import Engine
from simulator.model import RunResult, Scenario
from simulator.pods import COSCHEDULING, DEFAULT, SECOND, Options, record
from simulator.pods.training import modelled
from simulator.scenarios import Assume, ScenarioError, ScenarioFile

_PROFILES = {"default": DEFAULT, "coscheduling": COSCHEDULING, "netgang": SECOND}
"""policy → the kube-scheduler that carries it out"""


def for_pods(file: ScenarioFile) -> ScenarioFile:
    """The scenario with the policies that this engine knows; ScenarioError where none is left."""
    known = tuple(policy for policy in file.policies if policy in _PROFILES)
    if not known:
        raise ScenarioError(f"--engine pods knows the policies {', '.join(_PROFILES)} only")
    return file.model_copy(update={"policies": known})


def pods_engine() -> Engine:
    """Runs one scenario under one policy, pod by pod."""

    def run(scenario: Scenario, policy: str, assume: Assume) -> RunResult:
        del assume  # stalls, deadlocks and starvation are those of the cluster that is simulated
        return record(scenario, scheduler=_PROFILES[policy], options=Options(training=modelled(scenario))).result

    return run
