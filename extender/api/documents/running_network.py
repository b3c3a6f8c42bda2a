"""The network that a gang has, as documents show it."""

import msgspec

from extender.controllers.starts.running_networks import Known
from extender.schemas import running_network as schema
from scoring.explain.running_network import RunningNetwork


def running_network_document(known: Known | None) -> schema.RunningNetwork | None:
    """What is known of a gang's network; null: it does not run, or was not looked at yet."""
    return None if known is None else planned_network_document(known.network, known.score_at_start, at_s=known.at_s)


def planned_network_document(
    network: RunningNetwork | None, score_at_start: float | None = None, *, at_s: float
) -> schema.RunningNetwork | None:
    """The network by the data of `at_s`; null: its members have no nodes."""
    if network is None:
        return None
    worst = None if network.worst is None else msgspec.convert(network.worst, schema.WorstLink, from_attributes=True)
    return schema.RunningNetwork.copied(network, worst=worst, score_at_start=score_at_start, at_s=at_s)
