"""The comparison with peers (lab.bench.peers) and a scenario of the exam (lab.bench.exam) run from end to end."""

from lab.bench.exam.run import runs
from lab.bench.exam.scenarios import SCENARIOS
from lab.bench.peers.compare import Task, compared
from lab.bench.peers.ways import WAYS
from lab.bench.peers.workloads import Workload

LOAD = Workload("gangs", "2 gangs of 3", 6, 2, 3, 2, 3, ways=("none", "second"))


async def test_gangs_are_compared() -> None:
    told: list[str] = []
    task = Task(LOAD, (WAYS["none"], WAYS["second"]), rounds=1)
    (plain, ours), goals = await compared(task, told.append, quick=True)
    assert (plain["way"], ours["way"]) == ("none", "second")
    assert plain["unfinished"] == ours["unfinished"] == ours["partial_gangs"] == 0
    assert ours["cpu_ms_per_pod"] > 0.0
    assert "cpu_ms_per_pod" not in plain
    assert [(goal["figure"], goal["holds"]) for goal in goals] == [("partial_gangs", True)]
    assert len(told) == 1 + 2, "the nodes, and each way"


async def test_netgang_holds_a_gang_back_until_it_is_whole_and_kube_scheduler_alone_does_not() -> None:
    made = [one async for one in runs(SCENARIOS["gang-blocking"], [WAYS["none"], WAYS["second"]], times=1)]
    assert [one.miss for one in made] == ["step 2: 6 pods of job bound, expected 0", None]
