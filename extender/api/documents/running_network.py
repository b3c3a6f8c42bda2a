"""The network that a gang has which runs, as documents show it."""

import msgspec

from extender.controllers.starts.running_networks import Known
from extender.schemas import running_network as schema


def running_network_document(known: Known | None) -> schema.RunningNetwork | None:
    """What is known of a gang's network; null: it does not run, or was not looked at yet."""
    if known is None or known.network is None:
        return None
    worst = known.network.worst
    return schema.RunningNetwork.copied(
        known.network,
        worst=None if worst is None else msgspec.convert(worst, schema.WorstLink, from_attributes=True),
        score_at_start=known.score_at_start,
        at_s=known.at_s,
    )
