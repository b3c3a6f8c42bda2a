"""What netgang knew of this node's links when it answered last: the agents keep it for the next leader.

Why here: netgang has no database, and a leader that fails cannot hand over. Rule: bounded by `MOST` links, those that
were heard of last, for an hour.
"""

from collections import OrderedDict
from collections.abc import Mapping
from typing import Final

MOST: Final = 128
_KEPT_S: Final = 3600.0


class Memory:
    """Figures of links; the first is their age in seconds. Times are monotonic."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, tuple[float, tuple[float, ...]]] = OrderedDict()
        """peer → when that was, figures"""

    def keep(self, known: Mapping[str, tuple[float, ...]], *, now_s: float) -> None:
        """Remember these as of now."""
        for peer, figures in known.items():
            self._known[peer] = now_s - figures[0], figures
            self._known.move_to_end(peer)
        while len(self._known) > MOST:
            self._known.popitem(last=False)

    def at(self, now_s: float) -> dict[str, tuple[float, ...]]:
        """The same with the ages that they have at `now_s`.

        >>> memory = Memory()
        >>> memory.keep({"n2": (5.0, 50.0)}, now_s=100.0)
        >>> memory.at(110.0), memory.at(9999.0)
        ({'n2': (15.0, 50.0)}, {})
        """
        ages = {peer: max(now_s - at_s, 0.0) for peer, (at_s, _) in self._known.items()}
        return {peer: (round(age_s, 1), *self._known[peer][1][1:]) for peer, age_s in ages.items() if age_s <= _KEPT_S}
