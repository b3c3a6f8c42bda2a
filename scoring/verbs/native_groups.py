"""Where one of Kubernetes' own groups is to be tried first: the zone that a gang of ours would be given.

Why a decision of its own: kube-scheduler tries a group's members one after the other and binds none before all have a
node, so nothing shows where the first is going to be; netgang can only name one zone for all of them. Rule: the zone
that the planner would take beside what is committed; when that one did not do, the next one by room, until all were
tried, and then from the beginning. So a wrong guess costs a try, and no group is kept from starting.
"""

from collections.abc import Collection
from dataclasses import dataclass

from scoring.ids import ZoneName
from scoring.model import Gang, Policy, Snapshot
from scoring.plan import PlannerCache, begin_run, take_commitments
from scoring.plan.placement import place_minimum
from scoring.plan.result import Placed


@dataclass(frozen=True, slots=True)
class FirstZone:
    """`zone` `None`: no zone is better than another. `failed`: those that are not to be tried again for now."""

    zone: ZoneName | None
    failed: frozenset[ZoneName] = frozenset()


def first_zone(
    gang: Gang, snapshot: Snapshot, policy: Policy, *, failed: Collection[ZoneName], cache: PlannerCache, now_s: float
) -> FirstZone:
    """The zone for the group's next try; `failed`: zones of earlier ones. Cost: as planning one gang."""
    run = begin_run(snapshot, policy, cache)
    take_commitments(run, besides=gang.key)
    ask = run.view.demand(gang)
    allowed = run.view.candidate_zones(ask)
    left = [zone for zone in allowed if zone not in failed]
    if not left:
        failed, left = (), list(allowed)
    outcome = place_minimum(run, ask, now_s=now_s) if ask.need and not failed else None
    if isinstance(outcome, Placed) and len(outcome.zones) == 1:
        return FirstZone(outcome.zones[0], frozenset(failed))
    if not left:
        return FirstZone(None, frozenset(failed))
    room = dict(zip(run.zones, run.capacity.zone_members(run.view.member_set(ask.need, ask)).tolist(), strict=True))
    return FirstZone(min(left, key=lambda one: (-room[one], one)), frozenset(failed))
