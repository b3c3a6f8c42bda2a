"""Recorded workloads, and the policies that suspend whole jobs."""

from pathlib import Path

from lab.simulator.model import Scenario
from lab.simulator.policies import made
from lab.simulator.scenarios import parse, scenarios
from lab.simulator.speed.table import START_S, resize_stall_s
from lab.simulator.world import run

HEAD = "job,submit_s,gpus,run_s\n"


def scenario(tmp_path: Path, *lines: str, nodes: int = 2, gpus: int = 4) -> Scenario:
    file = tmp_path / "jobs.csv"
    file.write_text(HEAD + "\n".join(lines))
    return read(file, nodes=nodes, gpus=gpus)


def read(file: Path, *, nodes: int = 1, gpus: int = 1) -> Scenario:
    """Jobs that may have from half to twice what they ask for, and half of them may be suspended."""
    ratios = "min_ratio: 0.5, max_ratio: 2, declaring: 0.5"
    text = f"""name: recorded
nodes: [{{count: {nodes}, cpu: {12 * gpus}, memory: {48 * gpus}Gi, gpu: {gpus}}}]
workload: {{kind: recorded, files: ["{file}"], {ratios}}}
"""
    [(_, made)] = scenarios(parse(text, name="recorded"))
    return made


def test_an_undisturbed_job_takes_what_was_recorded(tmp_path: Path) -> None:
    one = scenario(tmp_path, "a,5,8,100")
    for policy in ("coscheduling", "tiresias", "srpt", "netgang"):
        [found] = run(one, made(policy)).outcomes
        assert found.completion_s == START_S + 100.0, policy


def test_the_shortest_remaining_time_suspends_the_longer_job(tmp_path: Path) -> None:
    """The long one loses what was trained since its last checkpoint, waits, and pays for its second start."""
    long, short = run(scenario(tmp_path, "long,0,8,1000", "short,500,8,100"), made("srpt")).outcomes
    assert short.completion_s == START_S + 100.0
    assert (long.suspensions, short.suspensions) == (1, 0)
    assert long.waited_s == START_S + 100.0
    trained = 500.0 - START_S  # all of it is kept: the checkpoint is made every ten steps of a second
    assert long.ended_s == 500.0 + START_S + 100.0 + resize_stall_s(8) + 1000.0 - trained


def test_tiresias_lets_a_new_job_run_before_one_of_the_second_level(tmp_path: Path) -> None:
    """16 GPU hours on 8 GPUs are two hours: a job that comes earlier waits until then, a later one does not wait."""
    one = scenario(tmp_path, "old,0,8,20000", "early,100,8,50", "late,9000,8,50")
    old, early, late = run(one, made("tiresias")).outcomes
    assert early.started_s == 7200.0
    assert late.started_s == 9000.0
    assert old.suspensions == 2
