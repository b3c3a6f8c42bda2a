"""Expected starts: what follows from known ends is said, and nothing else."""

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scoring.ids import GangKey
from scoring.lengths import Length, LengthSource
from scoring.model.policy import Backfill, Order, Policy, QueuePolicy
from scoring.plan.expected import AnyStart, Calibration, ExpectedStart, NotKnown, Result, Unknown, expected_starts
from tests.builders import node
from tests.example_counts import FEW
from tests.scoring.plan.virtual import Job, World

EASY = Policy(queue=QueuePolicy(order=Order.FIFO, backfill=Backfill.EASY))
CONSERVATIVE = Policy(queue=QueuePolicy(order=Order.FIFO, backfill=Backfill.CONSERVATIVE))
NODES = [node("a1", cpu="4"), node("a2", cpu="4")]


def key(name: str) -> GangKey:
    return GangKey(f"default/{name}")


def starts(world: World, policy: Policy = EASY, calibration: Calibration | None = None) -> dict[GangKey, AnyStart]:
    """What is expected of each gang that waits now."""
    return expected_starts(world.snapshot(), world.plan, policy, now_s=world.now_s, calibration=calibration)


def world(*jobs: Job, policy: Policy = EASY, says_s: float | None = 100.0) -> World:
    """One node is used until 100 s, and a gang of both nodes waits from 1 s on."""
    runs = Job("runs", 0.0, cpu=4, length_s=100.0, says_s=says_s)
    return World(NODES, [runs, Job("large", 1.0, size=2, cpu=4, length_s=50.0, says_s=50.0), *jobs], policy)


def test_a_gang_starts_after_what_runs_and_the_next_after_that() -> None:
    """The first has a promise; the one behind it starts when the first has ended, though nothing was promised to it."""
    cluster = world(Job("next", 2.0, size=2, cpu=4, says_s=10.0))
    cluster.run(until_s=50.0)
    found = starts(cluster)
    assert [key("large"), key("next")] == list(found)
    first, second = found.values()
    assert isinstance(first, ExpectedStart)
    assert isinstance(second, ExpectedStart)
    assert (100.0, key("runs"), True) == (first.start_s, first.after, first.promised)
    assert (150.0, key("large"), False) == (second.start_s, second.after, second.promised)
    cluster.run()
    assert (first.start_s, second.start_s) == (cluster.started_s[first.gang], cluster.started_s[second.gang])


def test_the_interval_is_from_early_to_late_ends() -> None:
    """Of a length that was learned: 10 % of such runs end before the lower end, 10 % after the upper one."""
    cluster = world()
    cluster.run(until_s=0.5)
    learned = Length(LengthSource.LEARNED, (60.0, 100.0, 150.0, 200.0, 300.0))
    cluster.gangs[key("runs")] = replace(cluster.gangs[key("runs")], length=learned)
    cluster.run(until_s=2.0)
    found = starts(cluster)[key("large")]
    assert isinstance(found, ExpectedStart)
    assert (found.low_s, found.start_s, found.high_s) == (60.0, 100.0, 200.0)


def test_what_outlived_its_length_is_expected_to_run_on() -> None:
    """After 300 of 100 s its end is not at a moment of the past, nor is it certain."""
    cluster = World(NODES, [Job("runs", 0.0, cpu=4, length_s=1e4, says_s=100.0), Job("w", 1.0, size=2, cpu=4)], EASY)
    cluster.run(until_s=300.0)
    found = starts(cluster)[key("w")]
    assert isinstance(found, ExpectedStart)
    assert (found.low_s, found.start_s, found.high_s) == (315.0, 423.0, 948.0)


UNKNOWN = {  # case: (why, the gang in the way, world)
    "back-fill is off": (Unknown.OFF, None, world(policy=Policy())),
    "what runs has no length": (Unknown.LENGTH, "runs", world(says_s=None)),
    "it never fits": (Unknown.NEVER, None, world(Job("never", 2.0, size=3, cpu=4))),
    "what is ahead has no length": (
        Unknown.LENGTH, "ahead", world(Job("ahead", 1.5, size=2, cpu=4), Job("behind", 2.0, size=2, cpu=4)),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("why", "about", "cluster"), UNKNOWN.values(), ids=UNKNOWN)
def test_what_is_not_known_is_said(why: Unknown, about: str | None, cluster: World) -> None:
    """The last gang of the queue: with the reason, and the gang in the way."""
    cluster.run(until_s=3.0)
    policy = Policy() if why is Unknown.OFF else EASY
    *_, last = starts(cluster, policy).values()
    assert isinstance(last, NotKnown)
    assert (why, None if about is None else key(about)) == (last.why, last.about)


def test_only_so_many_are_looked_at() -> None:
    """Behind 64 gangs it is not known."""
    many = [Job(f"w{number:03}", 2.0, size=2, cpu=4, says_s=10.0) for number in range(70)]
    cluster = world(*many)
    cluster.run(until_s=3.0)
    found = list(starts(cluster).values())
    assert len(found) == 71
    assert {Unknown.FAR} == {one.why for one in found[64:] if isinstance(one, NotKnown)}
    assert all(isinstance(one, ExpectedStart) for one in found[:64])


def drawn(seed: int) -> tuple[World, Policy]:
    """A small cluster at some moment of its run, with learned, declared and unknown lengths."""
    chance = Random(seed)
    nodes = [node(f"{zone}{at}", zone=zone, cpu=str(chance.choice((2, 4)))) for zone in "ab" for at in range(2)]
    policy = chance.choice((EASY, CONSERVATIVE))
    jobs = [
        Job(
            f"g{number:02}",
            arrives_s=float(chance.randint(0, 60)),
            size=chance.randint(1, 4),
            cpu=chance.choice((1, 2)),
            length_s=(length_s := float(chance.randint(1, 100))),
            says_s=chance.choice((None, length_s, 2.0 * length_s)),
        )
        for number in range(chance.randint(2, 14))
    ]
    cluster = World(nodes, jobs, policy)
    cluster.run(until_s=float(chance.randint(10, 100)))
    for name, one in cluster.gangs.items():
        if one.length is not None and chance.random() < 0.5:
            usual_s = one.length.quantiles_s[1]
            spread = (0.5 * usual_s, usual_s, 1.5 * usual_s, 2.0 * usual_s, 3.0 * usual_s)
            cluster.gangs[name] = replace(one, length=Length(LengthSource.LEARNED, spread))
    return cluster, policy


@FEW
@given(st.integers(0, 10**6))
def test_each_waiting_gang_has_one_answer_and_intervals_hold_their_start(seed: int) -> None:
    """Nothing is in the past, the ends enclose the middle, and the same arguments give the same answers."""
    cluster, policy = drawn(seed)
    found = starts(cluster, policy)
    assert set(cluster.plan.waiting) == set(found)
    for one in found.values():
        if isinstance(one, ExpectedStart):
            assert cluster.now_s <= one.low_s <= one.start_s <= one.high_s < float("inf")
    assert found == starts(cluster, policy)


@FEW
@given(st.integers(0, 10**6))
def test_without_any_length_nothing_is_made_up(seed: int) -> None:
    """A gang that waits for room has no expected start if no gang has a length."""
    cluster, policy = drawn(seed)
    cluster.gangs = {name: replace(one, length=None) for name, one in cluster.gangs.items()}
    for one in starts(cluster, policy).values():
        assert isinstance(one, NotKnown) or one.start_s == cluster.now_s


@given(st.lists(st.sampled_from(Result), max_size=200))
def test_misses_widen_and_hits_narrow(results: list[Result]) -> None:
    """Whatever came: counts add up, factors stay positive, and a late start makes the next interval end later."""
    known = Calibration()
    for result in results:
        known = known.with_result(result, promised=True)
    assert len(results) == known.known
    before = known.scales[True].interval(80.0, 100.0, 120.0, now_s=0.0)
    after = known.with_result(Result.LATE, promised=True).scales[True].interval(80.0, 100.0, 120.0, now_s=0.0)
    assert before[0] <= 100.0 <= before[1] <= after[1]
    assert known.scales[False] == Calibration().scales[False]


def test_eight_of_ten_are_inside_in_the_long_run() -> None:
    """Starts that lie all over the place, and quantiles that are far too narrow: one in ten is missed on each side."""
    chance, known, counted = Random(1), Calibration(), 0
    for _ in range(2000):
        low_s, high_s = known.scales[False].interval(99.0, 100.0, 101.0, now_s=0.0)
        start_s = chance.gauss(110.0, 30.0)
        result = Result.EARLY if start_s < low_s else Result.LATE if start_s > high_s else Result.INSIDE
        known = known.with_result(result, promised=False)
        counted += 1
    assert known.inside_ratio is not None
    assert 0.78 <= known.inside_ratio <= 0.82
    assert abs(known.results[Result.EARLY] - known.results[Result.LATE]) < 0.03 * counted
