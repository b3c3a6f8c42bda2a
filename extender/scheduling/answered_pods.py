"""What /filter has answered: the nodes it offered, first refusals, refused pods that wait in kube-scheduler, storms.

Offers, so that /bind is not a back door (docs/safety.md S2): a Binding is posted only for a pair that is in here. A
member of a gang has the one node that the plan gives it; a pod without a gang has those that kube-scheduler asked
about, of a native group those in its zone. Only calls of kube-scheduler about our own pods write offers. After a
restart kube-scheduler asks again. Names stay JSON, searched once, at /bind: a call of 5,000 nodes has 100 kB of them.

Parked pods: kube-scheduler retries a pod that an extender refused only at a cluster event; what changes inside netgang
alone is no event, and the pod would sleep for five minutes (measured on 1.36.3). A patch of an annotation wakes it in
10 ms. Rules of `Parking`:

- A pod is woken at once when the plan gives it another node than at its refusal (none, usually); a planned pod that
  does not come all the same is woken again after a pause that doubles.
- One that needs other pods near it is woken, and its gate removed, when the first member of its gang is held:
  kube-scheduler counts a held pod as placed. It may need another one: after a second, and after pauses that double,
  it is woken again, or its gate removed all the same.
- A pod refused with a reason of the moment (not planned yet) is woken once when the real one is known, for people.
- A pod without a gate that neither we nor kube-scheduler refused is in kube-scheduler's queue: left alone, however long
  that takes. Writing a refusal wakes the pod, so none is missed between two looks.
- Pods that were there before us may be parked under a process that is gone: planned ones are woken once, soon after we
  began, but not while others of them still come, from kube-scheduler's queue: patches cost as much as Bindings.

Storms: at every cluster event, without backoff when it is idle, kube-scheduler retries every refused pod: 300 of them
beside 5 new ones a second made 1,379 filter calls a second (measured on 1.36.3). A pod that is answered with `Error` is
retried by its timer alone. Rules of `StormGuard`: the first refusals are ordinary ones; another reason, or `CALM_S`
without a change in the cluster, ends the guard for the pod. The window grows with the pods that are refused, so that
ordinary refusals stay below `AFTER` / `PER_POD_S` = 30 a second, however slowly each comes.
"""

from collections import OrderedDict
from collections.abc import Iterable, Sequence, Set

import msgspec

from extender.cache.cluster import ClusterCache
from extender.ports import Clock
from scoring import NodeName, PodUid
from scoring.model import MemberClass, Pod, Reason
from scoring.plan import Plan

TTL_S = 600.0  # So long kube-scheduler may wait for volumes before /bind (VolumeBinding's bindTimeoutSeconds)
OFFERS_MAX = 100_000
ASKED_MAX_BYTES = 64 * 2**20  # 600 pods at 5,000 nodes; nearly every pod comes to /bind within milliseconds


class _Offer(msgspec.Struct, frozen=True):
    node: NodeName | None  # A member's node; `None`: the pod has no gang, and `asked` says which nodes it may have
    asked: bytes
    until_s: float


class Offers:
    """The offers of the last `TTL_S` that came to nothing yet; the oldest leave first."""

    def __init__(self) -> None:
        self._asked_bytes = 0
        self._offers: OrderedDict[PodUid, _Offer] = OrderedDict()

    def note(self, uid: PodUid, node: NodeName | None, asked: bytes = b"", *, now_s: float) -> None:
        """Remember that a member may go to `node`, or a pod without a gang to `asked` (a JSON array of names)."""
        self.taken(uid)
        self._offers[uid] = _Offer(node, asked, now_s + TTL_S)
        self._asked_bytes += len(asked)
        while self._offers and (
            len(self._offers) > OFFERS_MAX
            or self._asked_bytes > ASKED_MAX_BYTES
            or next(iter(self._offers.values())).until_s <= now_s
        ):
            _, oldest = self._offers.popitem(last=False)
            self._asked_bytes -= len(oldest.asked)

    def taken(self, uid: PodUid) -> None:
        """The pod has its node: no call will name it again, and most pods come and go within `TTL_S`."""
        if (offer := self._offers.pop(uid, None)) is not None:
            self._asked_bytes -= len(offer.asked)

    def allows(self, uid: PodUid, node: NodeName, *, now_s: float) -> bool:
        """Whether this pair was offered recently. O(bytes of the names asked), once for each bind."""
        offer = self._offers.get(uid)
        if offer is None or offer.until_s <= now_s:
            return False
        if offer.node is not None:
            return offer.node == node
        if b"\\" in offer.asked:
            return node in msgspec.json.decode(offer.asked, type=list[str])
        return msgspec.json.encode(node) in offer.asked  # without a backslash no name has a quote inside

    def alone(self, uid: PodUid) -> bool:
        """Whether the pod was offered nodes as one that has no gang."""
        offer = self._offers.get(uid)
        return offer is not None and offer.node is None

    def reset(self) -> None:
        """Know nothing, as after a restart."""
        self._offers.clear()
        self._asked_bytes = 0


APART_S = 1.0  # Two refusals closer together than this may be lag
TOGETHER_S = 300.0  # Those further apart are two moments of lag, not one fact
_FIRST_MAX = 10_000


class Learning:
    """First refusals by kube-scheduler's other filters that wait for their second (docs/safety.md S7).

    Only of pending pods without nominatedNodeName (such calls carry a single node), only where kube-scheduler looks at
    all nodes. It holds for the pod's like, and so for its successor (docs/safety.md S27).
    """

    def __init__(self, cache: ClusterCache, clock: Clock, *, ttl_s: float, sees_all_nodes: bool) -> None:
        self._cache, self._clock, self._ttl_s = cache, clock, ttl_s
        self._sees_all_nodes = sees_all_nodes
        self._first: OrderedDict[tuple[MemberClass, NodeName], float] = OrderedDict()

    def refused(
        self, pod: Pod, planned: NodeName, asked: Sequence[NodeName], *, absent: Sequence[NodeName] = (), now_s: float
    ) -> bool:
        """The planned node was not asked, nor were `absent` ones with room; whether nodes are excluded now."""
        if not self._sees_all_nodes or pod.nominated_node is not None or not asked:
            return False
        key = (pod.member_class.anywhere, planned)
        first_s = self._first.get(key)
        if first_s is None or now_s - first_s > TOGETHER_S:
            self._first[key] = now_s
            self._first.move_to_end(key)
            if len(self._first) > _FIRST_MAX:
                self._first.popitem(last=False)
            return False
        if now_s - first_s < APART_S:
            return False
        del self._first[key]
        for node in {planned, *absent}:
            by = pod.group.key if pod.group is not None else None
            self._cache.exclude(pod.member_class, node, self._clock.now_s() + self._ttl_s, by=by)
        return True


FIRST_LOOK_S = 10.0  # A pod that was not refused by us is not disturbed before
INHERITED_S = 1.0  # After our start, for pods that another process may have refused: callers must be led to us first
QUIET_S = 0.5  # Without another inherited pod for so long, those that have not come are not in the queue any more
INHERITED_LATEST_S = 5.0  # After the start inherited pods are woken at the latest then
RETRY_S = 1.1  # The planned node was not asked: two refusals so far apart are believed (docs/safety.md S7)
LONGEST_S = 60.0


class _Awaited(msgspec.Struct):
    due_s: float
    pause_s: float


class Parking:
    """Parked pods, and planned pods that have not come yet. Bounded by the pods that exist: see `keep_only`."""

    def __init__(self, cache: ClusterCache) -> None:
        self._cache = cache
        self._parked: dict[PodUid, NodeName | None] = {}  # refused pod → the node that was planned for it then
        self._of_the_moment: set[PodUid] = set()  # parked pods whose reason does not hold once they are planned
        self._awaited: dict[PodUid, _Awaited] = {}  # planned pod that was not offered its node yet → when to wake it
        self._inherited: set[PodUid] = set()  # pods from before us that have neither come nor been woken since
        self._began_s = -float("inf")
        self._came_s = -float("inf")
        self._absent: set[PodUid] = set()  # pods in here that did not exist, or needed no node, at the last look

    def inherit(self, uids: Iterable[PodUid], *, now_s: float) -> None:
        """We start to act: these pods may have been refused by a former leader."""
        self._inherited = set(uids)
        self._began_s = now_s

    def refused(self, uid: PodUid, planned: NodeName | None, *, now_s: float, for_a_moment: bool = False) -> None:
        """/filter refused the pod. With a planned node it is asked again soon, and less often each time."""
        self._came(uid, now_s)
        again = planned is not None and self._parked.get(uid) == planned
        self._parked[uid] = planned
        (self._of_the_moment.add if for_a_moment else self._of_the_moment.discard)(uid)
        if planned is not None:
            awaited = self._awaited.get(uid)
            pause_s = awaited.pause_s if awaited is not None and again else RETRY_S
            self._awaited[uid] = _Awaited(now_s + pause_s, min(pause_s * 2, LONGEST_S))

    def offered(self, uid: PodUid, *, now_s: float) -> None:
        """/filter offered the pod a node: kube-scheduler goes on by itself."""
        self._came(uid, now_s)
        self._leave(uid)

    def woken_by(self, plan: Plan, *, now_s: float) -> list[PodUid]:
        """Pods to wake because of a new plan; each once per planned node."""
        wake = [uid for uid in self._of_the_moment if uid not in plan.node_of]
        self._of_the_moment.clear()
        for uid in [uid for uid in self._awaited if uid not in plan.node_of]:
            del self._awaited[uid]
        for uid, node in plan.node_of.items():
            parked_at = self._parked.get(uid, node)
            if uid in self._parked and parked_at != node:
                self._parked[uid] = node
                self._awaited[uid] = _Awaited(now_s + RETRY_S, RETRY_S * 2)
                wake.append(uid)
            elif uid in self._inherited and uid not in self._awaited:
                self._awaited[uid] = _Awaited(max(self._began_s + INHERITED_S, now_s), FIRST_LOOK_S)
            elif uid not in self._awaited:
                pod = self._cache.pod(uid)
                first_s = RETRY_S if pod is not None and pod.needs_others else FIRST_LOOK_S
                self._awaited[uid] = _Awaited(now_s + first_s, first_s * 2)
        return wake

    def overdue(self, *, now_s: float) -> list[PodUid]:
        """Planned pods that did not come in time; the next look is later by twice the pause."""
        spared_until_s = min(self._came_s + QUIET_S, self._began_s + INHERITED_LATEST_S)
        spared = self._inherited if now_s < spared_until_s else frozenset[PodUid]()
        due = [uid for uid, awaited in self._awaited.items() if awaited.due_s <= now_s and uid not in spared]
        self._inherited.difference_update(due)
        overdue = []
        for uid in due:
            awaited, pod = self._awaited[uid], self._cache.pod(uid)
            awaited.due_s, awaited.pause_s = now_s + awaited.pause_s, min(awaited.pause_s * 2, LONGEST_S)
            # One without a gate that was not refused is in kube-scheduler's queue: it comes by itself.
            if pod is None or pod.gates or pod.parked or uid in self._parked:
                overdue.append(uid)
        return overdue

    def asleep(self, uids: Iterable[PodUid]) -> list[PodUid]:
        """Those of `uids` that we refused and did not wake since; those that need others near and wait for that."""
        pods = ((uid, self._cache.pod(uid)) for uid in uids)
        near = {uid for uid, pod in pods if pod is not None and pod.needs_others and (pod.parked or pod.gated)}
        return [uid for uid in uids if uid in near or (uid in self._parked and self._parked[uid] is None)]

    @property
    def empty(self) -> bool:
        """Whether nothing is kept of any pod, so that there is nothing to forget."""
        return not (self._parked or self._awaited or self._inherited)

    def keep_only(self, uids: Set[PodUid]) -> None:
        """Forget pods that are missing twice in a row; at the first time kube-scheduler may be ahead of our watch."""
        self._inherited &= uids
        absent = (self._parked.keys() | self._awaited.keys()) - uids
        for uid in absent & self._absent:
            self._leave(uid)
        self._absent = absent - self._absent

    def reset(self) -> None:
        """Know nothing, as after a restart."""
        for book in (self._parked, self._of_the_moment, self._awaited, self._inherited, self._absent):
            book.clear()

    def _leave(self, uid: PodUid) -> None:
        self._parked.pop(uid, None)
        self._awaited.pop(uid, None)
        self._of_the_moment.discard(uid)

    def _came(self, uid: PodUid, now_s: float) -> None:
        """kube-scheduler asked for the pod: it is where we know of it."""
        if uid in self._inherited:
            self._inherited.discard(uid)
            self._came_s = now_s


AFTER = 3  # Ordinary refusals for one reason within `WINDOW_S`; one that follows later than `BURST_S` is an error
BURST_S = 5.0  # Within it all are ordinary: of ten pods that end together the last may make the room
WINDOW_S = 10.0
PER_POD_S = 0.1  # The window is at least this long for each pod that is being refused: 30 s for 300 of them
CALM_S = 30.0
_REMEMBERED_MAX = 50_000


class _Refusals(msgspec.Struct):
    reason: Reason
    since_s: float
    last_s: float
    count: int
    guarded: bool = False


class StormGuard:
    """Counts refusals per pod. Bounded: forgets all when it holds too many, which costs a few refusals each."""

    def __init__(self) -> None:
        self._refusals: dict[PodUid, _Refusals] = {}
        self._swept_s = -float("inf")

    def holds(self, uid: PodUid, reason: Reason, *, now_s: float, changed_s: float) -> bool:
        """Whether this refusal is to be an error; `changed_s`: when the cluster last changed."""
        if now_s - self._swept_s >= WINDOW_S:  # those bound elsewhere or deleted must not stretch the window for ever
            self._swept_s, since_s = now_s, now_s - self._window_s() - CALM_S
            self._refusals = {uid: refusals for uid, refusals in self._refusals.items() if refusals.last_s >= since_s}
        before = self._refusals.get(uid)
        over = before is not None and before.guarded
        lapsed = before is not None and not over and now_s - before.since_s > self._window_s()
        if before is None or before.reason is not reason or lapsed or (over and now_s - changed_s >= CALM_S):
            if len(self._refusals) >= _REMEMBERED_MAX:
                self._refusals.clear()
            before = self._refusals[uid] = _Refusals(reason, now_s, now_s, 0)
        before.count += 1
        before.last_s = now_s
        before.guarded = before.guarded or (before.count > AFTER and now_s - before.since_s >= BURST_S)
        return before.guarded

    def passed(self, uid: PodUid) -> None:
        """The pod was let through."""
        self._refusals.pop(uid, None)

    def _window_s(self) -> float:
        return max(WINDOW_S, len(self._refusals) * PER_POD_S)
