"""What every policy of the simulator keeps to, and what tells them apart."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from lab.simulator.model import Fate, Scenario
from lab.simulator.policies import NETGANG, POLICIES, made
from lab.simulator.scenarios import builtin_names, load, scenarios
from lab.simulator.speed.table import START_S, resize_stall_s
from lab.simulator.state import RunResult, State
from lab.simulator.world import run
from tests.example_counts import FEW
from tests.simulator.simulated import Watched, assert_accounts_agree, job, scenario

VARIED = ("queue.order=fifo", "preemption=off", "elastic.enabled=false", "elastic.condition=lighter")
EVERY = (*POLICIES, *(f"{NETGANG} {change}" for change in VARIED))


def play(policy: str, one: Scenario) -> RunResult:
    return run(one, Watched(made(policy, 1), assert_accounts_agree))


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name", [*builtin_names(), "examples/simulate.yaml"])
def test_every_policy_runs_on_every_scenario(name: str, policy: str) -> None:
    _, one = next(iter(scenarios(load(name))))
    result = play(policy, replace(one, jobs=one.jobs[:12]))
    assert len(result.outcomes) == min(len(one.jobs), 12)
    assert {found.fate for found in result.outcomes} <= {Fate.COMPLETED, Fate.DEADLOCKED}
    assert any(found.fate is Fate.COMPLETED for found in result.outcomes)


jobs = st.lists(
    st.tuples(
        *(st.integers(0, 5), st.integers(1, 3), st.integers(0, 3), st.integers(1, 3), st.integers(0, 1)),
        st.sampled_from([500.0, 5_000.0, 20_000.0]),
    ),
    min_size=1,
    max_size=8,
)
"""(arrival in minutes, fewest workers, more of them, cpu, parameter servers, samples)"""


@pytest.mark.parametrize("policy", EVERY)
@FEW
@given(drawn=jobs)
def test_jobs_that_fit_end_and_nothing_is_promised_twice(
    policy: str, drawn: list[tuple[int, int, int, int, int, float]]
) -> None:
    some = [
        job(f"j{i}", at_s=60.0 * at, workers=least + more, least=least, cpu=cpu, ps=ps, samples=samples)
        for i, (at, least, more, cpu, ps, samples) in enumerate(drawn)
    ]
    result = play(policy, scenario(*some))
    for one in result.outcomes:
        assert one.fate is Fate.COMPLETED
        assert one.started_s is not None
        assert one.ended_s is not None
        assert one.job.arrival_s <= one.started_s <= one.ended_s - START_S
        assert one.worker_s <= one.job.workers * (one.ended_s - one.job.arrival_s) + 1e-6
    assert 0.0 < result.busy_cpu_ratio <= 1.0


@pytest.mark.parametrize("policy", [name for name in EVERY if name != "default"])
def test_gangs_start_whole(policy: str) -> None:
    """Under every policy but the default scheduler a job that waits holds nothing."""

    def look(state: State) -> None:
        assert all(not one.ps and not one.workers for one in state.waiting.values())
        for one in state.running.values():
            assert len(one.ps) == one.job.ps_count
            assert len(one.workers) >= one.needs

    some = [job(f"j{i}", at_s=10.0 * i, workers=5, least=2, cpu=2, samples=3_000.0) for i in range(8)]
    result = run(scenario(*some, count=2), Watched(made(policy, 1), look))
    assert {one.fate for one in result.outcomes} == {Fate.COMPLETED}
    assert all(one.first_pod_s == one.started_s for one in result.outcomes)


def test_the_default_scheduler_starts_half_of_a_job() -> None:
    """G6: two jobs of four pods and room for six: one holds two nodes for nothing while it waits; gangs do not."""
    both = scenario(*(job(name, workers=4, ps=0) for name in ("a", "b")), count=6, cpu=1)
    half, whole = (play(policy, both).outcomes[1] for policy in ("default", "coscheduling"))
    assert half.first_pod_s == 0.0
    assert half.started_s == whole.started_s == whole.first_pod_s
    assert (whole.started_s or 0.0) > 100.0


def test_a_deadlocked_job_is_removed_after_its_time_and_comes_again() -> None:
    first = job("first", workers=10, ps=0, samples=5_000.0)
    both = [job(f"b{i}", at_s=1.0, workers=8, ps=0, samples=100.0) for i in range(2)]
    again = play("default", scenario(first, *both, count=1))
    assert [found.deadlocks > 0 for found in again.outcomes] == [False, True, True], "room for ten, sixteen pods"
    assert {found.fate for found in again.outcomes} == {Fate.COMPLETED}
    freed_s = again.outcomes[0].ended_s or 0.0
    assert all((found.started_s or 0.0) >= freed_s + 1800.0 for found in again.outcomes[1:])


def test_a_change_stalls_and_repeats_steps() -> None:
    """A lighter job is shrunk for a heavier one: it stalls as measured, and what it repeats is counted."""
    wide = job("wide", workers=4, least=2, cpu=2, samples=40_000.0)
    urgent = job("urgent", at_s=300.0, workers=4, cpu=1, ps=0, samples=1_000.0)
    policy = f"{NETGANG} elastic.condition=lighter"
    shrunk, started = play(policy, scenario(wide, urgent, count=1, cpu=9)).outcomes
    assert started.started_s == 300.0
    assert shrunk.resizes == 2, "down for the other job, and up again"
    least = resize_stall_s(2) + resize_stall_s(4)
    assert least <= shrunk.stalled_s < least + 2 * 60.0
    quick = play(policy, replace(scenario(wide, urgent, count=1, cpu=9), resize_stall_s=1.0)).outcomes[0]
    assert quick.stalled_s < least
