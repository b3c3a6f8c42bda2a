"""How many questions to the API server each peer may cause that are answered no.

Why: a token that is not known yet costs a TokenReview, and any client that reaches a port can show a new one with every
request. Rule (docs/safety.md S28): each address has some in hand and gets one more now and then; a question that was
answered yes, or not at all, is given back. The table is bounded; of too many addresses the one that asked longest ago
is forgotten, and how many questions are under way is bounded besides.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Final

IN_HAND: Final = 10.0
REFILL_S: Final = 5.0
"""Seconds for one more"""
_PEERS_MAX: Final = 4096


class Questions:
    """What each peer has in hand."""

    def __init__(self, now_s: Callable[[], float], *, peers_max: int = _PEERS_MAX) -> None:
        self._now_s = now_s
        self._peers_max = peers_max
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()
        """address → how many it had in hand, and when"""

    def take(self, peer: str) -> bool:
        """Take one, if the peer has one."""
        left = self._of(peer)
        self._keep(peer, left - 1.0 if left >= 1.0 else left)
        return left >= 1.0

    def give_back(self, peer: str) -> None:
        """The question was none that counts."""
        self._keep(peer, min(self._of(peer) + 1.0, IN_HAND))

    def __len__(self) -> int:
        return len(self._left)

    def _of(self, peer: str) -> float:
        left, at_s = self._left.get(peer, (IN_HAND, self._now_s()))
        return min(left + (self._now_s() - at_s) / REFILL_S, IN_HAND)

    def _keep(self, peer: str, left: float) -> None:
        self._left[peer] = left, self._now_s()
        self._left.move_to_end(peer)
        if len(self._left) > self._peers_max:
            self._left.popitem(last=False)
