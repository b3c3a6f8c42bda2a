"""Devices of Dynamic Resource Allocation, kept up to date as room of nodes and as requests of pods.

Rules: a node offers the devices of its slices, as one more allocatable resource; a pod asks for what its claims ask,
and takes what they were allocated. What a claim holds beyond its pod's request (a claim of several pods, of none, of
another class too) takes room on its own. Only claims that the pod's spec or status names count: a claim's owner is a
tenant's word. Until a waiting member's claims exist it is incomplete: nothing says how many devices it needs.
Bounded by the objects that exist.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace

from extender.cache.nodes import Nodes
from extender.cache.pods import PodChange, Pods
from extender.cache.usage import Usage
from extender.convert.sharing import shared
from scoring.feasibility.devices import Matcher, PoolCount, count_pool, resource_names
from scoring.ids import NodeName, PodUid, ResourceName
from scoring.model import Constraints, MemberClass, Node, Pod, Resources, Role
from scoring.model.devices import DeviceClaim, DeviceClass, DeviceSlice, PoolKey
from scoring.model.resources import LARGEST

CLAIMS_TO_COME = "the ResourceClaims of its templates do not exist yet"
_CLAIMS = "resourceClaims"  # As `Pod.unmodelled` names them
_NO_COUNT = PoolCount()


class Devices:
    """Slices, DeviceClasses and claims; `apply` and `node_changed` carry changes on and return whether they decide."""

    def __init__(
        self,
        nodes: Nodes,
        pods: Pods,
        usage: Usage,
        *,
        apply: Callable[[PodChange], bool],
        node_changed: Callable[[NodeName, Node | None, Node | None], bool],
    ) -> None:
        self._nodes, self._pods, self._usage = nodes, pods, usage
        self._apply, self._node_changed = apply, node_changed
        self.classes: dict[str, DeviceClass] = {}
        self.slices: dict[str, DeviceSlice] = {}
        self.claims: dict[str, DeviceClaim] = {}
        self._pools: dict[PoolKey, dict[str, DeviceSlice]] = {}
        self._counts: dict[PoolKey, PoolCount] = {}
        self._resources: Mapping[str, ResourceName] = {}  # class → what it is counted as
        self._matcher = Matcher({})
        self._ceilings: frozenset[ResourceName] = frozenset()
        self._uncounted: frozenset[ResourceName] = frozenset()
        self._users: dict[str, set[PodUid]] = {}  # claim → pods that name it
        self._read: dict[PodUid, Pod] = {}  # pods with claims, as read
        self._taken: dict[str, tuple[tuple[NodeName, MemberClass], ...]] = {}  # claim → what it takes on its own
        self._changed: set[PoolKey] = set()  # Pools counted otherwise since `settle`
        self._stale = False  # DeviceClasses changed since `settle`

    def put_class(self, name: str, found: DeviceClass | None) -> bool:
        """Take over a DeviceClass, or with `None` forget it; everything is counted again before the next snapshot."""
        if self.classes.get(name) == found:
            return False
        if found is not None:
            self.classes[name] = found
        else:
            del self.classes[name]
        self._stale = True
        return True

    def put_slice(self, name: str, found: DeviceSlice | None) -> bool:
        """Take over a ResourceSlice, or with `None` forget it; whether that changes any count."""
        known = self.slices.get(name)
        if known == found:
            return False
        for one in (known, found):
            if one is not None:
                self._pools.setdefault(one.pool, {}).pop(name, None)
        if found is not None:
            self.slices[name] = found
            self._pools[found.pool][name] = found
        else:
            del self.slices[name]
        pools = {one.pool for one in (known, found) if one is not None}
        changed = {pool for pool in pools if self._recount(pool)}
        self._changed |= changed
        return bool(changed)

    def put_claim(self, key: str, found: DeviceClaim | None) -> bool:
        """Take over a ResourceClaim, or with `None` forget it; whether that can decide anything."""
        if self.claims.get(key) == found:
            return False
        if found is not None:
            self.claims[key] = found
        else:
            del self.claims[key]
        users = self._users.get(key, ())
        decides = [self._ask_again(uid) for uid in users if len(users) == 1]  # Several of them ask for nothing by it
        return any([*decides, self._take(key)])

    def seen(self, pod: Pod) -> Pod:
        """The pod with its devices among its requests; to be called with each record read."""
        if not pod.claims:
            return pod
        self._unlink(pod.uid)
        if pod.terminal:
            return pod
        self._read[pod.uid] = pod
        for key in filter(None, pod.claims):
            self._users.setdefault(key, set()).add(pod.uid)
        return self._asking(pod)

    def counted(self, pod: Pod) -> bool:
        """The pod is counted now as `seen` returned it; whether room of others changed by that."""
        decides = [self._others_of(key, pod.uid) for key in pod.claims]
        return any(decides)

    def forget(self, uid: PodUid) -> bool:
        """The pod is gone; whether room changed, as its claims are not."""
        pod = self._unlink(uid)
        return pod is not None and self.counted(pod)

    def settle(self) -> bool:
        """Decide again what is counted, for the next snapshot; whether anything was to decide.

        Cost: O(devices · classes) after a change of DeviceClasses, else O(pools + claims), of slices, else nothing.
        """
        stale, self._stale = self._stale, False
        if stale:
            self._resources = resource_names(self.classes.values())
            facts = {self._resources[name]: one.facts for name, one in self.classes.items()}
            self._matcher = Matcher({name: some for name, some in facts.items() if some is not None})
            self._changed.update([pool for pool in list(self._pools) if self._recount(pool)])
        if stale or self._changed:
            self._judge(stale=stale)
            for key, claim in self.claims.items():
                if any(stale or pool in self._changed for pool, _ in claim.allocated or ()):
                    self._take(key)
            self._changed.clear()
            return True
        return False

    def _unlink(self, uid: PodUid) -> Pod | None:
        pod = self._read.pop(uid, None)
        for key in filter(None, pod.claims if pod is not None else ()):
            self._users.get(key, set()).discard(uid)  # A pod may name a claim twice
            if not self._users.get(key):
                self._users.pop(key, None)
        return pod

    def _recount(self, pool: PoolKey) -> bool:
        """Count a pool and renew what its nodes offer; whether anything but names of devices changed."""
        before = self._counts.get(pool, _NO_COUNT)
        after = count_pool(self._pools[pool].values(), self._matcher)
        self._counts[pool] = after
        if not self._pools[pool]:
            del self._pools[pool], self._counts[pool]
        for node in before.offers.keys() | after.offers.keys():
            old, new = before.offers.get(node, {}), after.offers.get(node, {})
            if old != new:
                change = {name: new.get(name, 0) - old.get(name, 0) for name in {*old, *new}}
                known = self._nodes.by_name.get(node)
                self._nodes.offer_devices(node, change)
                self._node_changed(node, known, self._nodes.by_name.get(node))
        return before != after

    def _judge(self, *, stale: bool) -> None:
        """Decide which resources are counted; if that changed, or classes did, what pods ask for is read again."""
        offered = {name for one in self._counts.values() for some in one.offers.values() for name in some}
        unclear = {name for one in self._counts.values() for name in one.uncounted}
        ceilings = frozenset(name for one in self._counts.values() for name in one.ceilings)
        names = {name for one in self.classes.values() for name in one.resources}
        uncounted = frozenset(names - offered | unclear)
        if stale or (uncounted, ceilings) != (self._uncounted, self._ceilings):
            self._uncounted, self._ceilings = uncounted, ceilings
            self._nodes.uncounted = uncounted
            for uid in list(self._read):
                self._ask_again(uid)

    def _asking(self, pod: Pod) -> Pod:
        """The pod as read, with what its claims ask, or hold if it has a node."""
        asks: Counter[ResourceName] = Counter()
        counted, waits = True, False
        for key in pod.claims:
            claim = self.claims.get(key)
            if key and len(self._users[key]) > 1:
                counted = False
            elif claim is None:
                waits = True
            elif pod.node is None or claim.allocated is not None:
                counted = counted and claim.counted
                some = self._as_resources(claim)
                counted = counted and len(some) == len(dict(claim.asks)) and not self._ceilings.intersection(some)
                asks.update(some)
        known = pod.member_class
        requests = shared(known.requests + Resources.of({name: min(n, LARGEST) for name, n in asks.items()}))
        waits = waits and bool(self.classes) and pod.group is not None and pod.node is None
        return replace(
            pod,
            member_class=shared(replace(known, requests=requests)) if asks else known,
            unmodelled=tuple(n for n in pod.unmodelled if n != _CLAIMS) if counted and not waits else pod.unmodelled,
            obstacle=CLAIMS_TO_COME if waits and not pod.obstacle else pod.obstacle,
        )

    def _as_resources(self, claim: DeviceClaim) -> Counter[ResourceName]:
        """What a claim asks, of what is counted."""
        found: Counter[ResourceName] = Counter()
        for name, count in claim.asks:
            resource = self._resources.get(name)
            if resource is not None and resource not in self._uncounted:
                found[resource] += count
        return found

    def _ask_again(self, uid: PodUid) -> bool:
        asking, known = self._asking(self._read[uid]), self._pods.get(uid)
        if known is None:
            return False
        change = self._pods.ask(uid, asking)
        return change is not None and self._apply(change)

    def _others_of(self, key: str, uid: PodUid) -> bool:
        """A pod came to or left a claim: what its only other pod asks, and what it takes on its own."""
        users = self._users.get(key, ())
        decides = [self._ask_again(one) for one in users if one != uid] if len(users) <= 2 else []
        return any([*decides, self._take(key)])

    def _take(self, key: str) -> bool:
        """Renew what an allocated claim takes beside its pod's request; whether that changed."""
        claim, users = self.claims.get(key), self._users.get(key, ())
        takes: dict[NodeName, Counter[ResourceName]] = {}
        counted_by_request = claim is None or (claim.for_resource and not users)  # No pod names such a claim
        for pool, device in claim.allocated or () if claim is not None and not counted_by_request else ():
            at = self._counts.get(pool, _NO_COUNT).devices.get(device)
            if at is not None:
                takes.setdefault(at[0], Counter()).update(at[1])
        if claim is not None and len(users) == 1:
            [uid] = users
            pod = self._pods.get(uid)
            if pod is not None and not pod.terminal:
                asked = self._as_resources(claim)
                takes = {node: some - asked for node, some in takes.items()}
        held = ((node, Resources.of(some)) for node, some in sorted(takes.items()) if some)
        after = tuple([(node, MemberClass(Role.OTHER, some, Constraints())) for node, some in held])
        before = self._taken.pop(key, ())
        if after:
            self._taken[key] = after
        if before == after:
            return False
        for node, taken in before:
            self._usage.remove(node, PodUid(key), taken)
        for node, taken in after:
            self._usage.add(node, PodUid(key), taken)
        return True
