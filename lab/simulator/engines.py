"""Scenarios on the engine that follows every pod: `--engine pods`.

Why apart: it drives the real service through a model of kube-scheduler, so it knows other policies, and is hundreds of
times slower than whole jobs. Rule: the same jobs, nodes, links and training-speed model; a job that may not be resized
needs all the workers that it asks for; the scenario's assumptions about netgang become settings of the service. What it
cannot run is said before anything runs, and never left out in silence.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from extender.settings.settings import Settings
from lab.simulator.compare import Ended, Engine
from lab.simulator.model import RunResult, Scenario
from lab.simulator.pods import COSCHEDULING, DEFAULT, SECOND, Options, record
from lab.simulator.pods.sharing import Sharing
from lab.simulator.pods.training import modelled
from lab.simulator.pods.virtual_time import Latencies, Latency
from lab.simulator.scenarios import Assume, ScenarioError, ScenarioFile
from lab.simulator.speed.rate import GPU
from lab.simulator.speed.stall import START_S
from scoring.model.policy import Order
from scoring.scaling.options import Condition

_PUBLISHED: Mapping[str, Any] = {"extended": (), "reserve_after_s": 0.0}
"""The weight of CPU and memory alone; room is reserved for a gang as soon as it is STARVING"""
_QUEUES: Mapping[str, Mapping[str, Any]] = {
    "netgang": {},
    "netgang-elastic": _PUBLISHED,
    "netgang-elastic-fifo": {**_PUBLISHED, "order": Order.FIFO},
    "netgang-elastic-gpus": {**_PUBLISHED, "extended": (GPU,)},
    "netgang-elastic-unreserved": {**_PUBLISHED, "starving_share": 0.0},
    "netgang-elastic-any": {**_PUBLISHED, "starving_share": 0.0},
    "netgang-rigid": {**_PUBLISHED, "starving_share": 0.0},
}
"""policy → what its service's queue has besides the assumptions"""
_PROFILES = {"default": DEFAULT, "coscheduling": COSCHEDULING, **dict.fromkeys(_QUEUES, SECOND)}
"""policy → the kube-scheduler that carries it out"""
_LATENCIES = Latencies(pod_start=Latency(START_S))
"""A pod trains as long after its Binding as in the engine of whole jobs."""
_UNKNOWN = ("stall_factor", "deadlock_s", "resubmit", "decide_every_s")
"""Assumptions about what is simulated here in its parts, or not at all."""


def for_pods(file: ScenarioFile, *, asked: Sequence[str] = ()) -> ScenarioFile:
    """The scenario with the policies that this engine knows; the others are named in what is said about it.

    ScenarioError: a policy is `asked` for, or an assumption made, that this engine does not know; no policy is left.
    """
    known = tuple(policy for policy in file.policies if policy in _PROFILES)
    others = [policy for policy in file.policies if policy not in _PROFILES]
    wrong = [policy for policy in others if policy in asked]
    if wrong or not known:
        said = f", not {', '.join(wrong or others)}"
        raise ScenarioError(f"--engine pods knows the policies {', '.join(_PROFILES)} only{said}")
    usual = Assume()
    assumed = [name for name in _UNKNOWN if getattr(file.assume, name) != getattr(usual, name)]
    if assumed:
        raise ScenarioError(f"--engine pods cannot change what assume.{assumed[0]} says: leave it at its default")
    left_out = f" Left out, as only --engine jobs knows them: {', '.join(others)}." if others else ""
    return file.model_copy(update={"policies": known, "about": f"{file.about}{left_out}".strip()})


def settings_of(assume: Assume, policy: str) -> Settings | None:
    """Settings of the service under these assumptions; `None`: the policy is one without it."""
    queue = _QUEUES.get(policy)
    if queue is None:
        return None
    if policy == "netgang":  # as installed, whatever is assumed
        return Settings.model_validate({"scheduler_names": (SECOND.name,)})
    most = assume.most_at_once or None
    return Settings.model_validate(
        {
            "scheduler_names": (SECOND.name,),
            "queue": {"starve_limit_s": assume.starve_limit_s, "surplus": assume.surplus, **queue},
            "elastic": {
                "enabled": policy != "netgang-rigid",
                "cool_down_s": assume.cool_down_s,
                "decrement": most,
                "increment": most,
                "condition": Condition.ANY if policy == "netgang-elastic-any" else assume.condition,
            },
        }
    )


def pods_engine() -> Engine:
    """Runs one scenario under one policy, pod by pod."""

    def run(scenario: Scenario, policy: str, assume: Assume, ended: Ended | None) -> RunResult:
        settings = settings_of(assume, policy)
        if settings is None or not settings.elastic.enabled:
            scenario = replace(scenario, jobs=tuple(replace(one, min_workers=one.workers) for one in scenario.jobs))
        sharing = Sharing(scenario.nodes)
        training = modelled(
            scenario, crowd=sharing.crowd, unmeasured_bps=assume.unmeasured_bps, card_bps=assume.card_bps
        )
        progress = Options().progress if ended is None else lambda done, _: ended(done)
        options = Options(training=training, sharing=sharing, latencies=_LATENCIES, progress=progress)
        found = record(scenario, settings=settings, scheduler=_PROFILES[policy], options=options).result
        return replace(found, policy=policy)  # two policies may be one kube-scheduler with other settings

    return run
