"""When it is too early to remove anything: after the start and after every new list (docs/safety.md S11).

Why: a cache that has just been filled, or filled again, may show less than there is, and a pod that is removed for it
does not come back. Rule: nothing is removed before everything has been watched for a while without a new list.
"""

from collections.abc import Callable

from extender.ports import Clock

QUIET_S = 30.0


class Quiet:
    """How long to keep still yet. One for all that remove pods."""

    def __init__(self, clock: Clock, *, relists: Callable[[], int] = lambda: 0, for_s: float = QUIET_S) -> None:
        self._clock = clock
        self._relists = relists
        """How often anything was listed again so far"""
        self._for_s = for_s
        self._seen = relists()
        self._until_s = clock.monotonic_s() + for_s

    def look(self) -> None:
        """Start again if anything was listed again since the last look; called after each plan."""
        relists = self._relists()
        if relists != self._seen:
            self._seen = relists
            self._until_s = self._clock.monotonic_s() + self._for_s

    @property
    def over(self) -> bool:
        """Whether removing is allowed now."""
        self.look()
        return self._clock.monotonic_s() >= self._until_s
