"""Documents under /v1 and /readyz that are about netgang itself: watches, sources, agents, jobs.

The server builds and encodes a record, the client decodes it; OpenAPI and the docs have the text beside or below each
field. What people are told of gangs are records of `scoring.explain`.

Rules:
- A client ignores the fields that it does not know, and words of a closed set are `str`.
- `UNSET` is a field that is left out; `None` is written as null. NaN is written as null.
"""

import msgspec


class Problem(msgspec.Struct, frozen=True):
    """What went wrong with a request; `status` repeats the HTTP status, `detail` is a sentence for people."""

    type: str = "about:blank"
    title: str = ""
    status: int = 0
    detail: str = ""
