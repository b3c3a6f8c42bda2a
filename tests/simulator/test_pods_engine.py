"""Whole scenarios, pod by pod: the same seed gives the same bytes, and each policy keeps or breaks its promises."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from lab.simulator.model import Fate, SimJob
from lab.simulator.pods import COSCHEDULING, DEFAULT, SECOND, PodRun, SchedulerProfile, run
from lab.simulator.pods.objects import Dialect
from lab.simulator.pods.training import Placed, modelled
from lab.simulator.pods.virtual_time import Latencies, Latency
from lab.testbed.parts.service import SECOND_SCHEDULER, installed_gates
from scoring.model import Node
from scoring.model.resources import CPU
from tests.example_counts import RARE
from tests.simulator.pods_world import job, nodes, played, scenario

ELASTIC = {"elastic": {"enabled": True}}
SHAKY = Latencies(
    write=Latency(0.003, 0.5), pod_create=Latency(0.004, 0.9), verb=Latency(0.0004, 0.5), pod_start=Latency(1.0, 0.5)
)


def crowded() -> tuple[list[SimJob], tuple[Node, ...]]:
    jobs = [
        job(f"j{i:02}", 2 + i % 4, at_s=3.0 * i, least=2, cpu=str(1 + i % 2), ps=i % 2, samples=60.0 + 7 * i)
        for i in range(12)
    ]
    return jobs, nodes(6, cpu="4", zones="ab")


def test_a_gang_runs_whole_and_ends() -> None:
    """The thinnest path: one job of a server and three workers, real planner, permit and kube-scheduler's cycle."""
    told: list[tuple[int, int]] = []
    found = played([job("j", 3, ps=1)], nodes(4), progress=lambda done, jobs: told.append((done, jobs)))
    [one] = found.jobs
    assert one.fate == Fate.COMPLETED
    assert one.started_s is not None
    assert {node for node, _ in one.placed.values()} == {"n1", "n2", "n3", "n4"}
    assert len({at_s for _, at_s in one.placed.values()}) == 1, "all of them at one moment"
    assert found.result.makespan_s == pytest.approx(one.started_s + 1.0 + 100.0 / 3.0, abs=0.1)
    assert found.result.requested_ratio["cpu"] == pytest.approx(4 / 6, abs=0.05)
    assert found.result.busy_cpu_ratio == pytest.approx(4 / 6, abs=0.07)
    assert told == [(1, 1)]
    assert found.pods == 4
    record = json.loads(found.encoded())
    assert (record["jobs"][0]["placed"].keys(), record["asked"]["bind"]) == (one.placed.keys(), 4)


def digests(*hash_seeds: int) -> set[str]:
    """SHA-256 of the bytes of two runs, from a fresh process for each hash seed."""
    program = (
        "import hashlib\n"
        "from tests.simulator.test_pods_engine import *\n"
        "jobs, on = crowded()\n"
        "found = [played(jobs[:8], on, profile=one, settings=also, latencies=SHAKY, seed=7).encoded()\n"
        "         for one, also in ((SECOND, ELASTIC), (COSCHEDULING, None))]\n"
        "print(hashlib.sha256(b''.join(found)).hexdigest())\n"
    )
    command = [sys.executable, "-c", program]
    running = [
        subprocess.Popen(command, env={**os.environ, "PYTHONHASHSEED": str(seed)}, stdout=subprocess.PIPE, text=True)
        for seed in hash_seeds
    ]
    found = {one.communicate()[0].strip() for one in running}
    assert [one.returncode for one in running] == [0] * len(hash_seeds)
    return found


@pytest.mark.slow
def test_same_seed_same_bytes() -> None:
    """Two fresh processes, in which sets have other orders, write the same record of the same scenario."""
    assert len(digests(1, 2)) == 1


def test_another_seed_is_another_run() -> None:
    """The seed reaches what is drawn: otherwise the test above would prove nothing."""
    jobs, on = crowded()
    first, second = (played(jobs[:4], on, seed=seed, latencies=SHAKY) for seed in (1, 2))
    assert first.encoded() != second.encoded()


HOW = {"asked again and again": {}, "at the gate": {"gated": True}, "of PodGroups": {"dialect": Dialect.POD_GROUP}}


@pytest.mark.parametrize("how", HOW.values(), ids=HOW)
def test_netgang_starts_gangs_whole(how: dict[str, Any]) -> None:
    """In a crowded cluster every job completes, members start together, and none ever waits half placed."""
    jobs, on = crowded()
    found = played(jobs, on, **how)
    assert {one.fate for one in found.jobs} == {Fate.COMPLETED}
    for outcome in found.result.outcomes:
        assert outcome.started_s is not None
        assert outcome.first_pod_s is not None
        assert outcome.started_s - outcome.first_pod_s < 0.1
    if "gated" in how:
        assert found.tries.get("refused", 0) == 0
    assert (found.calls.get("group_status", 0) > 0) == ("dialect" in how)


def test_without_gangs_jobs_lock_each_other_out() -> None:
    """Two jobs of four in room for six under kube-scheduler alone: both hold half, nothing can happen any more."""
    jobs = [job(name, 4) for name in ("a", "b")]
    found = played(jobs, nodes(6), profile=DEFAULT)
    assert [one.fate for one in found.jobs] == [Fate.DEADLOCKED, Fate.DEADLOCKED]
    assert found.result.requested_ratio["cpu"] > 0.6
    assert found.result.busy_cpu_ratio == 0.0
    for profile in (SECOND, COSCHEDULING):
        again = played(jobs, nodes(6), profile=profile)
        assert [one.fate for one in again.jobs] == [Fate.COMPLETED, Fate.COMPLETED]


def test_what_never_fits_never_starts() -> None:
    found = played([job("big", 9), job("small", 2, at_s=1.0)], nodes(4), stuck_s=100.0)
    assert [one.fate for one in found.jobs] == [Fate.NEVER_STARTED, Fate.COMPLETED]


def test_a_run_that_is_cut() -> None:
    found = played([job("now", 2, samples=1e6), job("later", 2, at_s=500.0)], nodes(4), until_s=100.0)
    assert [one.fate for one in found.jobs] == [Fate.UNFINISHED, Fate.NEVER_STARTED]
    assert found.result.makespan_s == 100.0
    assert found.result.requested_ratio["cpu"] == pytest.approx(2 / 6, abs=0.02)


def test_elastic_jobs_give_up_workers_and_get_them_back() -> None:
    """The real scaling controller patches the TFJob, its operator counts, and the waiting gang starts much sooner."""
    jobs = [job("wide", 4, least=1, samples=4000.0), job("waits", 2, at_s=300.0, cpu="1400m", samples=300.0)]
    elastic = played(jobs, nodes(4), settings=ELASTIC)
    rigid = played(jobs, nodes(4))
    [wide, waits] = elastic.result.outcomes
    assert {wide.fate, waits.fate} == {Fate.COMPLETED}
    assert wide.resizes >= 2
    assert wide.stalled_s > 0.0
    assert waits.started_s is not None
    later_s = rigid.result.outcomes[1].started_s
    assert later_s is not None
    assert waits.started_s < later_s - 300.0


def test_a_bind_call_that_is_given_up_too_early() -> None:
    """The answer comes after `httpTimeout`, the Binding exists: the pod is not placed a second time, and runs."""
    hasty = replace(SECOND, http_timeout_s=0.002)
    found = played([job("j", 1)], nodes(4), profile=hasty)
    assert [one.fate for one in found.jobs] == [Fate.COMPLETED]
    assert (found.tries["failed"], found.calls["bind"]) == (1, 1)


def test_run_is_the_result_of_the_record() -> None:
    """Engines are called alike; training speed follows the model where it is asked to."""
    jobs = [replace(job("j", 2), work=replace(job("j").work, model="vgg16"))]
    cut = scenario(jobs, nodes(2))
    assert run(cut) == played(jobs, nodes(2)).result
    rate = modelled(cut)(jobs[0], Placed((), (cut.nodes[0].name, cut.nodes[1].name)))
    assert rate.samples_per_s > 0.0
    assert rate.step_samples == 16.0


def peaks(found: PodRun, jobs: list[SimJob]) -> dict[str, int]:
    """For each node the most millicores of members at one time, from the record of placements and ends."""
    moves: list[tuple[float, int, str, int]] = []
    for one, what in zip(found.jobs, jobs, strict=True):
        for name, (node, at_s) in one.placed.items():
            cores = (what.ps if "-ps-" in name else what.worker).get(CPU)
            moves.append((at_s, 1, node, cores))
            if one.ended_s is not None:
                moves.append((one.ended_s, 0, node, -cores))
    now: dict[str, int] = {}
    most: dict[str, int] = {}
    for _, _, where, cores in sorted(moves):
        now[where] = now.get(where, 0) + cores
        most[where] = max(most.get(where, 0), now[where])
    return most


@pytest.mark.parametrize("profile", [SECOND, DEFAULT, COSCHEDULING], ids=lambda one: one.name)
@RARE
@given(
    sizes=st.lists(st.tuples(st.integers(1, 5), st.sampled_from(["500m", "1", "2"])), min_size=1, max_size=6),
    gated=st.booleans(),
)
def test_nodes_never_hold_more_than_they_have(
    profile: SchedulerProfile, sizes: list[tuple[int, str]], gated: bool
) -> None:
    """Whoever decides, and whatever fails in between: no node is over-committed, and completed jobs were whole."""
    jobs = [job(f"j{i}", count, at_s=float(i), cpu=cpu, samples=20.0) for i, (count, cpu) in enumerate(sizes)]
    on = nodes(3, cpu="3", zones="ab")
    found = played(jobs, on, profile=profile, gated=gated and profile.extender, stuck_s=900.0)
    assert all(cores <= 3000 for cores in peaks(found, jobs).values())
    for one, what in zip(found.jobs, jobs, strict=True):
        if one.fate == Fate.COMPLETED:
            assert len(one.placed) >= what.min_pods


def test_the_profiles_say_what_the_installed_files_say() -> None:
    """Weight, timeout, percentage and backoff of the simulated second scheduler are those that users install."""
    file: dict[str, Any] = yaml.safe_load(SECOND_SCHEDULER.read_text())
    asks, binds = file["extenders"]
    assert (SECOND.name, SECOND.weight) == (file["profiles"][0]["schedulerName"], asks["weight"])
    assert SECOND.percentage == file["percentageOfNodesToScore"]
    assert binds["httpTimeout"] == f"{SECOND.http_timeout_s:g}s"
    assert SECOND.initial_backoff_s == file["podInitialBackoffSeconds"]
    assert SECOND.max_backoff_s == file["podMaxBackoffSeconds"]
    assert SECOND.pops_backoff == installed_gates().get("SchedulerPopFromBackoffQ", True)
