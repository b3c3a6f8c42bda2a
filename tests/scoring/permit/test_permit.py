"""The permit machine as short scripts: event, then exactly what the machine says to it; and its state as a value."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TypeAlias, TypeVar

import pytest

from scoring import NodeName, PodUid, permit
from scoring.feasibility.quorum import NO_MEMBERS, Quorum
from scoring.model.reasons import Reason
from scoring.permit import PermitState, handle, next_deadline_s
from tests.scoring.permit.auditor import validate_state

Step: TypeAlias = Quorum | tuple[permit.Event, list[permit.Instruction]]
"""The gang's new quorum, or an event with the instructions that must follow."""

T = TypeVar("T")
START = PermitState(partial_timeout_s=100.0)
HOLD_S = 30.0
due, quits = permit.DeadlinePassed, permit.LeadershipLost


def uids(letters: Iterable[str]) -> tuple[PodUid, ...]:
    """Pods are single letters."""
    return tuple(PodUid(letter) for letter in letters)


def quorum(
    live: str,
    *,
    need: int,
    required: str | None = None,
    placed: Mapping[str, str] | None = None,
    dead: Mapping[str, str] | None = None,
    finished: str = "",
    started: bool = False,
    lost: Iterable[str] = (),
    problem: Reason | None = None,
) -> Quorum:
    """A gang of the `live` members of which `need` must run; `placed` and `dead` ones have the given nodes."""
    nodes = {**(placed or {}), **(dead or {})}
    return Quorum(
        min_member=need,
        required=None if required is None else frozenset(uids(required)),
        live=frozenset(uids(live)),
        placed=frozenset(uids(placed or "")),
        finished=frozenset(uids(finished)),
        started=started,
        bound_to={PodUid(uid): NodeName(node) for uid, node in nodes.items()},
        lost_nodes=frozenset(NodeName(node) for node in lost),
        problem=problem,
    )


def ask(uid: str, request: int, *, at: float = 0.0, node: str = "", unusable: str = "") -> permit.BindRequested:
    """kube-scheduler binds pod `a` to its node `na`, by default, and can wait for 30 s."""
    on = NodeName(node or f"n{uid}")
    return permit.BindRequested(PodUid(uid), on, permit.RequestId(request), at, at + HOLD_S, frozenset(uids(unusable)))


def bound(uid: str, *, at: float = 0.0, node: str = "") -> permit.MemberBound:
    """Pod `a` is seen or confirmed on its node `na`, by default."""
    return permit.MemberBound(PodUid(uid), NodeName(node or f"n{uid}"), at)


def failed(uid: str, *, at: float = 0.0, terminal: bool = False) -> permit.BindFailed:
    return permit.BindFailed(PodUid(uid), terminal, at)


def post(uid: str, node: str = "") -> permit.PostBinding:
    """Pod `a` is posted to its node `na`, by default."""
    return permit.PostBinding(PodUid(uid), NodeName(node or f"n{uid}"))


def no(request: int, reason: Reason | None) -> permit.Answer:
    return permit.Answer(permit.RequestId(request), reason)


def all_of(kind: Callable[[tuple[PodUid, ...]], T]) -> Callable[[str], T]:
    return lambda letters: kind(uids(letters))


ok = partial(no, reason=None)
nudge, evict = all_of(permit.Nudge), all_of(permit.Evict)


def changed(at: float, unusable: str = "") -> permit.GangChanged:
    return permit.GangChanged(at, frozenset(uids(unusable)))


def lost(node: str, at: float) -> permit.NodeLost:
    return permit.NodeLost(NodeName(node), at)


def deleted(uid: str, at: float) -> permit.PodDeleted:
    return permit.PodDeleted(PodUid(uid), at)


def left(request: int, at: float) -> permit.ClientGone:
    return permit.ClientGone(permit.RequestId(request), at)


def holds(uid: str, request: int, wakes: str = "", *, at: float = 0.0) -> Step:
    """A member comes to bind and is held; the first one of a round wakes the others."""
    return ask(uid, request, at=at), [nudge(wakes)] if wakes else []


def commits(uid: str, request: int, posted: str, *, at: float = 0.0) -> Step:
    """A member comes to bind, and with it these are posted, in this order."""
    return ask(uid, request, at=at), [post(one) for one in posted]


def refused(uid: str, request: int, reason: Reason) -> Step:
    return ask(uid, request), [no(request, reason)]


def binds(uid: str, request: int, *, at: float = 0.0) -> Step:
    return bound(uid, at=at), [ok(request)]


def fails(uid: str, request: int, *, at: float = 0.0, reason: Reason = Reason.COMMIT_FAILED) -> Step:
    return failed(uid, at=at), [no(request, reason)]


def play(script: Iterable[Step], state: PermitState = START) -> PermitState:
    """Run a script from `state`; every step must say exactly what the script says, and leave a valid state."""
    now = NO_MEMBERS
    for number, step in enumerate(script):
        if isinstance(step, Quorum):
            now = step
            continue
        event, want = step
        state, said = handle(state, event, now)
        validate_state(state)
        assert tuple(want) == said, f"step {number}: {event}"
    return state


PAIR = quorum("ab", need=2)
TRIO = quorum("abc", need=3)
PAIR_OF_THREE = quorum("abc", need=2)
PS_FIRST = quorum("pxyz", need=3, required="pxy")
"""A ps p and workers x, y, z by index, of which the last is beyond min-available."""

HELD_PAIR: list[Step] = [TRIO, holds("a", 1, "bc"), holds("b", 2)]
COMMITTED: list[Step] = [*HELD_PAIR, commits("c", 3, "abc")]
PARTIAL: list[Step] = [*COMMITTED, binds("a", 1, at=5), fails("c", 3, at=6), fails("b", 2, at=10)]
"""a is bound, b and c are not; the clock runs from 10 to 110."""
HELD_AGAIN: list[Step] = [*PARTIAL, holds("b", 4, "c", at=11)]
RETRIED: list[Step] = [*HELD_AGAIN, commits("c", 5, "bc", at=12)]
WHOLE: list[Step] = [*COMMITTED, binds("a", 1), binds("b", 2), binds("c", 3)]
EVICTED: Step = due(110.0), [evict("a")]
A_GONE: list[permit.Instruction] = [no(1, Reason.POD_DELETED)]
ELSEWHERE: Step = bound("a", node="nx"), [no(1, Reason.POD_CHANGED)]
TOO_LATE: list[permit.Instruction] = [no(4, Reason.QUORUM_TIMEOUT), evict("a")]
A_LEAVES: Step = deleted("a", 1.0), A_GONE
BOTH_LEAVE: Step = deleted("a", 1.0), [*A_GONE, no(2, Reason.INCOMPLETE)]
B_FAILED: list[Step] = [*COMMITTED, fails("b", 2), binds("a", 1)]


def fail_both(reason: Reason) -> list[permit.Instruction]:
    return [no(1, reason), no(2, reason)]


def steps(*script: Step) -> tuple[Step, ...]:
    return script


SCRIPTS: dict[str, tuple[Step, ...]] = {
    # Hold and commit.
    "the last member commits all, each answer waits for its own outcome": steps(
        *COMMITTED, binds("c", 3), binds("a", 1), binds("b", 2)
    ),
    "a gang of one is never held": steps(quorum("a", need=1), commits("a", 1, "a"), binds("a", 1)),
    "posts are in the order of uids, not of requests": steps(PAIR, holds("b", 1, "a"), commits("a", 2, "ab")),
    "members beyond min-available are posted at once after the commit": steps(
        PAIR_OF_THREE, holds("a", 1, "bc"), commits("b", 2, "ab"), commits("c", 3, "c")
    ),
    "members that are bound already count": steps(
        quorum("abc", need=3, placed={"a": "na"}), holds("b", 1, "c"), commits("c", 2, "bc")
    ),
    "succeeded members count for ever": steps(
        quorum("abc", need=3, placed={"a": "na", "b": "nb"}, finished="ab", started=True), commits("c", 1, "c")
    ),
    "a count does not replace the ps": steps(
        PS_FIRST, holds("x", 1, "pyz"), holds("y", 2), holds("z", 3), commits("p", 4, "pxyz")
    ),
    "a higher worker does not replace a lower one": steps(
        PS_FIRST, holds("p", 1, "xyz"), holds("z", 2), holds("x", 3), commits("y", 4, "pxyz")
    ),
    "an incomplete gang is not held": steps(quorum("ab", need=3), refused("a", 1, Reason.INCOMPLETE)),
    "a pod that is dying is not held": steps(PAIR, (ask("x", 1), [no(1, Reason.POD_DELETED)])),
    # The same member again.
    "a bound member asked for again on its node: success at once": steps(
        quorum("ab", need=2, placed={"a": "na"}), (ask("a", 1), [ok(1)])
    ),
    "a bound member asked for on another node: refused": steps(
        quorum("ab", need=2, placed={"a": "na"}), (ask("a", 1, node="nx"), [no(1, Reason.POD_CHANGED)])
    ),
    "confirmed before the cache knows: success at once": steps(*COMMITTED, binds("a", 1), (ask("a", 4), [ok(4)])),
    "a held member asked for again: the first call fails, the new one is held for its node and time": steps(
        *HELD_PAIR,
        (ask("a", 4, at=5, node="nx"), [no(1, Reason.POD_CHANGED)]),
        (ask("c", 5, at=6), [post("a", "nx"), post("b"), post("c")]),
    ),
    "a member under way asked for again on the same node: the new call gets the outcome": steps(
        *COMMITTED, (ask("a", 4), [no(1, Reason.POD_CHANGED)]), binds("a", 4)
    ),
    "… after its first client left": steps(*COMMITTED, (left(1, 0.0), []), (ask("a", 4), []), fails("a", 4)),
    "a member under way asked for on another node: refused, the first call keeps its outcome": steps(
        *COMMITTED, (ask("a", 4, node="nx"), [no(4, Reason.POD_CHANGED)]), binds("a", 1)
    ),
    "the cache shows a held member bound before the event does": steps(
        *HELD_PAIR, quorum("abc", need=3, placed={"a": "na"}), (ask("a", 4), [ok(1), ok(4)]), (bound("a"), [])
    ),
    # Seen bound by another client: another leader's Binding, or an answer that was lost.
    "a held member is seen on the node it asked for": steps(*HELD_PAIR, binds("a", 1), (due(1.0), [])),
    "a held member is seen on another node": steps(*HELD_PAIR, ELSEWHERE),
    "a member under way is seen on another node; its own failure comes later": steps(
        *COMMITTED, ELSEWHERE, (failed("a"), [])
    ),
    "the watch is faster than the reply": steps(*COMMITTED, binds("a", 1), (bound("a"), [])),
    "a failure after the pod was seen bound is not believed": steps(
        *COMMITTED, binds("a", 1), (failed("a", terminal=True), []), (ask("a", 4), [ok(4)])
    ),
    "a bound member completes the gang, the next room check commits it": steps(
        *HELD_PAIR, quorum("abc", need=3, placed={"c": "nc"}), (bound("c"), []), (changed(0.0), [post("a"), post("b")])
    ),
    # All held members fail together.
    "deadline": steps(*HELD_PAIR, (due(29.9), []), (due(30.0), fail_both(Reason.QUORUM_TIMEOUT)), (due(30.0), [])),
    "the earliest deadline counts for all": steps(
        TRIO, holds("a", 1, "bc", at=10), holds("b", 2, at=0), (due(30.0), fail_both(Reason.QUORUM_TIMEOUT))
    ),
    "a member that comes after the deadline does not save the others": steps(
        *HELD_PAIR, (ask("c", 3, at=30), [*fail_both(Reason.QUORUM_TIMEOUT), nudge("ab")])
    ),
    "room of a held member was taken": steps(
        *HELD_PAIR, (ask("c", 3, unusable="a"), [*(no(r, Reason.ROOM_TAKEN) for r in (1, 2, 3))])
    ),
    "room of the new member was taken, before quorum": steps(
        TRIO, holds("a", 1, "bc"), (ask("b", 2, unusable="b"), fail_both(Reason.ROOM_TAKEN))
    ),
    "room was taken, seen when the gang changed": steps(*HELD_PAIR, (changed(0.0, "b"), fail_both(Reason.ROOM_TAKEN))),
    "room of a member that is not held is no matter": steps(*HELD_PAIR, (changed(0.0, "c"), [])),
    "a node that a held member waits for is lost": steps(*HELD_PAIR, (lost("nb", 1.0), fail_both(Reason.NODE_LOST))),
    "a node that no held member waits for is lost": steps(*HELD_PAIR, (lost("nx", 1.0), [])),
    "a member comes with a node that is lost": steps(
        quorum("ab", need=2, lost=["na"]), refused("a", 1, Reason.NODE_LOST)
    ),
    "the gang becomes invalid while enough of it is held": steps(
        *HELD_PAIR, quorum("abc", need=2, problem=Reason.INVALID_GROUP), (changed(1.0), fail_both(Reason.INVALID_GROUP))
    ),
    "a member of an invalid gang comes to bind": steps(
        quorum("ab", need=1, problem=Reason.INVALID_GROUP), refused("a", 1, Reason.INVALID_GROUP)
    ),
    "the gang became invalid before its Bindings began: each fails for that": steps(
        *COMMITTED,
        quorum("ab", need=2, problem=Reason.INVALID_GROUP),
        fails("a", 1, reason=Reason.INVALID_GROUP),
        fails("b", 2, reason=Reason.INVALID_GROUP),
    ),
    "an invalid gang never starts, however many of it have nodes": steps(
        quorum("ab", need=2, placed={"a": "na", "b": "nb"}, problem=Reason.INVALID_GROUP),
        (changed(0.0), []),
        quorum("ac", need=2, placed={"a": "na"}),
        (changed(0.0), []),
        (due(100.0), [evict("a")]),
    ),
    "a held member is deleted and the gang is incomplete": steps(*HELD_PAIR, quorum("bc", need=3), BOTH_LEAVE),
    "… even if the cache still shows it": steps(*HELD_PAIR, BOTH_LEAVE),
    "a held member is deleted and enough others exist": steps(
        quorum("abcd", need=3),
        holds("a", 1, "bcd"),
        holds("b", 2),
        quorum("bcd", need=3),
        A_LEAVES,
        holds("c", 3),
        commits("d", 4, "bcd"),
    ),
    "a held member is being deleted, seen with another event": steps(
        *HELD_PAIR, quorum("bcd", need=3), (due(1.0), A_GONE)
    ),
    "the last pods of the gang are gone": steps(
        *HELD_PAIR, NO_MEMBERS, (changed(0.0), [*A_GONE, no(2, Reason.POD_DELETED)])
    ),
    "leadership lost": steps(
        *HELD_PAIR,
        (quits(1.0), fail_both(Reason.NOT_LEADER)),
        (ask("a", 3), [no(3, Reason.NOT_LEADER)]),
        (changed(1.0), []),
    ),
    "leadership lost while Bindings are under way: each call gets its own outcome": steps(
        *COMMITTED, (quits(1.0), []), binds("a", 1), fails("b", 2), binds("c", 3), (due(1000.0), [])
    ),
    # The gang changes while it is held.
    "the minimum shrinks to what is held": steps(*HELD_PAIR, PAIR_OF_THREE, (changed(1.0), [post("a"), post("b")])),
    "the minimum shrinks, but no event with a room check came": steps(
        *HELD_PAIR, PAIR_OF_THREE, (due(1.0), []), (bound("z"), [])
    ),
    "the minimum grows": steps(PAIR, holds("a", 1, "b"), TRIO, holds("b", 2), commits("c", 3, "abc")),
    # Clients that leave.
    "a held member whose client left is not bound": steps(
        *HELD_PAIR, (left(1, 1.0), []), holds("c", 3), commits("a", 4, "abc")
    ),
    "a later held member's client leaves, the earlier one stays": steps(
        *HELD_PAIR, (left(2, 1.0), []), holds("c", 3), commits("b", 4, "abc")
    ),
    "a client that left while its Binding was under way is owed nothing": steps(
        *COMMITTED, (left(1, 1.0), []), (bound("a"), [])
    ),
    "a client that was answered before leaves": steps(*COMMITTED, binds("a", 1), (left(1, 1.0), [])),
    "the first client of the round left: the next held member wakes the siblings again": steps(
        TRIO, holds("a", 1, "bc"), (left(1, 1.0), []), holds("b", 2, "ac")
    ),
    # Bindings that fail.
    "one Binding fails: the others go on, and it is posted at once when it comes again": steps(
        *B_FAILED, commits("b", 4, "b"), binds("c", 3), binds("b", 4)
    ),
    "a failure of a member that is not under way says nothing": steps(*HELD_PAIR, (failed("a", terminal=True), [])),
    "a failure that no call waits for is answered to none": steps(*COMMITTED, (left(1, 1.0), []), (failed("a"), [])),
    "a member under way is deleted: its call fails at once, its outcome is ignored": steps(
        *COMMITTED, quorum("bcd", need=3), A_LEAVES, (bound("a"), []), binds("b", 2)
    ),
    "an unknown member is deleted": steps(*HELD_PAIR, (deleted("z", 1.0), [])),
    # Roll-forward of a partial gang.
    "several missing members are posted only together": steps(*RETRIED),
    "a member that can never be bound leaves no call waiting": steps(
        *B_FAILED,
        quorum("abcd", need=4),
        holds("b", 4, "d"),
        (failed("c", terminal=True), [no(3, Reason.COMMIT_FAILED), no(4, Reason.INCOMPLETE)]),
    ),
    "a member that failed may come again: the others wait for it": steps(
        *B_FAILED, quorum("abcd", need=4), holds("b", 4, "d"), fails("c", 3), holds("d", 5), commits("c", 6, "bcd")
    ),
    "a bound member that failed counts no more": steps(
        *PARTIAL,
        quorum("bcd", need=3, dead={"a": "na"}),
        holds("b", 4, "cd", at=11),
        holds("c", 5, at=12),
        commits("d", 6, "bcd", at=13),
    ),
    "a bound member whose node is lost counts no more, even if the cache is behind": steps(
        *PARTIAL,
        quorum("abcd", need=3, placed={"a": "na"}),
        (lost("na", 11.0), []),
        quorum("bcd", need=3, dead={"a": "na"}, lost=["na"]),
        holds("b", 4, "cd", at=11),
        holds("c", 5, at=12),
    ),
    "a Binding under way to a lost node does not count": steps(
        quorum("abcd", need=3),
        holds("a", 1, "bcd"),
        holds("b", 2),
        commits("c", 3, "abc"),
        (lost("na", 1.0), []),
        quorum("abcd", need=3, lost=["na"]),
        commits("d", 4, "d"),
        fails("b", 2),
        fails("d", 4),
        holds("b", 5, "d"),
    ),
    # Eviction of a gang that was never whole.
    "partial for too long: evicted once": steps(*PARTIAL, (due(109.9), []), EVICTED, (due(300.0), [])),
    "… a call that comes too late is not held first": steps(*PARTIAL, (ask("b", 4, at=110), TOO_LATE)),
    "… those held with it fail": steps(*PARTIAL, holds("b", 4, "c", at=100), (due(110.0), TOO_LATE)),
    "an evicted member counts no more, its successor takes its place": steps(
        *PARTIAL,
        EVICTED,
        holds("b", 4, "c", at=111),
        holds("c", 5, at=112),
        quorum("bcd", need=3, dead={"a": "na"}),
        (deleted("a", 113.0), []),
        commits("d", 6, "bcd", at=114),
    ),
    "an eviction that was refused: the member counts again, the clock starts again": steps(
        *PARTIAL,
        EVICTED,
        (permit.EvictionRefused(uids("a"), 111.0), []),
        (due(210.0), []),
        (due(211.0), [evict("a")]),
        (permit.EvictionRefused(uids("a"), 212.0), []),
        holds("b", 4, "c", at=213),
        commits("c", 5, "bc", at=214),
    ),
    "the clock runs on through a failed second attempt": steps(
        *RETRIED, fails("b", 4, at=92), fails("c", 5, at=93), EVICTED
    ),
    "no eviction before the outcome of what is under way": steps(
        *RETRIED,
        (due(115.0), []),
        binds("b", 4, at=116),
        (failed("c", at=117), [no(5, Reason.COMMIT_FAILED), evict("ab")]),
    ),
    "made whole in time: never evicted": steps(*RETRIED, binds("b", 4, at=92), binds("c", 5, at=93), (due(500.0), [])),
    "a started gang that lost a member is never evicted": steps(
        *WHOLE,
        quorum("abd", need=3, placed={"a": "na", "b": "nb"}, started=True),
        (deleted("c", 5.0), []),
        (due(1000.0), []),
        commits("d", 4, "d", at=1001),
    ),
    "one whose Bindings were all confirmed while a member went never started": steps(
        *WHOLE, quorum("abd", need=3, placed={"a": "na", "b": "nb"}), (deleted("c", 5), []), (due(105), [evict("ab")])
    ),
    "a gang known as started before a restart is never evicted": steps(
        quorum("ab", need=2, placed={"a": "na"}, started=True), (changed(0.0), []), (due(1000.0), [])
    ),
    "a partial gang found after a restart is evicted in time": steps(
        quorum("ab", need=2, placed={"a": "na"}), (changed(0.0), []), (due(100.0), [evict("a")])
    ),
    "a gang that vanished and came again starts again": steps(
        *WHOLE,
        NO_MEMBERS,
        (deleted("c", 5.0), []),
        quorum("xy", need=2, placed={"x": "nx"}),
        (changed(10.0), []),
        (due(110.0), [evict("x")]),
    ),
    "succeeded members are not evicted": steps(
        quorum("abc", need=3, placed={"a": "na", "b": "nb"}, finished="a"),
        (changed(0.0), []),
        (due(100.0), [evict("b")]),
    ),
    "a gang of which only succeeded members are there holds nothing": steps(
        quorum("abc", need=3, placed={"a": "na"}, finished="a"), (changed(0.0), []), (due(1000.0), [])
    ),
    "without leadership nothing is evicted": steps(*PARTIAL, (quits(20.0), []), (due(110.0), [])),
}


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS)
def test_script(script: tuple[Step, ...]) -> None:
    play(script)


DEADLINES: dict[str, tuple[float | None, list[Step]]] = {
    "nothing waits": (None, []),
    "the earliest held call": (30.0, [TRIO, holds("a", 1, "bc", at=9), *HELD_PAIR[2:]]),
    "a held call that came again": (
        35.0,
        [TRIO, holds("a", 1, "bc"), (ask("a", 2, at=5), [no(1, Reason.POD_CHANGED)])],
    ),
    "Bindings under way have no deadline": (None, COMMITTED),
    "a partial gang": (110.0, PARTIAL),
    "a held call before the eviction": (41.0, HELD_AGAIN),
    "a partial gang with Bindings under way again": (None, RETRIED),
    "an evicted gang": (None, [*PARTIAL, EVICTED]),
}


@pytest.mark.parametrize(("want", "script"), DEADLINES.values(), ids=DEADLINES)
def test_next_deadline(want: float | None, script: list[Step]) -> None:
    assert want == next_deadline_s(play(script))


def test_the_old_state_stays_what_it_was() -> None:
    """A state is a value: stepping on from it twice gives the same, whatever happened in between."""
    held = play(HELD_PAIR)
    first = handle(held, ask("c", 3), TRIO)
    handle(held, due(100.0), TRIO)
    handle(held, left(1, 0.0), TRIO)
    assert first == handle(held, ask("c", 3), TRIO)


@pytest.mark.parametrize("timeout_s", [0.0, -1.0, float("nan"), float("inf")])
def test_partial_timeout_must_be_a_duration(timeout_s: float) -> None:
    with pytest.raises(ValueError, match="partial_timeout_s"):
        PermitState(partial_timeout_s=timeout_s)
