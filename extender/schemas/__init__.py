"""One schema for each document under /v1.

The server builds and encodes it, the client decodes it; OpenAPI and the docs have the text beside or below each field.

Rules:
- A client ignores the fields that it does not know, and words of a closed set are `str`.
- A record of `scoring` that says what people are told is the answer itself; `extender.api.documents` fills what else is
  about decisions. Watches, cache, election and sources fill the records about themselves.
- `UNSET` is a field that is left out; `None` is written as null. NaN is written as null.
"""

from typing import Final, Self

import msgspec

_MISSING: Final = object()


class Record(msgspec.Struct):
    """A JSON object."""

    @classmethod
    def copied(cls, source: object, **given: object) -> Self:
        """A record with these fields; the others are `source`'s attributes of the same names, where it has them."""
        for name in cls.__struct_fields__:
            if name not in given and (value := getattr(source, name, _MISSING)) is not _MISSING:
                given[name] = value
        return cls(**given)


class Problem(Record):
    """What went wrong with a request; `status` repeats the HTTP status, `detail` is a sentence for people."""

    type: str = "about:blank"
    title: str = ""
    status: int = 0
    detail: str = ""
