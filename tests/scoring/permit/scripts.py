"""The language of the permit machine's scripts: an event, then exactly what the machine says to it."""

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from scoring.feasibility.quorum import NO_MEMBERS, Quorum
from scoring.ids import NodeName, PodUid
from scoring.model.reasons import Reason
from scoring.permit import (
    Answer,
    BindFailed,
    BindRequested,
    Event,
    Hold,
    Instruction,
    MemberBound,
    Nudge,
    PermitState,
    PostBinding,
    Release,
    RequestId,
    handle,
)
from tests.scoring.permit.auditor import validate_state

Step: TypeAlias = Quorum | tuple[Event, list[Instruction]]
"""The gang's new quorum, or an event with the instructions that must follow."""

START = PermitState(partial_timeout_s=100.0)
HOLD_S = 30.0


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


def ask(uid: str, request: int, *, at: float = 0.0, node: str = "", unusable: str = "") -> BindRequested:
    """kube-scheduler binds pod `a` to its node `na`, by default, and can wait for 30 s."""
    where = NodeName(node or f"n{uid}")
    return BindRequested(PodUid(uid), where, RequestId(request), at, at + HOLD_S, frozenset(uids(unusable)))


def bound(uid: str, *, at: float = 0.0, node: str = "") -> MemberBound:
    """Pod `a` is seen or confirmed on its node `na`, by default."""
    return MemberBound(PodUid(uid), NodeName(node or f"n{uid}"), at)


def failed(uid: str, *, at: float = 0.0, terminal: bool = False) -> BindFailed:
    return BindFailed(PodUid(uid), "500 etcdserver: request timed out", terminal, at)


def hold(request: int, *, until: float = HOLD_S) -> Hold:
    """The call is held until the default deadline of a request made at time 0."""
    return Hold(RequestId(request), until)


def post(uid: str, node: str = "") -> PostBinding:
    """Pod `a` is posted to its node `na`, by default."""
    return PostBinding(PodUid(uid), NodeName(node or f"n{uid}"))


def ok(request: int) -> Answer:
    return Answer(RequestId(request), None)


def no(request: int, reason: Reason) -> Answer:
    return Answer(RequestId(request), reason)


def nudge(letters: str) -> Nudge:
    return Nudge(uids(letters))


def release(letters: str) -> Release:
    return Release(uids(letters))


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

HELD_PAIR: list[Step] = [TRIO, (ask("a", 1), [hold(1), nudge("bc")]), (ask("b", 2), [hold(2)])]
COMMITTED: list[Step] = [*HELD_PAIR, (ask("c", 3), [post("a"), post("b"), post("c")])]
PARTIAL: list[Step] = [  # a is bound, b and c are not; the clock runs from 10 to 110
    *COMMITTED,
    (bound("a", at=5), [ok(1)]),
    (failed("c", at=6), [no(3, Reason.COMMIT_FAILED), release("c")]),
    (failed("b", at=10), [no(2, Reason.COMMIT_FAILED), release("b")]),
]
