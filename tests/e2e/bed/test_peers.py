"""The comparison with peers runs: the same little load, scheduled by netgang and without it (lab.bench.peers)."""

from lab.bench.peers.compare import Task, compared
from lab.bench.peers.ways import WAYS
from lab.bench.peers.workloads import Workload

LOAD = Workload("gangs", "2 gangs of 3", 6, 2, 3, 2, 3, ways=("none", "second"))


async def test_gangs_are_compared() -> None:
    """Both ways bind every pod; netgang's gangs are whole, its CPU is seen."""
    told: list[str] = []
    found = await compared(Task(LOAD, (WAYS["none"], WAYS["second"]), rounds=1), told.append, quick=True)
    plain, ours = found.rows
    assert (plain["way"], ours["way"]) == ("none", "second")
    assert plain["unfinished"] == ours["unfinished"] == ours["partial_gangs"] == 0
    assert ours["cpu_ms_per_pod"] > 0.0
    assert "cpu_ms_per_pod" not in plain
    assert [(goal["figure"], goal["holds"]) for goal in found.goals] == [("partial_gangs", True)]
    assert len(told) == 1 + 2, "the nodes, and each way"
