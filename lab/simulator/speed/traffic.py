"""How fast bytes get from one node to another: what was measured of the link, and what TCP makes of it.

    goodput = min(throughput, 1.22 · MSS · 8 / (RTT · √loss))

The second term is the known bound of a loss-driven TCP connection (Mathis et al. 1997); RTT is twice the worse one-way
delay, but at least 0.2 ms. Rule: the worse direction counts, as in the pair score (PAPERS N2). Assumptions: what is not
measured is a link of 1 Gbit/s with 0.1 ms and no loss; pods of one node exchange at 20 Gbit/s.
"""

from math import isnan, sqrt

import msgspec

from scoring import NodeName
from scoring.network.matrix import NetworkMatrix

_MSS_BITS = 1460 * 8
_LEAST_RTT_S = 0.0002
_LOCAL_BPS = 20e9
CARD_BPS = 10e9
"""A node's network card."""


class Wire(msgspec.Struct, frozen=True):
    """A link between two nodes as a connection sees it."""

    bps: float
    delay_s: float
    """One way."""


LOCAL = Wire(_LOCAL_BPS, 0.0)
_UNMEASURED = Wire(1e9, 0.0001)


def goodput_bps(throughput_bps: float, delay_s: float, loss_ratio: float) -> float:
    """What one connection moves.

    >>> round(goodput_bps(100e6, 0.001, 0.0) / 1e6), round(goodput_bps(100e6, 0.001, 0.01) / 1e6)
    (100, 71)
    >>> round(goodput_bps(100e6, 0.25, 0.01) / 1e6, 2)
    0.28
    """
    if loss_ratio <= 0.0:
        return throughput_bps
    return min(throughput_bps, 1.22 * _MSS_BITS / (max(2.0 * delay_s, _LEAST_RTT_S) * sqrt(min(loss_ratio, 1.0))))


class Wires:
    """The links between nodes by row of the node table; each is looked up once."""

    def __init__(self, network: NetworkMatrix, names: tuple[NodeName, ...]) -> None:
        self._network, self._names = network, names
        self._known: dict[tuple[int, int], Wire] = {}
        """(smaller row, larger row) → its link"""
        self._blank = not network.endpoints

    def between(self, one: int, other: int) -> Wire:
        """The link between two rows."""
        if one == other:
            return LOCAL
        key = (one, other) if one < other else (other, one)
        if key not in self._known:
            self._known[key] = _UNMEASURED if self._blank else self._look_up(*key)
        return self._known[key]

    def _look_up(self, one: int, other: int) -> Wire:
        names = (self._names[one], self._names[other])
        block = self._network.block(names, names)
        if bool(block.same[0, 1]):
            return LOCAL
        pairs = ((0, 1), (1, 0))
        losses, delays_ms, rates = (
            [float(values[at]) for at in pairs if not isnan(values[at])] for values in block.values.values()
        )
        delay_s = max(delays_ms, default=_UNMEASURED.delay_s * 1000.0) / 1000.0
        rate = min(rates, default=_UNMEASURED.bps)
        return Wire(goodput_bps(rate, delay_s, max(losses, default=0.0)), delay_s)
