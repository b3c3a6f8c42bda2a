"""What the object of a job itself says of its length: annotation `netgang.io/expected-duration`, and its deadline.

Why on the job, too: the template's annotations reach the pods, but people write on the object that they submit. Pure:
raw JSON in, a record out; what is no text or no number is as if it were not there.
"""

from typing import Final

from extender.cache.gangs import JobSays
from extender.controllers.owners.failure_budget import decoded
from scoring.lengths import EXPECTED_DURATION, MOST_S
from scoring.model.policy import OPTION_CHARS

_ANNOTATION: Final = f"netgang.io/{EXPECTED_DURATION}"


def said_length(owner: bytes) -> JobSays | None:
    """What it says; `None`: nothing. ValueError: `owner` is no API object.

    >>> said_length(b'{"metadata":{"annotations":{"netgang.io/expected-duration":"90m"}},"spec":{}}')
    JobSays(expected='90m', limit_s=None)
    >>> said_length(b'{"spec":{"runPolicy":{"activeDeadlineSeconds":600}}}'), said_length(b'{"spec":null}')
    (JobSays(expected='', limit_s=600.0), None)
    """
    found = decoded(owner)
    spec, annotations = found.get("spec") or {}, (found.get("metadata") or {}).get("annotations") or {}
    text = annotations.get(_ANNOTATION)
    expected = text[: OPTION_CHARS + 1] if isinstance(text, str) else ""
    limit = spec.get("activeDeadlineSeconds") or (spec.get("runPolicy") or {}).get("activeDeadlineSeconds")
    limit_s = float(min(limit, MOST_S)) if isinstance(limit, int | float) and limit >= 1 else None
    return JobSays(expected, limit_s) if expected or limit_s is not None else None
