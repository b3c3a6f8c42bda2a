"""What starting and changing a job costs before it trains (again): PAPERS E3.

A change of the worker count was measured at 40.5 to 41.8 s, nearly all of it serving the request; the checkpoint takes
about 120 ms and more with every worker. Steps since the last checkpoint, which is made every 10 steps, are repeated.
Assumptions: the three measured changes (3 → 6, 9, 12) are taken as a line in the workers afterwards; a change while the
job still starts costs nothing but the start of the new pods; pods start 10 s after they have a node.
"""

from math import fmod

START_S = 10.0
"""From a pod's node to its first step: pull of a cached image, start, connect."""
CHECKPOINT_STEPS = 10
_LEAST_S, _LEAST_WORKERS = 40.5, 6
_MOST_S, _MOST_WORKERS = 41.8, 12


def resize_stall_s(workers: int) -> float:
    """Seconds without training when a job is changed to this many workers.

    >>> [round(resize_stall_s(workers), 2) for workers in (3, 6, 9, 12)]
    [40.5, 40.5, 41.15, 41.8]
    """
    over = min(max((workers - _LEAST_WORKERS) / (_MOST_WORKERS - _LEAST_WORKERS), 0.0), 1.0)
    return _LEAST_S + over * (_MOST_S - _LEAST_S)


def repeated_samples(trained: float, step_samples: float) -> float:
    """Samples since the last checkpoint, of `trained` in all, when a step takes `step_samples`.

    >>> repeated_samples(1234.0, 8.0)
    34.0
    """
    return fmod(trained, CHECKPOINT_STEPS * step_samples)
