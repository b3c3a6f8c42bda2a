"""Counts and refusals that are kept from run to run: they save time, and change no answer."""

import random
from itertools import groupby

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scoring.feasibility.room import MOST_ON_A_NODE, Room, ZoneFits, fit_counts
from scoring.ids import NodeName, ZoneName
from scoring.model.policy import Order, Policy, QueuePolicy, Reading
from scoring.plan import Memo, Plan, plan, plan_in_steps
from scoring.plan import board as board_module
from scoring.plan.board import Board
from scoring.plan.slots import Places
from tests.builders import gang, node, pod, snapshot
from tests.scoring.plan.changing import NODES, ZONES, world


@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 2**32),
    st.builds(
        QueuePolicy,
        starve_limit_s=st.sampled_from([1e9, 300.0]),
        reading=st.sampled_from(Reading),
        share_cap=st.sampled_from([None, None, 0.5]),
        order=st.sampled_from([Order.WEIGHT, Order.WEIGHT, Order.FIFO]),
    ),
)
def test_a_long_queue_is_planned_alike_with_what_is_kept(seed: int, queue: QueuePolicy) -> None:
    """Run after run of a cluster whose room, nodes, zones and gangs change: with one memo all along, and without."""
    policy = Policy(queue=queue)
    memo, before = Memo(), None
    for number, state in enumerate(world(random.Random(seed))):
        now_s = 1000.0 + number
        fresh: Plan = plan(state, policy, now_s=now_s, previous=before)
        kept = plan(state, policy, now_s=now_s, previous=before, memo=memo)
        again = plan(state, policy, now_s=now_s, previous=before, memo=memo)
        assert fresh == kept == again
        before = fresh


class Classes:
    """A board's classes, each with a filter of its own, as they should be counted; nodes come and go."""

    def __init__(self, rng: random.Random, count: int) -> None:
        self._rng = rng
        self.requests = [np.array([rng.randint(1, 5), rng.choice([0, 2, 3])]) for _ in range(count)]
        self._forbidden = [{f"n{i:02}" for i in range(NODES) if rng.random() < 0.2} for _ in range(count)]
        self.zone_of = {f"n{i:02}": "abc"[i % ZONES] for i in range(NODES)}
        self._masks: dict[int, np.ndarray] = {}
        self._layout = 0
        self._rearranged()

    def _rearranged(self) -> None:
        self._layout += 1
        self._masks.clear()
        zones = tuple(ZoneName(zone) for zone in sorted(set(self.zone_of.values())))
        names = tuple(NodeName(name) for name in sorted(self.zone_of))
        number = np.array([zones.index(ZoneName(self.zone_of[name])) for name in names])
        self.places = Places(self._layout, ("cpu", "memory"), names, zones, number)

    def rearrange(self) -> None:
        """A node leaves, comes back, perhaps in another zone, or moves."""
        name = f"n{self._rng.randrange(NODES + 2):02}"
        if name in self.zone_of and self._rng.random() < 0.6 and len(self.zone_of) > 3:
            del self.zone_of[name]
        else:
            self.zone_of[name] = self._rng.choice("aabbcd")
        self._rearranged()

    def forbid(self, number: int) -> None:
        """A class may go to a node no more, or again."""
        self._forbidden[number] ^= {f"n{self._rng.randrange(NODES):02}"}
        self._masks.pop(number, None)

    def mask(self, number: int) -> np.ndarray:
        """Where the class may go; the same object while that is the same."""
        if number not in self._masks:
            self._masks[number] = np.array([name not in self._forbidden[number] for name in self.places.names])
        return self._masks[number]

    def row(self, board: Board, number: int) -> np.ndarray | None:
        """Where the board counts the class."""
        row = board.row(number, self.requests[number], number, self.mask(number))
        return None if row is None else np.array([row])

    def sums(self, number: int, free: np.ndarray) -> list[int]:
        """Members of a class that fit each zone, counted from nothing."""
        counts = np.where(self.mask(number), fit_counts(free, self.requests[number]), 0)
        return [int(counts[self.places.zone_of == zone].sum()) for zone in range(len(self.places.zones))]


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32))
def test_a_board_counts_what_there_is(seed: int) -> None:
    """Whatever room is taken and given, whichever nodes come and go, the sums are those of the room that is shown."""
    rng = random.Random(seed)
    classes, board = Classes(rng, 150), Board()

    def made() -> Room:
        return Room(np.array([[rng.randint(-1, 20) for _ in range(2)] for _ in classes.places.names]))

    rooms = [made(), made()]
    for _ in range(60):
        if rng.random() < 0.2:
            classes.rearrange()
            rooms = [made(), made()]
        room = rng.choice(rooms)
        nodes = len(room.free)
        if rng.random() < 0.6:
            room.take([rng.randrange(nodes)], np.array([rng.randint(-2, 3), 1]))
        number = rng.randrange(150)
        if rng.random() < 0.1:
            classes.forbid(number)
        board.show(room, classes.places)
        row = classes.row(board, number)
        assert row is not None
        assert board.sums(row)[0].tolist() == classes.sums(number, room.free)
        rows = np.array(sorted(rng.sample(range(nodes), 3)))
        given_back = room.free[rows] + rng.randint(0, 9)
        supposed = room.free.copy()
        supposed[rows] = given_back
        key = (rows.tobytes(), given_back.tobytes())
        assert board.sums_if(row, rows, given_back, key)[0].tolist() == classes.sums(number, supposed)


def test_nodes_that_hold_more_than_can_be_counted_are_counted_alike() -> None:
    """A byte each of a PiB: as many as are counted on each node, with a board, without, and once room went."""
    classes, board = Classes(random.Random(5), 1), Board()
    classes.requests = [np.array([0, 1])]
    room = Room(np.full((NODES, 2), 2**50))
    for rows in ([], [0, 1], [0, 1]):
        room.take(rows, np.array([0, 2**49]))
        board.show(room, classes.places)
        row = classes.row(board, 0)
        assert row is not None
        found = board.sums(row)[0].tolist()
        kept = ZoneFits(room, classes.requests[0], classes.mask(0), classes.places.zone_of, len(found))
        assert found == kept.sums == classes.sums(0, room.free)
    assert max(found) > MOST_ON_A_NODE


def test_many_classes_are_asked_about_at_once() -> None:
    """Those that the board has under the filter that is meant; of the others it says that it has not."""
    classes, board = Classes(random.Random(3), 6), Board()
    board.show(Room(np.full((NODES, 2), 9)), classes.places)
    rows = [board.row(number, classes.requests[number], number, classes.mask(number)) for number in range(4)]
    filters = [board.put(number, classes.mask(number)) for number in range(6)]
    assert [*rows[:3], None, None] == board.rows([0, 1, 2, 3, 5], [*filters[:3], filters[5], filters[5]])


def test_a_board_that_is_full_forgets_whom_nobody_asks_about(monkeypatch: pytest.MonkeyPatch) -> None:
    """Classes that are asked about in every run stay, others make place, and nobody is counted wrongly."""
    monkeypatch.setattr(board_module, "_MOST_CELLS", 200 * NODES)
    monkeypatch.setattr(board_module, "_FORGOTTEN_AFTER", 2)
    classes, board = Classes(random.Random(1), 500), Board()
    refused = 0
    for number in range(500):
        room = Room(np.full((NODES, 2), 1 + number % 17))
        board.show(room, classes.places)
        for asked in {number, *range(5)}:
            row = classes.row(board, asked)
            refused += row is None
            assert row is None or board.sums(row)[0].tolist() == classes.sums(asked, room.free)
    assert refused == 0
    assert len(board._counts) == 1, "one block of classes"


def test_a_board_without_place_counts_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """More classes than may be kept, all in use: those beyond are left to whoever asks."""
    monkeypatch.setattr(board_module, "_MOST_CELLS", 200 * NODES)
    classes, board = Classes(random.Random(2), 200), Board()
    board.show(Room(np.full((NODES, 2), 9)), classes.places)
    found = [classes.row(board, number) is not None for number in range(200)]
    assert found == [True] * 128 + [False] * 72
    assert board.row(500, np.zeros(2, np.int64), 0, classes.mask(0)) is None


def test_a_board_of_nodes_that_are_mostly_gone_begins_anew() -> None:
    """A hundred nodes come and go one after the other: places of those that are gone are not kept for ever."""
    classes, board = Classes(random.Random(4), 1), Board()
    for number in range(200):
        classes.zone_of = {f"m{number + i:03}": f"z{number + i:03}" for i in range(4)}
        classes._rearranged()
        board.show(Room(np.full((4, 2), number)), classes.places)
        row = classes.row(board, 0)
        assert row is not None
        assert board.sums(row)[0].tolist() == classes.sums(0, np.full((4, 2), number))
        assert len(board._free) <= 2 * 4 + 64 + 8


def test_a_step_counts_anew_for_one_block_of_classes() -> None:
    """The room of a hundred nodes changed, for three hundred classes: three pauses until all are counted again."""
    nodes = [node(f"n{i:02}", zone="ab"[i % 2], cpu="8") for i in range(100)]
    waiting = [gang(f"g{i}", 2, cpu="9", memory=f"{i}Mi") for i in range(300)]
    policy, memo = Policy(), Memo()
    plan(snapshot(nodes, waiting), policy, now_s=0.0, memo=memo)
    others = [pod(f"x{i}", node=f"n{i:02}") for i in range(100)]
    steps = plan_in_steps(snapshot(nodes, waiting, pods=others, version=2), policy, now_s=1.0, memo=memo)
    left = [len(memo.board.behind(np.arange(300))) for _ in steps]
    assert [count for count, _ in groupby(left)] == [0, 2, 1, 0]


def test_gangs_that_are_gone_are_forgotten() -> None:
    """Hundreds of gangs come and go, each of its own kind: what is kept is for those that are there."""
    nodes = [node(f"n{i:02}", zone="a", cpu="2") for i in range(4)]
    memo, before = Memo(), None
    for number in range(300):
        waiting = [gang(f"g{i}", 2, cpu="3", memory=f"{i}Mi") for i in range(number, number + 10)]
        before = plan(snapshot(nodes, waiting, version=number + 1), Policy(), now_s=0.0, previous=before, memo=memo)
        assert len(before.waiting) == 10
        kept = [len(memo.wishes.known), len(memo.standings._known), len(memo.refusals._number_of)]
        kept += [len(memo.columns.asks), len(memo.standings._loads)]
        kept += [len(scaled.keys) for scaled in memo.standings._scales.values()]
        assert max(kept) <= 10 * 2 + 64 + 10
