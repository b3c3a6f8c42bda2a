"""Expected starts: what follows from known ends is said, and nothing else."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from scoring.ids import GangKey
from scoring.model.policy import Order, Policy, QueuePolicy
from scoring.plan.expected_starts import ExpectedStart, Unknown, expected_starts
from tests.builders import node
from tests.example_counts import FEW
from tests.scoring.plan.virtual import Job, World

FIFO = Policy(queue=QueuePolicy(order=Order.FIFO))
NODES = [node("a1", cpu="4"), node("a2", cpu="4")]


def key(name: str) -> GangKey:
    return GangKey(f"default/{name}")


def starts(world: World, policy: Policy = FIFO) -> dict[GangKey, ExpectedStart]:
    """What is expected of each gang that waits now."""
    return expected_starts(world.snapshot(), world.plan, policy, now_s=world.now_s)


def world(*jobs: Job, says_s: float | None = 100.0) -> World:
    """One node is used until 100 s, and a gang of both nodes waits from 1 s on."""
    runs = Job("runs", 0.0, cpu=4, length_s=100.0, says_s=says_s)
    return World(NODES, [runs, Job("large", 1.0, size=2, cpu=4, length_s=50.0, says_s=50.0), *jobs], FIFO)


def test_a_gang_starts_after_what_runs_and_the_next_after_that() -> None:
    """The first has a promise; the one behind it starts when the first has ended, though nothing was promised to it."""
    cluster = world(Job("next", 2.0, size=2, cpu=4, says_s=10.0))
    cluster.run(until_s=50.0)
    found = starts(cluster)
    assert [key("large"), key("next")] == list(found)
    first, second = found.values()
    assert (100.0, key("runs"), True) == (first.start_s, first.after, first.promised)
    assert (150.0, key("large"), False) == (second.start_s, second.after, second.promised)
    cluster.run()
    assert (first.start_s, second.start_s) == (cluster.started_s[key("large")], cluster.started_s[key("next")])


def test_what_outlived_its_length_is_expected_to_run_on() -> None:
    """After 300 of 100 s its end is not at a moment of the past, but at the next doubling."""
    cluster = World(NODES, [Job("runs", 0.0, cpu=4, length_s=1e4, says_s=100.0), Job("w", 1.0, size=2, cpu=4)], FIFO)
    cluster.run(until_s=300.0)
    assert starts(cluster)[key("w")].start_s == 400.0


def test_nothing_is_expected_without_any_length_or_without_back_fill() -> None:
    cluster = world(says_s=None)
    cluster.run(until_s=3.0)
    assert starts(cluster, Policy(queue=replace(FIFO.queue, backfill=False))) == {}
    cluster.gangs = {name: replace(one, length_s=None) for name, one in cluster.gangs.items()}
    assert starts(cluster) == {}


UNKNOWN = {  # case: (why, the gang in the way, world)
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
    *_, last = starts(cluster).values()
    assert (last.start_s, last.unknown, last.after) == (None, why, None if about is None else key(about))


def test_only_so_many_are_looked_at() -> None:
    """Behind 64 gangs it is not known."""
    many = [Job(f"w{number:03}", 2.0, size=2, cpu=4, says_s=10.0) for number in range(70)]
    cluster = world(*many)
    cluster.run(until_s=3.0)
    found = list(starts(cluster).values())
    assert len(found) == 71
    assert {Unknown.FAR} == {one.unknown for one in found[64:]}
    assert all(one.start_s is not None for one in found[:64])


def drawn(seed: int) -> World:
    """A small cluster at some moment of its run, with known and unknown lengths."""
    chance = Random(seed)
    nodes = [node(f"{zone}{at}", zone=zone, cpu=str(chance.choice((2, 4)))) for zone in "ab" for at in range(2)]
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
    cluster = World(nodes, jobs, FIFO)
    cluster.run(until_s=float(chance.randint(10, 100)))
    return cluster


@FEW
@given(st.integers(0, 10**6))
def test_each_waiting_gang_has_one_answer(seed: int) -> None:
    """A start that is not in the past, or why there is none; the promised one's is its promise; the same each time."""
    cluster = drawn(seed)
    found = starts(cluster)
    assert set(found) in (set(cluster.plan.waiting), set())
    for one in found.values():
        assert (one.start_s is None) == (one.unknown is not None)
        assert one.start_s is None or cluster.now_s <= one.start_s < float("inf")
        if one.promised and cluster.plan.promise is not None:
            assert one.start_s == cluster.plan.promise.start_s
    assert found == starts(cluster)
