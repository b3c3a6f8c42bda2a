"""What netgang knew of this node's links and bursts when it answered last: the agents keep it for the next leader.

Why here: netgang has no database, and a leader that fails cannot hand over. Rule: bounded by `MOST` links, those that
were heard of last, for an hour, and by as many bursts, for two days.
"""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, Final

MOST: Final = 128
_KEPT_S: Final = 3600.0
_BURSTS_KEPT_S: Final = 172_800.0


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


class BurstMemory:
    """Bursts of this node that ended, as netgang said them (`id`, `age_s`, rates). Times are monotonic."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, tuple[float, Mapping[str, Any]]] = OrderedDict()
        """id → when it began, what was said"""

    def keep(self, known: Sequence[Mapping[str, Any]], *, now_s: float) -> None:
        """Remember these as of now."""
        for one in known:
            self._known[one["id"]] = now_s - one["age_s"], one
        while len(self._known) > MOST:
            self._known.popitem(last=False)

    def at(self, now_s: float) -> list[dict[str, Any]]:
        """The same with the ages that they have at `now_s`.

        >>> memory = BurstMemory()
        >>> memory.keep([{"id": "b1", "age_s": 5.0}], now_s=100.0)
        >>> memory.at(110.0), memory.at(200_000.0)
        ([{'id': 'b1', 'age_s': 15.0}], [])
        """
        ages = [(max(now_s - began_s, 0.0), one) for began_s, one in self._known.values()]
        return [{**one, "age_s": round(age_s, 1)} for age_s, one in ages if age_s <= _BURSTS_KEPT_S]
