"""What starting and changing a job costs before it trains (again): PAPERS E3.

A change of the worker count was measured at 40.5 to 41.8 s, nearly all of it serving the request; the checkpoint takes
about 120 ms and more with every worker. Steps since the last checkpoint, which is made every 10 steps, are repeated.
Assumptions: the three measured changes (3 → 6, 9, 12) are taken as a line in the workers afterwards; a change while the
job still starts costs nothing but the start of the new pods; pods start 10 s after they have a node.
"""

from dataclasses import dataclass
from math import fmod

START_S = 10.0
"""From a pod's node to its first step: pull of a cached image, start, connect."""
CHECKPOINT_STEPS = 10
_LEAST_S, _LEAST_WORKERS = 40.5, 6
_MOST_S, _MOST_WORKERS = 41.8, 12


@dataclass(frozen=True, slots=True)
class Stages:
    """Where the time of one change goes, in seconds."""

    flex_down_s: float
    """The workers stop, with a checkpoint."""
    flex_up_s: float
    """The request is served: pods are removed, made, given nodes and started."""
    ready_s: float
    """The workers have found each other and have read the checkpoint."""

    @property
    def whole_s(self) -> float:
        """The whole stall."""
        return self.flex_down_s + self.flex_up_s + self.ready_s


def stages_of(workers: int) -> Stages:
    """The stages of a change to this many workers.

    >>> [round(stages_of(workers).whole_s, 2) for workers in (3, 6, 9, 12)]
    [40.5, 40.5, 41.15, 41.8]
    >>> round(stages_of(6).flex_down_s, 3), round(stages_of(12).flex_down_s, 3)
    (0.12, 0.18)
    """
    over = min(max((workers - _LEAST_WORKERS) / (_MOST_WORKERS - _LEAST_WORKERS), 0.0), 1.0)
    whole_s = _LEAST_S + over * (_MOST_S - _LEAST_S)
    down_s = 0.12 + 0.01 * max(workers - _LEAST_WORKERS, 0)
    ready_s = 1.0
    return Stages(down_s, whole_s - down_s - ready_s, ready_s)


def resize_stall_s(workers: int) -> float:
    """Seconds without training when a job is changed to this many workers."""
    return stages_of(workers).whole_s


def repeated_samples(trained: float, step_samples: float) -> float:
    """Samples since the last checkpoint, of `trained` in all, when a step takes `step_samples`.

    >>> repeated_samples(1234.0, 8.0)
    34.0
    """
    return fmod(trained, CHECKPOINT_STEPS * step_samples)
