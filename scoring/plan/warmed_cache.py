"""Compute the pair scores of new network data before the first plan needs them.

Why apart: for 5,000 nodes this takes a fifth of a second, which the service spends in a thread while it answers from
the old data. Rule: nothing is shared; the result is a cache of its own that is taken over in one step.
"""

from dataclasses import replace

from scoring.model.policy import Policy
from scoring.model.snapshot import Snapshot
from scoring.network.matrix import NetworkMatrix
from scoring.plan.cache import PlannerCache
from scoring.plan.planner import begin_run
from scoring.plan.zone_order import common_reference


def warmed(snapshot: Snapshot, network: NetworkMatrix, policy: Policy) -> PlannerCache:
    """A cache with the pair scores inside every zone, as plans will ask for them, and what is measured between zones.

    Cost: O(measured² of each zone + pairs).
    """
    cache = PlannerCache()
    run = begin_run(replace(snapshot, network=network), policy, cache)
    for score in {policy.score, common_reference(run, run.zones, policy.score)} if run.zones else ():
        for zone in run.zones:
            run.scores.links((zone,), score)
    if not network.estimates:
        run.scores.crossings()
    return cache
