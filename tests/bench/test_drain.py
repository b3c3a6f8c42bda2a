"""The drain benchmark's figures and its watch: a rate is never better than what was seen."""

import asyncio
import doctest
import json
from types import ModuleType

import pytest

from bench import drain, drain_bed, drain_figures, drain_watch
from bench.drain import CASES, NAMES, Case, turned, ways_of
from bench.drain_bed import GATE, NAMESPACE, OURS, Shape, Way
from bench.drain_figures import Drain, compared, drained, percentile
from bench.drain_watch import PodTimes, WatchLost

PLAIN = Drain(pods=100, bound=100, span_s=1.0)
SHAPE = Shape(nodes=8, zones=2, node_cpu=4, gangs=3, size=2)


def event(
    name: str, *, kind: str = "MODIFIED", node: str = "", gates: tuple[str, ...] = (), version: str = "1"
) -> bytes:
    """One line of a watch."""
    spec = {"nodeName": node, "schedulingGates": [{"name": gate} for gate in gates]}
    return json.dumps(
        {"type": kind, "object": {"metadata": {"name": name, "resourceVersion": version}, "spec": spec}}
    ).encode()


def test_the_rate_counts_from_first_to_last_binding() -> None:
    """Three pods within two seconds are 1.5 per second, in whatever order they are told."""
    assert drained([12.0, 10.0, 11.0], pods=3).rate == pytest.approx(1.5)


@pytest.mark.parametrize("arrivals_s", [[], [1.0], [1.0, 2.0]], ids=["none", "one", "two of three"])
def test_an_unfinished_drain_has_no_rate(arrivals_s: list[float]) -> None:
    """A gang system that leaves pods unbound is never called fast."""
    assert drained(arrivals_s, pods=3).rate == 0.0


GOALS = {  # case: (met, ratio goal, CPU goal)
    "both met": (True, 0.5, 2.0),
    "no goals": (True, None, None),
    "ratio missed": (False, 0.51, 2.0),
    "CPU missed": (False, 0.5, 1.9),
}


@pytest.mark.parametrize(("met", "goal", "cpu_goal_ms"), GOALS.values(), ids=GOALS)
def test_goals(met: bool, goal: float | None, cpu_goal_ms: float | None) -> None:
    """Half the rate at 2 ms per pod, held against each pair of goals."""
    ours = Drain(pods=100, bound=100, span_s=2.0, cpu_s=0.2)
    assert compared([ours], [PLAIN], goal=goal, cpu_goal_ms=cpu_goal_ms)["met"] is met


def test_a_cpu_goal_without_a_figure_is_missed() -> None:
    """What was not measured is not met."""
    assert not compared([PLAIN], [PLAIN], goal=None, cpu_goal_ms=1.0)["met"]


def test_one_unfinished_round_misses_every_goal() -> None:
    """The median of the others would hide pods that were never bound."""
    left = Drain(pods=100, bound=99, span_s=0.1)
    figures = compared([PLAIN, left, PLAIN], [PLAIN] * 3, goal=0.1, cpu_goal_ms=None)
    assert (figures["unfinished"], figures["met"]) == (1, False)


def test_an_unfinished_reference_says_nothing() -> None:
    """A ratio to a rate that does not exist is refused."""
    with pytest.raises(ValueError, match="reference"):
        compared([PLAIN], [Drain(pods=100, bound=0, span_s=0.0)], goal=None, cpu_goal_ms=None)


def test_ratios_are_of_the_same_round() -> None:
    """A machine that is slow in one round slows both halves: every ratio is 0.5, though rates differ fourfold."""
    ours = [Drain(100, 100, 2.0), Drain(100, 100, 8.0)]
    plain = [Drain(100, 100, 1.0), Drain(100, 100, 4.0)]
    figures = compared(ours, plain, goal=None, cpu_goal_ms=None)
    assert (figures["ratio_min"], figures["ratio_max"]) == (0.5, 0.5)


def test_the_99th_of_fifty_is_the_largest() -> None:
    """With fewer than a hundred values p99 leaves none out."""
    assert percentile([float(n) for n in range(50)], 0.99) == 49.0


def test_a_pod_is_timed_when_its_node_first_shows() -> None:
    """Later events of a bound pod change nothing."""
    times = PodTimes()
    times.take(event("p", kind="ADDED"), now_s=1.0)
    assert times.bound_s == {}
    times.take(event("p", node="n1"), now_s=2.0)
    times.take(event("p", node="n1"), now_s=3.0)
    assert times.bound_s == {"p": 2.0}


def test_a_gate_that_goes_is_timed() -> None:
    """Pods without a gate from the start were never let in."""
    times = PodTimes()
    times.take(event("p", kind="ADDED", gates=(GATE,)), now_s=1.0)
    times.take(event("q", kind="ADDED"), now_s=1.5)
    times.take(event("p"), now_s=2.0)
    assert times.let_in_s == {"p": 2.0}


def test_the_watch_goes_on_from_the_last_event() -> None:
    """Bookmarks count: they carry the version to resume from and nothing else."""
    times = PodTimes()
    assert times.take(event("", kind="BOOKMARK", version="77"), now_s=1.0) == "77"
    assert (times.bound_s, times.gone) == ({}, set())


def test_a_watch_that_lost_events_is_an_error() -> None:
    """Times after a gap would be wrong, so there are none."""
    with pytest.raises(WatchLost, match="too old"):
        PodTimes().take(b'{"type":"ERROR","object":{"message":"too old resource version"}}', now_s=1.0)


async def test_waiting_for_what_does_not_happen_ends() -> None:
    """Every half is bounded in time."""
    assert not await PodTimes().until(lambda: False, limit_s=0.01)


async def test_waiting_ends_with_the_binding() -> None:
    """What is waited for is asked after each change."""
    times = PodTimes()
    asyncio.get_running_loop().call_soon(lambda: times.take(event("p", node="n1"), now_s=1.0))
    assert await times.until(lambda: "p" in times.bound_s, limit_s=5.0)


@pytest.mark.parametrize("module", [drain, drain_bed, drain_figures, drain_watch], ids=lambda module: module.__name__)
def test_examples(module: ModuleType) -> None:
    """The examples in the docstrings hold."""
    assert doctest.testmod(module).failed == 0


@pytest.mark.parametrize("way", list(Way))
def test_every_way_has_the_same_load(way: Way) -> None:
    """As many pods, with the same requests; only gangs have our scheduler, only gated ones the gate."""
    pods = SHAPE.backlog(way)
    gangs = way in (Way.UNGATED, Way.GATED)
    assert len({one["metadata"]["name"] for one in pods}) == SHAPE.pods == 6
    assert {one["metadata"]["namespace"] for one in pods} == {NAMESPACE}
    assert {one["spec"]["schedulerName"] for one in pods} == {OURS if gangs else "default-scheduler"}
    assert all(("schedulingGates" in one["spec"]) == (way is Way.GATED) for one in pods)
    assert {one["spec"]["containers"][0]["resources"]["requests"]["cpu"] for one in pods} == {"1"}


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.name} {case.way} {case.reference}")
def test_every_case_has_room(case: Case) -> None:
    """A backlog that cannot be bound whole would measure nothing."""
    shape = case.shape
    assert shape.nodes % shape.zones == 0
    assert shape.pods <= shape.nodes * shape.node_cpu


def test_each_way_leads_a_round_in_turn() -> None:
    """Over as many rounds as ways, each is measured once at each place."""
    ways = ways_of([case for case in CASES if case.name in ("a", "b")])
    assert ways == (Way.PLAIN, Way.UNGATED, Way.GATED)
    assert {turned(ways, number)[0] for number in range(3)} == set(ways)
    assert all(set(turned(ways, number)) == set(ways) for number in range(3))


def test_cases_are_named_a_to_f() -> None:
    """So that `--case` can name each."""
    assert NAMES == ("a", "b", "c", "d", "e", "f")
