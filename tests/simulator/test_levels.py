"""Service levels: which jobs shrink, or are suspended, for which.

The cluster has 8 GPUs: 1/16 cluster-hour is half a GPU hour, 225 s of all of it.
"""

import pytest

from lab.simulator.model import JobOutcome, Scenario, SimJob, Sync, Work
from lab.simulator.policies.levels import COOL_DOWN_S, Levels
from lab.simulator.recorded import Recorded
from lab.simulator.scenarios.document import NodeGroup
from lab.simulator.scenarios.generate import nodes_of
from lab.simulator.speed.stall import START_S
from lab.simulator.world import run
from scoring.model.resources import Resources
from scoring.network.matrix import NetworkMatrix

WORKER = Resources.parse({"cpu": 1, "nvidia.com/gpu": 1})
MIN_RUN_S = 300.0
FIRST_LEVEL_S = 225.0
"""A job on all eight GPUs is of the second level from then on."""


def job(
    name: str, at_s: float, gpus: int, run_s: float, *, least: int | None = None, suspendable: bool = False
) -> SimJob:
    steps = {workers: 1.0 / workers for workers in range(1, 9)}
    work = Work("any", 1, run_s, Sync.SYNCHRONOUS, Recorded(gpus, steps))
    return SimJob(name, at_s, work, WORKER, gpus, gpus if least is None else least, gpus, suspendable=suspendable)


def outcomes(*jobs: SimJob, wide_share: float = 1.0) -> tuple[JobOutcome, ...]:
    nodes = tuple(nodes_of(NodeGroup(count=2, cpu=16, memory="64Gi", gpu=4)))
    levels = Levels(wide_share=wide_share, min_run_s=MIN_RUN_S)
    return run(Scenario("levels", nodes, NetworkMatrix(), jobs), levels).outcomes


def test_a_job_that_has_had_much_shrinks_for_a_new_one_and_grows_back() -> None:
    """As far as needed; it grows when no job waits, after the cool-down."""
    long, short = outcomes(job("long", 0.0, 8, 2000.0, least=4), job("short", 1000.0, 2, 100.0))
    assert (short.started_s, short.waited_s) == (1000.0, 0.0)
    assert (long.resizes, long.suspensions) == (2, 0)
    assert long.ended_s is not None
    assert 2000.0 < long.ended_s < 2300.0


def test_no_job_shrinks_for_a_wide_one_and_it_starts_whole() -> None:
    """A quarter of the cluster is two GPUs; room for two is there when the first job ends."""
    jobs = job("long", 0.0, 6, 2000.0, least=2), job("wide", 1000.0, 4, 100.0, least=2)
    _, wide = outcomes(*jobs, wide_share=0.25)
    assert wide.started_s == START_S + 2000.0
    _, wide = outcomes(*jobs)
    assert wide.started_s == 1000.0


def test_a_job_of_the_same_level_keeps_its_workers() -> None:
    _, second = outcomes(job("first", 0.0, 8, 2000.0, least=4), job("second", 100.0, 4, 100.0))
    assert second.started_s == FIRST_LEVEL_S


@pytest.mark.parametrize(("suspendable", "starts_s"), [(True, MIN_RUN_S), (False, START_S + 2000.0)])
def test_only_jobs_that_may_be_are_suspended(suspendable: bool, starts_s: float) -> None:
    """And none before it has run for a while; a job that may not keeps the others waiting."""
    long, short = outcomes(job("long", 0.0, 8, 2000.0, suspendable=suspendable), job("short", 100.0, 8, 50.0))
    assert short.started_s == starts_s
    assert long.suspensions == int(suspendable)
    assert long.fate.value == short.fate.value == "completed"


def test_no_worker_goes_where_a_suspension_suffices_alone() -> None:
    """The elastic job gave what it could, which was too little; the other one's room is enough."""
    elastic = job("elastic", 0.0, 4, 4000.0, least=3)
    whole = job("whole", 0.0, 4, 4000.0, suspendable=True)
    first, second, _ = outcomes(elastic, whole, job("new", 1000.0, 4, 50.0))
    assert (first.resizes, second.suspensions) == (0, 1)


def test_a_job_starts_below_its_size_only_where_no_other_fits_whole() -> None:
    """Room for four: the job of four gets it, not half of the heavier job of eight."""
    running = job("running", 0.0, 4, 500.0)
    wide, narrow = job("wide", 10.0, 8, 100.0, least=4), job("narrow", 10.0, 4, 100.0)
    _, alone = outcomes(running, wide)
    assert alone.started_s == 10.0
    _, beside, other = outcomes(running, wide, narrow)
    assert other.started_s == 10.0
    assert beside.started_s == 10.0 + START_S + 100.0


def test_growth_waits_for_the_cool_down() -> None:
    """A job that started at half its size gets the rest when it has run a while and none waits."""
    _, wide = outcomes(job("first", 0.0, 4, 20.0), job("wide", 10.0, 8, 400.0, least=4))
    assert wide.started_s == 10.0
    assert wide.resizes == 1
    assert wide.ended_s is not None
    halves_s = COOL_DOWN_S - START_S
    assert wide.ended_s == pytest.approx(10.0 + COOL_DOWN_S + 41.0 + 400.0 - halves_s / 2, abs=2.0)


def test_a_suspended_job_stays_of_its_level() -> None:
    """It comes again in its turn, and is suspended again for jobs that have had less: all of them end before it."""
    long = job("long", 0.0, 8, 1000.0, suspendable=True)
    found = outcomes(long, *(job(f"short{i}", 400.0 + i, 8, 100.0, suspendable=True) for i in range(3)))
    assert found[0].suspensions == 3
    assert [one.suspensions for one in found[1:]] == [0, 0, 0]
    assert max(one.ended_s or 0.0 for one in found[1:]) < (found[0].ended_s or 0.0)
