"""Scenario `elastic`: one job whose workers follow its steps or its loss (PAPERS E2, E3).

The job trains VGG-16 on 160,000 samples with 3 to 12 workers of one core and one ps, on 4 nodes of 4 cores without
other jobs. Rows: fixed counts of 3, 6, 9 and 12; a change every k = 50, 200, 500, 1000 steps (3 → 6 → 9 → 12 → 3);
by the loss, and by its extrapolated curve, both with k = 500; all of them for synchronous and asynchronous training.
The guards against too frequent changes (least interval, cool-down, budget an hour) are off, as the paper had none;
`curve, guarded` has netgang's defaults.
"""

from lab.simulator.compare import Report
from lab.simulator.model import Scenario, SimJob, Sync, Work
from lab.simulator.policies.metered import Metered
from lab.simulator.summary import Row
from lab.simulator.world import World
from scoring import NodeName, ZoneName
from scoring.model import Node
from scoring.model.pod import Resources
from scoring.network.matrix import NetworkMatrix
from scoring.scaling.job import MetricOptions, Options, Wants

ABOUT = "PAPERS E2, E3: one job of 3 to 12 workers; changes by steps, by loss and by its curve, against fixed counts."
COUNTS = (3, 6, 9, 12)
STEPS = (50, 200, 500, 1000)
_SAMPLES = 160_000.0
_BATCH = 32


def run_elastic(*, seed: int = 1) -> Report:
    """All rows."""
    cases: list[tuple[Sync, str, Options | None, Wants, int | None, int]] = []
    for sync in (Sync.SYNCHRONOUS, Sync.ASYNCHRONOUS):
        cases += [(sync, f"fixed {count}", None, Wants.OFF, None, count) for count in COUNTS]
        cases += [(sync, "iterations", unguarded(k), Wants.ITERATIONS, k, 3) for k in STEPS]
        cases += [(sync, str(wants), unguarded(500), wants, 500, 3) for wants in (Wants.LOSS, Wants.CURVE)]
        cases.append((sync, "curve, guarded", Options(), Wants.CURVE, 500, 3))
    rows = (row(*case, seed) for case in cases)
    return Report("elastic", seed, ABOUT, tuple(rows))


def unguarded(every_steps: int) -> Options:
    """Changes as often as the policy wants them."""
    metrics = MetricOptions(every_steps=every_steps, min_interval_s=0.0, reversal_steps=0)
    return Options(cool_down_s=0.0, changes_per_hour=None, metrics=metrics)


def scenario(sync: Sync, *, fixed: int | None, seed: int) -> Scenario:
    """The one job, with as many workers as `fixed`, or from 3 on."""
    nodes = tuple(
        Node(NodeName(f"node-{i}"), ZoneName("a"), Resources.parse({"cpu": 4, "memory": "16Gi", "pods": 110}))
        for i in range(4)
    )
    job = SimJob(
        name="job",
        arrival_s=0.0,
        work=Work("vgg16", _BATCH, _SAMPLES, sync),
        worker=Resources.parse({"cpu": 1, "memory": "1Gi"}),
        workers=fixed or 3,
        min_workers=fixed or 3,
        max_workers=fixed or 12,
        ps=Resources.parse({"cpu": 2, "memory": "2Gi"}),
        ps_count=1,
    )
    return Scenario("elastic", nodes, NetworkMatrix(), (job,), seed=seed)


def row(
    sync: Sync, name: str, options: Options | None, wants: Wants, every: int | None, workers: int, seed: int
) -> Row:
    """One case. `options`: `None` for a fixed count, `workers`; `every`: as shown."""
    one = scenario(sync, fixed=workers if options is None else None, seed=seed)
    policy = Metered(wants, options or Options(enabled=False), seed=seed)
    result = World(one, policy).run()
    outcome = result.outcomes[0]
    return {
        "policy": name,
        "sync": str(sync),
        "every_steps": every,
        "workers": " → ".join(str(count) for count in policy.path[:12]) + (" …" if len(policy.path) > 12 else ""),
        "steps": policy.steps,
        "loss": round(policy.loss, 3),
        "run_time_s": round(outcome.completion_s or 0.0, 1),
        "worker_hours": round(outcome.worker_s / 3600.0, 2),
        "resizes": outcome.resizes,
        "stalled_s": round(outcome.stalled_s, 1),
    }
