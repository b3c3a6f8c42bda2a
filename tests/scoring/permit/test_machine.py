"""The permit machine against a world that does its worst: what the auditor looks for, after every step."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec.structs import replace

from extender.cache.gangs import continued
from scoring import NodeName, PodUid, permit
from scoring.feasibility.quorum import NO_MEMBERS, Quorum, quorum_of
from scoring.model import Gang, Phase, Pod, Role, counts
from scoring.model.reasons import Reason
from scoring.permit import PermitState, handle, next_deadline_s
from tests.builders import gang, pod
from tests.scoring.permit.auditor import PARTIAL_TIMEOUT_S, Auditor, open_requests, validate_state

NODES = tuple(NodeName(f"n{i}") for i in range(3))


class PermitMachine(Auditor, RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.api: dict[PodUid, Pod] = {}
        """what the API server stores"""
        self.cache: dict[PodUid, Pod] = {}
        """what the watch has told so far"""
        self.flying: list[permit.PostBinding] = []
        """Bindings whose outcome is not told yet, also those the machine has given up"""
        self.evictions: list[PodUid] = []
        self.pods_made = 0
        self.problem: Reason | None = None
        self.last: Gang | None = None

    @initialize(
        min_member=st.integers(1, 4),
        roles=st.sampled_from([[Role.OTHER], [Role.PS, Role.WORKER, Role.WORKER], [Role.CHIEF, Role.WORKER]]),
        size=st.integers(1, 5),
    )
    def create_gang(self, min_member: int, roles: list[Role], size: int) -> None:
        self.min_member, self.roles = min_member, roles
        for slot in range(size):
            self.create_member(slot)

    def create_member(self, slot: int) -> None:
        """A new pod in the slot of a dead one, or in a new slot."""
        role = self.roles[min(slot, len(self.roles) - 1)]
        made = pod(f"{slot}-{self.pods_made}", role=role, index=slot)
        self.pods_made += 1
        self.api[made.uid] = self.cache[made.uid] = made

    def gang(self) -> Gang | None:
        members = [self.cache[uid] for uid in sorted(self.cache)]
        found = gang("g", members=members, min_member=self.min_member) if members else None
        if found is not None:
            shown = {uid for uid, known in self.cache.items() if counts(known)}
            self.last = found = continued(replace(found, problem=self.problem), self.last, shown)
        return found

    def quorum(self) -> Quorum:
        known = self.gang()
        return NO_MEMBERS if known is None else quorum_of(known, lost_nodes=self.lost_nodes)

    def feed(self, event: permit.Event) -> None:
        before, quorum = self.state, self.quorum()
        self.state, said = handle(before, event, quorum)
        self.log.append((event, quorum, said))
        validate_state(self.state)
        self.audit(event, quorum, said)
        for instruction in said:
            match instruction:
                case permit.PostBinding():
                    self.flying.append(instruction)
                case permit.Evict(uids=uids):
                    self.evictions.extend(uids)
                case permit.Answer() | permit.Nudge():
                    pass

    @precondition(lambda self: self.cache)
    @rule(data=st.data(), node=st.sampled_from(NODES), hold_s=st.sampled_from([10.0, 30.0]), full=st.integers(0, 9))
    def scheduler_asks(self, data: st.DataObject, node: NodeName, hold_s: float, full: int) -> None:
        """A bind call: for a new member, for one that is held or under way already, or for a dead one."""
        uid = data.draw(st.sampled_from(sorted(self.cache)), label="uid")
        at_bind = sorted(self.held.keys() | {uid})
        unusable = data.draw(st.sets(st.sampled_from(at_bind)), label="unusable") if full == 0 else set()
        request = permit.RequestId(len(self.asked) + 1)
        self.feed(permit.BindRequested(uid, node, request, self.now_s, self.now_s + hold_s, frozenset(unusable)))

    @precondition(lambda self: len(self.cache) > 1)
    @rule(node=st.sampled_from(NODES))
    def scheduler_asks_for_all(self, node: NodeName) -> None:
        for uid in sorted(self.cache):
            known = self.cache[uid]
            if known.node is None and not known.deleting and uid not in self.held and uid not in self.under_way:
                request = permit.RequestId(len(self.asked) + 1)
                self.feed(permit.BindRequested(uid, node, request, self.now_s, self.now_s + 30.0))

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def client_leaves(self, data: st.DataObject) -> None:
        self.feed(permit.ClientGone(data.draw(st.sampled_from(sorted(self.open))), self.now_s))

    @precondition(lambda self: self.asked)
    @rule(data=st.data())
    def answered_client_leaves(self, data: st.DataObject) -> None:
        """A connection is closed after its call was answered: no news."""
        request = data.draw(st.sampled_from(sorted(self.asked)))
        if request not in self.open:
            self.feed(permit.ClientGone(request, self.now_s))

    def land(self, one: permit.PostBinding) -> NodeName | None:
        """The API server takes a Binding: the node the pod is on then; `None`: it is gone."""
        stored = self.api.get(one.uid)
        if stored is None or (stored.deleting and stored.node is None) or stored.terminal:
            return None if stored is None or stored.node is None else stored.node
        if stored.node is None:
            self.api[one.uid] = stored = replace(stored, node=one.node)
        return stored.node

    @precondition(lambda self: self.flying)
    @rule(data=st.data())
    def binding_lands(self, data: st.DataObject) -> None:
        one = self.flying.pop(data.draw(st.integers(0, len(self.flying) - 1)))
        where = self.land(one)
        if where is None:
            self.feed(permit.BindFailed(one.uid, True, self.now_s))
        else:
            self.feed(permit.MemberBound(one.uid, where, self.now_s))

    @precondition(lambda self: self.flying)
    @rule(data=st.data(), took_effect=st.booleans())
    def binding_fails(self, data: st.DataObject, took_effect: bool) -> None:
        """A Binding fails; it may have taken effect all the same, and the watch will show it."""
        one = self.flying.pop(data.draw(st.integers(0, len(self.flying) - 1)))
        if took_effect:
            self.land(one)
        self.feed(permit.BindFailed(one.uid, False, self.now_s))

    @precondition(lambda self: any(p.node is None for p in self.api.values()))
    @rule(data=st.data(), node=st.sampled_from(NODES))
    def somebody_else_binds(self, data: st.DataObject, node: NodeName) -> None:
        """A former leader's Binding arrives late, or another scheduler acts."""
        free = sorted(uid for uid, p in self.api.items() if p.node is None and not p.deleting and not p.terminal)
        if free:
            uid = data.draw(st.sampled_from(free))
            self.api[uid] = replace(self.api[uid], node=node)

    def out_of_date(self) -> list[PodUid]:
        """Pods of which the watch has not told the latest."""
        return sorted(uid for uid in self.cache if self.cache[uid] != self.api.get(uid))

    @precondition(lambda self: self.out_of_date())
    @rule(data=st.data(), in_words=st.booleans())
    def watch_tells(self, data: st.DataObject, in_words: bool) -> None:
        """The watch catches up on one pod; a relist shows the result without saying what happened."""
        uid = data.draw(st.sampled_from(self.out_of_date()))
        before, after = self.cache.pop(uid), self.api.get(uid)
        if after is not None:
            self.cache[uid] = after
        if in_words and (after is None or (after.deleting and after.node is None)):
            self.feed(permit.PodDeleted(uid, self.now_s))
        elif in_words and after is not None and before.node is None and after.node is not None:
            self.feed(permit.MemberBound(uid, after.node, self.now_s))
        self.room_is_checked(full=False)

    def room_is_checked(self, *, full: bool) -> None:
        unusable = frozenset(self.held) if full else frozenset()
        self.feed(permit.GangChanged(self.now_s, unusable))

    @rule(full=st.integers(0, 4))
    def something_changed(self, full: int) -> None:
        """Somebody else's pod came or went."""
        self.room_is_checked(full=full == 0)

    @precondition(lambda self: self.api)
    @rule(data=st.data(), fate=st.sampled_from(["deleted", "deleting", Phase.FAILED, Phase.SUCCEEDED]))
    def pod_ends(self, data: st.DataObject, fate: str | Phase) -> None:
        uid = data.draw(st.sampled_from(sorted(self.api)))
        stored = self.api[uid]
        if fate == "deleted":
            del self.api[uid]
        elif fate == "deleting":
            self.api[uid] = replace(stored, deleting=True)
        elif stored.node is not None:
            self.api[uid] = replace(stored, phase=Phase(fate))

    @precondition(lambda self: self.pods_made < 12)
    @rule(slot=st.integers(0, 4))
    def member_created(self, slot: int) -> None:
        self.create_member(slot)

    @rule(min_member=st.integers(1, 5))
    def minimum_changes(self, min_member: int) -> None:
        """Somebody edits the PodGroup, or an elastic job is scaled."""
        self.min_member = min_member
        self.room_is_checked(full=False)

    @rule(invalid=st.integers(0, 2))
    def labels_change(self, invalid: int) -> None:
        self.problem = Reason.INVALID_GROUP if invalid == 0 else None
        self.room_is_checked(full=False)

    @rule(node=st.sampled_from(NODES[1:]))
    def node_lost_or_back(self, node: NodeName) -> None:
        if node in self.lost_nodes:
            self.lost_nodes -= {node}
            self.room_is_checked(full=False)
        else:
            self.lost_nodes |= {node}
            self.feed(permit.NodeLost(node, self.now_s))

    @precondition(lambda self: self.evictions)
    @rule(carried_out=st.booleans())
    def eviction_ends(self, carried_out: bool) -> None:
        uid = self.evictions.pop()
        if carried_out and uid in self.api:
            self.api[uid] = replace(self.api[uid], deleting=True)
        else:
            self.feed(permit.EvictionRefused((uid,), self.now_s))

    @rule(passed_s=st.sampled_from([1.0, 9.0, 25.0, 60.0]))
    def time_passes(self, passed_s: float) -> None:
        """Time passes; the timer is late, as timers are."""
        self.now_s += passed_s

    @rule()
    def timer_fires(self) -> None:
        """The timer fires when it is due, and once in a while when it is not."""
        due = next_deadline_s(self.state)
        if due is not None:
            self.now_s = max(self.now_s, due)
        self.feed(permit.DeadlinePassed(self.now_s))

    @precondition(lambda self: len(self.log) > 30 and self.leading)
    @rule()
    def lease_runs_out(self) -> None:
        self.feed(permit.LeadershipLost(self.now_s))

    @invariant()
    def books_agree(self) -> None:
        """The machine holds open exactly the calls that are neither answered nor abandoned."""
        assert sorted(self.open) == open_requests(self.state)
        assert self.evicting == self.state.evicting

    def teardown(self) -> None:
        """Once all outcomes are told and the deadline passed no call is open, and the log replays to the letter."""
        while self.flying:
            self.feed(permit.BindFailed(self.flying.pop().uid, False, self.now_s))
        for _ in range(2):  # the calls' deadline, and the eviction's
            self.timer_fires()
        assert self.open == set(), "a call was never answered"
        again = PermitState(PARTIAL_TIMEOUT_S)
        for event, quorum, said in self.log:
            again, repeated = handle(again, event, quorum)
            assert said == repeated
        assert again == self.state


TestPermitMachine = pytest.mark.timeout(120)(PermitMachine.TestCase)
TestPermitMachine.settings = settings(stateful_step_count=50)
