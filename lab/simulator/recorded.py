"""Speed of a job that was recorded: from measured step times, not from a model of compute and traffic.

Why: recorded workloads say how long each job took on the workers that it asked for, and measurements say how long a
step of such a job takes on other counts (packed on as few nodes as possible). Rule: work is counted in seconds at the
size asked for, so that a job of `run_s` seconds ends after exactly that time if it is never resized.
"""

from collections.abc import Mapping

import msgspec


class Recorded(msgspec.Struct, frozen=True):
    """Step times of one job by worker count; the count asked for is always among them.

    >>> one = Recorded(asked=4, step_s={2: 1.0, 4: 0.6, 8: 0.4})
    >>> [round(one.rate(workers), 3) for workers in (4, 8, 2, 3)]
    [1.0, 1.5, 0.6, 0.75]
    """

    asked: int
    step_s: Mapping[int, float]
    """workers → seconds of one step"""

    def rate(self, workers: int) -> float:
        """Speed on so many workers; 1: as on those asked for. Step times between two measured counts lie on a line."""
        known = self.step_s
        if workers in known:
            return known[self.asked] / known[workers]
        low, high = max(n for n in known if n < workers), min(n for n in known if n > workers)
        share = (workers - low) / (high - low)
        return known[self.asked] / (known[low] + share * (known[high] - known[low]))
