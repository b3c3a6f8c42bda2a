"""One step of the permit machine: an event in, the next state and instructions out.

Rule: the event's own effect first, then what holds after every event, in a fixed order, so that a fact is acted upon
whichever event brings it: (1) late calls fail, (2) the event, (3) members that died leave, (4) if the held ones cannot
start as they are, all of them fail, (5) with quorum all are posted, (6) a gang that stays partial is evicted.
"""

from collections.abc import Set
from typing import assert_never

from msgspec.structs import replace

from scoring.feasibility.quorum import Quorum
from scoring.ids import NodeName, PodUid
from scoring.model import Reason
from scoring.permit import protocol
from scoring.permit.protocol import Held, PermitState, Posting


def handle(
    state: PermitState, event: protocol.Event, quorum: Quorum
) -> tuple[PermitState, tuple[protocol.Instruction, ...]]:
    """Take one step. `quorum` is the gang's, as of the event. Cost: O(members).

    Bind nothing before quorum; answer every request exactly once; say success only when the Binding is confirmed.

    >>> two = Quorum(2, None, frozenset("ab"), frozenset(), frozenset(), started=False)
    >>> state = PermitState(partial_timeout_s=600.0)
    >>> state, said = handle(state, protocol.BindRequested("a", "n1", 1, 0.0, 30.0), two)
    >>> said
    (Hold(request=1, deadline_s=30.0), Nudge(uids=('b',)))
    >>> state, said = handle(state, protocol.BindRequested("b", "n2", 2, 1.0, 31.0), two)
    >>> said
    (PostBinding(uid='a', node='n1'), PostBinding(uid='b', node='n2'))
    >>> state, said = handle(state, protocol.MemberBound("b", "n2", 1.1), two)
    >>> said
    (Answer(request=2, error=None),)
    """
    quorum = _after(state, event, quorum)
    out: list[protocol.Instruction] = []
    if any(held.deadline_s <= event.now_s for held in state.held.values()):
        state = _fail_held(state, Reason.QUORUM_TIMEOUT, out)
    others_waited = bool(state.held)
    state = _apply(state, event, quorum, out)
    state = _bury(state, quorum, out)
    if (obstacle := _obstacle(state, event, quorum)) is not None:
        state = _fail_held(state, obstacle, out)
    state = _commit(state, event, quorum, out)
    state = _repair(state, event.now_s, quorum, out)
    if isinstance(event, protocol.BindRequested) and event.uid in state.held:
        out.append(protocol.Hold(event.request, event.deadline_s))
        if not others_waited and (siblings := _not_at_bind(state, quorum)):
            out.append(protocol.Nudge(siblings))
    return state, tuple(out)


def _after(state: PermitState, event: protocol.Event, quorum: Quorum) -> Quorum:
    """The quorum once the event is taken into account, should the cache be a moment behind it."""
    match event:
        case protocol.PodDeleted(uid=uid):
            return quorum.without(uid)
        case protocol.BindFailed(uid=uid, terminal=True) if uid in state.posting:
            return quorum.without(uid)
        case protocol.NodeLost(node=node):
            return quorum.losing(node)
        case _:
            return quorum


def _apply(state: PermitState, event: protocol.Event, quorum: Quorum, out: list[protocol.Instruction]) -> PermitState:
    match event:
        case protocol.BindRequested():
            return _requested(state, event, quorum, out)
        case protocol.MemberBound(uid=uid, node=node):
            return _bound(state, uid, node, out)
        case protocol.BindFailed(uid=uid):
            return _leave(state, uid, quorum.problem or Reason.COMMIT_FAILED, out) if uid in state.posting else state
        case protocol.ClientGone(request=request):
            return _client_gone(state, request, out)
        case protocol.PodDeleted(uid=uid):
            return _leave(state, uid, Reason.POD_DELETED, out)
        case protocol.EvictionRefused(uids=uids):
            return replace(state, evicting=state.evicting - frozenset(uids))
        case protocol.LeadershipLost():
            # Bindings under way keep their calls: success is still true when it is confirmed, and an early error
            # would make kube-scheduler give the room away while the API server binds the pod.
            return replace(_fail_held(state, Reason.NOT_LEADER, out), leading=False)
        case protocol.GangChanged() | protocol.NodeLost() | protocol.DeadlinePassed():
            return state
        case _:  # pragma: no cover
            assert_never(event)


def _requested(
    state: PermitState, event: protocol.BindRequested, quorum: Quorum, out: list[protocol.Instruction]
) -> PermitState:
    """A request is answered at once, attached to the Binding under way, or held.

    A second request for a member means that kube-scheduler restarted: the first gets an error, as its client is gone.
    """
    uid, node = event.uid, event.node
    where = state.bound.get(uid) or quorum.bound_to.get(uid)
    under_way = state.posting.get(uid)
    if not state.leading:
        out.append(protocol.Answer(event.request, Reason.NOT_LEADER))
    elif where is not None:
        state = _bound(state, uid, where, out)
        out.append(protocol.Answer(event.request, None if where == node else Reason.POD_CHANGED))
    elif under_way is not None and under_way.node != node:
        out.append(protocol.Answer(event.request, Reason.POD_CHANGED))
    elif under_way is not None:
        if under_way.request is not None:
            out.append(protocol.Answer(under_way.request, Reason.POD_CHANGED))
        return replace(state, posting={**state.posting, uid: Posting(node, event.request)})
    elif uid not in quorum.live:
        out.append(protocol.Answer(event.request, Reason.POD_DELETED))
    else:
        if uid in state.held:
            out.append(protocol.Answer(state.held[uid].request, Reason.POD_CHANGED))
        return replace(state, held={**state.held, uid: Held(node, event.request, event.deadline_s)})
    return state


def _bound(state: PermitState, uid: PodUid, node: NodeName, out: list[protocol.Instruction]) -> PermitState:
    """A member is on `node`: success for a call that asked for that node, whatever the machine had done for it."""
    waiting = state.posting.get(uid) or state.held.get(uid)
    if waiting is not None and waiting.node != node:
        state = _leave(state, uid, Reason.POD_CHANGED, out)
    elif waiting is not None:
        if waiting.request is not None:
            out.append(protocol.Answer(waiting.request, None))
        state = _without(state, {uid})
    return replace(state, bound={**state.bound, uid: node})


def _client_gone(state: PermitState, request: protocol.RequestId, out: list[protocol.Instruction]) -> PermitState:
    """A held member leaves without an answer; a Binding under way goes on, and its outcome answers no call."""
    for uid, held in state.held.items():
        if held.request == request:
            out.append(protocol.Release((uid,)))
            return _without(state, {uid})
    posting = {u: replace(p, request=None) if p.request == request else p for u, p in state.posting.items()}
    return replace(state, posting=posting)


def _bury(state: PermitState, quorum: Quorum, out: list[protocol.Instruction]) -> PermitState:
    """Step 3: held members that died leave with their own reason; a Binding under way is left to its outcome."""
    for uid in sorted(state.held.keys() - quorum.live):
        state = _leave(state, uid, Reason.POD_DELETED, out)
    bound = {u: n for u, n in state.bound.items() if u in quorum.live and n not in quorum.lost_nodes}
    if len(bound) == len(state.bound) and state.evicting <= quorum.live:
        return state
    return replace(state, bound=bound, evicting=state.evicting & quorum.live)


def _obstacle(state: PermitState, event: protocol.Event, quorum: Quorum) -> Reason | None:
    """Step 4: why the held members cannot start; an invalid gang never does (docs/safety.md S24). `None`: nothing."""
    if quorum.problem is not None:
        return quorum.problem
    if any(held.node in quorum.lost_nodes for held in state.held.values()):
        return Reason.NODE_LOST
    if quorum.incomplete:
        return Reason.INCOMPLETE
    if isinstance(event, protocol.BindRequested | protocol.GangChanged) and state.held.keys() & event.unusable:
        return Reason.ROOM_TAKEN
    return None


def _commit(state: PermitState, event: protocol.Event, quorum: Quorum, out: list[protocol.Instruction]) -> PermitState:
    """Step 5: with quorum, all held members are posted together; only events that carry a room check may do it."""
    if not isinstance(event, protocol.BindRequested | protocol.GangChanged):
        return state
    posted = {u for u, p in state.posting.items() if p.node not in quorum.lost_nodes}
    if not quorum.reached_by(_on_nodes(state, quorum) | posted | state.held.keys()):
        return state
    out.extend(protocol.PostBinding(uid, state.held[uid].node) for uid in sorted(state.held))
    started = {uid: Posting(held.node, held.request) for uid, held in state.held.items()}
    return replace(state, held={}, posting={**state.posting, **started})


def _repair(state: PermitState, now_s: float, quorum: Quorum, out: list[protocol.Instruction]) -> PermitState:
    """Step 6: note whether the gang is whole, was ever, or is partial; evict what stays partial and never was whole.

    The clock starts when the first outcomes leave the gang partial, and runs on through later attempts.
    """
    there = _on_nodes(state, quorum)
    whole = quorum.reached_by(there)
    started = (state.started or quorum.started or (whole and quorum.problem is None)) and bool(there or state.posting)
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
    out.append(protocol.Evict(tuple(sorted(victims))))
    return replace(state, partial_until_s=None, evicting=frozenset(victims))


def _on_nodes(state: PermitState, quorum: Quorum) -> Set[PodUid]:
    """Members that count as bound: confirmed or seen on a node, alive, and not being evicted."""
    return (quorum.placed | state.bound.keys()) - state.evicting


def _not_at_bind(state: PermitState, quorum: Quorum) -> tuple[PodUid, ...]:
    here = quorum.placed | state.bound.keys() | state.held.keys() | state.posting.keys()
    return tuple(sorted(quorum.live - here))


def _fail_held(state: PermitState, reason: Reason, out: list[protocol.Instruction]) -> PermitState:
    """All held members fail together, for one reason."""
    if not state.held:
        return state
    uids = tuple(sorted(state.held))
    out.extend(protocol.Answer(state.held[uid].request, reason) for uid in uids)
    out.append(protocol.Release(uids))
    return replace(state, held={})


def _leave(state: PermitState, uid: PodUid, reason: Reason, out: list[protocol.Instruction]) -> PermitState:
    """One member leaves held or posting unbound; its call, if a caller waits for it, gets the reason."""
    waiting = state.posting.get(uid) or state.held.get(uid)
    if waiting is None:
        return state
    if waiting.request is not None:
        out.append(protocol.Answer(waiting.request, reason))
    out.append(protocol.Release((uid,)))
    return _without(state, {uid})


def _without(state: PermitState, uids: Set[PodUid]) -> PermitState:
    return replace(
        state,
        held={u: h for u, h in state.held.items() if u not in uids},
        posting={u: p for u, p in state.posting.items() if u not in uids},
    )
