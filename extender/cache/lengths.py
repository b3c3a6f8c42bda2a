"""The length of each gang, as it is put on the gang's record when that is built: what its job and its pods say.

Rule: a deadline cuts what is declared, because it ends the run; alone it is taken for the length, as batch systems take
the limit that each of their jobs must name, so nothing that is promised by it comes late.
"""

from contextlib import suppress
from dataclasses import dataclass

from scoring.lengths import EXPECTED_DURATION, duration_s
from scoring.model import Gang


@dataclass(frozen=True, slots=True)
class JobSays:
    """What a gang's job itself says of its length."""

    expected: str = ""  # Annotation `netgang.io/expected-duration`, bounded; empty: it has none
    limit_s: float | None = None  # `activeDeadlineSeconds` of the job


def length_s(gang: Gang, job: JobSays | None) -> float | None:
    """How long the gang runs, seconds; `None`: nothing is said. Cost: O(members).

    >>> from tests.builders import gang
    >>> said = gang("g", 2, options={"expected-duration": "1h"})
    >>> length_s(said, None), length_s(said, JobSays(limit_s=60.0)), length_s(gang("g", 2), None)
    (3600.0, 60.0, None)
    """
    found = [pod.limit_s for pod in gang.members if pod.limit_s is not None]
    if job is not None and job.limit_s is not None:
        found.append(job.limit_s)
    for name, text in gang.options:
        if name == EXPECTED_DURATION:
            with suppress(ValueError):  # `scoring.model.policy.gang_options` says so
                found.append(duration_s(text))
    return min(found, default=None)
