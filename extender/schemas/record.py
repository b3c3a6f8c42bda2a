"""What every schema is, and the answer to a request that is refused (RFC 9457)."""

from typing import Self

import msgspec


class Record(msgspec.Struct):
    """A JSON object."""

    @classmethod
    def copied(cls, source: object, **given: object) -> Self:
        """A record with these fields; the others are `source`'s attributes of the same names, where it has them."""
        names = [name for name in cls.__struct_fields__ if name not in given and hasattr(source, name)]
        return cls(**given, **{name: getattr(source, name) for name in names})


class Problem(Record):
    """What went wrong with a request; `status` repeats the HTTP status, `detail` is a sentence for people."""

    type: str = "about:blank"
    title: str = ""
    status: int = 0
    detail: str = ""
