"""The soak's judgement of what it sees, and a few seconds of it with everything running."""

import json

import pytest

from extender.cache import ClusterCache
from extender.convert import node_from_json, pod_from_json
from extender.convert.podgroups import pod_group_from_json
from extender.kube.calls import NODES, POD_GROUPS, PODS
from extender.runtime.clock import SystemClock
from lab.bench.soak import run as soak
from lab.bench.soak.jobs import SIZE, STARVE_LIMIT_S, Job, overtaken
from lab.bench.soak.load import Load
from lab.testbed.apiserver.store import ApiStore
from scoring.explain.queue_report import report
from scoring.model.policy import Policy, QueuePolicy
from scoring.plan import plan

NOW_S = 10_000.0
GOOD = {
    "plan_p99_ms": 9.0,
    "stall_ms": 9.0,
    "rss_ratio": 1.0,
    "rss_half_ratio": 1.0,
    "rss_half_slope_mib_per_h": 0.0,
    "minutes": 20.0,
    "asked_at_the_gate": 0,
    "overtakings": 0,
    "overtaken": [],
    "started": 1,
}
BAD = {  # what is wrong → the figure that says so
    "a planner run takes 31.0 ms": {"plan_p99_ms": 31.0},
    "the event loop stalled": {"stall_ms": 21.0},
    "memory grew": {"rss_ratio": 1.2},
    "memory rises by 50.0 MiB/h": {"rss_half_ratio": 1.05, "rss_half_slope_mib_per_h": 50.0},
    "calls for pods at a gate": {"asked_at_the_gate": 1},
    "before their turn": {"overtakings": 1},
    "no gang started": {"started": 0},
}


def job(number: int, *, age_s: float = 60.0, steady_for_s: float = 60.0) -> Job:
    """A gang that waits; 126 asks for less memory than 1, and that for less than 2."""
    return Job(number, NOW_S - age_s, NOW_S - steady_for_s)


TURNS = {  # case: (who started, what waits, who was overtaken)
    "the heaviest first": (job(126), [job(1), job(2)], None),
    "a lighter one first": (job(2), [job(1), job(126)], 126),
    "who starves goes first": (job(2, age_s=STARVE_LIMIT_S + 60.0), [job(126)], None),
    "a heavier one before who starves": (job(126), [job(2, age_s=STARVE_LIMIT_S + 60.0)], 2),
    "nobody knows of the heavier one yet": (job(2), [job(126, steady_for_s=1.0)], None),
    "it may starve or not by now": (job(2), [job(126, age_s=STARVE_LIMIT_S + 1.0)], None),
}


@pytest.mark.parametrize(("started", "waiting", "first"), TURNS.values(), ids=TURNS)
def test_whose_turn_it_was(started: Job, waiting: list[Job], first: int | None) -> None:
    found = overtaken(started, waiting, now_s=NOW_S)
    assert first == (found.number if found is not None else None)


def test_the_order_expected_is_the_order_kept() -> None:
    load = Load(ApiStore(), nodes=400, gangs=120, rate=20.0, seconds=1200.0)
    cache = ClusterCache(scheduler_names=frozenset({"netgang"}))
    cache.nodes.replace([node_from_json(raw) for raw in load.store.bodies(NODES).values()])
    cache.pod_groups.replace([pod_group_from_json(raw) for raw in load.store.bodies(POD_GROUPS).values()])
    cache.pods.replace([pod_from_json(raw) for raw in load.store.bodies(PODS).values()])
    now_s = SystemClock().now_s() + 700.0
    policy = Policy(queue=QueuePolicy(starve_limit_s=STARVE_LIMIT_S))
    made = plan(cache.snapshot(), policy, now_s=now_s)
    assert not made.admitted, "the cluster is full"
    queue = [one.gang for one in report(cache.snapshot(), made, policy, now_s=now_s).entries if one.queue == "WQ"]
    expected = sorted(load.waiting.values(), key=lambda one: one.turn(now_s))
    assert queue == [f"{one.namespace}/{one.name}" for one in expected]
    assert 0 < sum(one.starving(now_s) for one in expected) < len(expected)


def test_a_short_run_is_judged_by_what_it_counted() -> None:
    """Tables that are still filling are no leak, and a slow second is no stall; a gang out of turn is a fault."""
    assert soak.missed(GOOD) == []
    slow = {"plan_p99_ms": 99.0, "stall_ms": 99.0, "rss_ratio": 9.0, "rss_half_ratio": 1.05}
    assert soak.missed(GOOD | slow | {"minutes": 5.0}) == []
    [told] = soak.missed(GOOD | slow | {"minutes": 5.0, "overtakings": 1})
    assert "before their turn" in told


@pytest.mark.parametrize(("words", "figure"), BAD.items(), ids=BAD)
def test_goals_that_are_missed(words: str, figure: dict[str, float]) -> None:
    [told] = soak.missed(GOOD | figure)
    assert words in told


@pytest.mark.slow
def test_a_few_seconds_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        soak.main(["--minutes", "0.15", "--gangs", "20", "--nodes", "200"])
    assert ended.value.code == 0
    found = json.loads(capsys.readouterr().out)
    assert found["started"] >= 1
    assert (found["asked_at_the_gate"], found["overtakings"], found["refused"]) == (0, 0, 0)
    assert found["binds"] >= SIZE * found["started"]
    assert found["plans"] > 0
