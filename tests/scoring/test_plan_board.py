"""Counts and refusals that are kept from run to run: they save time, and change no answer."""

import random
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scoring.ids import NodeName
from scoring.model import Gang, Node
from scoring.plan import Memo, Plan, plan
from scoring.plan import board as board_module
from scoring.plan.board import Board, Places
from scoring.policy import Policy, QueuePolicy
from scoring.room import Room, fit_counts
from scoring.snapshot import Commitment, Snapshot
from tests.builders import bound, gang, node, pod, snapshot

NODES = 12
ZONES = 3


def world(rng: random.Random) -> Iterator[Snapshot]:
    """A small busy cluster, changed a little each time: room, nodes, gangs, refusals, promises."""
    nodes = [node(f"n{i:02}", zone="abc"[i % ZONES], cpu="4", memory="16Gi") for i in range(NODES)]
    gangs = [_gang(rng, number) for number in range(14)]
    used = {one.name: rng.randint(0, 4) for one in nodes}
    excluded: dict[int, str] = {}
    promised: str | None = None
    away = nodes[0]
    for version in range(1, 14):
        match rng.randrange(8):
            case 0 | 1 | 2:
                used[rng.choice(nodes).name] = rng.randint(0, 4)
            case 3:
                gangs[rng.randrange(len(gangs))] = _gang(rng, 100 + version)
            case 4:
                excluded = {rng.randrange(len(gangs)): rng.choice(nodes).name} if rng.random() < 0.5 else {}
            case 5:
                chosen = rng.randrange(NODES)
                chosen %= len(nodes)
                nodes[chosen] = _touched(rng, nodes[chosen])
            case 6 if len(nodes) == NODES:
                away = nodes.pop(rng.randrange(NODES))
            case 6:
                nodes = sorted([*nodes, away], key=lambda one: one.name)
            case _:
                promised = rng.choice(gangs).key if promised is None else None
        yield _snapshot(nodes, gangs, used, excluded, promised, version)


def _gang(rng: random.Random, number: int) -> Gang:
    """Of one kind of members, or of two; some have members on nodes."""
    cpu, memory, size = str(rng.randint(1, 4)), f"{rng.randint(0, 5)}Gi", rng.randint(1, 5)
    options = rng.choice([{}, {}, {"zones": "b,a"}, {"zone-policy": "preferred"}])
    one = gang(f"g{number:03}", size, created_s=float(rng.randint(0, 2000)), options=options, cpu=cpu, memory=memory)
    if rng.random() < 0.3:
        ps = pod(f"g{number:03}-ps", gang=f"g{number:03}", cpu=str(rng.randint(1, 3)), min_available=size + 1)
        one = replace(one, members=(ps, *one.members), min_member=size + 1)
    if rng.random() < 0.2:
        one = replace(one, members=(bound(one.members[0], f"n{rng.randrange(NODES):02}"), *one.members[1:]))
    return one


def _touched(rng: random.Random, one: Node) -> Node:
    """Cordoned or not, or of another size."""
    if rng.random() < 0.5:
        return replace(one, unschedulable=not one.unschedulable)
    return node(one.name, zone=one.zone, cpu=str(rng.randint(2, 6)), memory="16Gi")


def _snapshot(
    nodes: list[Node],
    gangs: list[Gang],
    used: dict[NodeName, int],
    excluded: dict[int, str],
    promised: str | None,
    version: int,
) -> Snapshot:
    there = {one.name for one in nodes}
    others = [pod(f"x-{name}", cpu=str(cpu), node=name) for name, cpu in used.items() if cpu and name in there]
    made = snapshot(nodes, gangs, pods=others, version=version)
    assignment = {
        one.uid: NodeName(f"n{i:02}")
        for listed in gangs
        if listed.key == promised
        for i, one in enumerate(listed.pending)
    }
    return replace(
        made,
        table=replace(made.table, version=version),
        exclusions={
            gangs[i].members[0].member_class: frozenset({NodeName(name)})
            for i, name in excluded.items()
            if i < len(gangs)
        },
        commitments={one.key: Commitment(one.key, assignment) for one in gangs if one.key == promised and assignment},
    )


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([1e9, 300.0]))
def test_a_long_queue_is_planned_alike_with_what_is_kept(seed: int, starve_limit_s: float) -> None:
    """Run after run of a changing cluster: with the same memo all along, and without any."""
    policy = Policy(queue=QueuePolicy(starve_limit_s=starve_limit_s))
    memo, before = Memo(), None
    for number, state in enumerate(world(random.Random(seed))):
        now_s = 1000.0 + number
        fresh: Plan = plan(state, policy, now_s=now_s, previous=before)
        kept = plan(state, policy, now_s=now_s, previous=before, memo=memo)
        again = plan(state, policy, now_s=now_s, previous=before, memo=memo)
        assert fresh == kept == again
        before = fresh


class Classes:
    """A board's classes as they should be counted."""

    def __init__(self, rng: random.Random, count: int) -> None:
        self.requests = [np.array([rng.randint(1, 5), rng.choice([0, 2, 3])]) for _ in range(count)]
        self.masks = [np.array([rng.random() < 0.8 for _ in range(NODES)]) for _ in range(count)]
        self.zone_of = np.array([i % ZONES for i in range(NODES)])
        self.places = Places("layout", ("cpu", "memory"), self.zone_of, ZONES)

    def sums(self, number: int, free: np.ndarray) -> list[int]:
        """Members of a class that fit each zone, counted from nothing."""
        counts = np.where(self.masks[number], fit_counts(free, self.requests[number]), 0)
        return [int(counts[self.zone_of == zone].sum()) for zone in range(ZONES)]


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32))
def test_a_board_counts_what_there_is(seed: int) -> None:
    """Whatever room is taken, given, hidden and shown in turns, the sums are those of the room that is shown."""
    rng = random.Random(seed)
    classes, board = Classes(rng, 150), Board()
    rooms = [Room(np.array([[rng.randint(-1, 20) for _ in range(2)] for _ in range(NODES)])) for _ in range(2)]
    for _ in range(60):
        room = rng.choice(rooms)
        if rng.random() < 0.6:
            room.take([rng.randrange(NODES)], np.array([rng.randint(-2, 3), 1]))
        number = rng.randrange(150)
        if rng.random() < 0.1:
            mask = classes.masks[number].copy()
            mask[rng.randrange(NODES)] ^= True
            classes.masks[number] = mask
        board.show(room, classes.places)
        found = board.sums(number, classes.requests[number], classes.masks[number])
        assert found is not None
        assert found.tolist() == classes.sums(number, room.free)
        rows = np.array(sorted(rng.sample(range(NODES), 3)))
        given_back = room.free[rows] + rng.randint(0, 9)
        supposed = room.free.copy()
        supposed[rows] = given_back
        key = (rows.tobytes(), given_back.tobytes())
        there = board.sums_if(number, classes.requests[number], classes.masks[number], rows, given_back, key)
        assert there is not None
        assert there.tolist() == classes.sums(number, supposed)


def test_a_board_that_is_full_forgets_whom_nobody_asks_about(monkeypatch: pytest.MonkeyPatch) -> None:
    """Classes that are asked about in every run stay, others make place, and nobody is counted wrongly."""
    monkeypatch.setattr(board_module, "_MOST_CELLS", 100 * NODES)
    monkeypatch.setattr(board_module, "_FORGOTTEN_AFTER", 2)
    classes, board = Classes(random.Random(1), 500), Board()
    refused = 0
    for number in range(500):
        room = Room(np.full((NODES, 2), 1 + number % 17))
        board.show(room, classes.places)
        for asked in {number, *range(5)}:
            found = board.sums(asked, classes.requests[asked], classes.masks[asked])
            refused += found is None
            assert found is None or found.tolist() == classes.sums(asked, room.free)
    assert refused == 0
    assert len(board._counts) == 1, "one block of classes"


def test_a_board_without_place_counts_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """More classes than may be kept, all in use: those beyond are left to whoever asks."""
    monkeypatch.setattr(board_module, "_MOST_CELLS", 100 * NODES)
    classes, board = Classes(random.Random(2), 130), Board()
    board.show(Room(np.full((NODES, 2), 9)), classes.places)
    found = [board.sums(n, classes.requests[n], classes.masks[n]) is not None for n in range(130)]
    assert found == [True] * 64 + [False] * 66
    nothing = np.zeros(2, np.int64)
    assert board.sums(500, nothing, classes.masks[0]) is None


def test_gangs_that_are_gone_are_forgotten() -> None:
    """Hundreds of gangs come and go, each of its own kind: what is kept is for those that are there."""
    nodes = [node(f"n{i:02}", zone="a", cpu="2") for i in range(4)]
    memo, before = Memo(), None
    for number in range(300):
        waiting = [gang(f"g{i}", 2, cpu="3", memory=f"{i}Mi") for i in range(number, number + 10)]
        before = plan(snapshot(nodes, waiting, version=number + 1), Policy(), now_s=0.0, previous=before, memo=memo)
        assert len(before.waiting) == 10
        kept = [len(memo.asks), len(memo.standings._known), len(memo.refusals._number_of), len(memo.refusals._known)]
        assert max(kept) <= 10 * 2 + 64 + 10
