"""How long to wait before trying again.

Why: hundreds of clients that lost the API server together must not come back together.
Rule: doubled after each failure up to a limit, then spread over the upper half by chance; the chance is an argument.
"""

import random
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Backoff:
    """First and longest delay, seconds."""

    first_s: float
    limit_s: float

    def delay_s(self, failures: int, *, rng: random.Random, retry_after_s: float | None = None) -> float:
        """Delay after the `failures`-th failure in a row (1 or more), never shorter than the server asked for.

        The result lies between half and the whole of `first_s` × 2^(failures − 1), at most `limit_s`; on top of
        `retry_after_s` comes up to a tenth of it, so that clients that got the same delay spread out too.

        >>> one = Backoff(first_s=0.5, limit_s=30.0)
        >>> [0.5 * 2**k / 2 <= one.delay_s(k + 1, rng=random.Random(7)) <= 0.5 * 2**k for k in range(3)]
        [True, True, True]
        >>> 15.0 <= one.delay_s(50, rng=random.Random(7)) <= 30.0
        True
        """
        if failures < 1:
            raise ValueError("failures counts from 1")
        whole_s = min(self.limit_s, self.first_s * 2.0 ** min(failures - 1, 60))
        delay_s = whole_s * rng.uniform(0.5, 1.0)
        if retry_after_s is not None and retry_after_s > delay_s:
            return retry_after_s * rng.uniform(1.0, 1.1)
        return delay_s
