"""Answer kube-scheduler's three questions from memory.

filter: the planned node, or one constant reason. prioritize: 0–10 for each node asked. bind: hold, commit, confirm.
Rules: pods of other schedulers keep all their nodes (docs/safety.md S1), plain pods those that are not reserved
(docs/safety.md S13); a call that does not come from kube-scheduler is a person looking and changes nothing
(docs/safety.md S2); a refusal costs a look-up, because kube-scheduler may ask for it a thousand times a second.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import replace

from extender.cache.cluster import ClusterCache
from extender.controllers.context import ControllerContext
from extender.controllers.owners import OwnerReader
from extender.convert import node_from_json, pod_from_json
from extender.convert.wire import BindArgs, Failed, FilterAnswer, FilterArgs, Passed, Refused
from extender.errors import BadRequestError
from extender.ports import Binding, Clock
from extender.runtime.decision_lines import Decision
from extender.scheduling.answered_pods import Learning, Offers, StormGuard
from extender.scheduling.held_binds import Binds
from extender.scheduling.plain_pods import NativeZones, PlainPods
from extender.scheduling.planner_loop import Planner
from scoring import NodeName, PodUid
from scoring.model import Gang, GangSource, NodeTable, Pod, Reason, Snapshot
from scoring.score.pairs import extender_scores
from scoring.verbs.places import Alternative, PlanPlaces
from scoring.verbs.prioritize import prefer

_SCORES_KEPT = 64
_NEW_S = 2.0  # So long after a pod was created (to the second) the others of its gang may be on their way
_OF_THE_MOMENT = (Reason.UNKNOWN_POD, Reason.NOT_PLANNED)
_ENDED_BY_ROOM = (Reason.NO_ROOM, Reason.BEHIND, Reason.FILTERED, Reason.UNCOUNTED, Reason.IMPOSSIBLE, Reason.SURPLUS)


@dataclass(eq=False, repr=False)
class Verbs:
    """The service behind /filter, /prioritize and /bind."""

    context: ControllerContext
    planner: Planner
    binds: Binds
    _: KW_ONLY
    sees_all_nodes: bool  # kube-scheduler looks at all nodes for each pod
    offers: Offers = field(default_factory=Offers, init=False)
    _guard: StormGuard = field(default_factory=StormGuard, init=False)
    _last_other: tuple[PlanPlaces, Pod, Sequence[NodeName], Alternative] | None = field(default=None, init=False)
    _scores: dict[object, tuple[Mapping[NodeName, int], list[int]]] = field(default_factory=dict, init=False)
    """(versions, pod) → node → row, and the score of each row; last: of unknown nodes"""

    def __post_init__(self) -> None:
        cache, clock, planner = self.context.cache, self.context.clock, self.planner
        self.plain, self._native = PlainPods(cache, planner, clock), NativeZones(planner)
        self.owners = OwnerReader(self.context, self.binds.wakes.add)
        self._catch_up = CatchUp(cache, clock, planner.change)
        ttl_s = planner.policy.exclusion_ttl_s
        self._learning = Learning(cache, clock, ttl_s=ttl_s, sees_all_nodes=self.sees_all_nodes)

    def reset(self) -> None:
        """Know nothing of earlier answers, as after a restart."""
        for book in (self.offers, self.plain, self.binds.parking):
            book.reset()

    def caught_up(self, args: FilterArgs) -> Awaitable[None] | None:
        """What to wait for before the answer, for some milliseconds: the watch, and a plan; `None`: nothing."""
        if args.debug or self._not_now() is not None:
            return None
        wait = self._behind(args)
        return self.planned(args) if wait is None else _in_turn(lambda: wait, partial(self.planned, args))

    def _behind(self, args: FilterArgs) -> Awaitable[None] | None:
        """A moment for the watch before a refusal, where kube-scheduler knows more than the cache; `None`: none."""
        cache, uid, catch_up = self.context.cache, args.pod.uid, self._catch_up
        idle, pod = catch_up.asked(), cache.pod(uid)

        def has_minimum() -> bool:
            gang = cache.gang_of(uid)
            return cache.pod(uid) is not None and (gang is None or not gang.own or len(gang.members) >= gang.min_member)

        new = pod is None or self.context.clock.now_s() - pod.created_s < _NEW_S
        if idle and new and (wait := catch_up.until(has_minimum, uid, "gang")) is not None:
            return wait
        if pod is None:
            return catch_up.until(lambda: cache.pod(uid) is not None, uid)
        gang = cache.gang_of(uid)
        waiting = self.planner.current.waiting.get(gang.key) if gang is not None else None
        if waiting is not None and waiting.reason in _ENDED_BY_ROOM:
            return catch_up.until(lambda: have_room(cache.snapshot(), pod, args.node_names), uid)
        return None

    def planned(self, args: FilterArgs) -> Coroutine[Any, Any, None] | None:
        """Learn from the question. Gives a short wait for a plan, if the one there is does not know what it should."""
        pod, gang = self.context.cache.pod(args.pod.uid), self.context.cache.gang_of(args.pod.uid)
        if pod is None or pod.node is not None or not self.context.cache.is_own(pod):
            return None
        if gang is None:
            early = self.context.clock.monotonic_s() < self.planner.soon_not_before_s
            return None if early or not self.plain.lags(pod, args.node_names) else self.planner.soon()
        if gang.source is GangSource.NATIVE or _is_of_later_run(pod, gang):
            return None
        lapses = self.binds.admissions.lapses
        if gang.key in lapses.last:
            lapses.asked(gang.key)
        if self.context.cache.passed(pod, args.node_names):
            lapses.revoked(gang.key)
        committed = self.context.cache.committed_node(gang.key, pod.uid) is not None
        if not committed and is_worth_a_wait(self.planner, gang):
            return _in_turn(self.planner.soon, partial(self._learn, pod, gang, args.node_names))
        return self._learn(pod, gang, args.node_names)

    def _has_too_few_live(self, gang: Gang) -> bool:
        """Whether so many members are on lost nodes that the rest cannot start (docs/safety.md S12)."""
        nodes = {pod.node for pod in gang.members if pod.node is not None}
        return bool(nodes and self.binds.health.lost(nodes)) and self.binds.quorum(gang.key).incomplete

    def _learn(self, pod: Pod, gang: Gang, asked: Sequence[NodeName]) -> Coroutine[Any, Any, None] | None:
        """A wait for a plan, if the question taught that others refuse the planned node: the gang goes elsewhere."""
        node = self.context.cache.committed_node(gang.key, pod.uid) or self.planner.current.node_of.get(pod.uid)
        if node is None or node in asked or pod.nominated_node is not None or self._has_too_few_live(gang):
            return None
        if gang.source.is_native:  # its members are tried together, also zone by zone: that alone leaves nodes out
            return None
        other, now_s = self._other(gang, pod, asked), self.context.clock.monotonic_s()
        if other.node is not None or not self._learning.refused(pod, node, asked, absent=other.absent, now_s=now_s):
            return None
        self.binds.admissions.lapses.abandoned(gang.key)
        self.binds.abandon(gang.key)
        return self.planner.soon()

    def filter(self, args: FilterArgs) -> FilterAnswer:
        """Which of the nodes the pod may use."""
        if (not_now := self._not_now()) is not None:
            return Failed(not_now)
        pod = self._pod(args)
        gang, own = self.context.cache.gang_of(pod.uid), self.context.cache.is_own(pod)
        native = pod.group is not None and pod.group.source is GangSource.NATIVE  # kube-scheduler itself gangs these
        if own and pod.group is not None and not native:  # if we do not know the gang, the watch brings it in a moment
            answer = self._filter_member(args, pod, gang) if gang else self._refuse(args, pod, Reason.UNKNOWN_POD)
        elif own and not native and self.owners.holds(pod, asked=not args.debug):
            answer = self._refuse(args, pod, Reason.INVALID_GROUP)
        else:
            answer = self._pass_plain(args, pod, gang if own else None)
        reason = "" if isinstance(answer, Passed) else answer.reason if isinstance(answer, Refused) else answer.error
        if gang is not None or reason:  # plain pods pass by the thousand; kube-scheduler logs them
            node = answer.names[0] if isinstance(answer, Passed) and len(answer.names) == 1 else ""
            version = self.planner.current.version
            key = f"{pod.namespace}/{pod.name}"
            decision = Decision("filter", key, gang.key if gang else "", node, reason, snapshot_version=version)
            self.context.log.log_decision(decision, now_s=self.context.clock.monotonic_s())
        return answer

    def prioritize(self, args: FilterArgs) -> Sequence[int]:
        """0–10 for each node asked, in the request's order; 0 for unknown nodes."""
        pod, plan, policy = self._pod(args), self.planner.current, self.planner.policy
        current = self.context.cache.snapshot()
        snapshot = current if args.nodes_json is None else _with_nodes(current, args, zone_label=policy.zone_label)
        is_watched = snapshot is current and self._known(args) is not None  # else the next request may differ
        key = (snapshot.version, plan.version, pod.uid)
        scored = self._scores.get(key) if is_watched else None
        if scored is None:
            gang, cache = self.context.cache.gang_of(pod.uid), self.planner.cache if snapshot is current else None
            total = prefer(snapshot, plan, pod, gang, policy, cache=cache).total
            scored = snapshot.table.index, [*extender_scores(total).tolist(), 0]
            if is_watched:
                if len(self._scores) >= _SCORES_KEPT:
                    self._scores.clear()
                self._scores[key] = scored
        index, values = scored
        return [values[index.get(name, -1)] for name in args.node_names]

    async def bind(self, args: BindArgs, gone: asyncio.Future[None]) -> Reason | None:
        """Bind the pod, after its gang's quorum if it has one. `None`: the API server confirmed it."""
        if (not_now := self._not_now()) is not None:
            return not_now
        pod = await self._pod_to_bind(args)
        if isinstance(pod, Reason):
            return pod
        if pod.node is not None:
            return None if pod.node == args.node else Reason.POD_CHANGED
        gang, binding = self.context.cache.gang_of(pod.uid), Binding(pod.namespace, pod.name, pod.uid, args.node)
        if gang is None and await self.owners.settled(pod):
            return Reason.INVALID_GROUP
        gang = self.context.cache.gang_of(pod.uid) if gang is None else gang
        if gang is None or gang.source is GangSource.NATIVE:
            await self._catch_up.at_bind(lambda: not self.plain.lags(pod, (args.node,)))
            with self.plain.binding(pod, args.node) as may_go:
                refused = await self.binds.posts.alone(binding) if may_go else Reason.RESERVED
        elif gang.problem is not None or _is_of_later_run(pod, gang):
            return gang.problem or Reason.OTHER_RUN
        elif gang.source.is_native:  # kube-scheduler has found nodes for all that must start together
            refused = await self.binds.posts.alone(binding)
        else:
            refused = await self.binds.bind_member(pod, gang, args.node, gone)
        if refused is None:
            self.offers.taken(args.uid)
        return refused

    async def _pod_to_bind(self, args: BindArgs) -> Pod | Reason:
        """The pod, if it is ours and was offered this node; else why not. Waits for the watch if it is behind."""
        pod = self.context.cache.pod(args.uid)
        if pod is not None and pod.node is not None:
            return pod
        if pod is not None and not self.context.cache.is_own(pod):
            return Reason.NOT_OURS
        if not self.offers.allows(args.uid, args.node, now_s=self.context.clock.monotonic_s()):
            return Reason.NEVER_OFFERED
        if pod is not None:
            return pod
        if not self.offers.alone(args.uid):
            return Reason.POD_DELETED  # a member of a gang when it was offered its node, and the watch had shown it
        await self._catch_up.at_bind(lambda: self.context.cache.pod(args.uid) is not None)
        if (pod := self.context.cache.pod(args.uid)) is None:
            return Reason.UNKNOWN_POD
        return pod if self.context.cache.is_own(pod) else Reason.NOT_OURS

    def _pass_plain(self, args: FilterArgs, pod: Pod, native: Gang | None) -> FilterAnswer:
        """All nodes but those reserved for gangs (docs/safety.md S13); of a native group, those of its zone."""
        closed = self.plain.closed_to(pod)
        asked = [name for name in args.node_names if name not in closed] if closed else args.node_names
        if closed and not asked and args.node_names:
            answer = self._refuse(args, pod, Reason.RESERVED)
            if not args.debug and isinstance(answer, Refused):
                self.plain.refused(pod)
            return answer
        if len(asked) == len(args.node_names):
            asked = args.node_names  # the request's own list is the cheapest answer
        now_s = self.context.clock.monotonic_s()
        near = asked if native is None else self._native.allowed(native, asked, now_s=None if args.debug else now_s)
        if asked and not near:
            return Refused(Reason.OTHER_ZONE)
        if not args.debug:
            if self.context.cache.is_own(pod):
                # Reserved room is looked at again at /bind; what else was refused here is not offered.
                names_json = args.names_json if near is asked else msgspec.json.encode(near)
                self.offers.note(pod.uid, None, names_json or msgspec.json.encode(args.node_names), now_s=now_s)
            self.plain.passed(pod)
        if near is args.node_names:
            return Passed(near)
        return Passed(near, others=Reason.RESERVED if near is asked else Reason.OTHER_ZONE)

    def _filter_member(self, args: FilterArgs, pod: Pod, gang: Gang) -> FilterAnswer:
        asked = args.node_names
        if pod.node is not None:  # bound already, and kube-scheduler is a moment behind
            return Passed([pod.node]) if pod.node in asked else Refused(Reason.OTHER_NODE_PLANNED)
        if _is_of_later_run(pod, gang):
            return self._refuse(args, pod, Reason.OTHER_RUN)
        plan = self.planner.current
        node = self.context.cache.committed_node(gang.key, pod.uid) or plan.node_of.get(pod.uid)
        if node is not None and self._has_too_few_live(gang):
            return self._refuse(args, pod, Reason.INCOMPLETE, node)
        offered = node is not None and node in asked
        if node is not None and not offered and not args.debug and pod.nominated_node is None:
            other = self._other(gang, pod, asked)
            node, offered = (node, False) if other.node is None else (other.node, True)
        if node is not None and offered:
            if not args.debug:
                now_s = self.context.clock.monotonic_s()
                self.offers.note(pod.uid, node, now_s=now_s)
                self.binds.parking.offered(pod.uid, now_s=now_s)
                self._guard.passed(pod.uid)
            return Passed([node])
        if (waiting := plan.waiting.get(gang.key)) is not None:
            return self._refuse(args, pod, waiting.reason, node)
        unplanned = Reason.SURPLUS if gang.key in plan.admitted else Reason.NOT_PLANNED
        reason = Reason.NODE_NOT_OFFERED if pod.uid in plan.node_of else unplanned
        return self._refuse(args, pod, reason, node)

    def _other(self, gang: Gang, pod: Pod, asked: Sequence[NodeName]) -> Alternative:
        """Another node for the pod, looked for once in a call that learns and answers."""
        beside, last = self.planner.places(), self._last_other
        if last is None or last[0] is not beside or last[1] is not pod or last[2] is not asked:
            last = self._last_other = (beside, pod, asked, beside.instead(gang, pod, asked))
        return last[3]

    def _refuse(self, args: FilterArgs, pod: Pod, reason: Reason, planned: NodeName | None = None) -> FilterAnswer:
        """Refuse, remember which pod is parked for it, and break a storm of the same question."""
        if args.debug:
            return Refused(reason)
        now_s = self.context.clock.monotonic_s()
        if self._guard.holds(pod.uid, reason, now_s=now_s, changed_s=self.planner.changed_s):
            return Failed(reason)  # kube-scheduler asks again by its timer: the pod is not parked
        self.binds.parking.refused(pod.uid, planned, now_s=now_s, for_a_moment=reason in _OF_THE_MOMENT)
        return Refused(reason)

    def _not_now(self) -> Reason | None:
        """Why filter and bind may not be answered: there is no plan yet, or another replica answers."""
        if self.planner.snapshot is None:
            return Reason.NOT_SYNCED
        return None if self.context.acting() else Reason.NOT_LEADER

    def _pod(self, args: FilterArgs) -> Pod:
        """The pod as the watch shows it; a pod that is not there yet, as the request shows it."""
        if (watched := self._known(args)) is not None:
            return watched
        try:
            return pod_from_json(args.pod_json)
        except ValueError as error:
            raise BadRequestError(str(error)) from error

    def _known(self, args: FilterArgs) -> Pod | None:
        """By uid: a pod of the same name may be a predecessor. Only people leave the uid out."""
        if args.pod.uid:
            return self.context.cache.pod(args.pod.uid)
        return self.context.cache.pod_by_name(args.pod.namespace or "default", args.pod.name)


def _is_of_later_run(pod: Pod, gang: Gang) -> bool:
    """Whether the pod waits until another run of its gang has ended (docs/safety.md S23)."""
    return bool(gang.later) and any(later.uid == pod.uid for later in gang.later)


def _with_nodes(snapshot: Snapshot, args: FilterArgs, *, zone_label: str) -> Snapshot:
    """The snapshot plus the request's nodes that it does not have, empty: so curl works without a cluster."""
    unknown = [name not in snapshot.table.index for name in args.node_names]
    if not any(unknown):
        return snapshot
    raws = [raw for raw, new in zip(args.nodes_json or (), unknown, strict=True) if new]
    try:
        more = [node_from_json(raw, zone_label=zone_label) for raw in raws]
    except ValueError as error:
        raise BadRequestError(str(error)) from error
    watched = snapshot.table
    table = NodeTable.from_nodes([*watched.nodes, *more], version=-1 - watched.version)
    used = np.zeros_like(table.allocatable)
    columns = [table.axis.index(name) for name in snapshot.table.axis]
    for row, name in enumerate(snapshot.table.names):
        used[table.index[name], columns] = snapshot.used[row]
    return replace(snapshot, table=table, used=used, network=snapshot.network.with_nodes(node.name for node in more))


async def _in_turn(*waits: Callable[[], Awaitable[None] | None]) -> None:
    for begin in waits:
        if (wait := begin()) is not None:
            await wait


LONGEST_S = 0.02
AT_BIND_S = 0.5  # For what a call of /bind is about: the watch has not brought the pod, or the plan lags
_AT_BIND_LOOK_S = 0.02
_AT_BIND_MAX = 64  # Pods waited for at /bind at a time; one more is refused, and kube-scheduler tries it again
_SHARE = 4.0  # After a wait, no other one for this many times its length
_REMEMBERED_MAX = 20_000


def is_worth_a_wait(planner: Planner, gang: Gang) -> bool:
    """Whether a plan of now may end a "no" to the gang, which costs a pod seconds, and may be made already."""
    planned_with, plan = planner.snapshot, planner.current
    same = planned_with is not None and planned_with.gangs.get(gang.key) is gang
    answered = same and (gang.key in plan.admitted or planner.cluster.version == plan.version)
    return not answered and planner.clock.monotonic_s() >= planner.soon_not_before_s


class CatchUp:
    """Waits for changes of the cache, before a pod is refused, on behalf of questions that are ahead of it.

    Why: kube-scheduler asks at the very event that makes room, and its question often overtakes our copy of that event:
    it names a node that we do not know or that is full in our view only, or a pod that we have not seen. A "no" then
    costs the pod its backoff, seconds. Rule: look again after each change of the cache, for at most `LONGEST_S`, once
    per pod and version of the cache, and never more than a fifth of the time. At /bind kube-scheduler goes on, so it
    may be longer. The first pods of a new gang are tried while its owner still creates the others, and each "no" is an
    Event that looks like a failure: the question waits for these, too, by a fifth of its own, and only where
    kube-scheduler asked nothing for `LONGEST_S`.
    """

    def __init__(self, cache: ClusterCache, clock: Clock, change: asyncio.Event) -> None:
        self._cache, self._clock = cache, clock
        self._change = change  # Set at each change of the cache: every call that waits looks again
        self._not_before_s = dict.fromkeys(("watch", "gang"), -float("inf"))  # what is waited for → no wait before
        self._waited: set[PodUid] = set()  # Pods that have been waited for at the version `_waited_at` of the cache
        self._waited_at = -1
        self._at_bind = 0
        self._asked_s = -float("inf")

    def asked(self) -> bool:
        """kube-scheduler asks; whether it had asked nothing for so long that a moment delays no other pod."""
        before_s, self._asked_s = self._asked_s, self._clock.monotonic_s()
        return self._asked_s - before_s >= LONGEST_S

    async def at_bind(self, caught_up: Callable[[], bool]) -> None:
        """Wait until a look finds it so, for `AT_BIND_S` at most, and not while too many calls wait."""
        ends_s = self._clock.monotonic_s() + AT_BIND_S
        self._at_bind += 1
        try:
            while not caught_up():
                if self._at_bind > _AT_BIND_MAX or self._clock.monotonic_s() >= ends_s:
                    return
                await asyncio.sleep(_AT_BIND_LOOK_S)
        finally:
            self._at_bind -= 1

    def until(self, caught_up: Callable[[], bool], uid: PodUid, what: str = "watch") -> Awaitable[None] | None:
        """What waits for `caught_up`; a question that need not wait, or may not yet, costs no task to find that out."""
        began_s = self._clock.monotonic_s()
        has_waited = self._waited_at == self._cache.version and uid in self._waited
        if began_s < self._not_before_s[what] or has_waited or caught_up():
            return None
        return self._wait(caught_up, uid, what, began_s)

    async def _wait(self, caught_up: Callable[[], bool], uid: PodUid, what: str, began_s: float) -> None:
        try:
            with suppress(TimeoutError):  # then the answer is made from what is known
                async with asyncio.timeout(LONGEST_S):
                    while not caught_up():
                        self._change.clear()
                        await self._change.wait()
        finally:
            if self._waited_at != self._cache.version or len(self._waited) >= _REMEMBERED_MAX:
                self._waited_at = self._cache.version
                self._waited.clear()
            self._waited.add(uid)
            now_s = self._clock.monotonic_s()
            self._not_before_s[what] = now_s + _SHARE * (now_s - began_s)


def have_room(snapshot: Snapshot, pod: Pod, asked: Sequence[NodeName]) -> bool:
    """Whether each of these nodes is known and has room for the pod in our view. Cost: O(asked)."""
    request, index = snapshot.table.vector(pod.requests), snapshot.table.index
    if not all(name in index for name in asked):
        return False
    wanted, rows = np.flatnonzero(request), [index[name] for name in asked]
    left = snapshot.table.allocatable[:, wanted] - snapshot.used[:, wanted] - request[wanted]
    return not bool((left.min(axis=1, initial=0) < 0).take(rows).any())
