"""Drive the permit machine: hold kube-scheduler's bind calls, post Bindings, answer each call once.

The machine (`scoring.permit`) decides; this module brings it events and carries out its instructions. From the first
member at bind until the last call is answered, the gang's places are a *commitment* that the planner works around
(docs/safety.md S4). Rule: `reconcile` brings the machine up to date from the cache, so no watch event is lost.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence, Set
from dataclasses import KW_ONLY, dataclass, field
from itertools import count

import msgspec

from extender.cache.cluster import ClusterCache
from extender.controllers.context import ControllerContext
from extender.controllers.removal.losses import Evictions
from extender.controllers.ungate_queue import UngateQueue
from extender.errors import ApiError
from extender.ports import Binding, Clock
from extender.runtime.decision_lines import Decision
from extender.scheduling.admissions import Admissions
from extender.scheduling.answered_pods import Parking
from extender.scheduling.binding_posts import GangTurns, Posts, was_answered
from extender.scheduling.planner_loop import Planner
from scoring import GangKey, NodeName, PodUid, permit
from scoring.feasibility.quorum import NO_MEMBERS, Quorum, Quorums
from scoring.feasibility.recheck import in_another_zone, members_without_room
from scoring.model import Gang, Pod, Reason
from scoring.model.policy import ZonePolicy, gang_options
from scoring.permit import Held, PermitState, Posting, handle, next_deadline_s
from scoring.plan import Plan

_STALE_S = 1.0  # Places that were looked at longer ago are looked at again before the first Binding


@dataclass(eq=False, repr=False)
class NodeHealth:
    """Which nodes are lost: deleted, or not ready for so long, as `update` saw it (docs/safety.md S12)."""

    cache: ClusterCache
    clock: Clock
    _: KW_ONLY
    node_lost_s: float
    _not_ready_since_s: dict[NodeName, float] = field(default_factory=dict, init=False)
    _seen: int = field(default=-1, init=False)

    def update(self) -> None:
        """Note which nodes became ready or not ready. Cost: O(nodes) after a change of nodes, else nothing."""
        table = self.cache.snapshot().table
        if table.version == self._seen:
            return
        self._seen = table.version
        now_s = self.clock.monotonic_s()
        not_ready = [node.name for node in table.nodes if not node.ready]
        self._not_ready_since_s = {name: self._not_ready_since_s.get(name, now_s) for name in not_ready}

    def lost(self, nodes: Iterable[NodeName]) -> frozenset[NodeName]:
        """Those of `nodes` that are lost."""
        limit_s = self.clock.monotonic_s() - self.node_lost_s
        return frozenset(
            name
            for name in nodes
            if self.cache.node(name) is None or self._not_ready_since_s.get(name, limit_s + 1.0) <= limit_s
        )

    def silent(self) -> frozenset[NodeName]:
        """Nodes that exist and are lost. Cost: O(nodes that are not ready)."""
        return self.lost(name for name in self._not_ready_since_s if self.cache.node(name) is not None)

    def lost_under(self, pods: Iterable[Pod]) -> frozenset[NodeName]:
        """Lost nodes that some of these pods are on."""
        return self.lost({pod.node for pod in pods if pod.node is not None})


class _Call(msgspec.Struct, frozen=True):
    pod: str
    node: NodeName
    answer: asyncio.Future[Reason | None]
    due_s: float  # By then it is answered, or its Binding has started


@dataclass(eq=False, repr=False)
class Binds:
    """All gangs' permit machines, and the calls they hold; hold and commit stay below the entry's httpTimeout."""

    context: ControllerContext
    planner: Planner
    health: NodeHealth
    admissions: Admissions
    parking: Parking
    wakes: UngateQueue
    _: KW_ONLY
    commit_s: float
    held_max: int
    _states: dict[GangKey, PermitState] = field(default_factory=dict, init=False)
    _quorums: Quorums = field(default_factory=Quorums, init=False)
    _calls: dict[permit.RequestId, _Call] = field(default_factory=dict, init=False)
    _waiting: Counter[str] = field(default_factory=Counter, init=False)  # namespace → how many of them are its pods'
    _looks: dict[GangKey, tuple[Gang | None, int, bytes, frozenset[NodeName]]] = field(default_factory=dict, init=False)
    """gang → gang, node table, room taken on its nodes and lost nodes at the last `reconcile`"""
    _numbers: "count[int]" = field(default_factory=count, init=False)
    _timers: dict[GangKey, tuple[float, asyncio.TimerHandle]] = field(default_factory=dict, init=False)
    """gang → when its machine next needs the time, and the timer for it"""

    def __post_init__(self) -> None:
        self._unknown = PermitState(self.planner.policy.partial_timeout_s)
        hold_s = self.planner.policy.hold_limit_s
        self.posts = Posts(self.context, hold_s=hold_s, commit_s=self.commit_s, alone_max=self.held_max)
        self._posting = self.context.background("post")
        self.evictions = Evictions(self.context, refused=self._eviction_refused)

    @property
    def held_count(self) -> int:
        """Bind calls that wait now."""
        return len(self._calls)

    def state(self, gang: GangKey) -> PermitState | None:
        """The permit state of a gang with something under way."""
        return self._states.get(gang)

    def at_bind(self) -> frozenset[PodUid]:
        """Members that kube-scheduler has brought to bind and that are not bound yet."""
        return frozenset(uid for state in self._states.values() for uid in (*state.held, *state.posting))

    def quorum(self, key: GangKey) -> Quorum:
        """What the gang has of its minimum; members on lost nodes do not count."""
        gang = self.context.cache.gang(key)
        return (
            NO_MEMBERS if gang is None else self._quorums.of_gang(gang, lost_nodes=self.health.lost_under(gang.members))
        )

    def gangs_under_way(self) -> frozenset[GangKey]:
        """Gangs admitted, at bind, with a clock running, and those remembered whose pods are gone."""
        cache, states = self.context.cache, self._states.items()
        under_way = (key for key, state in states if _active(state) or cache.gang(key) is None)
        return frozenset(self.admissions.open).union(under_way)

    async def bind_member(self, pod: Pod, gang: Gang, node: NodeName, gone: asyncio.Future[None]) -> Reason | None:
        """Hold the call until the gang's machine answers it. `None`: the Binding is confirmed."""
        if self.posts.limiter.closed:
            return Reason.NOT_LEADER
        if self._waiting[pod.namespace] >= self.held_max - len(self._calls):  # as many as it has stay free for others
            return Reason.TOO_MANY_HELD
        if (refused := self._commit_to(gang, pod, node)) is not None:
            self.planner.mark_dirty()
            return refused
        request = permit.RequestId(next(self._numbers))
        answer: asyncio.Future[Reason | None] = asyncio.get_running_loop().create_future()
        now_s = self.context.clock.monotonic_s()
        due_s = now_s + self.planner.policy.hold_limit_s
        self._calls[request] = _Call(pod.key, node, answer, due_s)
        self._waiting[pod.namespace] += 1
        unusable = self._unusable(gang, pod, node)
        self._feed(gang.key, permit.BindRequested(pod.uid, node, request, now_s, due_s, unusable))

        def dropped(_: object = None) -> None:
            if self._end_call(request) is not None:
                answer.set_result(Reason.POD_CHANGED)
                self._feed(gang.key, permit.ClientGone(request, self.context.clock.monotonic_s()))

        gone.add_done_callback(dropped)
        try:
            return await asyncio.shield(answer)  # the task may be cancelled too: the machine hears of it all the same
        finally:
            gone.remove_done_callback(dropped)
            dropped()

    def _end_call(self, request: permit.RequestId) -> _Call | None:
        """The call, which waits no more; `None`: it has ended before."""
        if (call := self._calls.pop(request, None)) is not None:
            self._waiting -= Counter((call.pod.partition("/")[0],))
        return call

    def reconcile(self, also: Set[GangKey] = frozenset()) -> None:
        """Bring the machines of gangs under way, and `also` these, up to date; gangs that run in part get one."""
        self.admissions.lapses.renew()
        self._quorums.keep_only(self.context.cache.gang)
        wanted, in_part = sorted(self.gangs_under_way() | also), self.context.cache.gangs.partial()
        for gone in self._looks.keys() - set(wanted):
            del self._looks[gone]
        for key in wanted:
            gang, state = self.context.cache.gang(key), self._state(key)
            if gang is None and not _active(state):
                self._states.pop(key, None)  # the last pod is gone; a gang of this name starts from nothing
            elif self._anything_new(key, state, gang):
                for event in self._news(state, gang) if key in self._states or key in in_part else ():
                    self._feed(key, event)
                snapshot, state = self.context.cache.snapshot(), self._state(key)
                commitment = snapshot.commitments.get(key)
                if gang is not None and commitment is not None:
                    # Members whose place is taken before they came to bind lose it; the next plan gives them another.
                    taken = members_without_room(snapshot, gang, commitment.assignment) - state.held.keys()
                    if taken := taken - state.posting.keys():
                        left = {uid: node for uid, node in commitment.assignment.items() if uid not in taken}
                        self.context.cache.set_commitment(key, left)

    def _anything_new(self, key: GangKey, state: PermitState, gang: Gang | None) -> bool:
        """Whether the gang, its nodes or what runs on them changed; else every Binding would have all gangs checked."""
        snapshot = self.context.cache.snapshot()
        commitment = snapshot.commitments.get(key)
        nodes = set(commitment.assignment.values()) if commitment is not None else set()
        nodes.update(held.node for held in state.held.values())
        nodes.update(post.node for post in state.posting.values())
        rows = sorted(snapshot.table.index[node] for node in nodes if node in snapshot.table.index)
        look = (gang, snapshot.table.version, snapshot.used[rows].tobytes(), self.health.lost(nodes))
        before, self._looks[key] = self._looks.get(key), look
        return before is None or before[0] is not gang or before[1:] != look[1:]

    def plan_made(self, plan: Plan) -> None:
        """Ungate and nudge pods of newly admitted gangs; fail what is held of gangs that it does not make whole."""
        if not self.context.acting():
            return
        self.wakes.add(self.parking.woken_by(plan, now_s=self.context.clock.monotonic_s()))
        self.wakes.add(self.admissions.plan_made(plan))
        self.health.update()
        self.reconcile(plan.partial | self.context.cache.gangs.partial())
        for key, state in sorted((key, state) for key, state in self._states.items() if state.held):
            admission = plan.admitted.get(key)
            coming = admission.members.keys() if admission is not None else frozenset[PodUid]()
            quorum = self.quorum(key)
            there = quorum.placed | state.bound.keys() | state.held.keys() | state.posting.keys()
            if not quorum.reached_by(there | coming):
                self.abandon(key)

    def abandon(self, key: GangKey) -> None:
        """Fail what is held of a gang; what is being posted keeps its places until the outcome is known."""
        if held := self._state(key).held:
            self._feed(key, permit.GangChanged(self.context.clock.monotonic_s(), frozenset(held)))
        self.context.cache.set_commitment(key, {uid: post.node for uid, post in self._state(key).posting.items()})

    def _eviction_refused(self, key: GangKey, uids: Sequence[PodUid]) -> None:
        self._feed(key, permit.EvictionRefused(tuple(uids), self.context.clock.monotonic_s()))

    def stand_down(self) -> None:
        """Answer every held call, and all that still come, with NOT_LEADER; Bindings under way keep their calls."""
        self.posts.limiter.close()
        for key in sorted(self._states):
            self._feed(key, permit.LeadershipLost(self.context.clock.monotonic_s()))

    def restart(self) -> None:
        """Take calls again with empty records; after `stand_down`, when all Bindings are over."""
        for _, timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self._states.clear()
        self._looks.clear()
        self.posts.limiter.closed = False

    async def over(self) -> None:
        """Wait for the Bindings under way."""
        await self._posting.over()

    def _commit_to(self, gang: Gang, pod: Pod, node: NodeName) -> Reason | None:
        """Make the gang's plan a commitment, with this member on `node`; else why it does not stand any more."""
        snapshot = self.context.cache.snapshot()
        existing = snapshot.commitments.get(gang.key)
        if existing is not None and existing.assignment.get(pod.uid) == node:
            return None
        if not self.context.cache.free_to_commit(gang.key, {pod.uid: node}):
            return Reason.ROOM_TAKEN  # it changed gangs, and the other one has not let it go yet
        planned = self.planner.current.admitted.get(gang.key)
        before = existing.assignment if existing else planned.members if planned else {}
        members = {member.uid for member in gang.members}
        free = self.context.cache.free_to_commit(gang.key, before)
        others = {uid: where for uid, where in free.items() if uid in members and uid != pod.uid}
        elsewhere = in_another_zone(snapshot, gang, others, node)
        if elsewhere and gang_options(dict(gang.options), self.planner.policy).zone_policy is ZonePolicy.REQUIRED:
            return Reason.OTHER_ZONE  # a plan that came after /filter has moved the gang
        assignment = others | {pod.uid: node}
        if existing is None and members_without_room(snapshot, gang, assignment):
            return Reason.ROOM_TAKEN
        # With a commitment the others keep their places; the machine learns which of those at bind lost theirs.
        self.context.cache.set_commitment(gang.key, assignment, as_planned=existing is None and assignment == before)
        return None

    def _unusable(self, gang: Gang, pod: Pod | None, node: NodeName | None) -> frozenset[PodUid]:
        """Members at bind whose node does not do any more; of one that completes no gang only its own is checked."""
        state = self._state(gang.key)
        at_bind = {uid: held.node for uid, held in state.held.items()}
        if pod is not None and node is not None:
            at_bind[pod.uid] = node
        looked_at = at_bind | {uid: post.node for uid, post in state.posting.items()}
        if node is not None:
            quorum = self.quorum(gang.key)
            if not quorum.reached_by(quorum.placed | looked_at.keys()):
                looked_at = {uid: where for uid, where in looked_at.items() if where == node}
        return members_without_room(self.context.cache.snapshot(), gang, looked_at) & at_bind.keys()

    def _news(self, state: PermitState, gang: Gang | None) -> list[permit.Event]:
        """What the cache knows and the machine may not: members bound or gone, nodes lost, anything else changed."""
        now_s = self.context.clock.monotonic_s()
        news: list[permit.Event] = []
        at_bind: dict[PodUid, Held | Posting] = {**state.held, **state.posting}
        for uid in sorted(at_bind):
            pod = self.context.cache.pod(uid)
            if pod is None or (pod.deleting and pod.node is None):
                news.append(permit.PodDeleted(uid, now_s))
            elif pod.node is not None:
                news.append(permit.MemberBound(uid, pod.node, now_s))
        lost = self.health.lost({call.node for call in at_bind.values()})
        news.extend(permit.NodeLost(node, now_s) for node in sorted(lost))
        unusable = self._unusable(gang, None, None) if gang is not None else frozenset()
        return [*news, permit.GangChanged(now_s, unusable)]

    def _state(self, key: GangKey) -> PermitState:
        return self._states.get(key) or self._unknown

    def _feed(self, key: GangKey, event: permit.Event) -> None:
        quorum = self.quorum(key)
        state, instructions = handle(self._state(key), event, quorum)
        # Kept: what the API server does not know, which is calls, clocks, and that the gang was whole once.
        if _active(state) or (state.started and self.context.cache.gang(key) is not None):
            self._states[key] = state
        else:
            self._states.pop(key, None)
        for instruction in instructions:
            match instruction:
                case permit.Answer(request, error):
                    call = self._end_call(request)
                    if call is not None:  # else its client hung up in the very moment
                        call.answer.set_result(error)
                        self.context.decided(Decision("bind", call.pod, key, call.node, error or ""))
                case permit.Nudge(uids):
                    self.wakes.add(self.parking.asleep(uids))
                case permit.Evict(uids):
                    self.evictions.add(key, uids)
                case permit.PostBinding():
                    pass  # seen to once per step
        self._post(key, state, quorum, [step for step in instructions if isinstance(step, permit.PostBinding)])
        if not (state.held or state.posting):  # the places are free again, or bound and counted as such
            answers = [step.error for step in instructions if isinstance(step, permit.Answer)]
            if Reason.QUORUM_TIMEOUT in answers:
                if self.admissions.gives_up(key):
                    self.admissions.lapses.lapsed(key)
            elif None in answers:
                self.admissions.lapses.started(key)
            if key not in self.admissions.open:
                self.context.cache.set_commitment(key, {})
        self._set_timer(key)
        self.context.telemetry.held_binds(len(self._calls))

    def _post(self, key: GangKey, state: PermitState, quorum: Quorum, asked: Sequence[permit.PostBinding]) -> None:
        """Have these posted: the first a quarter of the commit timeout after the first call is due, others a half."""
        if not asked:
            return
        requests = [state.posting[binding.uid].request for binding in asked]
        calls = [self._calls.get(request) for request in requests if request is not None]
        due_s = [call.due_s for call in calls if call is not None]
        due_s.append(self.context.clock.monotonic_s() + self.planner.policy.hold_limit_s)
        turns = GangTurns(
            min(due_s) + self.commit_s / 4.0,
            min(due_s) + self.commit_s / 2.0,
            urgent=bool(quorum.placed or state.bound),
            key=key,
            places={binding.uid: binding.node for binding in asked},
            asked_s=self.context.clock.monotonic_s(),
            gang=self.context.cache.gang(key),
        )
        for uid in turns.places:
            self._posting.start(self._post_member(uid, turns), f"bind {key}")

    async def _post_member(self, uid: PodUid, turns: GangTurns) -> None:
        """Post one Binding, and tell the machine the outcome exactly once, whatever happens."""
        outcome: permit.MemberBound | permit.BindFailed | None = None
        try:
            outcome = await self._posted(uid, turns)
        finally:
            self._feed(turns.key, outcome or self._failed(uid))  # else it was broken off

    async def _posted(self, uid: PodUid, turns: GangTurns) -> permit.MemberBound | permit.BindFailed:
        if not await self.posts.limiter.take(turns):
            return self._failed(uid)
        began_s, answered = self.context.clock.monotonic_s(), True
        try:
            pod = self.context.cache.pod(uid)
            if pod is None:
                return self._failed(uid, terminal=True)
            if turns.over or not self._may_go_on(turns, now_s=began_s):
                self.posts.limiter.refuse(turns)
                return self._failed(uid)
            turns.posting = True
            binding = Binding(pod.namespace, pod.name, uid, turns.places[uid])
            error = await self.posts.tried(binding)
            if error is None:
                return permit.MemberBound(uid, binding.node, self.context.clock.monotonic_s())
            answered = was_answered(error)
            self.posts.failed(binding, error)
            return self._failed(uid, terminal=isinstance(error, ApiError) and error.status in (404, 422))
        finally:
            self.posts.limiter.give_back(began_s=began_s, answered=answered)

    def _failed(self, uid: PodUid, *, terminal: bool = False) -> permit.BindFailed:
        return permit.BindFailed(uid, terminal=terminal, now_s=self.context.clock.monotonic_s())

    def _may_go_on(self, turns: GangTurns, *, now_s: float) -> bool:
        """Whether the gang may still be bound, if it changed, and its places, looked at once if late, still do."""
        gang, places = self.context.cache.gang(turns.key), turns.places
        if gang is not turns.gang:
            turns.gang, quorum, state = gang, self.quorum(turns.key), self._states.get(turns.key)
            if quorum.problem is not None or quorum.incomplete or state is None:
                return False
            if not turns.posting and not quorum.reached_by(quorum.placed | state.bound.keys() | state.posting.keys()):
                return False
        if turns.looked_at or now_s - turns.asked_s <= _STALE_S:
            return True
        turns.looked_at = True
        stands = gang is not None and not members_without_room(self.context.cache.snapshot(), gang, places)
        return stands and not self.health.lost(places.values())

    def _set_timer(self, key: GangKey) -> None:
        due_s = next_deadline_s(self._state(key))
        set_for_s, timer = self._timers.get(key, (None, None))
        if due_s == set_for_s:
            return  # as after most steps
        if timer is not None:
            timer.cancel()
            del self._timers[key]
        if due_s is not None:
            delay_s = max(due_s - self.context.clock.monotonic_s(), 0.0)
            self._timers[key] = due_s, asyncio.get_running_loop().call_later(delay_s, self._deadline, key)

    def _deadline(self, key: GangKey) -> None:
        self._timers.pop(key, None)
        self._feed(key, permit.DeadlinePassed(self.context.clock.monotonic_s()))


def _active(state: PermitState) -> bool:
    return bool(state.held or state.posting or state.evicting or state.partial_until_s is not None)
