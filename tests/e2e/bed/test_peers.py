"""The comparison with peers runs: the same little load, scheduled by netgang and without it (bench.peers)."""

from bench.peers.compare import Task, compare
from bench.peers.ways import WAYS
from bench.peers.workloads import Workload

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
