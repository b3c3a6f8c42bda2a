"""What users say of how long their jobs run: exactly, two to five times too long, or only half of them at all.

Why: back-fill by end times is as good as the lengths that it is given. Source of the factor: users' estimates are a
small multiple of the run time (Mu'alem and Feitelson 2001). Rule: what one job's user says does not depend on the
policy, nor on other jobs.
"""

from collections.abc import Callable
from random import Random
from typing import Final, TypeAlias

from scoring.lengths import Length, LengthSource, exact
from simulator.model import SimJob
from simulator.summary import alone_s

Lengths: TypeAlias = Callable[[SimJob], Length | None]
"""The length that a job's user declares; `None`: the user says nothing"""

_FACTORS: Final = (2.0, 5.0)


def true_length(job: SimJob) -> Length | None:
    """The run time with all workers on one node."""
    return exact(alone_s(job), LengthSource.DECLARED)


def too_long(job: SimJob) -> Length | None:
    """Two to five times that, drawn from the job's name."""
    factor = Random(job.name).uniform(*_FACTORS)  # noqa: S311 - the same for each policy
    return exact(alone_s(job) * factor, LengthSource.DECLARED)


def of_half(job: SimJob) -> Length | None:
    """The truth of one job in two, drawn from the job's name."""
    return true_length(job) if Random(job.name).random() < 0.5 else None  # noqa: S311 - the same for each policy
