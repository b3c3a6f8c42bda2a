"""One small scenario of the exam runs from end to end (bench.exam)."""

from lab.bench.exam.run import runs
from lab.bench.exam.scenarios import SCENARIOS
from lab.bench.peers.ways import WAYS


async def test_netgang_holds_a_gang_back_until_it_is_whole() -> None:
    made = [one async for one in runs(SCENARIOS["gang-blocking"], [WAYS["second"]], times=1)]
    assert [one.miss for one in made] == [None]
