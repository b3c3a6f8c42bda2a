"""What judges the exam, and the scenarios themselves."""

import pytest

from bench.exam.run import members
from bench.exam.scenarios import SCENARIOS
from bench.exam.verdict import first_miss, verdict
from bench.peers.ways import WAYS

SPINE = ["n5", "n7", "n8"]


@pytest.mark.parametrize(
    ("seen", "miss"),
    [
        ([{"hard": SPINE}, {"soft": SPINE}], None),
        ([{"hard": SPINE}, {"soft": ["n2", "n7", "n8"]}], "step 2: soft on n2, n7, n8"),
        ([{"hard": ["n5", "n7"]}, {"soft": SPINE}], "step 1: 2 pods of hard bound, expected 3"),
        ([{}, {}], "step 1: 0 pods of hard bound, expected 3"),
    ],
)
def test_a_job_must_be_whole_and_on_the_expected_nodes(seen: list[dict[str, list[str]]], miss: str | None) -> None:
    assert first_miss(SCENARIOS["T1"], seen) == miss


def test_greedy_back_fill_is_a_miss() -> None:
    at = ["node"]
    greedy = [{"b1": at}, {"b1": at}, {"b1": at, "b2": at}, {"b1": at, "b2": at}, {"b2": at}]
    delayed_by_nothing = [{"b1": at}, {"b1": at}, {"b1": at}, {"b1": at, "c": at}, {"a": at}]
    assert first_miss(SCENARIOS["backfill"], greedy) == "step 3: 1 pods of b2 bound, expected 0"
    assert first_miss(SCENARIOS["backfill"], delayed_by_nothing) is None


def test_a_run_that_lacks_a_step_is_not_judged() -> None:
    with pytest.raises(ValueError, match="shorter"):
        first_miss(SCENARIOS["T1"], [{"hard": SPINE}])


def test_runs_that_differ_are_counted() -> None:
    assert verdict([None, "step 1", None]) == "2 of 3"
    assert verdict([]) == "missed"


def test_every_scenario_names_its_own_nodes_and_jobs() -> None:
    for one in SCENARIOS.values():
        jobs = {job.name for step in one.steps for job in step.submitted}
        assert {expected.job for step in one.steps for expected in step.expected} <= jobs
        wanted = [expected.nodes or frozenset() for step in one.steps for expected in step.expected]
        assert frozenset().union(*wanted) <= one.nodes.keys()


def test_pods_of_the_exam_tolerate_no_unschedulable_node() -> None:
    [job] = SCENARIOS["T1"].steps[0].submitted
    for way in ("none", "second", "second-gated"):
        assert [one["spec"]["tolerations"] for one in members(job, WAYS[way])] == [[], [], []]
