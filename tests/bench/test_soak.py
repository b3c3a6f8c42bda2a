"""The soak's judgement of what it sees, and a few seconds of it with everything running."""

import json

import pytest

from lab.bench.soak import run as soak
from lab.bench.soak.jobs import SIZE

GOOD = {
    "plan_p50_ms": 9.0, "plan_p99_ms": 9.0, "late_5_ms_share": 0.001,
    "stall_ms": 9.0, "rss_ratio": 1.0, "minutes": 20.0, "asked_at_the_gate": 0, "started": 1,
}  # fmt: skip
BAD = {  # what is wrong → the figure that says so
    "a planner run takes 101.0 ms (p50)": {"plan_p50_ms": 101.0},
    "a planner run takes 401.0 ms (p99)": {"plan_p99_ms": 401.0},
    "1.10% of beats are 5 ms late": {"late_5_ms_share": 0.011},
    "the event loop stalled": {"stall_ms": 21.0},
    "memory grew": {"rss_ratio": 1.2},
    "calls for pods at a gate": {"asked_at_the_gate": 1},
    "no gang started": {"started": 0},
}


@pytest.mark.parametrize(("words", "figure"), BAD.items(), ids=BAD)
def test_goals_that_are_missed(words: str, figure: dict[str, float]) -> None:
    assert soak.missed(GOOD) == []
    [told] = soak.missed(GOOD | figure)
    assert words in told
    counted = not figure.keys().isdisjoint({"asked_at_the_gate", "started"})
    assert bool(soak.missed(GOOD | figure | {"minutes": 5.0})) == counted


@pytest.mark.slow
def test_a_few_seconds_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        soak.main(["--minutes", "0.15", "--gangs", "20", "--nodes", "200"])
    assert ended.value.code == 0
    found = json.loads(capsys.readouterr().out)
    assert found["started"] >= 1
    assert (found["asked_at_the_gate"], found["refused"]) == (0, 0)
    assert found["binds"] >= SIZE * found["started"]
    assert found["plans"] > 0
