"""Hold and commit the binds of one gang: kube-scheduler's Permit point, as a state machine without I/O.

kube-scheduler asks for one pod at a time and waits for the answer. A gang starts whole only if no Binding is posted
before enough members are at bind, so a request is *held* until quorum; then all held ones become *posting*, and a
posting becomes *bound* when the API server confirms it:

    BindRequested → held ──quorum──→ posting ──MemberBound──→ bound      success is answered here, and only here
                      │                 └─────BindFailed────→ (gone)     this member's error; the others go on
                      └── deadline, lost node, lost room, … → (gone)     all held members fail together

N Bindings are N calls, so some can fail. Nothing is taken back then (roll-forward): the gang is *partial*, its bound
members count towards quorum, and the missing ones are posted as soon as all of them are at bind again. A gang that was
never whole and stays partial for `partial_timeout_s` is evicted, so that it does not hold resources dead.

Rules: every request gets exactly one answer (or its client is gone); the same events with the same quorums give the
same instructions; what the planner may give away follows from who is held and posting.

An event carries what happened and when (`now_s`, monotonic seconds); what is true of the gang at that moment comes
beside it as a `Quorum`, made from a cache that has seen the event: one that is missed, the next makes good. The state
is a value: no mapping in it is written again, and only what the API server cannot know is in it.

A step has a fixed order, so that a fact is acted upon whichever event brings it: (1) late calls fail, (2) the event,
(3) members that died leave, (4) if the held ones cannot start as they are, all of them fail, (5) with quorum all are
posted, (6) a gang that stays partial is evicted.
"""

import math
from collections.abc import Mapping, Set
from typing import NewType, TypeAlias, assert_never

import msgspec
from msgspec.structs import replace

from scoring import NodeName, PodUid
from scoring.feasibility.quorum import Quorum
from scoring.model import Reason

RequestId = NewType("RequestId", int)  # One held HTTP call of kube-scheduler; never used twice


class BindRequested(msgspec.Struct, frozen=True):
    """Kube-scheduler asks to bind `uid` to `node`, which our filter offered it, and waits (docs/safety.md S2).

    `unusable`: members at bind, this one included, whose node has no more room for them or does not suit them any more,
    checked against the cache just now.
    """

    uid: PodUid
    node: NodeName
    request: RequestId
    now_s: float
    deadline_s: float
    unusable: frozenset[PodUid] = frozenset()


class GangChanged(msgspec.Struct, frozen=True):
    """Members or the minimum changed, or a bound member was seen: a held gang may now be whole, or never be.

    Only a request or this event commits, because only they carry the room check that a commit needs (`unusable` as in
    `BindRequested`). The service sends it after any change of a gang that holds requests.
    """

    now_s: float
    unusable: frozenset[PodUid] = frozenset()


class MemberBound(msgspec.Struct, frozen=True):
    """The API server confirmed the Binding, or a watch shows the pod on `node`, whatever put it there."""

    uid: PodUid
    node: NodeName
    now_s: float


class BindFailed(msgspec.Struct, frozen=True):
    """The Binding of `uid` was refused, or its outcome is unknown.

    `terminal`: this pod can never be bound (404, 422), so no call waits for it. A 409 is looked up first: the pod is on
    a node, which is `MemberBound`, or it is gone. An unknown outcome is not terminal; if the Binding took effect after
    all, the watch says so.
    """

    uid: PodUid
    terminal: bool
    now_s: float


class ClientGone(msgspec.Struct, frozen=True):
    """The caller of `request` closed its connection: it wants no answer, and its pod must not be bound for it."""

    request: RequestId
    now_s: float


class PodDeleted(msgspec.Struct, frozen=True):
    """The pod is gone from the API server, or is being deleted before it had a node."""

    uid: PodUid
    now_s: float


class NodeLost(msgspec.Struct, frozen=True):
    """The node is gone or was not ready for too long (docs/safety.md S12)."""

    node: NodeName
    now_s: float


class DeadlinePassed(msgspec.Struct, frozen=True):
    """The moment that `next_deadline_s` asked for has come."""

    now_s: float


class EvictionRefused(msgspec.Struct, frozen=True):
    """These members stay after all: an evicted member stops counting at once, so the machine must hear of it."""

    uids: tuple[PodUid, ...]
    now_s: float


class LeadershipLost(msgspec.Struct, frozen=True):
    """Another replica may act from now on: nothing more is posted. This state never leads again; a new one will."""

    now_s: float


Event: TypeAlias = (
    BindRequested | GangChanged | MemberBound | BindFailed | ClientGone | PodDeleted | NodeLost | DeadlinePassed
    | EvictionRefused | LeadershipLost
)  # fmt: skip


class PostBinding(msgspec.Struct, frozen=True):
    """Post the Binding, with the pod's uid; report exactly one `MemberBound` or `BindFailed` for it.

    A lease that has run out (docs/safety.md S11) is a non-terminal failure.
    """

    uid: PodUid
    node: NodeName


class Answer(msgspec.Struct, frozen=True):
    """Answer the call: success, or the reason why not."""

    request: RequestId
    error: Reason | None


class Nudge(msgspec.Struct, frozen=True):
    """The first member of the gang is held: wake those of these siblings that kube-scheduler has parked."""

    uids: tuple[PodUid, ...]


class Evict(msgspec.Struct, frozen=True):
    """The gang stayed partial: evict its bound members on fresh state (docs/safety.md S10, S11)."""

    uids: tuple[PodUid, ...]


Instruction: TypeAlias = PostBinding | Answer | Nudge | Evict


class Held(msgspec.Struct, frozen=True):
    """A member at bind that waits for the rest of its gang."""

    node: NodeName
    request: RequestId
    deadline_s: float


class Posting(msgspec.Struct, frozen=True):
    """A member whose Binding is under way; `request` is `None` when no caller waits for it any more."""

    node: NodeName
    request: RequestId | None


class PermitState(msgspec.Struct, frozen=True):
    """One gang's binds; to be forgotten once it has no pods, and none in `held` and `posting`.

    ValueError unless `partial_timeout_s` is finite and positive.
    """

    partial_timeout_s: float  # How long a gang never whole may stay partial before its members are evicted
    held: Mapping[PodUid, Held] = {}  # member → its waiting call
    posting: Mapping[PodUid, Posting] = {}  # member → its Binding under way
    bound: Mapping[PodUid, NodeName] = {}  # live member → its node, once confirmed: the cache may learn of it later
    evicting: frozenset[PodUid] = frozenset()  # Members that `Evict` named and that are still there: they count no more
    partial_until_s: float | None = None  # While partial and never whole: the moment of its eviction
    started: bool = False  # The watch showed it whole, and some members are still there (docs/safety.md S8, S23)
    leading: bool = True

    def __post_init__(self) -> None:
        if not (math.isfinite(self.partial_timeout_s) and self.partial_timeout_s > 0.0):
            raise ValueError("partial_timeout_s must be finite and positive")


def next_deadline_s(state: PermitState) -> float | None:
    """When `DeadlinePassed` is due, monotonic, perhaps in the past; `None`: nothing waits for time. Cost: O(held)."""
    due = [h.deadline_s for h in state.held.values()]
    if state.partial_until_s is not None and not state.posting:
        due.append(state.partial_until_s)
    return min(due, default=None)


def handle(state: PermitState, event: Event, quorum: Quorum) -> tuple[PermitState, tuple[Instruction, ...]]:
    """Take one step. `quorum` is the gang's, as of the event. Cost: O(members).

    >>> two = Quorum(2, None, frozenset("ab"), frozenset(), frozenset(), started=False)
    >>> state = PermitState(partial_timeout_s=600.0)
    >>> state, instructions = handle(state, BindRequested("a", "n1", 1, 0.0, 30.0), two)
    >>> instructions
    (Nudge(uids=('b',)),)
    >>> state, instructions = handle(state, BindRequested("b", "n2", 2, 1.0, 31.0), two)
    >>> instructions
    (PostBinding(uid='a', node='n1'), PostBinding(uid='b', node='n2'))
    >>> state, instructions = handle(state, MemberBound("b", "n2", 1.1), two)
    >>> instructions
    (Answer(request=2, error=None),)
    """
    out: list[Instruction] = []
    # The cache may be a moment behind the event
    if isinstance(event, NodeLost):
        quorum = quorum.losing(event.node)
    elif isinstance(event, PodDeleted) or (
        isinstance(event, BindFailed) and event.terminal and event.uid in state.posting
    ):
        quorum = quorum.without(event.uid)
    if any(held.deadline_s <= event.now_s for held in state.held.values()):
        state = _fail_held(state, Reason.QUORUM_TIMEOUT, out)
    others_waited = bool(state.held)
    state = _apply(state, event, quorum, out)
    state = _bury(state, quorum, out)
    if (obstacle := _obstacle(state, event, quorum)) is not None:
        state = _fail_held(state, obstacle, out)
    state = _commit(state, event, quorum, out)
    state = _repair(state, event.now_s, quorum, out)
    if isinstance(event, BindRequested) and event.uid in state.held and not others_waited:
        here = quorum.placed | state.bound.keys() | state.held.keys() | state.posting.keys()
        if siblings := quorum.live - here:
            out.append(Nudge(tuple(sorted(siblings))))
    return state, tuple(out)


def _apply(state: PermitState, event: Event, quorum: Quorum, out: list[Instruction]) -> PermitState:
    match event:
        case BindRequested():
            return _requested(state, event, quorum, out)
        case MemberBound(uid=uid, node=node):
            return _bound(state, uid, node, out)
        case BindFailed(uid=uid):
            return _leave(state, uid, quorum.problem or Reason.COMMIT_FAILED, out) if uid in state.posting else state
        case ClientGone(request=request):
            return _client_gone(state, request)
        case PodDeleted(uid=uid):
            return _leave(state, uid, Reason.POD_DELETED, out)
        case EvictionRefused(uids=uids):
            return replace(state, evicting=state.evicting - frozenset(uids))
        case LeadershipLost():
            # Bindings under way keep their calls: after an early error kube-scheduler would give the room away while
            # the API server binds the pod.
            return replace(_fail_held(state, Reason.NOT_LEADER, out), leading=False)
        case GangChanged() | NodeLost() | DeadlinePassed():
            return state
        case _:  # pragma: no cover
            assert_never(event)


def _requested(state: PermitState, event: BindRequested, quorum: Quorum, out: list[Instruction]) -> PermitState:
    """Answer it, attach it to the Binding under way, or hold it; an earlier one's client is gone (a restart)."""
    uid, node = event.uid, event.node
    where = state.bound.get(uid) or quorum.bound_to.get(uid)
    under_way = state.posting.get(uid)
    if not state.leading:
        out.append(Answer(event.request, Reason.NOT_LEADER))
    elif where is not None:
        state = _bound(state, uid, where, out)
        out.append(Answer(event.request, None if where == node else Reason.POD_CHANGED))
    elif under_way is not None and under_way.node != node:
        out.append(Answer(event.request, Reason.POD_CHANGED))
    elif under_way is not None:
        if under_way.request is not None:
            out.append(Answer(under_way.request, Reason.POD_CHANGED))
        return replace(state, posting={**state.posting, uid: Posting(node, event.request)})
    elif uid not in quorum.live:
        out.append(Answer(event.request, Reason.POD_DELETED))
    else:
        if uid in state.held:
            out.append(Answer(state.held[uid].request, Reason.POD_CHANGED))
        return replace(state, held={**state.held, uid: Held(node, event.request, event.deadline_s)})
    return state


def _bound(state: PermitState, uid: PodUid, node: NodeName, out: list[Instruction]) -> PermitState:
    """A member is on `node`: success for a call that asked for that node, whatever the machine had done for it."""
    waiting = state.posting.get(uid) or state.held.get(uid)
    elsewhere = waiting is not None and waiting.node != node
    state = _leave(state, uid, Reason.POD_CHANGED if elsewhere else None, out)
    return replace(state, bound={**state.bound, uid: node})


def _client_gone(state: PermitState, request: RequestId) -> PermitState:
    """A held member leaves without an answer; a Binding under way goes on, and its outcome answers no call."""
    held = {uid: held for uid, held in state.held.items() if held.request != request}
    posting = {u: replace(p, request=None) if p.request == request else p for u, p in state.posting.items()}
    return replace(state, held=held, posting=posting)


def _bury(state: PermitState, quorum: Quorum, out: list[Instruction]) -> PermitState:
    """Step 3: held members that died leave with their own reason; a Binding under way is left to its outcome."""
    for uid in sorted(state.held.keys() - quorum.live):
        state = _leave(state, uid, Reason.POD_DELETED, out)
    bound = {u: n for u, n in state.bound.items() if u in quorum.live and n not in quorum.lost_nodes}
    if len(bound) == len(state.bound) and state.evicting <= quorum.live:
        return state
    return replace(state, bound=bound, evicting=state.evicting & quorum.live)


def _obstacle(state: PermitState, event: Event, quorum: Quorum) -> Reason | None:
    """Step 4: why the held members cannot start; an invalid gang never does (docs/safety.md S24). `None`: nothing."""
    if quorum.problem is not None:
        return quorum.problem
    if any(held.node in quorum.lost_nodes for held in state.held.values()):
        return Reason.NODE_LOST
    if quorum.incomplete:
        return Reason.INCOMPLETE
    if isinstance(event, BindRequested | GangChanged) and state.held.keys() & event.unusable:
        return Reason.ROOM_TAKEN
    return None


def _commit(state: PermitState, event: Event, quorum: Quorum, out: list[Instruction]) -> PermitState:
    """Step 5: with quorum, all held members are posted together; only events that carry a room check may do it."""
    if not isinstance(event, BindRequested | GangChanged):
        return state
    posted = {u for u, p in state.posting.items() if p.node not in quorum.lost_nodes}
    if not quorum.reached_by(_on_nodes(state, quorum) | posted | state.held.keys()):
        return state
    out.extend(PostBinding(uid, state.held[uid].node) for uid in sorted(state.held))
    started = {uid: Posting(held.node, held.request) for uid, held in state.held.items()}
    return replace(state, held={}, posting={**state.posting, **started})


def _repair(state: PermitState, now_s: float, quorum: Quorum, out: list[Instruction]) -> PermitState:
    """Step 6: evict what stays partial and never was whole; its clock runs on through later attempts.

    Confirmed Bindings show no start: one of the members may have gone before the last one came.
    """
    there = _on_nodes(state, quorum)
    whole = quorum.reached_by(there)
    started = (state.started or quorum.started) and bool(there or state.posting)
    victims = there - quorum.finished
    stays = started or whole or quorum.problem is not None  # an invalid gang is left alone (docs/safety.md S1)
    if stays or not victims or state.evicting or not state.leading:
        same = state.started is started and state.partial_until_s is None
        return state if same else replace(state, started=started, partial_until_s=None)
    if state.posting:
        return state
    until_s = now_s + state.partial_timeout_s if state.partial_until_s is None else state.partial_until_s
    if now_s < until_s:
        return replace(state, partial_until_s=until_s)
    state = _fail_held(state, Reason.QUORUM_TIMEOUT, out)
    out.append(Evict(tuple(sorted(victims))))
    return replace(state, partial_until_s=None, evicting=frozenset(victims))


def _on_nodes(state: PermitState, quorum: Quorum) -> Set[PodUid]:
    """Members that count as bound: confirmed or seen on a node, alive, and not being evicted."""
    return (quorum.placed | state.bound.keys()) - state.evicting


def _fail_held(state: PermitState, reason: Reason, out: list[Instruction]) -> PermitState:
    out.extend(Answer(held.request, reason) for _, held in sorted(state.held.items()))
    return replace(state, held={})


def _leave(state: PermitState, uid: PodUid, reason: Reason | None, out: list[Instruction]) -> PermitState:
    """One member leaves held or posting; its call, if a caller waits, gets the reason, or success for none."""
    waiting = state.posting.get(uid) or state.held.get(uid)
    if waiting is None:
        return state
    if waiting.request is not None:
        out.append(Answer(waiting.request, reason))
    held = {u: h for u, h in state.held.items() if u != uid}
    return replace(state, held=held, posting={u: p for u, p in state.posting.items() if u != uid})
