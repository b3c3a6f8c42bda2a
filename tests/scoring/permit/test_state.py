"""The permit machine's state as a value: its next deadline, its open requests, and what it must never be."""

import pytest

from scoring.ids import NodeName
from scoring.permit.machine import handle
from scoring.permit.protocol import ClientGone, DeadlinePassed, Evict, RequestId
from scoring.permit.state import Held, PermitState, Posting, next_deadline_s, validate_state
from tests.scoring.permit.scripts import (
    COMMITTED,
    HELD_PAIR,
    PARTIAL,
    TRIO,
    Step,
    ask,
    bound,
    hold,
    nudge,
    ok,
    play,
    post,
    uids,
)

DEADLINES: dict[str, tuple[float | None, list[Step]]] = {
    "nothing waits": (None, []),
    "the earliest held call": (30.0, [TRIO, (ask("a", 1, at=9), [hold(1, until=39), nudge("bc")]), *HELD_PAIR[2:]]),
    "Bindings under way have no deadline": (None, COMMITTED),
    "a partial gang": (110.0, PARTIAL),
    "a held call before the eviction": (41.0, [*PARTIAL, (ask("b", 4, at=11), [hold(4, until=41), nudge("c")])]),
    "a partial gang with Bindings under way again": (
        None,
        [
            *PARTIAL,
            (ask("b", 4, at=11), [hold(4, until=41), nudge("c")]),
            (ask("c", 5, at=12), [post("b"), post("c")]),
        ],
    ),
    "an evicted gang": (None, [*PARTIAL, (DeadlinePassed(110.0), [Evict(uids("a"))])]),
}


@pytest.mark.parametrize(("want", "script"), DEADLINES.values(), ids=DEADLINES)
def test_next_deadline(want: float | None, script: list[Step]) -> None:
    """The next deadline is the earliest held call's, or the eviction's once nothing is under way."""
    assert want == next_deadline_s(play(script))


def test_the_old_state_stays_what_it_was() -> None:
    """A state is a value: stepping on from it twice gives the same, whatever happened in between."""
    held = play(HELD_PAIR)
    first = handle(held, ask("c", 3), TRIO)
    handle(held, DeadlinePassed(100.0), TRIO)
    handle(held, ClientGone(RequestId(1), 0.0), TRIO)
    assert first == handle(held, ask("c", 3), TRIO)


def test_open_requests_are_the_unanswered_ones() -> None:
    """Held calls and those under way are open, without those whose client left."""
    state = play([*COMMITTED, (ClientGone(RequestId(1), 0.0), []), (bound("b"), [ok(2)])])
    assert state.open_requests == (3,)
    assert play(HELD_PAIR).open_requests == (1, 2)


@pytest.mark.parametrize("timeout_s", [0.0, -1.0, float("nan"), float("inf")])
def test_partial_timeout_must_be_a_duration(timeout_s: float) -> None:
    """A timeout that is not finite and positive is refused where the state is built."""
    with pytest.raises(ValueError, match="partial_timeout_s"):
        PermitState(partial_timeout_s=timeout_s)


A, B = uids("ab")
N = NodeName("n")
BROKEN: dict[str, tuple[str, PermitState]] = {
    "held and bound": (
        "two stages",
        PermitState(1.0, held={A: Held(N, RequestId(1), 0.0)}, bound={A: N}),
    ),
    "held and posting": (
        "two stages",
        PermitState(1.0, held={A: Held(N, RequestId(1), 0.0)}, posting={A: Posting(N, None)}),
    ),
    "posting and bound": ("two stages", PermitState(1.0, posting={A: Posting(N, None)}, bound={A: N})),
    "one request twice": (
        "share one request",
        PermitState(1.0, held={A: Held(N, RequestId(1), 0.0)}, posting={B: Posting(N, RequestId(1))}),
    ),
    "held by a standby": (
        "held without leadership",
        PermitState(1.0, held={A: Held(N, RequestId(1), 0.0)}, leading=False),
    ),
    "evicted by a standby": ("evicted without leadership", PermitState(1.0, partial_until_s=1.0, leading=False)),
    "started, to be evicted": ("started gang", PermitState(1.0, partial_until_s=1.0, started=True)),
    "evicted, to be evicted": ("evicted twice", PermitState(1.0, partial_until_s=1.0, evicting=frozenset({A}))),
}


@pytest.mark.parametrize(("complaint", "state"), BROKEN.values(), ids=BROKEN)
def test_broken_states_are_found(complaint: str, state: PermitState) -> None:
    """`validate_state` names the invariant that is broken."""
    with pytest.raises(AssertionError, match=complaint):
        validate_state(state)
