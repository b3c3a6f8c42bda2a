"""One run in a few numbers: the row that tables, JSON and plots show.

Rules: a job counts in the completion times if it came to an end, completed or removed for good (PAPERS K8 gives no
rule; how many completed, and how often jobs were removed as deadlocked, is beside it); nearest-rank percentiles; the
slow-down of a job is its completion time over the time it would take alone, all the workers it asked for on one node,
so an elastic job may be below 1; numbers are rounded to what is meaningful, so that a record is readable and the same
everywhere.
"""

from collections.abc import Mapping, Sequence
from math import ceil
from types import MappingProxyType

from lab.simulator.model import Fate, JobOutcome, RunResult, SimJob
from lab.simulator.speed import Crowd, Placement, Wires, speed_of
from lab.simulator.speed.stall import START_S
from scoring.network.matrix import NetworkMatrix

Row = dict[str, str | int | float | None]
"""column → value"""

_ALONE = Crowd({}, {})
_NOWHERE = Wires(NetworkMatrix(), ())


def percentile(ordered: Sequence[float], share: float) -> float:
    """Nearest rank.

    >>> percentile([1.0, 2.0, 3.0, 4.0], 0.5), percentile([1.0, 2.0, 3.0, 4.0], 0.99)
    (2.0, 4.0)
    """
    return ordered[max(ceil(share * len(ordered)), 1) - 1]


def alone_s(job: SimJob) -> float:
    """How long the job takes with all the workers it asked for on one node and no other job there."""
    at = Placement((0,) * job.ps_count, (0,) * job.workers)
    return START_S + job.work.samples / speed_of(job, at, _NOWHERE, _ALONE).samples_per_s


def row_of(result: RunResult, labels: Mapping[str, str | int | float] = MappingProxyType({})) -> Row:
    """The run's row; `labels` are its first columns after the policy. Cost: O(n log n) in jobs."""
    ended = [one for one in result.outcomes if one.completion_s is not None]
    times = sorted(one.completion_s for one in ended if one.completion_s is not None)
    fates = [one.fate for one in result.outcomes]
    slow = [one.completion_s / alone_s(one.job) for one in ended if one.completion_s is not None and _done(one.fate)]
    row: Row = {"policy": result.policy, **labels}
    row |= {
        "jobs": len(fates),
        "completed": fates.count(Fate.COMPLETED),
        "deadlocks": sum(one.deadlocks for one in result.outcomes),
        "jct_mean_s": round(sum(times) / len(times), 1) if times else None,
        "jct_p50_s": round(percentile(times, 0.5), 1) if times else None,
        "jct_p99_s": round(percentile(times, 0.99), 1) if times else None,
        "makespan_s": round(result.makespan_s, 1),
        "cpu_utilisation_ratio": round(result.busy_cpu_ratio, 4),
    }
    row |= {
        f"{name.rpartition('/')[2]}_requested_ratio": round(ratio, 4)
        for name, ratio in sorted(result.requested_ratio.items())
        if ratio and name != "memory"
    }
    return row | {
        "slowdown_mean": round(sum(slow) / len(slow), 2) if slow else None,
        "slowdown_max": round(max(slow), 2) if slow else None,
        "wait_p99_largest_tenth_s": _largest_wait_s(result.outcomes),
        "resizes": sum(one.resizes for one in result.outcomes),
        "suspensions": sum(one.suspensions for one in result.outcomes),
        "stalled_s": round(sum(one.stalled_s for one in result.outcomes), 1),
        "decisions": result.decisions,
    }


def _largest_wait_s(outcomes: Sequence[JobOutcome]) -> float | None:
    """How long the tenth of the jobs that asked for most workers waited at p99, suspensions included."""
    ordered = sorted(outcomes, key=lambda one: -one.job.pods)
    waits = sorted(one.waited_s for one in ordered[: ceil(len(ordered) / 10)] if one.started_s is not None)
    return round(percentile(waits, 0.99), 1) if waits else None


def _done(fate: Fate) -> bool:
    return fate is Fate.COMPLETED
