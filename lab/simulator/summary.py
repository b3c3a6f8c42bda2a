"""One run in a few numbers: the row that tables and JSON show.

Rules: a job counts in the completion times if it came to an end, completed or removed for good (PAPERS K8 gives no
rule; how many completed, and how often jobs were removed as deadlocked, is beside it); nearest-rank percentiles.
"""

from collections.abc import Mapping, Sequence
from math import ceil
from types import MappingProxyType

from lab.simulator.model import Fate
from lab.simulator.state import RunResult

Row = dict[str, str | int | float | None]
"""column → value"""


def percentile(ordered: Sequence[float], share: float) -> float:
    """Nearest rank.

    >>> percentile([1.0, 2.0, 3.0, 4.0], 0.5), percentile([1.0, 2.0, 3.0, 4.0], 0.99)
    (2.0, 4.0)
    """
    return ordered[max(ceil(share * len(ordered)), 1) - 1]


def row_of(result: RunResult, labels: Mapping[str, str | int | float] = MappingProxyType({})) -> Row:
    """The run's row; `labels` are its first columns after the policy. Cost: O(n log n) in jobs."""
    ended = [one for one in result.outcomes if one.completion_s is not None]
    times = sorted(one.completion_s for one in ended if one.completion_s is not None)
    fates = [one.fate for one in result.outcomes]
    largest = sorted(result.outcomes, key=lambda one: -one.job.ps_count - one.job.workers)[: ceil(len(fates) / 10)]
    waits = sorted(one.waited_s for one in largest if one.started_s is not None)
    return {
        "policy": result.policy,
        **labels,
        "jobs": len(fates),
        "completed": fates.count(Fate.COMPLETED),
        "deadlocks": sum(one.deadlocks for one in result.outcomes),
        "jct_mean_s": round(sum(times) / len(times), 1) if times else None,
        "jct_p50_s": round(percentile(times, 0.5), 1) if times else None,
        "jct_p99_s": round(percentile(times, 0.99), 1) if times else None,
        "makespan_s": round(result.makespan_s, 1),
        "cpu_utilisation_ratio": round(result.busy_cpu_ratio, 4),
        # of those that asked for most workers; suspensions included
        "wait_p99_largest_tenth_s": round(percentile(waits, 0.99), 1) if waits else None,
        "resizes": sum(one.resizes for one in result.outcomes),
        "suspensions": sum(one.suspensions for one in result.outcomes),
        "stalled_s": round(sum(one.stalled_s for one in result.outcomes), 1),
    }
