"""The comparison with peers runs: the same little load, scheduled by netgang and without it (bench.peers)."""

import pytest

from lab.bench.peers.compare import Task, compare
from lab.bench.peers.others import KUEUE, peer
from lab.bench.peers.ways import WAYS
from lab.bench.peers.workloads import Workload

LOAD = Workload("gangs", "2 gangs of 3", 6, 2, 3, 2, 3, ways=("none", "second"))


async def test_gangs_are_compared() -> None:
    """Both ways bind every pod; netgang's gangs are whole, its CPU, its calls and every process are seen."""
    told: list[str] = []
    todo = [Task(LOAD, (WAYS["none"], WAYS["second"]), pairs=1)]
    found = await compare(todo, lambda words, _: told.append(words), quick=True)
    plain, ours = found.rows
    assert (plain["way"], ours["way"]) == ("none", "second")
    assert plain["unfinished"] == ours["unfinished"] == ours["partial_gangs"] == 0
    assert ours["filter_calls"] >= LOAD.pods
    assert ours["cpu_ms_per_pod"] > 0.0
    assert ours["gang_p99_s"] >= ours["bind_p50_s"] >= 0.0
    assert {"etcd", "kube-apiserver", "netgang", "netgang-scheduler"} == set(ours["processes"])
    assert all(one["rss_mib"] > 0 for one in ours["processes"].values())
    assert [(goal["figure"], goal["holds"]) for goal in found.goals] == [("partial_gangs", True)]
    assert len(told) == 1 + 1 + 2, "the nodes, the half that warms up, and each way"


@pytest.mark.timeout(180)
async def test_kueue_admits_jobs_whose_pods_kube_scheduler_binds() -> None:
    """Every pod is bound under the name that other ways give it, Kueue's cost is seen, and nothing of it is left."""
    found = await compare([Task(LOAD, (peer(KUEUE), WAYS["none"]), pairs=1)], lambda *_: None, quick=True)
    kueue, plain = found.rows
    assert (kueue["way"], plain["way"]) == (KUEUE, "none")
    assert kueue["unfinished"] == plain["unfinished"] == kueue["partial_gangs"] == 0
    assert {"etcd", "kube-apiserver", "kube-scheduler", "kube-controller-manager", "kueue"} == set(kueue["processes"])
    assert {"etcd", "kube-apiserver", "kube-scheduler"} == set(plain["processes"])
