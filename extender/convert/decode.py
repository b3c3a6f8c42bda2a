"""Read the few fields of an API object that we need, with one kind of error.

msgspec skips unknown fields while parsing: a pod of 4 KB costs microseconds. Rule: JSON `null` means absent, as in Go;
whatever cannot be read is a ValueError that names kind and field.
"""

from datetime import UTC, datetime
from typing import TypeAlias, TypeVar

import msgspec

T = TypeVar("T")
Quantities: TypeAlias = dict[str, str | int | float]  # resource → quantity; files also hold numbers
NO_RAW = msgspec.Raw()


class Json(msgspec.Struct, rename="camel", gc=False):
    """Base of all API structs: camelCase names, no part in garbage collection (they live for microseconds)."""


class Owner(Json):
    """One of `metadata.ownerReferences`."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None

    def in_group(self, group: str) -> bool:
        """Whether it is of this API group, in any version."""
        return self.api_version.partition("/")[0] == group


class Metadata(Json):
    """`metadata` of any object."""

    name: str
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[Owner] | None = None


def decode(decoder: msgspec.json.Decoder[T], raw: bytes | msgspec.Raw, *, what: str) -> T:
    """Decode `raw`; ValueError says `what` it was meant to be and which field is wrong."""
    try:
        return decoder.decode(raw)
    except msgspec.MsgspecError as error:
        raise ValueError(f"{what}: {error}") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"{what}: text is not UTF-8: {error}") from error
    except RecursionError as error:
        raise ValueError(f"{what}: it is nested too deeply") from error


def given(raw: msgspec.Raw) -> bytes:
    """The text of an optional part, to be decoded later or compared; empty when absent or null."""
    if raw is NO_RAW:
        return b""
    text = bytes(raw)
    return b"" if text == b"null" else text


def seconds(moment: datetime | None) -> float:
    """RFC 3339 time → Unix seconds; 0 when absent. A time without zone is taken as UTC, which the API server writes.

    >>> from datetime import UTC
    >>> seconds(datetime(1970, 1, 1, 0, 1, tzinfo=UTC)), seconds(None)
    (60.0, 0.0)
    """
    if moment is None:
        return 0.0
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
