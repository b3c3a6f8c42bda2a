"""The permit machine's auditor: books kept from events and instructions alone, and what must hold by them."""

from abc import abstractmethod
from collections.abc import Iterable

import msgspec

from scoring import NodeName, PodUid, permit
from scoring.feasibility.quorum import Quorum, minimum_members
from scoring.model import Gang, Role
from scoring.model.reasons import Reason
from scoring.permit import Held, PermitState, Posting, next_deadline_s

PARTIAL_TIMEOUT_S = 50.0

GROUP_REASONS = {Reason.QUORUM_TIMEOUT, Reason.ROOM_TAKEN, Reason.NODE_LOST, Reason.INCOMPLETE, Reason.INVALID_GROUP}
"""With these all held members fail together."""


class Asked(msgspec.Struct, frozen=True):
    uid: PodUid
    node: NodeName
    deadline_s: float


class Auditor:
    def __init__(self) -> None:
        super().__init__()
        self.state = PermitState(PARTIAL_TIMEOUT_S)
        self.log: list[tuple[permit.Event, Quorum, tuple[permit.Instruction, ...]]] = []
        self.now_s = 0.0
        self.min_member = 1
        self.lost_nodes: frozenset[NodeName] = frozenset()
        # The books.
        self.asked: dict[permit.RequestId, Asked] = {}
        self.open: set[permit.RequestId] = set()
        """asked, not answered, client still there"""
        self.held: dict[PodUid, permit.RequestId] = {}
        self.confirmed: dict[PodUid, NodeName] = {}
        """reported to the machine by `MemberBound`"""
        self.under_way: dict[PodUid, NodeName] = {}
        """posted, and neither confirmed, failed nor deleted yet"""
        self.evicting: set[PodUid] = set()
        self.whole_once = False
        self.there_since_s = 0.0
        self.leading = True

    @abstractmethod
    def gang(self) -> Gang | None:
        """The gang as the machine hears of it."""

    def audit(self, event: permit.Event, quorum: Quorum, said: tuple[permit.Instruction, ...]) -> None:
        held_before, waiting = dict(self.held), set(self.open)
        self.record(event, quorum)
        if isinstance(event, permit.BindRequested):
            waiting |= {event.request}
        posts = [i for i in said if isinstance(i, permit.PostBinding)]
        answers = {i.request: i.error for i in said if isinstance(i, permit.Answer)}

        assert len(answers) == sum(isinstance(i, permit.Answer) for i in said), "two answers to one request"
        for request, error in answers.items():
            assert request in waiting, "an answer nobody waits for, or a second one"
            self.open.discard(request)
            asked = self.asked[request]
            if error is None:
                where = {self.confirmed.get(asked.uid), quorum.bound_to.get(asked.uid)}
                assert asked.node in where, "success without confirmation"
            self.held = {u: r for u, r in self.held.items() if r != request}
        if isinstance(event, permit.BindRequested) and event.request not in answers and event.uid not in self.under_way:
            self.held[event.uid] = event.request  # else it gets the outcome of the Binding under way
        # A Binding that fails is answered with what is wrong with its gang.
        if not isinstance(event, permit.BindFailed) and GROUP_REASONS & set(answers.values()):
            assert set(held_before.values()) <= answers.keys(), "held members must fail together"

        self.audit_posts(event, quorum, posts)
        assert self.state.held.keys() == self.held.keys(), "held without a call, or gone without an answer"
        assert self.state.posting.keys() == self.under_way.keys()
        self.audit_eviction(event, quorum, [uid for i in said if isinstance(i, permit.Evict) for uid in i.uids])
        for instruction in said:
            if isinstance(instruction, permit.Nudge):
                here = quorum.placed | self.confirmed.keys() | self.held.keys() | self.under_way.keys()
                assert set(instruction.uids) == quorum.live - here
                assert not held_before.keys() & self.held.keys(), "woken although others waited"
            if isinstance(instruction, permit.Nudge | permit.Evict):
                assert sorted(set(instruction.uids)) == list(instruction.uids) != []
        self.audit_liveness(event, quorum)
        self.take_stock(quorum)

    def record(self, event: permit.Event, quorum: Quorum) -> None:
        match event:
            case permit.BindRequested():
                self.asked[event.request] = Asked(event.uid, event.node, event.deadline_s)
                self.open.add(event.request)
                where = quorum.bound_to.get(event.uid)
                if where is not None:
                    self.see_bound(event.uid, where)
            case permit.MemberBound(uid=uid, node=node):
                self.see_bound(uid, node)
            case permit.BindFailed(uid=uid) | permit.PodDeleted(uid=uid):
                self.under_way.pop(uid, None)
            case permit.ClientGone(request=request):
                self.open.discard(request)
                self.held = {u: r for u, r in self.held.items() if r != request}
            case permit.LeadershipLost():
                self.leading = False
            case permit.EvictionRefused(uids=uids):
                self.evicting -= set(uids)
            case permit.NodeLost() | permit.DeadlinePassed() | permit.GangChanged():
                pass

    def see_bound(self, uid: PodUid, node: NodeName) -> None:
        self.confirmed[uid] = node
        self.under_way.pop(uid, None)

    def on_nodes(self, quorum: Quorum) -> set[PodUid]:
        """Members that count as bound, from pods and confirmations alone."""
        told = {uid for uid, node in self.confirmed.items() if node not in self.lost_nodes}
        return ((told & quorum.live) | quorum.placed) - self.evicting

    def enough(self, uids: Iterable[PodUid], quorum: Quorum) -> bool:
        """Whether these members make a quorum, by counting pods instead of asking the quorum (docs/safety.md S9)."""
        known = self.gang()
        counted = set(uids) & quorum.live
        if known is None or len(counted) < self.min_member:
            return False
        if all(p.role is Role.OTHER for p in known.members):
            return True
        return all(p.uid in counted for p in minimum_members(known, lost_nodes=self.lost_nodes))

    def audit_posts(self, event: permit.Event, quorum: Quorum, posts: list[permit.PostBinding]) -> None:
        """No Binding before quorum, to a lost or full node, twice, late, for none, or by a standby."""
        if not posts:
            return
        assert isinstance(event, permit.BindRequested | permit.GangChanged), "a commit without a room check"
        assert self.leading, "a Binding posted without leadership"
        assert quorum.problem is None, "a Binding of an invalid gang"
        assert [p.uid for p in posts] == sorted({p.uid for p in posts})
        flying_well = {uid for uid, node in self.under_way.items() if node not in self.lost_nodes}
        new = {p.uid for p in posts}
        assert self.enough(self.on_nodes(quorum) | flying_well | new, quorum), "a Binding before quorum"
        assert not new & event.unusable, "a Binding to a node without room"
        answered = {i.request for _, _, said in self.log for i in said if isinstance(i, permit.Answer)}
        for one in posts:
            calls = [r for r in self.open if self.asked[r].uid == one.uid and r not in answered]
            assert calls, "a Binding for a client that is gone"
            latest = self.asked[max(calls)]
            assert latest.node == one.node, "a Binding to a node that was not asked for"
            assert event.now_s < latest.deadline_s, "a Binding after the deadline of its call"
            assert one.uid not in self.under_way, "two Bindings of one pod under way"
            assert one.uid not in self.confirmed, "a Binding of a pod that is known as bound"
            assert one.uid in quorum.live, "a Binding of a dead pod"
            assert one.node not in self.lost_nodes, "a Binding to a lost node"
            self.under_way[one.uid] = one.node
            self.held.pop(one.uid, None)
        assert not self.held, "some held members were left behind"

    def audit_eviction(self, event: permit.Event, quorum: Quorum, victims: list[PodUid]) -> None:
        """Only a gang that was never whole is evicted, after the timeout, with nothing under way, each pod once."""
        if not victims:
            return
        assert self.leading
        assert not self.whole_once, "a started gang was evicted"
        assert quorum.problem is None, "an invalid gang was evicted"
        assert not self.under_way, "evicted while a Binding was under way"
        assert not self.held, "evicted while members are held"
        assert not self.enough(self.on_nodes(quorum), quorum), "a whole gang was evicted"
        assert event.now_s >= self.there_since_s + PARTIAL_TIMEOUT_S, "evicted too early"
        assert set(victims) == self.on_nodes(quorum) - quorum.finished, "evicted the wrong members"
        self.evicting |= set(victims)

    def audit_liveness(self, event: permit.Event, quorum: Quorum) -> None:
        """After a room check nobody is held who could go; nobody is held after the deadline or to no avail."""
        if isinstance(event, permit.BindRequested | permit.GangChanged):
            flying_well = {uid for uid, node in self.under_way.items() if node not in self.lost_nodes}
            everybody = self.on_nodes(quorum) | flying_well | self.held.keys()
            assert not (self.held and self.enough(everybody, quorum)), "held although quorum is reached"
            assert not self.held.keys() & event.unusable, "held although its room was taken"
        for uid, request in self.held.items():
            assert self.asked[request].deadline_s > event.now_s, "held beyond its deadline"
            assert self.asked[request].node not in self.lost_nodes, "held for a lost node"
            assert uid in quorum.live, "a dead pod is held"
        assert not (self.held and quorum.incomplete), "held although too few pods exist"
        assert not (self.held and quorum.problem), "held although the gang is invalid"
        assert self.leading or not self.held, "held by a standby"
        due = next_deadline_s(self.state)
        assert all(due is not None and due <= self.asked[r].deadline_s for r in self.held.values())

    def take_stock(self, quorum: Quorum) -> None:
        self.confirmed = {u: n for u, n in self.confirmed.items() if u in quorum.live and n not in self.lost_nodes}
        self.evicting &= quorum.live
        there = self.on_nodes(quorum)
        if not there - quorum.finished:
            self.there_since_s = self.now_s
        if not there and not self.under_way:
            self.whole_once = False
        elif quorum.started:
            self.whole_once = True


def open_requests(state: PermitState) -> list[int]:
    waiting: tuple[Held | Posting, ...] = (*state.held.values(), *state.posting.values())
    return sorted(one.request for one in waiting if one.request is not None)


def validate_state(state: PermitState) -> None:
    """AssertionError: the state contradicts itself."""
    held, posting, bound = state.held.keys(), state.posting.keys(), state.bound.keys()
    assert len(held | posting | bound) == len(held) + len(posting) + len(bound), "a member is in two stages at once"
    requests = open_requests(state)
    assert len(set(requests)) == len(requests), "two members share one request"
    assert state.leading or not held, "a call is held without leadership"
    if state.partial_until_s is not None:
        assert state.leading, "a gang is to be evicted without leadership"
        assert not state.started, "a started gang is to be evicted"
        assert not state.evicting, "a gang is to be evicted twice"
