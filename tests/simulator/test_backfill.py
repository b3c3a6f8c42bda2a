"""Policies with back-fill by end times, and what they know of lengths."""

import json

import pytest

from lab.simulator.lengths import Learned, of_half, too_long, true_length
from lab.simulator.model import JobOutcome, SimJob
from lab.simulator.policies import POLICIES, Choices
from lab.simulator.state import State
from lab.simulator.world import run
from scoring.model.snapshot import NodeTable
from scoring.network.matrix import NetworkMatrix
from tests.simulator import backfill
from tests.simulator.simulated import Watched, job, nodes, scenario


def crowd() -> list[SimJob]:
    """Two nodes: one is busy for long, a job of both comes next, and then one small job after another."""
    busy = job("busy", workers=1, cpu=4, ps=0, samples=20_000.0)
    large = job("large", at_s=1.0, workers=2, cpu=4, ps=0, samples=5_000.0)
    small = [job(f"small{n:02}", at_s=2.0 + 200.0 * n, workers=1, cpu=4, ps=0, samples=9_000.0) for n in range(8)]
    return [busy, large, *small]


def played(policy: str, *made: SimJob) -> dict[str, JobOutcome]:
    result = run(scenario(*made, count=2, cpu=4), POLICIES[policy](Choices(seed=1)))
    return {one.job.name: one for one in result.outcomes}


@pytest.mark.parametrize("policy", ["netgang-easy", "netgang-conservative"])
def test_a_large_job_starts_when_what_runs_ends(policy: str) -> None:
    """And a small one that would end later than that waits behind it."""
    made = crowd()
    found, greedy = played(policy, *made), played("netgang", *made)
    start_s = found["large"].started_s
    assert start_s is not None
    assert start_s == found["busy"].ended_s
    assert start_s < (greedy["large"].started_s or 0.0) / 2.0
    fills = [one for one in found.values() if one.job.name.startswith("small") and (one.started_s or 0.0) < start_s]
    assert len(fills) == 2
    assert all((one.ended_s or 0.0) <= start_s for one in fills)


def test_what_users_say() -> None:
    """The truth; two to five times that, and the truth of some, by the seed and the job alone."""
    made = [job(f"j{number}") for number in range(200)]
    for one in made:
        said, true = too_long(1)(one), true_length(one)
        assert said is not None
        assert true is not None
        assert 2.0 <= said.at_s(0.5) / true.at_s(0.5) <= 5.0
        assert too_long(1)(one) == said != too_long(2)(one)
        assert of_half(1)(one) in (None, true)
    assert 70 < sum(of_half(1)(one) is not None for one in made) < 130
    assert [of_half(1)(one) for one in made] != [of_half(2)(one) for one in made]


def test_lengths_are_learned_from_jobs_that_have_ended() -> None:
    """From the third of the same application, batch and workers on; of no other."""
    made = [job(f"train-{number}", at_s=10_000.0 * number, workers=2, samples=1_000.0) for number in range(4)]
    other = job("other-1", workers=3, samples=1_000.0)
    known, learned = [], Learned()

    def look(state: State) -> None:
        learned.look(state)
        known.append((state.now_s, learned.length(made[3])))

    result = run(scenario(*made), Watched(POLICIES["coscheduling"](Choices()), look))
    learned.look(State(NodeTable.of(nodes()), NetworkMatrix()))
    assert [at_s > 20_000.0 for at_s, _ in known] == [length is not None for _, length in known]
    assert learned.length(other) is None
    length, third = learned.length(made[3]), result.outcomes[2]
    assert length is not None
    assert third.completion_s is not None
    assert length.at_s(0.5) == pytest.approx(third.completion_s, abs=1.0)


@pytest.mark.slow
def test_the_page_is_that_of_the_record() -> None:
    """`python -m tests.simulator.backfill page` writes it."""
    assert backfill.PAGE.read_text() == backfill.page(json.loads(backfill.FILE.read_text())["rows"])


@pytest.mark.slow
def test_rows_are_what_the_record_says() -> None:
    """These are made again here."""
    kept = json.loads(backfill.FILE.read_text())["rows"]
    for made in backfill.made(["netgang", "netgang-easy"], "philly-a"):
        assert made in kept
