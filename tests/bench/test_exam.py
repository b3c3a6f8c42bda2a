"""What judges the exam, and the scenarios themselves."""

import pytest

from lab.bench.exam.command import SCHEDULERS
from lab.bench.exam.run import lacks_pods, members, step_miss, verdict
from lab.bench.exam.scenarios import SCENARIOS, Expected, Step
from lab.bench.peers.ways import PEERS, WAYS

SPINE = ["n5", "n7", "n8"]


@pytest.mark.parametrize(
    ("number", "placed", "miss"),
    [
        (1, {"soft": SPINE}, None),
        (1, {"soft": ["n2", "n7", "n8"]}, "step 2: soft on n2, n7, n8"),
        (0, {"hard": ["n5", "n7"]}, "step 1: 2 pods of hard bound, expected 3"),
        (0, {}, "step 1: 0 pods of hard bound, expected 3"),
    ],
)
def test_a_job_must_be_whole_and_on_the_expected_nodes(
    number: int, placed: dict[str, list[str]], miss: str | None
) -> None:
    assert step_miss(SCENARIOS["T1"], number, placed) == miss


def test_runs_that_differ_are_counted() -> None:
    assert verdict([None, "step 1", None]) == "2 of 3"
    assert verdict([]) == "missed"


def test_every_scenario_names_its_own_nodes_and_jobs() -> None:
    for one in SCENARIOS.values():
        jobs = {job.name for step in one.steps for job in step.submitted}
        assert {expected.job for step in one.steps for expected in step.expected} <= jobs
        wanted = [expected.nodes or frozenset() for step in one.steps for expected in step.expected]
        assert frozenset().union(*wanted) <= one.nodes.keys()


def test_every_scenario_is_for_known_schedulers() -> None:
    assert set(SCHEDULERS) <= WAYS.keys() | PEERS.keys()
    assert all(one.ways for one in SCENARIOS.values())


@pytest.mark.parametrize(("lacking", "count"), [(True, 1), (False, 2), (False, 3)])
def test_a_step_waits_longer_only_for_pods_that_may_still_come(lacking: bool, count: int) -> None:
    assert lacks_pods(Step((Expected("a1", 2),)), {"a1": count}) == lacking


def test_pods_of_the_exam_tolerate_no_unschedulable_node() -> None:
    [job] = SCENARIOS["T1"].steps[0].submitted
    for way in ("none", "second", "second-gated"):
        assert [one["spec"]["tolerations"] for one in members(job, WAYS[way])] == [[], [], []]
