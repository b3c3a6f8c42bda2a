"""The election by itself: one candidate step by step, then several beside each other in a world that goes wrong."""

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from extender.leadership.election import DRIFT_RATIO, Election, Lease, LeaseSpec, LeaseTimes, Write
from extender.settings.settings import LeaseSettings
from tests.example_counts import FEW, THOROUGH

TIMES = LeaseTimes(4, 2.5, 0.5)  # for one candidate step by step: numbers that are easily added up
SHIPPED = LeaseTimes()  # for several beside each other
OTHER = LeaseSpec("other", 4, "then", "then", 7)


def candidate(*, lease: Lease | None = None, chance: float = 0.0) -> Election:
    """One whose pauses are as long as `chance` says; with `lease` it read that at 0."""
    rng = random.Random(0)
    rng.random = lambda: chance  # type: ignore[method-assign]
    one = Election("me", TIMES, rng=rng)
    if lease is not None:
        read(one, lease, 0.0)
    return one


def read(one: Election, lease: Lease | None, at_s: float, *, took_s: float = 0.0) -> None:
    one.was_read(lease, sent_s=at_s, now_s=at_s + took_s)


def write(one: Election, at_s: float, *, wall_us: int = 0) -> Write:
    call = one.next(now_s=at_s, wall_us=wall_us)
    assert isinstance(call, Write)
    return call


def waits(one: Election, at_s: float) -> bool:
    return one.next(now_s=at_s, wall_us=0) is None


def leader(*, at_s: float = 10.0) -> Election:
    one = candidate()
    read(one, None, at_s)
    one.was_written(Lease(write(one, at_s, wall_us=5).spec, "v1"), sent_s=at_s)
    return one


def test_where_there_is_no_lease_it_is_created() -> None:
    one = candidate()
    assert waits(one, 0.0)
    read(one, None, 1.0, took_s=0.5)
    assert one.due_s == 1.5
    call = write(one, 1.5, wall_us=1_000_000)
    assert call == Write(LeaseSpec("me", 4, "1970-01-01T00:00:01.000000Z", "1970-01-01T00:00:01.000000Z", 0), None)
    assert not one.leading(1.6)
    one.was_written(Lease(call.spec, "v"), sent_s=1.5)
    assert (one.leading(3.9), one.leading(4.0)) == (True, False)
    assert one.write_until_s == pytest.approx(1.5 + 3.8)
    assert one.due_s == 2.0


def test_a_holder_is_waited_for_from_when_its_last_sign_was_seen() -> None:
    one = candidate()
    read(one, Lease(OTHER, "v1"), 0.0, took_s=0.1)
    assert one.due_s == 0.2
    renewed = Lease(replace(OTHER, renewed="later"), "v2")
    read(one, renewed, 0.5, took_s=0.1)
    for sent_s in (1.0, 1.5, 2.0, 2.5, 3.0, 3.5):
        assert waits(one, sent_s)
        read(one, renewed, sent_s, took_s=0.1)
        assert one.due_s == pytest.approx(sent_s + 0.2)
    labelled = Lease(renewed.spec, "v3")  # what others write on it is no sign of life
    read(one, labelled, 4.45, took_s=0.05)
    assert one.due_s == pytest.approx(4.6)
    call = write(one, 4.6)
    assert (call.spec.holder, call.spec.transitions, call.over) == ("me", 8, labelled)


def test_the_holder_says_how_long_to_wait() -> None:
    """Its duration counts, not ours: the two may be of different settings during a rollout. Released: not at all."""
    one = candidate(lease=Lease(replace(OTHER, duration_s=15), "v1"))
    assert waits(one, 14.9)
    assert write(one, 15.0)
    released = candidate(lease=Lease(replace(OTHER, holder="", duration_s=1), "v1"))
    assert released.due_s == 0.0
    assert write(released, 0.0)


def test_renewing_needs_no_reading_and_always_changes_the_lease() -> None:
    one = leader()
    seen = {one.lease}
    for step, wall_us in enumerate((5, 5, 3)):
        call = write(one, 10.5 + step, wall_us=wall_us)
        assert (call.spec.holder, call.spec.transitions) == ("me", 0)
        seen.add(call.spec)
        one.was_written(Lease(call.spec, f"v{step + 2}"), sent_s=10.5 + step)
    assert (len(seen), {spec.acquired for spec in seen if spec}) == (4, {"1970-01-01T00:00:00.000005Z"})


@pytest.mark.parametrize(("arrived", "until_s"), [(True, 13.0), (False, 12.5)])
def test_a_lost_answer_counts_if_the_lease_says_so(arrived: bool, until_s: float) -> None:
    one = leader()
    before, call = one.lease, write(one, 10.5)
    assert before is not None
    one.has_failed(call, sent_s=10.5, now_s=11.75)
    assert waits(one, 11.75)
    read(one, Lease(call.spec, "v2") if arrived else Lease(before, "v1"), 11.75, took_s=0.05)
    assert one.lead_until_s == pytest.approx(until_s)
    assert write(one, 11.8)


def test_a_lease_that_is_refused_again_and_again_makes_no_storm() -> None:
    one = leader()
    one.was_refused(sent_s=10.5, now_s=10.51)
    read(one, Lease(one.lease or OTHER, "v2"), 10.51, took_s=0.01)
    one.was_refused(sent_s=10.52, now_s=10.53)
    assert one.due_s == pytest.approx(11.02)


def test_a_lease_that_vanished_still_has_to_be_waited_for() -> None:
    one = candidate(lease=Lease(OTHER, "v1"))
    read(one, None, 1.0)
    read(one, None, 1.5)
    assert waits(one, 4.9)
    assert write(one, 5.0)
    mine = leader()
    mine.was_refused(sent_s=10.5, now_s=10.5)
    read(mine, None, 10.5)
    assert write(mine, 10.5).over is None


def test_release_gives_the_lease_back() -> None:
    one = leader()
    call = one.release(wall_us=9)
    assert call is not None
    assert call.over is not None
    assert (call.spec.holder, call.spec.duration_s, call.over.version) == ("", 1, "v1")
    assert not one.leading(10.1)
    assert candidate().release(wall_us=0) is None
    assert candidate(lease=Lease(OTHER, "v1")).release(wall_us=0) is None


def test_only_pauses_after_failures_differ() -> None:
    one = candidate(lease=Lease(OTHER, "v1"), chance=0.999)
    assert one.due_s == pytest.approx(0.2)
    one.was_written(Lease(replace(OTHER, holder="me"), "v2"), sent_s=4.0)
    assert one.due_s == pytest.approx(4.5)
    one.has_failed(one.next(now_s=4.5, wall_us=0), sent_s=4.5, now_s=4.6)
    assert one.due_s == pytest.approx(5.1, abs=0.001)


CHANCES = st.integers(0, 2**32).map(random.Random)


@dataclass
class Candidate:
    election: Election
    offset_s: float
    speed: float
    frozen_until_s: float = 0.0
    dead: bool = False

    def clock(self, now_s: float) -> float:
        return self.offset_s + self.speed * now_s

    def world(self, clock_s: float) -> float:
        return (clock_s - self.offset_s) / self.speed


class World:
    """Candidates, one server and a network, driven by one source of chance; time is a number."""

    def __init__(self, chance: random.Random, size: int, *, calm: bool = False) -> None:
        self.chance, self.calm, self.now_s = chance, calm, 0.0
        self.lease: Lease | None = None  # as it is stored
        self.terms: list[str] = []  # who led, in order
        self._events: list[tuple[float, int, Callable[[], object]]] = []
        self._order = count()
        self._names, self._versions = count(), count(1)
        self.candidates = [self.start() for _ in range(size)]

    def start(self) -> Candidate:
        speed = 1.0 if self.calm else self.chance.uniform(0.98, 1.02)
        made = Election(f"c{next(self._names)}", SHIPPED, rng=self.chance)
        one = Candidate(made, self.chance.uniform(-1e3, 1e6), speed)
        self.at(self.now_s + self.chance.uniform(0.0, 1.0), lambda: self.awake(one, lambda: self.ask(one)))
        return one

    def at(self, when_s: float, what: Callable[[], object]) -> None:
        heapq.heappush(self._events, (when_s, next(self._order), what))

    def run(self, until_s: float) -> None:
        """Let everything happen until then, and look at each moment who thinks that it leads."""
        while self._events and self._events[0][0] <= until_s:
            self.now_s, _, what = heapq.heappop(self._events)
            what()
            self.look()
        self.now_s = until_s

    def look(self) -> None:
        """At most one may send, by its own clock; dead and frozen ones included, which may wake up in between."""
        may = [one.election.identity for one in self.candidates if one.clock(self.now_s) < one.election.write_until_s]
        assert len(may) <= 1, f"{may} at {self.now_s}"
        leads = [one.election.identity for one in self.candidates if one.election.leading(one.clock(self.now_s))]
        assert set(leads) <= set(may)
        self.terms += [one for one in leads if self.terms[-1:] != [one]]

    def awake(self, one: Candidate, what: Callable[[], None]) -> None:
        if one.frozen_until_s > self.now_s:
            self.at(one.frozen_until_s, lambda: self.awake(one, what))
        elif not one.dead:
            what()

    def ask(self, one: Candidate) -> None:
        sent_s = one.clock(self.now_s)
        call = one.election.next(now_s=sent_s, wall_us=0)
        waits = [True]

        def finish(late: bool, answer: Lease | None = None) -> None:
            if not waits:
                return
            waits.clear()
            now_s = one.clock(self.now_s)
            if late:
                one.election.has_failed(call, sent_s=sent_s, now_s=now_s)
            elif call is None:
                one.election.was_read(answer, sent_s=sent_s, now_s=now_s)
            elif answer is not None:
                one.election.was_written(answer, sent_s=sent_s)
            else:
                one.election.was_refused(sent_s=sent_s, now_s=now_s)
            due_s = max(self.now_s, one.world(one.election.due_s))
            self.at(due_s, lambda: self.awake(one, lambda: self.ask(one)))

        def arrived() -> None:
            answer = self.answer(call)
            if not self.lost():
                self.at(self.now_s + self.delay_s(), lambda: self.awake(one, lambda: finish(False, answer)))

        if not self.lost():
            self.at(self.now_s + self.delay_s(), arrived)
        self.at(self.now_s + SHIPPED.renew_deadline_s / 2, lambda: self.awake(one, lambda: finish(True)))

    def answer(self, call: Write | None) -> Lease | None:
        """The API server's: the Lease; `None`: there is none, or the write is refused."""
        if call is None:
            return self.lease
        if (self.lease and self.lease.version) != (call.over and call.over.version):
            return None
        self.lease = Lease(call.spec, str(next(self._versions)))
        return self.lease

    def lost(self) -> bool:
        return not self.calm and self.chance.random() < 0.15

    def delay_s(self) -> float:
        if self.calm:
            return 0.005
        return self.chance.choice((0.001, 0.01, 0.2, 0.7, 2.0, 5.0)) * self.chance.random()


@THOROUGH
@given(CHANCES, st.integers(2, 3))
def test_two_never_lead_at_a_time(chance: random.Random, size: int) -> None:
    """Lost and late messages, clocks of other speed, frozen and dying processes: at most one may send at any moment."""
    world = World(chance, size)
    for _ in range(30):
        world.run(world.now_s + chance.uniform(0.1, 6.0))
        one = chance.choice(world.candidates)
        match chance.choice(("freeze", "kill", "release", "nothing")):
            case "freeze":
                one.frozen_until_s = world.now_s + chance.choice((0.5, 3.0, 10.0))
            case "kill" if len(world.candidates) < 8:
                one.dead = True
                world.candidates.append(world.start())
            case "release" if not one.dead and one.frozen_until_s <= world.now_s and len(world.candidates) < 8:
                call = one.election.release(wall_us=0)
                if call is not None and not world.lost():
                    world.at(world.now_s + world.delay_s(), partial(world.answer, call))
                one.dead = True
                world.candidates.append(world.start())
            case _:
                pass


@pytest.mark.parametrize("times", [TIMES, SHIPPED, LeaseTimes(15, 10.0, 2.0)], ids=str)
def test_there_is_time_for_clocks_that_differ(times: LeaseTimes) -> None:
    """By the slowest clock of a holder what it sends is over when the quickest one takes its place."""
    holder, other = (Election(name, times, rng=random.Random(0)) for name in ("holder", "other"))
    read(holder, None, 0.0)
    written = Lease(write(holder, 0.0).spec, "v")
    holder.was_written(written, sent_s=0.0)
    read(other, written, 0.0)  # at the same moment: it cannot be seen earlier
    taken_s = float(times.duration_s)
    assert waits(other, taken_s - 0.001)
    assert write(other, taken_s)
    assert holder.write_until_s / (1.0 - DRIFT_RATIO) == pytest.approx(taken_s)


@FEW
@given(CHANCES, st.integers(2, 3))
def test_a_lease_that_is_deleted_makes_no_second_leader(chance: random.Random, size: int) -> None:
    world = World(chance, size, calm=True)
    world.run(20.0)
    for _ in range(10):
        one = chance.choice(world.candidates)
        one.frozen_until_s = world.now_s + chance.choice((0.0, 3.0, 10.0))
        world.lease = None
        world.run(world.now_s + chance.uniform(11.0, 20.0))  # all have looked at it by then


@given(CHANCES, st.floats(0.0, 3.0))
def test_a_dead_leader_is_followed_in_time(chance: random.Random, lives_s: float) -> None:
    """In quiet, before and after, one leads for ever."""
    world = World(chance, 2, calm=True)
    world.run(25.0 + lives_s)
    [first] = world.terms
    next(one for one in world.candidates if one.election.identity == first).dead = True
    died_s = world.now_s
    world.run(died_s + SHIPPED.duration_s + SHIPPED.look_period_s + 4 * world.delay_s())
    assert len(world.terms) == 2
    world.run(died_s + 25.0)
    assert len(world.terms) == 2


@given(st.integers(1, 3600))
def test_the_times_of_every_duration_fit_together(duration_s: int) -> None:
    """What is sent at the last moment has half a second before another may lead; one lost answer ends no term."""
    times = LeaseTimes.for_duration(duration_s)
    assert times.write_s - times.renew_deadline_s >= 0.5 - 1e-9
    assert 2.0 * times.retry_period_s <= times.renew_deadline_s


def test_the_defaults_leave_time_for_calls_within_the_five_seconds() -> None:
    """At worst 3.2 s pass before the other one writes; three answers of half a second, or two time-outs, fit in."""
    times = LeaseTimes()
    assert LeaseTimes.for_duration(LeaseSettings().duration_s) == times
    assert times.duration_s + times.look_period_s == pytest.approx(3.2)
    assert times.renew_deadline_s / 2.0 > 1.0
