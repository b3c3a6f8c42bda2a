"""What the queue promises, in virtual time: which gang starts when; none waits without end (docs/safety.md S14)."""

from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from scoring import GangKey
from scoring.model import Node
from scoring.model.policy import Order, Policy, QueuePolicy
from scoring.model.reasons import Reason
from scoring.plan import reservations
from scoring.queue import states
from scoring.queue.states import JobState
from scoring.records import QueuedGang
from tests.builders import node
from tests.example_counts import THOROUGH
from tests.scoring.plan.virtual import Job, World

LIMIT_S = 100.0
QUEUE = QueuePolicy(starve_limit_s=LIMIT_S, reserve_after_s=0.0)
POLICY = Policy(queue=QUEUE)


@pytest.fixture(autouse=True, scope="module")
def _whole_zones() -> Iterator[None]:
    """Whole zones are held, for as long as it takes: all here is over before a hold is."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reservations, "SHARE", 1.0)
        yield


def row(count: int, *, zone: str = "a", cpu: int = 2) -> list[Node]:
    return [node(f"{zone}{i}", zone=zone, cpu=str(cpu)) for i in range(count)]


def names(world: World, *others: str) -> list[str]:
    return [name for name in (key.partition("/")[2] for key in world.order) if name not in others]


def entry(world: World, name: str) -> QueuedGang:
    return next(one for one in world.report().gangs if one.gang == f"default/{name}")


SHAPES = ((1, 12), (2, 6), (3, 4), (4, 3), (6, 2), (12, 1))
"""(members, CPU of each): each job takes all of a node of 12 CPUs; ω′ = 1, 4, 9, 16, 36, 144: the lightest first."""


def full(until_s: float) -> Job:
    return Job("full", -1.0, 12, 1, until_s + 1.0)


SIX = [Job(f"w{size}", float(i), size, cpu, 1.0) for i, (size, cpu) in enumerate(SHAPES)]
SIX_APART = [replace(one, arrives_s=10.0 * one.arrives_s) for one in SIX]
EQUAL = [Job(f"j{9 - i}", float(i), 6, 2, 10.0) for i in range(6)]
OLD, HIGH = Job("old", 0.0, 12, 1, 10.0), Job("high", 190.0, 12, 1, 10.0, priority=5)
ORDERS = {  # case: (starts, queue, jobs, moment at which the first room appears)
    "by weight, the lightest came first": ("w12 w6 w4 w3 w2 w1", QUEUE, SIX, 50.0),
    "the lightest first once it starves": ("w1 w12 w6 w4 w3 w2", QUEUE, SIX_APART, 101.0),
    "starving by age": ("w1 w2 w3 w4 w6 w12", QUEUE, SIX, 200.0),
    "fifo": ("w1 w2 w3 w4 w6 w12", replace(QUEUE, order=Order.FIFO), SIX, 50.0),
    "equal weights by creation": ("j9 j8 j7 j6 j5 j4", QUEUE, EQUAL, 50.0),
    "one of higher priority before a STARVING one": ("high old", QUEUE, [OLD, HIGH], 200.0),
}


@pytest.mark.parametrize(("want", "queue", "jobs", "room_s"), ORDERS.values(), ids=ORDERS)
def test_jobs_start_one_by_one_in_the_order_of_the_queue(
    want: str, queue: QueuePolicy, jobs: list[Job], room_s: float
) -> None:
    """They were submitted to a full cluster; the order is what the policy says."""
    world = World(row(1, cpu=12), [full(room_s), *jobs], Policy(queue=queue))
    world.run()
    assert want.split() == names(world, "full")
    starts = sorted(world.started_s.values())
    assert all(later - earlier >= 1.0 for earlier, later in pairwise(starts))


# -- back-fill and holds -----------------------------------------------------------------------------------------------


def test_small_jobs_run_beside_a_large_one_until_it_starves() -> None:
    """Back-fill goes on up to STARVELIMIT, then nothing new starts in the zone until the large gang has."""
    small = [Job(f"s{i}", 10.0 + 10.0 * i, 1, 1, 50.0) for i in range(40)]
    large = Job("large", 1.0, 4, 2, 100.0)
    world = World(row(4), [Job("b0", -1.0, 1, 2, 140.0), large, *small], POLICY)
    world.run(95.0)
    assert [f"s{i}" for i in range(9)] == names(world, "b0")
    assert entry(world, "large").state is JobState.WAITING
    world.run(130.0)
    assert entry(world, "large").state is JobState.STARVING
    late = entry(world, "s10")
    assert late.reason is Reason.RESERVED
    assert "held for default/large" in late.detail
    world.run()
    before = [name for name in names(world, "b0") if world.started_s[_key(name)] < world.started_s[_key("large")]]
    assert max(world.started_s[_key(name)] for name in before) <= 101.0
    assert world.started_s[_key("large")] == max(world.ended_s[_key(name)] for name in before)


def _key(name: str) -> GangKey:
    return GangKey(f"default/{name}")


@st.composite
def workloads(draw: st.DrawFn) -> tuple[list[Node], list[Job], Job, list[Job]]:
    """Nodes of up to three zones, jobs that run at first, a large one for zone a, and others that come later."""
    size = draw(st.integers(1, 4))
    zones = draw(st.integers(1, 3))
    nodes = [one for zone in "abc"[:zones] for one in row(size, zone=zone)]
    first = [
        Job(f"f{i}", -1.0, 1, draw(st.integers(1, 2)), draw(st.floats(20.0, 400.0)))
        for i in range(draw(st.integers(1, size * zones)))
    ]
    members = draw(st.integers(1, size))
    large = Job("large", 0.0, members, draw(st.integers(1, 2)), draw(st.floats(10.0, 200.0)), zones="a")
    late: list[Job] = []
    at_s = 0.0
    for i in range(draw(st.integers(3, 14))):
        at_s += draw(st.floats(1.0, 40.0))
        shape = draw(st.integers(1, 3)), draw(st.integers(1, 2))
        late.append(Job(f"l{i}", at_s, *shape, draw(st.floats(10.0, 300.0))))
    return nodes, first, large, late


@pytest.mark.slow
@pytest.mark.timeout(180)
@THOROUGH
@given(workloads())
def test_later_arrivals_delay_no_starving_gang(case: tuple[list[Node], list[Job], Job, list[Job]]) -> None:
    """It starts no later than without all that came after it starved, and than when its zone has emptied.

    At any time a process that knows nothing but the cluster gives every gang the same state, rank and clock.
    """
    nodes, first, large, late = case
    with_all = World(nodes, [*first, large, *late], POLICY)
    for moment_s in (60.0, 130.0, 230.0):
        with_all.run(moment_s)
        known, fresh = with_all.report(), with_all.report(forgetful=True)
        assert (_standings(known.gangs), known.counts) == (_standings(fresh.gangs), fresh.counts)
    with_all.run()
    without = World(nodes, [*first, large, *(job for job in late if job.arrives_s <= LIMIT_S)], POLICY)
    without.run()
    assert with_all.started_s[large.key] <= without.started_s[large.key]
    there = [key for key, zones in with_all.where.items() if "a" in zones and key != large.key]
    ends = [with_all.ended_s[key] for key in there if with_all.started_s[key] <= LIMIT_S]
    assert with_all.started_s[large.key] <= max([LIMIT_S, *ends])


def _standings(entries: tuple[QueuedGang, ...]) -> list[tuple[object, ...]]:
    return [(one.gang, one.state, one.rank, one.waiting_since_s, one.waited_s, one.starves_in_s) for one in entries]


@st.composite
def streams(draw: st.DrawFn) -> tuple[list[Node], list[Job], float]:
    """A stream that offers up to twice what the cluster can do: it never lets up, and any gang might be overtaken."""
    size = draw(st.integers(2, 4))
    zones = draw(st.integers(1, 2))
    nodes = [one for zone in "ab"[:zones] for one in row(size, zone=zone)]
    share = draw(st.sampled_from([0.25, 0.5, 1.0]))
    jobs: list[Job] = []
    at_s = 0.0
    for i in range(32):
        at_s += draw(st.sampled_from([5.0, 15.0, 30.0]))
        members = size if draw(st.integers(0, 5)) == 0 else draw(st.integers(1, 2))
        jobs.append(Job(f"j{i:02}", at_s, members, draw(st.integers(1, 2)), draw(st.sampled_from([20.0, 60.0]))))
    return nodes, jobs, share


LONGEST_RUN_S = 60.0


@pytest.mark.slow
@pytest.mark.timeout(180)
@THOROUGH
@given(streams(), st.sampled_from([150.0, 1e6]))
def test_no_gang_waits_without_end(case: tuple[list[Node], list[Job], float], hold_s: float) -> None:
    """In a stream that does not end, overloaded or not, a gang starts while those that come after it still wait.

    Ahead of a STARVING gang are only those that starve longer. Each has its zone reserved, which empties within the
    longest run of a job, before the next one is first. Where reservations pause, a pause comes on top for each.
    """
    nodes, jobs, share = case
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reservations, "SHARE", share)
        patch.setattr(states, "HOLD_S", hold_s)
        world = World(nodes, jobs, POLICY)
        world.run(jobs[-1].arrives_s)
        now_s = world.now_s
        each_s = LONGEST_RUN_S if hold_s > now_s else LONGEST_RUN_S + 2.0 * hold_s
        for i, job in enumerate(jobs):
            starving_s = job.arrives_s + LIMIT_S
            ahead = sum(world.started_s.get(older.key, now_s) > starving_s for older in jobs[:i])
            latest_s = starving_s + (ahead + 1) * each_s
            assert latest_s > now_s or world.started_s[job.key] <= latest_s
        world.run()
        assert len(world.started_s) == len(jobs)


def test_suspended_for_long_then_resumed() -> None:
    """A gang whose PodGroup is old and whose pods are new keeps its place by age, and is not STARVING at once."""
    world = World(row(1, cpu=12), [full(1e6), Job("fresh", 990.0, 12, 1)], POLICY)
    resumed = Job("resumed", 1000.0, 12, 1)
    world.run(1000.0)
    world.gangs[resumed.key] = replace(resumed.gang(), created_s=0.0)
    assert (entry(world, "resumed").state, entry(world, "resumed").waited_s) == (JobState.WAITING, 0.0)
    assert entry(world, "resumed").rank == 1
    world.now_s = 1100.0
    assert entry(world, "resumed").state is JobState.STARVING
    assert entry(world, "fresh").rank == 1  # which starves longer
