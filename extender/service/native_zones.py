"""The first zone of each of Kubernetes' own groups: one at a time, another one when it does not do.

Why: kube-scheduler tries a group's members one after the other and binds none before all have a node, so at the second
member nothing shows where the first is going to be; only the same answer for all of them keeps a group together. Rules:
a group is given the zone that its planner would give a gang of ours, for as long as its members are asked about without
a break; a member for which kube-scheduler offers no node there ends the try, and the next try has another zone. So a
wrong guess costs a try, and no group is kept from starting.
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field

from scoring.ids import GangKey, NodeName, ZoneName
from scoring.model import Gang
from scoring.plan import Memo, take_commitments
from scoring.plan.place import Placed, candidate_zones, place_minimum
from scoring.plan.run import Run
from scoring.policy import Policy
from scoring.snapshot import Snapshot

TRY_S = 0.5
"""Members asked about with less than this between them belong to one try: kube-scheduler backs off for 1 s or more."""
_KEPT = 1024


@dataclass(slots=True)
class _Try:
    zone: ZoneName | None
    last_s: float
    failed: set[ZoneName] = field(default_factory=set)
    """Zones of earlier tries, and of this one when it is lost"""


class NativeZones:
    """The zone of each group that is being tried. Bounded: the groups not asked about for longest are forgotten."""

    def __init__(self) -> None:
        self._tries: OrderedDict[GangKey, _Try] = OrderedDict()

    def nodes(
        self, gang: Gang, asked: Sequence[NodeName], snapshot: Snapshot, policy: Policy, memo: Memo, *, now_s: float
    ) -> list[NodeName] | None:
        """The nodes of the group's zone among those asked; `None`: all of them.

        Empty: not in this try. `now_s` is monotonic. Cost: O(asked); for the first member of a try as planning a gang.
        """
        known = self._tries.get(gang.key)
        if known is None or now_s - known.last_s >= TRY_S:
            known = self._begin(gang, snapshot, policy, memo, known, now_s)
        known.last_s = now_s
        if known.zone is None:
            return None
        table = snapshot.table
        near = [name for name in asked if name in table.index and table.nodes[table.index[name]].zone == known.zone]
        if not near:
            known.failed.add(known.zone)
        return near if len(near) < len(asked) else None

    def _begin(
        self, gang: Gang, snapshot: Snapshot, policy: Policy, memo: Memo, before: _Try | None, now_s: float
    ) -> _Try:
        run = Run(snapshot, policy, memo)
        take_commitments(run, besides=gang.key)
        ask = run.ask(gang)
        wish = run.wish(ask.need, ask)
        allowed = candidate_zones(run, ask)
        failed = set(before.failed) if before is not None else set()
        left = [zone for zone in allowed if zone not in failed]
        if not left:
            failed, left = set(), list(allowed)
        zone = None
        outcome = place_minimum(run, ask, now_s=now_s) if ask.need and not failed else None
        if isinstance(outcome, Placed) and len(outcome.zones) == 1:
            zone = outcome.zones[0]
        elif left:
            held = dict(zip(run.zones, run.zone_members(wish).tolist(), strict=True))
            zone = min(left, key=lambda one: (-held[one], one))
        made = self._tries[gang.key] = _Try(zone, now_s, failed)
        self._tries.move_to_end(gang.key)
        while len(self._tries) > _KEPT:
            self._tries.popitem(last=False)
        return made
