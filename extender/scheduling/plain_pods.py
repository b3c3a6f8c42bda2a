"""Pods without a gang of ours: which nodes they may not have now, at /filter and at /bind, and when to wake them.

Why at /bind too: kube-scheduler asks about the next pod before the watch shows where the last one went, so two pods
that each leave reserved room alone might not do so together. Where nothing is reserved all of this costs two look-ups.
Rules: `scoring.verbs.plain_pods` decides what is reserved; only own pods are refused and woken (docs/safety.md S1),
once, if their refusal ends for reasons inside netgang: kube-scheduler cannot know of those.

Room that comes free goes first to a gang that lost a member, whose successor waits. kube-scheduler asks about older
pods at the very event that frees it, so a plain pod waits for the plan that knows of it (`lags`): for milliseconds in
/filter, half a second at /bind. What that plan gives the gang is kept for it for `COMPLETES_S`, and no longer: a
successor that kube-scheduler's other filters refuse everywhere must not close a node for good.

Kubernetes' own groups are tried by zone: only the same answer for all members keeps a group together. A member for
which kube-scheduler offers no node there loses the try; the next one has another zone (`scoring.verbs.places`), and
begins after a break, or soon after the loss: kube-scheduler may ask again hundreds of times a second (seen on 1.36.3).
"""

import asyncio
from collections import OrderedDict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

import msgspec

from extender.cache.cluster import ClusterCache
from extender.ports import Clock
from extender.scheduling.planner_loop import Planner
from scoring import GangKey, NodeName, PodUid, ZoneName
from scoring.feasibility.filters import allowed_nodes
from scoring.model import Gang, Pod
from scoring.model.policy import ZonePolicy, gang_options
from scoring.model.snapshot import remember
from scoring.plan import Plan
from scoring.verbs.places import first_zone
from scoring.verbs.plain_pods import SYSTEM_PRIORITY, ReservedRoom

_PARKED_MAX = 10_000  # The oldest leave first, and kube-scheduler tries them after minutes
COMPLETES_S = 60.0  # As long as an admitted gang may take to come to bind
_UNSEEN_S = 30.0  # A refused pod that the watch has not shown after this long was deleted


class _Parked(msgspec.Struct, frozen=True):
    pod: Pod
    closed: frozenset[NodeName]
    since_s: float


@dataclass(eq=False, repr=False)
class PlainPods:
    """Own pods without a gang of ours. Bounded by `_PARKED_MAX` and the bind calls under way."""

    cache: ClusterCache
    planner: Planner
    clock: Clock
    _reserved: tuple[int, Plan, dict[object, ReservedRoom]] | None = field(default=None, init=False)
    """Snapshot version and plan; whether beside the plan's promise, and for which gangs → room. `Housekeeping` makes
    versions by time"""
    _given: dict[GangKey, tuple[Mapping[PodUid, NodeName], float]] = field(default_factory=dict, init=False)
    """gang that is completed → the places that the plan gives it, and since when, monotonic"""
    _given_by: Plan | None = field(default=None, init=False)
    _parked: OrderedDict[PodUid, _Parked] = field(default_factory=OrderedDict, init=False)
    _on_their_way: dict[PodUid, tuple[NodeName, Pod]] = field(default_factory=dict, init=False)
    """Plain pods whose Binding is being posted, and the node it names"""

    def closed_to(self, pod: Pod) -> frozenset[NodeName]:
        """Nodes whose free room the pod may not have; usually none, at the cost of two look-ups."""
        if not self._may_be_kept_out(pod):
            return frozenset()
        closed, claimed = self._room(pod).closed_to(pod.member_class), self.cache.counted_on(pod)
        return closed - {claimed} if claimed in closed else closed

    def lags(self, pod: Pod, nodes: Sequence[NodeName]) -> bool:
        """Whether a gang that lost members waits, and the plan may not know yet what came free on one of `nodes`.

        So it is also while kube-scheduler has the pod fit a node that is cordoned or tainted in our view. O(nodes).
        """
        plan, before, now = self.planner.current, self.planner.snapshot, self.cache.snapshot()
        waits = pod.group is None and not plan.partial <= plan.admitted.keys() and self._may_be_kept_out(pod)
        if before is None or not waits:
            return False
        rows = [row for name in nodes if (row := now.table.index.get(name)) is not None]
        if len(rows) < len(nodes) or now.table is not before.table:
            return True
        freed = before.version != now.version and bool((now.used[rows] < before.used[rows]).any())
        return freed or not allowed_nodes(now.table, pod.member_class.constraints)[rows].all()

    def refused(self, pod: Pod) -> None:
        """kube-scheduler was refused because the room is reserved: it parks the pod."""
        self._parked[pod.uid] = _Parked(pod, self.closed_to(pod), self.clock.monotonic_s())
        self._parked.move_to_end(pod.uid)
        if len(self._parked) > _PARKED_MAX:
            self._parked.popitem(last=False)

    def passed(self, pod: Pod) -> None:
        """The pod has nodes to go to."""
        if self._parked:
            self._parked.pop(pod.uid, None)

    @contextmanager
    def binding(self, pod: Pod, node: NodeName) -> Iterator[bool]:
        """Whether the pod may be bound to `node`; inside the block others leave it the room."""
        closed = self._may_be_kept_out(pod) and self.cache.counted_on(pod) != node
        beside = [other for where, other in self._on_their_way.values() if where == node] if closed else []
        if closed and not self._room(pod).leaves(pod, node, beside):
            yield False
            return
        self._on_their_way[pod.uid] = (node, pod)
        try:
            yield True
        finally:
            self._on_their_way.pop(pod.uid, None)

    def woken(self) -> list[PodUid]:
        """Parked pods for which room is free now that was reserved at their refusal; each once."""
        wake: list[PodUid] = []
        opens: dict[object, bool] = {}  # (closed, kind of pod, its limit) → is room now; most parked pods share all
        for uid, parked in list(self._parked.items()):
            pod = self.cache.pod(uid)
            gone = pod is None and self.clock.monotonic_s() - parked.since_s > _UNSEEN_S
            if gone or (pod is not None and (pod.node is not None or not pod.lives)):
                del self._parked[uid]
                continue
            asks = pod or parked.pod
            kind = id(parked.closed), asks.member_class, asks.limit_s
            opens_now = opens.get(kind)
            if opens_now is None:
                opened = parked.closed - self.closed_to(asks)
                opens_now = bool(opened) and self._room(asks).has_room(asks.member_class, opened)
                opens[kind] = opens_now
            if opens_now:
                del self._parked[uid]
                wake.append(uid)
        return wake

    def reset(self) -> None:
        """Know nothing, as after a restart."""
        self._parked.clear()

    def _may_be_kept_out(self, pod: Pod) -> bool:
        """Whether room is reserved for gangs, and the pod is one that must leave it to them."""
        held = self.cache.commitments or self.planner.current.held or self.planner.current.partial
        return bool(held) and pod.priority < SYSTEM_PRIORITY and self.cache.is_own(pod)

    def _room(self, pod: Pod) -> ReservedRoom:
        """What is kept from the pod: of what a promised start needs nothing, if the pod's own deadline comes before."""
        plan, snapshot, now_s = self.planner.current, self.cache.snapshot(), self.clock.now_s()
        until_s = now_s + pod.limit_s if pod.limit_s is not None else float("inf")
        promise = plan.promise_due(now_s=now_s, until_s=until_s)
        if self._reserved is None or self._reserved[0] != snapshot.version or self._reserved[1] is not plan:
            self._reserved = (snapshot.version, plan, {})
        # Members of a group of Kubernetes' own: else some are bound before the others are refused
        completing = self._completing(plan) if pod.group is None else frozenset[GangKey]()
        policy = self.planner.policy.queue
        make = partial(ReservedRoom, snapshot, plan, promise, policy, completing=completing, now_s=now_s)
        return remember(self._reserved[2], (promise is not None, completing), make)

    def _completing(self, plan: Plan) -> frozenset[GangKey]:
        """Gangs that run in part and were given places for the rest, lately."""
        now_s = self.clock.monotonic_s()
        if plan is not self._given_by:
            before, self._given, self._given_by = self._given, {}, plan
            for key in plan.partial & plan.admitted.keys():
                members, last = plan.admitted[key].members, before.get(key)
                self._given[key] = last if last is not None and last[0] == members else (members, now_s)
                if self._given[key] is not last:  # when the time is up others may have the room: a plan wakes them
                    asyncio.get_running_loop().call_later(COMPLETES_S, self.cache.changed)
        return frozenset(key for key, (_, since_s) in self._given.items() if now_s - since_s < COMPLETES_S)


TRY_S = 0.5  # Members asked about within it belong to one try; a try also ends so long after it was lost
_KEPT = 1024


class _Try(msgspec.Struct):
    zone: ZoneName | None
    last_s: float
    failed: set[ZoneName] = set()  # Zones of earlier tries, and of this one when it is lost
    lost_s: float = float("inf")  # When a member found no node there first


class NativeZones:
    """The zone of each group that is being tried. Bounded: the groups not asked about for longest are forgotten."""

    def __init__(self, planner: Planner) -> None:
        self._planner = planner
        self._tries: OrderedDict[GangKey, _Try] = OrderedDict()

    def allowed(self, gang: Gang, asked: Sequence[NodeName], *, now_s: float | None) -> Sequence[NodeName]:
        """The nodes of `asked` that a member may use in this try, near bound siblings; no `now_s`: begin no try."""
        if gang_options(dict(gang.options), self._planner.policy).zone_policy is not ZonePolicy.REQUIRED:
            return asked
        planner, snapshot = self._planner, self._planner.cluster.snapshot()
        table = snapshot.table

        def inside(zones: Collection[ZoneName]) -> list[NodeName]:
            return [name for name in asked if name in table.index and table.nodes[table.index[name]].zone in zones]

        placed = {sibling.node for sibling in gang.placed if sibling.node is not None and sibling.node in table.index}
        zones = {table.nodes[table.index[name]].zone for name in placed}
        if zones or now_s is None:
            return inside(zones) or asked
        current = self._tries.get(gang.key)
        if current is None or now_s - current.last_s >= TRY_S or now_s - current.lost_s >= TRY_S:
            failed = current.failed if current is not None else set[ZoneName]()
            first = first_zone(gang, snapshot, planner.policy, failed=failed, cache=planner.cache, now_s=now_s)
            current = self._tries[gang.key] = _Try(first.zone, now_s, set(first.failed))
            self._tries.move_to_end(gang.key)
            if len(self._tries) > _KEPT:
                self._tries.popitem(last=False)
        current.last_s = now_s
        if current.zone is None:
            return asked
        near = inside({current.zone})
        if not near:
            current.failed.add(current.zone)
            current.lost_s = min(current.lost_s, now_s)
        return near if len(near) < len(asked) else asked
