"""The network that a running gang has, as a cell of a list and as a line.

Rule: the worst link is named with the points that its score lost, since one bad link is what people can act on.
"""

from typing import Final

from cli.rendering.columns import NONE
from extender.schemas.running_network import RunningNetwork, WorstLink
from scoring.explain.words import counted, some

_ZONES: Final = 3
_RATES: Final = {"Gbit/s": 1e9, "Mbit/s": 1e6, "kbit/s": 1e3}  # unit → bit/s, the largest first


def network_cell(network: RunningNetwork | None) -> str:
    """Its score, and the worst link with that link's points."""
    if network is None or network.score is None:
        return NONE
    worst = network.worst
    return f"{network.score:.1f}" + (f" ({_link(worst)} {worst.points:.0f})" if worst is not None else "")


def network_line(network: RunningNetwork) -> str:
    """Zones, nodes, score now and at the start, and the worst link with its loss, one-way delay and throughput."""
    named = [zone for zone in network.zones if zone]
    zones = f"{'zone' if len(named) == 1 else 'zones'} {some(named, _ZONES)}" if named else "no zone"
    nodes = counted(network.of_nodes, "node")
    if network.score is None:
        return f"network: {zones}, {nodes}; no two members exchange data over a link that is scored"
    start = "" if network.score_at_start is None else f" (at start {network.score_at_start:.1f})"
    said = [f"network: {zones}, {nodes}, score {network.score:.1f}{start}"]
    if network.worst is not None:
        said.append(f"worst link {_link(network.worst)}: {network.worst.points:.0f} points, {_measured(network.worst)}")
    return "; ".join(said)


def rate_text(bps: float) -> str:
    """A throughput in the unit that people read.

    >>> [rate_text(bps) for bps in (9.41e9, 25_000_000.0, 900.0)]
    ['9.41 Gbit/s', '25 Mbit/s', '0.9 kbit/s']
    """
    unit, factor = next(((unit, factor) for unit, factor in _RATES.items() if bps >= factor), ("kbit/s", 1e3))
    return f"{bps / factor:.3g} {unit}"


def _link(worst: WorstLink) -> str:
    return f"{worst.source} → {worst.target}"


def _measured(worst: WorstLink) -> str:
    loss = "not known" if worst.loss_ratio is None else f"{100.0 * worst.loss_ratio:.3g} %"
    delay = "not known" if worst.delay_ms is None else f"{worst.delay_ms:.3g} ms"
    rate = "not known" if worst.throughput_bps is None else rate_text(worst.throughput_bps)
    return f"loss {loss}, one-way delay {delay}, throughput {rate}"
