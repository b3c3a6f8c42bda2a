"""Starts by end times: what is promised is kept, whatever fills the gap; what is expected follows from known ends."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from scoring import GangKey, NodeName, PodUid, ZoneName
from scoring.model.policy import Order, Policy, QueuePolicy
from scoring.model.reasons import Reason
from scoring.model.snapshot import Reservation, Snapshot
from scoring.plan.expected_starts import expected_starts
from scoring.records import ExpectedStart, Unknown
from tests.builders import bound, gang, node, pod
from tests.example_counts import FEW, times
from tests.scoring.plan.planned import planned, ported
from tests.scoring.plan.random_runs import SAYS, broken
from tests.scoring.plan.virtual import Job, World

FIFO = Policy(queue=QueuePolicy(order=Order.FIFO))
NODES = [node("a1", cpu="4"), node("a2", cpu="4")]
LARGE, SMALL = GangKey("default/large"), GangKey("default/small")


def world(*jobs: Job, policy: Policy = FIFO, says_s: float | None = 100.0) -> World:
    """One node is used until 100 s, and a gang of both nodes waits from 1 s on."""
    runs = Job("runs", 0.0, cpu=4, length_s=100.0, says_s=says_s)
    return World(NODES, [runs, Job("large", 1.0, size=2, cpu=4, length_s=50.0, says_s=50.0), *jobs], policy)


def test_the_first_gang_that_waits_is_promised_a_start() -> None:
    """It is the end of what runs, on these nodes, with its cause; and then it starts."""
    cluster = world()
    cluster.run(until_s=50.0)
    nodes, after = frozenset({NodeName("a1"), NodeName("a2")}), GangKey("default/runs")
    where = {PodUid(f"uid-default-large-{number}"): name for number, name in enumerate(sorted(nodes))}
    promised = Reservation(LARGE, where, (), (ZoneName("a"),), nodes, 100.0, 100.0, after, frozenset({after}))
    assert (cluster.plan.promise, cluster.plan.reservations) == (promised, {})
    cluster.run()
    assert cluster.started_s[LARGE] == 100.0


@pytest.mark.parametrize(
    ("says_s", "starts_s"), [(98.0, 2.0), (99.0, 150.0), (None, 150.0)], ids=["in time", "too long", "not known"]
)
def test_only_what_ends_before_fills_the_gap(says_s: float | None, starts_s: float) -> None:
    """A gang of 97 s fits the gap of 98 s; one that says more, or nothing, waits behind the large one."""
    cluster = world(Job("small", 2.0, cpu=4, length_s=97.0, says_s=says_s))
    cluster.run(until_s=3.0)
    if starts_s > 3.0:
        assert cluster.plan.waiting[SMALL].reason is Reason.RESERVED
    cluster.run()
    assert starts_s == cluster.started_s[SMALL]


@pytest.mark.parametrize(("port", "reason"), [(None, Reason.RESERVED), (80, Reason.NO_ROOM)])
def test_reserved_is_told_only_where_a_gang_would_fit(port: int | None, reason: Reason) -> None:
    """Two members fit the free node, but not with one host port: that is no other gang's doing."""
    pods = [pod(f"s{number}", gang="small", index=number, cpu="1") for number in range(2)]
    small = gang("small", members=pods if port is None else [ported(one, port) for one in pods], created_s=2.0)
    there = replace(bound(pod("r", gang="runs", cpu="4"), "a1"), scheduled_s=0.0)
    runs = replace(gang("runs", members=[there]), length_s=100.0)
    made = planned(NODES, runs, gang("large", 2, cpu="4", created_s=1.0), small, now_s=3.0, policy=FIFO)
    assert (set(made.held), made.waiting[SMALL].reason) == ({LARGE}, reason)


def test_what_is_left_beside_the_promise_is_given_to_anyone() -> None:
    """The large gang leaves a node's other half: a gang of unknown length has it at once."""
    small = Job("small", 2.0, cpu=1, length_s=1000.0)
    runs = Job("runs", 0.0, cpu=4, length_s=100.0, says_s=100.0)
    cluster = World(NODES, [runs, Job("large", 1.0, size=2, cpu=3, says_s=50.0), small], FIFO)
    cluster.run()
    assert (cluster.started_s[LARGE], cluster.started_s[SMALL]) == (100.0, 2.0)


def test_nothing_is_expected_without_any_length_or_without_back_fill() -> None:
    cluster = world(says_s=None)
    cluster.run(until_s=3.0)
    assert starts(cluster, Policy(queue=replace(FIFO.queue, backfill=False))) == {}
    cluster.gangs = {name: replace(one, length_s=None) for name, one in cluster.gangs.items()}
    assert starts(cluster) == {}


def test_lengths_that_are_not_believed_fill_no_gap_and_leave_no_room() -> None:
    """10 CPUs, of which the promise lacks 5 until an end at 100 s: one beside it runs on, and the next waits."""
    jobs = [Job("runs", 0.0, cpu=3, length_s=100.0, says_s=100.0), Job("large", 1.0, cpu=8, says_s=50.0)]
    jobs += [Job(f"g{number}", 2.0, cpu=2, length_s=1000.0, says_s=10.0, believed=False) for number in range(2)]
    cluster = World([node("a1", cpu="10")], jobs, FIFO)
    cluster.run()
    assert [cluster.started_s[GangKey(f"default/{name}")] for name in ("g0", "large", "g1")] == [2.0, 100.0, 160.0]


@pytest.mark.parametrize(("says_s", "backfill"), [(None, True), (100.0, False)], ids=["no known ends", "switched off"])
def test_nothing_is_promised(says_s: float | None, backfill: bool) -> None:
    policy = Policy(queue=replace(FIFO.queue, backfill=backfill))
    cluster = world(Job("small", 2.0, cpu=4), policy=policy, says_s=says_s)
    cluster.run(until_s=3.0)
    assert (cluster.plan.promise, cluster.started_s[SMALL]) == (None, 2.0)
    assert bool(starts(cluster, policy)) is backfill


def test_where_the_first_cannot_be_promised_a_start_the_first_of_another_resource_class_is() -> None:
    """Nothing is known of what the large gang waits for; of what the one with GPUs waits for it is."""
    jobs = [
        Job("unknown", 0.0, cpu=4, length_s=100.0),
        Job("gpu", 0.0, gpu=1, length_s=50.0, says_s=50.0),
        Job("large", 1.0, size=3, cpu=4),
        Job("second", 1.5, size=3, cpu=4),
        Job("first-gpu", 2.0, gpu=1),
        Job("next-gpu", 3.0, gpu=1),
    ]
    cluster = World([*NODES, node("a3", cpu="4", gpu=1)], jobs, FIFO)
    cluster.run(until_s=4.0)
    assert cluster.plan.promise is not None
    assert (cluster.plan.promise.gang, cluster.plan.promise.start_s) == (GangKey("default/first-gpu"), 50.0)


LATE = (1724, 2415, 2767, 3202, 3408, 3465)  # Seeds: gangs had been given what a late promise still needed


@pytest.mark.slow
@pytest.mark.parametrize("says", SAYS)
def test_a_promise_is_late_by_no_more_than_lengths_were_wrong(says: str) -> None:
    """With true lengths or limits never; else by no more than the longest time by which a gang outlived its length."""
    promised, wrong = broken([*range(12), *LATE], says)
    assert (promised > 0, wrong) == (True, [])


@pytest.mark.slow
@pytest.mark.parametrize("says", ["limit", "guess"])
def test_the_same_for_more_runs(says: str) -> None:
    """More of them: `python -m tests.scoring.plan.random_runs 10000`."""
    promised, wrong = broken(range(12, 12 + times(48)), says)
    assert (promised > 0, wrong) == (True, [])


class Listed(World):
    chance: Random

    def snapshot(self) -> Snapshot:
        state = super().snapshot()
        keys = list(state.gangs)
        self.chance.shuffle(keys)
        return replace(state, gangs={key: state.gangs[key] for key in keys})


@pytest.mark.parametrize("seed", range(8))
def test_the_order_in_which_gangs_are_listed_decides_nothing(seed: int) -> None:
    """Many ends are at the same moment, in fives of seconds; a decision log is run again with another order."""
    chance = Random(seed)
    nodes = [node(f"a{at}", cpu=str(chance.choice((2, 4)))) for at in range(3)]
    jobs = [
        Job(f"g{at:02}", chance.randint(0, 6) * 5.0, chance.randint(1, 5), length_s=length_s, says_s=length_s)
        for at in range(14)
        for length_s in (chance.randint(1, 6) * 5.0,)
    ]
    one, other = World(nodes, jobs, FIFO), Listed(nodes, jobs, FIFO)
    other.chance, named = chance, 0
    for until_s in range(0, 200, 5):
        for world in (one, other):
            world.run(until_s=float(until_s))
        assert one.plan == other.plan
        named += one.plan.promise is not None and one.plan.promise.after is not None
    assert named > 0


# -- expected starts of all that wait ----------------------------------------------------------------------------------


def key(name: str) -> GangKey:
    return GangKey(f"default/{name}")


def starts(world: World, policy: Policy = FIFO) -> dict[GangKey, ExpectedStart]:
    return expected_starts(world.snapshot(), world.plan, policy, now_s=world.now_s)


def test_a_gang_starts_after_what_runs_and_the_next_after_that() -> None:
    """The first has a promise; the one behind it starts when the first has ended, though nothing was promised to it."""
    cluster = world(Job("next", 2.0, size=2, cpu=4, says_s=10.0))
    cluster.run(until_s=50.0)
    found = starts(cluster)
    assert [LARGE, key("next")] == list(found)
    first, second = found.values()
    assert (100.0, key("runs"), True) == (first.start_s, first.after, first.promised)
    assert (second.start_s, second.after, second.promised) == (150.0, LARGE, False)
    cluster.run()
    assert (first.start_s, second.start_s) == (cluster.started_s[LARGE], cluster.started_s[key("next")])


def test_what_outlived_its_length_is_expected_to_run_on() -> None:
    """After 300 of 100 s its end is not at a moment of the past, but at the next doubling."""
    cluster = World(NODES, [Job("runs", 0.0, cpu=4, length_s=1e4, says_s=100.0), Job("w", 1.0, size=2, cpu=4)], FIFO)
    cluster.run(until_s=300.0)
    assert starts(cluster)[key("w")].start_s == 400.0


UNKNOWN = {  # case: (why, the gang in the way, world)
    "what runs has no length": (Unknown.LENGTH, "runs", world(says_s=None)),
    "it never fits": (Unknown.NEVER, None, world(Job("never", 2.0, size=3, cpu=4))),
    "what is ahead has no length": (Unknown.LENGTH,
        "ahead", world(Job("ahead", 1.5, size=2, cpu=4), Job("behind", 2.0, size=2, cpu=4)),),
}  # fmt: skip


@pytest.mark.parametrize(("why", "about", "cluster"), UNKNOWN.values(), ids=UNKNOWN)
def test_what_is_not_known_is_said(why: Unknown, about: str | None, cluster: World) -> None:
    cluster.run(until_s=3.0)
    *_, last = starts(cluster).values()
    assert (last.start_s, last.unknown, last.after) == (None, why, None if about is None else key(about))


def test_only_so_many_are_looked_at() -> None:
    many = [Job(f"w{number:03}", 2.0, size=2, cpu=4, says_s=10.0) for number in range(70)]
    cluster = world(*many)
    cluster.run(until_s=3.0)
    found = list(starts(cluster).values())
    assert len(found) == 71
    assert {Unknown.FAR} == {one.unknown for one in found[64:]}
    assert all(one.start_s is not None for one in found[:64])


@FEW
@given(st.integers(0, 10**6))
def test_each_waiting_gang_has_one_answer(seed: int) -> None:
    """At any moment, with known and unknown lengths: a start that is not in the past, or why there is none.

    The promised one's is its promise; the answer is the same each time.
    """
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
    found = starts(cluster)
    assert set(found) in (set(cluster.plan.waiting), set())
    for one in found.values():
        assert (one.start_s is None) == (one.unknown is not None)
        assert one.start_s is None or cluster.now_s <= one.start_s < float("inf")
        if one.promised and cluster.plan.promise is not None:
            assert one.start_s == cluster.plan.promise.start_s
    assert found == starts(cluster)
