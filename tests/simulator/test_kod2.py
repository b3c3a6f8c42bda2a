"""Algorithms 1 to 3 as published: their weaknesses are theirs (PAPERS K3 to K5)."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.simulator import kod2_scaling
from lab.simulator.kod2_queue import Waiter, algorithm_1
from scoring.ids import GangKey
from scoring.model import Gang, Role
from scoring.model.snapshot import Snapshot
from scoring.plan import plan
from scoring.scaling.job import ElasticJob
from scoring.scaling.options import Options
from scoring.scaling.shrink.scale_in import scale_in
from tests.builders import bound, pod, snapshot
from tests.scoring.scaling.cases import TRUSTING, elastic, machines, waiting, workers
from tests.scoring.scaling.test_properties import clusters

NEW = waiting("new", 2, weight=9, created_s=5.0)


L2, EQUAL = workers("l", ["n1"] * 2), workers("e", ["n1"] * 2, weight=9, created_s=1.0)
PS_ON_N1 = workers("l", ["n2", "n2", "n1", "n1"], ps="n1")
SCALE_IN: dict[str, tuple[bool, list[str], str, list[Gang], dict[str, Any]]] = {
    # sentence: (possible, workers in the plan with their nodes, nodes and CPUs, jobs, how)
    "one node must hold the whole minimum; what did not help stays in the plan": (
        False, ["l-0 n1", "l-1 n2"], "n1:1 n2:1 n3:1", [workers("l", ["n1", "n2"], ps="n3")], {}),
    "nodes with the ps come last, whichever index is there": (
        True, ["l-1 n2", "l-0 n2"], "n1:3 n2:2", [PS_ON_N1], {"decrement": 2}),
    "the first node is too small, its worker goes all the same": (
        True, ["l-0 n1", "l-2 n2", "l-1 n2"], "n1:1 n2:2", [workers("l", ["n1", "n2", "n2"])], {}),
    "the lightest gives first": (
        True, ["l-1 n1", "l-0 n1"], "n1:6", [EQUAL, workers("m", ["n1"] * 2, weight=2), L2], {}),
    "one as heavy and earlier is passed over": (False, [], "n1:2", [EQUAL], {}),
    "nothing is removed when it fits": (True, [], "n1:3", [workers("l", ["n1"])], {}),
    "l_dw is for each job and call": (False, ["l-2 n1"], "n1:3", [workers("l", ["n1"] * 3)], {"decrement": 1}),
    "a job that must not be resized": (False, [], "n1:2", [L2], {"refusal": "unsafe"}),
    "a worker on a node that is gone frees nothing": (False, [], "n1:1", [workers("l", ["gone"])], {"decrement": 9}),
}  # fmt: skip


@pytest.mark.parametrize(("possible", "removed", "nodes", "gangs", "how"), SCALE_IN.values(), ids=SCALE_IN)
def test_scale_in(possible: bool, removed: list[str], nodes: str, gangs: list[Gang], how: dict[str, Any]) -> None:
    """Algorithm 2, for a heavier gang of two CPUs."""
    jobs = [elastic(one, least=0, refusal=how.get("refusal")) for one in gangs]
    cluster = snapshot(machines(nodes), [*gangs, NEW])
    found = kod2_scaling.scale_in(cluster, jobs, NEW.key, TRUSTING, decrement=how.get("decrement"))
    plan = [f"{one.pod.removeprefix('uid-default-').replace('worker-', '')} {one.node}" for one in found.plan]
    assert (found.possible, plan) == (possible, removed)


@pytest.mark.parametrize(
    ("places", "cpu", "as_published"),
    [(["n2"] * 3, "n1:4 n2:3", True), (["n2", "n2", "n3"], "n1:4 n2:2 n3:1", False)],
    ids=["one node is enough", "over two nodes"],
)
def test_the_example_of_the_page(places: list[str], cpu: str, as_published: bool) -> None:
    """docs/explanation/elastic.md: 1 ps + 6 workers, a heavier gang of three: ours starts it in both cases."""
    job, gang = workers("l", ["n1", "n1", "n1", *places], ps="n1"), waiting("h", 3, weight=9, created_s=5.0)
    jobs = [elastic(job, least=2)]
    full = snapshot(machines(cpu), [job, gang])
    found = kod2_scaling.scale_in(full, jobs, gang.key, TRUSTING, decrement=3)
    assert (found.possible, len(found.plan)) == (as_published, 3)
    made = plan(full, TRUSTING, now_s=10.0)
    given = scale_in(full, made, jobs, TRUSTING, Options(decrement=3), now_s=10.0)
    assert [(change.before, change.after) for change in given.changes] == [(6, 3)]


GPU = bound(pod("l-worker-0", gang="l", role=Role.WORKER, index=0, gpu=1), "gone")
ONE, ASKS = workers("l", ["n1"]), replace(workers("l", ["gone"]), members=(GPU,))
SCALE_OUT: dict[str, tuple[list[str], str, ElasticJob, Gang]] = {  # sentence: (nodes of new workers, nodes, job, gang)
    "idle resources alone count: a waiting gang's two CPUs are gone": (["n1"] * 2, "n1:3", elastic(ONE, most=9), ONE),
    "a job that must not be resized": ([], "n1:9", elastic(L2, most=9, refusal="unsafe"), L2),
    "a worker that asks for what no node has": ([], "n1:9", elastic(ASKS, most=4), ASKS),
}


@pytest.mark.parametrize(("where", "nodes", "job", "gang"), SCALE_OUT.values(), ids=SCALE_OUT)
def test_scale_out(where: list[str], nodes: str, job: ElasticJob, gang: Gang) -> None:
    """Algorithm 3."""
    given = kod2_scaling.scale_out(snapshot(machines(nodes), [gang, NEW]), [job], TRUSTING, increment=None)
    assert [node for _, node in given] == where


@given(clusters(), st.sampled_from([None, 1, 2]))
def test_the_published_algorithms_keep_their_bounds(made: tuple[Snapshot, list[ElasticJob]], limit: int | None) -> None:
    """Literal K4 and K5: no ps, never below the minimum nor above the maximum, never more than l_dw or l_iw."""
    cluster, jobs = made
    members = {p.uid: p for gang in cluster.gangs.values() for p in gang.members}
    for key in [key for key in cluster.gangs if key.startswith("default/w")]:
        plan_for = kod2_scaling.scale_in(cluster, jobs, key, TRUSTING, decrement=limit).plan
        for job in jobs:
            gone = [removal for removal in plan_for if removal.job == job.key]
            bound = sum(members[uid].node is not None for uid in job.indexes)
            assert all(members[removal.pod].role is Role.WORKER for removal in gone)
            assert not gone or bound - len(gone) >= job.min_workers
            assert limit is None or len(gone) <= limit
    for job in jobs:
        added = [key for key, _ in kod2_scaling.scale_out(cluster, jobs, TRUSTING, increment=limit) if key == job.key]
        assert job.workers + len(added) <= job.max_workers
        assert limit is None or len(added) <= limit


def waiter(name: str, cpu: int, omega: float, **fields: Any) -> Waiter:
    return Waiter(GangKey(f"t/{name}"), (-omega,), np.array([cpu]), **fields)


LIGHT, HEAVY, BIG = waiter("light", 1, 1.0), waiter("heavy", 2, 2.0), waiter("big", 9, 9.0)
STARVED = waiter("starved", 2, 0.5, starving=True)
ALGORITHM_1: dict[str, tuple[list[str], str | None, float | None, list[Waiter]]] = {
    # sentence: (started, scale-in for, ω of the heaviest that runs, waiting jobs)
    "nothing runs: the heaviest alone": (["heavy"], None, None, [LIGHT, HEAVY]),
    "the heaviest does not fit: no job starts": ([], "big", 5.0, [LIGHT, BIG]),
    "heavier runs: all that fit": (["heavy", "light"], None, 10.0, [LIGHT, HEAVY, BIG]),
    "one that starves outweighs all, and is tried alone": (["starved"], None, 10.0, [LIGHT, HEAVY, STARVED]),
}


@pytest.mark.parametrize(("started", "shrinks_for", "running", "jobs"), ALGORITHM_1.values(), ids=ALGORITHM_1)
def test_algorithm_1(started: list[str], shrinks_for: str | None, running: float | None, jobs: list[Waiter]) -> None:
    """Both branches, beside four idle CPUs of the whole cluster."""
    made = algorithm_1(jobs, None if running is None else (-running,), np.array([4]))
    assert [gang.removeprefix("t/") for gang in made.placed] == started
    assert made.scale_in_for == (None if shrinks_for is None else f"t/{shrinks_for}")
