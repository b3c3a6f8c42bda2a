"""The queue with those first that were promised a start: a promise that a later arrival overtakes is not kept.

Rule: within their priority, and behind what is committed, what has a claim, and gangs that run in part.
"""

from collections.abc import Mapping

from scoring.ids import GangKey
from scoring.model.snapshot import Snapshot
from scoring.plan.demand import GangDemand
from scoring.plan.result import Promise


def promised_first(
    demands: list[GangDemand], promises: Mapping[GangKey, Promise], snapshot: Snapshot
) -> list[GangDemand]:
    """The same order, but gangs that were promised a start go first within their priority, as they were promised."""
    known = {one.gang.key: one for one in demands if one.gang.key in promises and one.need and not one.siblings}
    if not known:
        return demands
    rest = [one for one in demands if one.gang.key not in known]
    ahead = {*snapshot.commitments, *snapshot.claims, *known}
    for key in promises:
        if (demand := known.get(key)) is not None:
            behind = (
                at
                for at, one in enumerate(rest)
                if one.gang.priority <= demand.gang.priority and one.gang.key not in ahead and not one.partial
            )
            rest.insert(next(behind, len(rest)), demand)
    return rest
