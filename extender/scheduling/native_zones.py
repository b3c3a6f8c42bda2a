"""The tries of Kubernetes' own groups: which zone each is being tried in, and when a try is over.

Why: only the same answer for all members keeps a group together. Rules: a group keeps its zone for as long as its
members are asked about without a break; a member for which kube-scheduler offers no node there loses the try. The next
one has another zone (`scoring.verbs.places`), and begins after a break, or soon after the loss: kube-scheduler
may try a group again at once, hundreds of times a second (seen on 1.36.3), and would then never leave a break.
"""

from collections import OrderedDict
from collections.abc import Collection, Sequence

import msgspec

from scoring.ids import GangKey, NodeName, ZoneName
from scoring.model import Gang, Policy, Snapshot
from scoring.model.policy import ZonePolicy, gang_options
from scoring.plan import PlannerCache
from scoring.verbs.places import first_zone

TRY_S = 0.5  # Members asked about within it belong to one try; a try also ends so long after it was lost
_KEPT = 1024


class _Try(msgspec.Struct):
    zone: ZoneName | None
    last_s: float
    failed: set[ZoneName] = set()  # Zones of earlier tries, and of this one when it is lost
    lost_s: float = float("inf")  # When a member found no node there first

    def over(self, now_s: float) -> bool:
        return now_s - self.last_s >= TRY_S or now_s - self.lost_s >= TRY_S


class NativeZones:
    """The zone of each group that is being tried. Bounded: the groups not asked about for longest are forgotten."""

    def __init__(self) -> None:
        self._tries: OrderedDict[GangKey, _Try] = OrderedDict()

    def allowed(
        self,
        gang: Gang,
        asked: Sequence[NodeName],
        snapshot: Snapshot,
        policy: Policy,
        cache: PlannerCache,
        *,
        now_s: float | None,
    ) -> Sequence[NodeName]:
        """The nodes of `asked` that a member may use in this try, near bound siblings; no `now_s`: begin no try."""
        if gang_options(dict(gang.options), policy).zone_policy is not ZonePolicy.REQUIRED:
            return asked
        table = snapshot.table

        def inside(zones: Collection[ZoneName]) -> list[NodeName]:
            return [name for name in asked if name in table.index and table.nodes[table.index[name]].zone in zones]

        placed = {one.node for one in gang.placed if one.node is not None and one.node in table.index}
        zones = {table.nodes[table.index[name]].zone for name in placed}
        if zones or now_s is None:
            return inside(zones) or asked
        known = self._tries.get(gang.key)
        if known is None or known.over(now_s):
            known = self._begin(gang, snapshot, policy, cache, known, now_s)
        known.last_s = now_s
        if known.zone is None:
            return asked
        near = inside({known.zone})
        if not near:
            known.failed.add(known.zone)
            known.lost_s = min(known.lost_s, now_s)
        return near if len(near) < len(asked) else asked

    def _begin(
        self, gang: Gang, snapshot: Snapshot, policy: Policy, cache: PlannerCache, before: _Try | None, now_s: float
    ) -> _Try:
        failed = before.failed if before is not None else set()
        found = first_zone(gang, snapshot, policy, failed=failed, cache=cache, now_s=now_s)
        made = self._tries[gang.key] = _Try(found.zone, now_s, set(found.failed))
        self._tries.move_to_end(gang.key)
        while len(self._tries) > _KEPT:
            self._tries.popitem(last=False)
        return made
