"""What every schema is, and the answer to a request that is refused (RFC 9457)."""

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
