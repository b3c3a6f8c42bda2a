"""Compute the pair scores of new network data before the first plan needs them.

Why apart: for 5,000 nodes this takes a fifth of a second, which the service spends in a thread while it answers from
the old data. Rule: nothing is shared; the result is a memo of its own that is taken over in one step.
"""

from dataclasses import replace

from scoring.model.policy import Policy
from scoring.model.snapshot import Snapshot
from scoring.network.matrix import NetworkMatrix
from scoring.plan.memo import Memo
from scoring.plan.place import common_reference
from scoring.plan.run import Run


def warmed(snapshot: Snapshot, network: NetworkMatrix, policy: Policy) -> Memo:
    """A memo with the pair scores inside every zone, as plans will ask for them, and what is measured between zones.

    Cost: O(measured² of each zone + pairs).
    """
    memo = Memo()
    run = Run(replace(snapshot, network=network), policy, memo)
    for score in {policy.score, common_reference(run, run.zones, policy.score)} if run.zones else ():
        for zone in run.zones:
            run.scores((zone,), score)
    if not network.estimates:
        run.scored.crossings()
    return memo
