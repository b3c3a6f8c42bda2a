"""Answer kube-scheduler's three questions from memory.

filter: the planned node, or one constant reason. prioritize: 0–10 for each node asked. bind: hold, commit, confirm.
Rules: pods of other schedulers keep all their nodes (docs/safety.md S1), plain pods those that are not reserved
(docs/safety.md S13); a call that does not come from kube-scheduler is a person looking and changes nothing
(docs/safety.md S2); a refusal costs a look-up, because kube-scheduler may ask for it a thousand times a second.
"""

import asyncio
from collections.abc import Awaitable, Coroutine, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import replace

from extender.controllers.context import ControllerContext
from extender.convert import node_from_json, pod_from_json
from extender.convert.wire import BindArgs, Failed, FilterAnswer, FilterArgs, Passed, Refused
from extender.errors import BadRequestError
from extender.ports import Binding
from extender.runtime.decision_lines import Decision
from extender.scheduling.answered_pods import Offers, StormGuard
from extender.scheduling.held_binds import Binds
from extender.scheduling.plain_pods import NativeZones, PlainPods
from extender.scheduling.planner_loop import Planner
from extender.scheduling.unfit_nodes import Learning
from extender.scheduling.watch_catchup import CatchUp
from scoring.ids import NodeName, PodUid
from scoring.model import Gang, GangSource, NodeTable, Pod, Reason, Snapshot
from scoring.plan import Plan
from scoring.score.pairs import extender_scores
from scoring.verbs.places import Alternative, PlanPlaces
from scoring.verbs.prioritize import Preference, prefer

_SCORES_KEPT = 64
_NEW_S = 2.0  # So long after a pod was created (to the second) the others of its gang may be on their way
_OF_THE_MOMENT = frozenset({Reason.UNKNOWN_POD, Reason.NOT_PLANNED})
_ENDED_BY_ROOM = frozenset(
    {Reason.NO_ROOM, Reason.BEHIND, Reason.FILTERED, Reason.UNCOUNTED, Reason.IMPOSSIBLE, Reason.SURPLUS}
)


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
    _scores: "dict[object, _Scores]" = field(default_factory=dict, init=False)  # (versions, pod) → node → score

    def __post_init__(self) -> None:
        cache, clock, ttl_s = self.context.cache, self.context.clock, self.planner.policy.exclusion_ttl_s
        self.plain, self._native = PlainPods(cache, self.planner, clock), NativeZones(self.planner)
        self._catch_up = CatchUp(cache, clock, self.planner.change)
        self._learning = Learning(cache, clock, ttl_s=ttl_s, sees_all_nodes=self.sees_all_nodes)

    def forget(self) -> None:
        """Know nothing of earlier answers, as after a restart."""
        for book in (self.offers, self.plain, self.binds.parking):
            book.forget()

    def caught_up(self, args: FilterArgs) -> Awaitable[None] | None:
        """What to wait for before the answer, for some milliseconds: the watch, and a plan; `None`: nothing."""
        if args.debug or self._not_now() is not None:
            return None
        wait = self._behind(args)
        return self.planned(args) if wait is None else self._planned_after(wait, args)

    def _behind(self, args: FilterArgs) -> Awaitable[None] | None:
        """Gives the watch a moment before a refusal, when kube-scheduler knows more than the cache; if set.

        So it does while a new gang's members are being created, if kube-scheduler has nothing else to do.
        """
        idle = self._catch_up.asked()
        pod = self.context.cache.pod(args.pod.uid)
        new = pod is None or self.context.clock.now_s() - pod.created_s < _NEW_S
        if idle and new and (wait := self._catch_up.for_gang(args.pod.uid)) is not None:
            return wait
        if pod is None:
            return self._catch_up.for_pod(args.pod.uid)
        gang = self.context.cache.gang_of(pod.uid)
        waiting = self.planner.current.waiting.get(gang.key) if gang is not None else None
        if waiting is not None and waiting.reason in _ENDED_BY_ROOM:
            return self._catch_up.for_room(pod, args.node_names)
        return None

    async def _planned_after(self, wait: Awaitable[None], args: FilterArgs) -> None:
        await wait
        if (planned := self.planned(args)) is not None:
            await planned

    def planned(self, args: FilterArgs) -> Coroutine[Any, Any, None] | None:
        """Learn from the question. Gives a short wait for a plan, if the one there is does not know what it should."""
        pod = self.context.cache.pod(args.pod.uid)
        gang = self.context.cache.gang_of(pod.uid) if pod is not None else None
        if pod is None or gang is None or pod.node is not None or not self.context.cache.is_own(pod):
            return None
        if gang.source is GangSource.NATIVE or _is_of_later_run(pod, gang):
            return None
        self.binds.admissions.lapses.asked(gang.key)
        if self.context.cache.passed(pod, args.node_names):
            self.binds.admissions.lapses.revoked(gang.key)
        committed = self.context.cache.committed_node(gang.key, pod.uid) is not None
        if not committed and self.planner.is_worth_a_wait(gang):
            return self._planned_and_learned(pod, gang, args.node_names)
        return self.planner.soon() if self._learned(pod, gang, args.node_names) else None

    def _has_too_few_live(self, gang: Gang) -> bool:
        """Whether so many members are on lost nodes that the rest cannot start (docs/safety.md S12)."""
        lost = self.binds.health.lost_under(gang.members)
        return bool(lost) and self.binds.quorum(gang.key).incomplete

    async def _planned_and_learned(self, pod: Pod, gang: Gang, asked: Sequence[NodeName]) -> None:
        await self.planner.soon()
        if self._learned(pod, gang, asked):
            await self.planner.soon()

    def _learned(self, pod: Pod, gang: Gang, asked: Sequence[NodeName]) -> bool:
        """Whether the question taught that others refuse the planned node, so that the gang goes elsewhere."""
        node = self.context.cache.committed_node(gang.key, pod.uid) or self.planner.current.node_of.get(pod.uid)
        if node is None or node in asked or pod.nominated_node is not None or self._has_too_few_live(gang):
            return False
        if (
            gang.source.is_native
        ):  # its members are tried together, also zone by zone: a node is left out for that alone
            return False
        other, now_s = self._other(gang, pod, asked), self.context.clock.monotonic_s()
        if other.node is not None or not self._learning.refused(pod, node, asked, absent=other.absent, now_s=now_s):
            return False
        self.binds.admissions.lapses.abandoned(gang.key)
        self.binds.abandon(gang.key)
        return True

    def filter(self, args: FilterArgs) -> FilterAnswer:
        """Which of the nodes the pod may use."""
        if (not_now := self._not_now()) is not None:
            return Failed(not_now)
        pod = self._pod(args)
        gang = self.context.cache.gang_of(pod.uid)
        native = pod.group is not None and pod.group.source is GangSource.NATIVE  # kube-scheduler itself gangs these
        if gang is None and pod.group is not None and not native and self.context.cache.is_own(pod):
            # The watch will bring it in a moment.
            answer: FilterAnswer = self._refuse(args, pod, Reason.UNKNOWN_POD, planned=None)
        elif gang is None or not self.context.cache.is_own(pod):
            answer = self._pass_plain(args, pod, None)
        elif native:
            answer = self._pass_plain(args, pod, gang)
        else:
            answer = self._filter_member(args, pod, gang)
        self._log_filter(pod, gang, answer)
        return answer

    def prioritize(self, args: FilterArgs) -> Sequence[int]:
        """0–10 for each node asked, in the request's order; 0 for unknown nodes."""
        pod = self._pod(args)
        index, values = self._scores_for(pod, args)
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
        gang = self.context.cache.gang_of(pod.uid)
        if gang is None or gang.source is GangSource.NATIVE:
            with self.plain.binding(pod, args.node) as may_go:
                if not may_go:
                    return Reason.RESERVED
                refused = await self.binds.bind_alone(Binding(pod.namespace, pod.name, pod.uid, args.node))
        elif gang.problem is not None:
            return gang.problem
        elif _is_of_later_run(pod, gang):
            return Reason.OTHER_RUN
        elif gang.source.is_native:  # kube-scheduler has found nodes for all that must start together
            refused = await self.binds.bind_alone(Binding(pod.namespace, pod.name, pod.uid, args.node))
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
        pod = await self._catch_up.until_known(args.uid)
        if pod is None:
            return Reason.UNKNOWN_POD
        return pod if self.context.cache.is_own(pod) else Reason.NOT_OURS

    # -- filter -------------------------------------------------------------------------------------------------------

    def _pass_plain(self, args: FilterArgs, pod: Pod, native: Gang | None) -> FilterAnswer:
        """All nodes but those reserved for gangs (docs/safety.md S13); of a native group, those of its zone."""
        closed = self.plain.closed_to(pod)
        asked = [name for name in args.node_names if name not in closed] if closed else args.node_names
        if closed and not asked and args.node_names:
            answer = self._refuse(args, pod, Reason.RESERVED, planned=None)
            if not args.debug and isinstance(answer, Refused):
                self.plain.refused(pod)
            return answer
        if len(asked) == len(args.node_names):
            asked = args.node_names  # the request's own list is the cheapest answer
        near: Sequence[NodeName] = asked
        if native is not None:
            now_s = None if args.debug else self.context.clock.monotonic_s()
            near = self._native.allowed(native, asked, now_s=now_s)
        if asked and not near:
            return Refused(Reason.OTHER_ZONE)
        if not args.debug:
            if self.context.cache.is_own(pod):
                # Reserved room is looked at again at /bind; what else was refused here is not offered.
                names_json = args.names_json if near is asked else msgspec.json.encode(near)
                names_json = names_json or msgspec.json.encode(args.node_names)
                self.offers.note_asked(pod.uid, names_json, now_s=self.context.clock.monotonic_s())
            self.plain.passed(pod)
        if near is args.node_names:
            return Passed(near)
        return Passed(near, others=Reason.RESERVED if near is asked else Reason.OTHER_ZONE)

    def _filter_member(self, args: FilterArgs, pod: Pod, gang: Gang) -> FilterAnswer:
        asked = args.node_names
        if pod.node is not None:  # bound already, and kube-scheduler is a moment behind
            return Passed([pod.node]) if pod.node in asked else Refused(Reason.OTHER_NODE_PLANNED)
        if _is_of_later_run(pod, gang):
            return self._refuse(args, pod, Reason.OTHER_RUN, planned=None)
        plan = self.planner.current
        node = self.context.cache.committed_node(gang.key, pod.uid) or plan.node_of.get(pod.uid)
        if node is not None and self._has_too_few_live(gang):
            return self._refuse(args, pod, Reason.INCOMPLETE, planned=node)
        offered = node is not None and node in asked
        if node is not None and not offered and not args.debug and pod.nominated_node is None:
            other = self._other(gang, pod, asked)
            node, offered = (node, False) if other.node is None else (other.node, True)
        if node is not None and offered:
            if not args.debug:
                now_s = self.context.clock.monotonic_s()
                self.offers.note(pod.uid, node, now_s=now_s)
                self.binds.parking.offered(pod.uid, now_s=now_s)
                self._guard.forget(pod.uid)
            return Passed([node])
        return self._refuse(args, pod, _why(plan, pod.uid, gang), planned=node)

    def _other(self, gang: Gang, pod: Pod, asked: Sequence[NodeName]) -> Alternative:
        """Another node for the pod, looked for once in a call that learns and answers."""
        beside, known = self.planner.places(), self._last_other
        if known is None or known[0] is not beside or known[1] is not pod or known[2] is not asked:
            known = self._last_other = (beside, pod, asked, beside.instead(gang, pod, asked))
        return known[3]

    def _refuse(self, args: FilterArgs, pod: Pod, reason: Reason, *, planned: NodeName | None) -> FilterAnswer:
        """Refuse, remember which pod is parked for it, and break a storm of the same question."""
        if args.debug:
            return Refused(reason)
        now_s = self.context.clock.monotonic_s()
        if self._guard.holds(pod.uid, reason, now_s=now_s, changed_s=self.planner.changed_s):
            return Failed(reason)  # kube-scheduler asks again by its timer: the pod is not parked
        moment = reason in _OF_THE_MOMENT
        self.binds.parking.refused(pod.uid, planned, now_s=now_s, for_a_moment=moment)
        return Refused(reason)

    def _log_filter(self, pod: Pod, gang: Gang | None, answer: FilterAnswer) -> None:
        reason = "" if isinstance(answer, Passed) else answer.reason if isinstance(answer, Refused) else answer.error
        if gang is None and not reason:
            return  # plain pods pass by the thousand; kube-scheduler logs them
        node = answer.names[0] if isinstance(answer, Passed) and len(answer.names) == 1 else ""
        version = self.planner.current.version
        decision = Decision("filter", pod.key, gang.key if gang else "", node, reason, snapshot_version=version)
        self.context.log.log_decision(decision, now_s=self.context.clock.monotonic_s())

    # -- prioritize ---------------------------------------------------------------------------------------------------

    def _scores_for(self, pod: Pod, args: FilterArgs) -> "_Scores":
        gang = self.context.cache.gang_of(pod.uid)
        plan, policy = self.planner.current, self.planner.policy
        current = self.context.cache.snapshot()
        snapshot = current if args.nodes_json is None else _with_nodes(current, args, zone_label=policy.zone_label)
        if snapshot is not current or self._known(args) is None:  # the next request may differ
            cache = self.planner.cache if snapshot is current else None
            return _by_row(snapshot, prefer(snapshot, plan, pod, gang, policy, cache=cache))
        key = (snapshot.version, plan.version, pod.uid)
        known = self._scores.get(key)
        if known is None:
            if len(self._scores) >= _SCORES_KEPT:
                self._scores.clear()
            preference = prefer(snapshot, plan, pod, gang, policy, cache=self.planner.cache)
            known = self._scores[key] = _by_row(snapshot, preference)
        return known

    # -- both ---------------------------------------------------------------------------------------------------------

    def _not_now(self) -> Reason | None:
        """Why filter and bind may not be answered: there is no plan yet, or another replica answers."""
        if self.planner.snapshot is None:
            return Reason.NOT_SYNCED
        return None if self.context.acting() else Reason.NOT_LEADER

    def _pod(self, args: FilterArgs) -> Pod:
        """The pod as the watch shows it; a pod that is not there yet, as the request shows it."""
        if (known := self._known(args)) is not None:
            return known
        try:
            return pod_from_json(args.pod_json)
        except ValueError as error:
            raise BadRequestError(str(error)) from error

    def _known(self, args: FilterArgs) -> Pod | None:
        """By uid: a pod of the same name may be a predecessor. Only people leave the uid out."""
        if args.pod.uid:
            return self.context.cache.pod(args.pod.uid)
        return self.context.cache.pod_by_name(args.pod.namespace or "default", args.pod.name)


_Scores = tuple[Mapping[NodeName, int], list[int]]  # Node → row, and the score of each row; last: of unknown ones


def _by_row(snapshot: Snapshot, preference: Preference) -> _Scores:
    return snapshot.table.index, [*extender_scores(preference.total).tolist(), 0]


def _why(plan: Plan, uid: PodUid, gang: Gang) -> Reason:
    if (waiting := plan.waiting.get(gang.key)) is not None:
        return waiting.reason
    if uid in plan.node_of:
        return Reason.NODE_NOT_OFFERED
    return Reason.SURPLUS if gang.key in plan.admitted else Reason.NOT_PLANNED


def _is_of_later_run(pod: Pod, gang: Gang) -> bool:
    """Whether the pod waits until another run of its gang has ended (docs/safety.md S23)."""
    return bool(gang.later) and any(one.uid == pod.uid for one in gang.later)


def _with_nodes(snapshot: Snapshot, args: FilterArgs, *, zone_label: str) -> Snapshot:
    """The snapshot plus the request's nodes that it does not have, empty: so curl works without a cluster."""
    unknown = [name not in snapshot.table.index for name in args.node_names]
    if not any(unknown):
        return snapshot
    try:
        more = [
            node_from_json(raw, zone_label=zone_label)
            for raw, new in zip(args.nodes_json or (), unknown, strict=True)
            if new
        ]
    except ValueError as error:
        raise BadRequestError(str(error)) from error
    known = snapshot.table
    table = NodeTable.of([*known.nodes, *more], version=-1 - known.version)
    used = np.zeros_like(table.allocatable)
    columns = [table.axis.index(name) for name in snapshot.table.axis]
    for row, name in enumerate(snapshot.table.names):
        used[table.index[name], columns] = snapshot.used[row]
    return replace(snapshot, table=table, used=used, network=snapshot.network.with_nodes(node.name for node in more))
