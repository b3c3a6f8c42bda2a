"""The queue of jobs that could not be changed: when each may be tried again (PAPERS K7).

Why no queue of commands: a failed attempt is not repeated as it was, the next round decides from what is true then.
What is queued is only the key, with a pause that doubles and is spread by chance, as work queues of controllers do.
"""

import random
from typing import TypeVar

from extender.runtime.backoff import Backoff

K = TypeVar("K")


class Retries:
    """Keys with the moment before which they are left alone, on the monotonic clock. Bounded by `keep`."""

    def __init__(self, rng: random.Random, *, first_s: float = 1.0, limit_s: float = 300.0) -> None:
        self._rng = rng
        self._backoff = Backoff(first_s, limit_s)
        self._failures: dict[object, tuple[int, float]] = {}
        """key → failures in a row, and when it may be tried again"""

    def failed(self, key: object, *, now_s: float) -> None:
        """Another attempt failed."""
        failures = self._failures.get(key, (0, 0.0))[0] + 1
        self._failures[key] = (failures, now_s + self._backoff.delay_s(failures, rng=self._rng))

    def succeeded(self, key: object) -> None:
        """An attempt succeeded: forget the failures."""
        self._failures.pop(key, None)

    def waits(self, key: object, *, now_s: float) -> bool:
        """Whether it is too early for another attempt."""
        return key in self._failures and now_s < self._failures[key][1]

    def keep(self, keys: set[K]) -> None:
        """Forget all others."""
        self._failures = {key: one for key, one in self._failures.items() if key in keys}

    def clear(self) -> None:
        """Forget everything."""
        self._failures.clear()
