"""Read the few fields of an API object that we need, with one kind of error, however tenants write it; share parts.

msgspec skips unknown fields while parsing: a pod of 4 KB costs microseconds. Rules: JSON `null` means absent, as in Go;
whatever cannot be read is a ValueError that names kind and field. The decoder gives up after some hundred levels, and
the API server takes 10,000 in kinds that others define: then whatever begins below `LEVELS` is replaced by null; no
field that we read lies half as deep. An annotation is measured before it is parsed (docs/safety.md S21).
"""

import re
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final, TypeAlias, TypeVar
from weakref import ref

import msgspec

T = TypeVar("T")
Quantities: TypeAlias = dict[str, str | int | float]  # resource → quantity; files also hold numbers
NO_RAW = msgspec.Raw()
LEVELS: Final = 100  # Of a page of objects, or of a watch event; a pod inside has about 15
NOTE_CHARS: Final = 4096  # Longest annotation that is read as JSON
NOTE_LEVELS: Final = 8  # Deepest nesting in one; ours have two levels
_SHORT, _SHORT_CHARS = 16, 1024
_MARK: Final = re.compile(rb'[^"\[\]{}]*+(?:"(?:[^"\\]|\\.)*+"[^"\[\]{}]*+)*+([\[\]{}])', re.DOTALL)


class Json(msgspec.Struct, rename="camel", gc=False):
    """Base of all API structs: camelCase names; they live for microseconds, so without garbage collection."""


class OwnerReference(Json):
    """Of `metadata.ownerReferences`."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


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
    owner_references: list[OwnerReference] | None = None


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
    text = bytes(raw) if raw is not NO_RAW else b""
    return b"" if text == b"null" else text


def seconds(moment: datetime | None) -> float:
    """Unix seconds; 0 when absent. A time without zone is taken as UTC, which the API server writes."""
    return 0.0 if moment is None else (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def whole_number(text: object, *, digits: int = 9) -> int | None:
    """A number as labels and annotations have it; `None`: it is none, or has more digits."""
    return int(text) if isinstance(text, str) and text.isascii() and text.isdigit() and len(text) <= digits else None


def decoded(decoder: msgspec.json.Decoder[T], body: bytes) -> T:
    """Decode what the API server sent; errors are those of msgspec."""
    try:
        return decoder.decode(body)
    except RecursionError:
        return decoder.decode(shallow(body))


def shallow(body: bytes, *, levels: int = LEVELS) -> bytes:
    """The JSON with null for each list and object below `levels` of nesting. Cost: linear, a pass in Python."""
    pieces: list[bytes] = []
    depth = begin = 0
    for mark in _MARK.finditer(body):
        if mark[1] in b"[{":
            depth += 1
            if depth == levels + 1:
                pieces += body[begin : mark.start(1)], b"null"
        else:
            if depth == levels + 1:
                begin = mark.end()
            depth -= 1
    if depth <= levels:
        pieces.append(body[begin:])
    return b"".join(pieces)


def note_from_json(decoder: msgspec.json.Decoder[T], text: object) -> T | None:
    """The JSON in an annotation; `None`: it is no text, or cannot be read (ours may be of another release's making)."""
    if not isinstance(text, str) or len(text) > NOTE_CHARS:
        return None
    try:
        raw = text.encode()
        return decoder.decode(raw) if shallow(raw, levels=NOTE_LEVELS) == raw else None
    except (msgspec.MsgspecError, UnicodeError):
        return None


class Head(msgspec.Struct, gc=False):
    """The part of `metadata` that only the API server writes: unreadable objects have it, too."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = msgspec.field(name="resourceVersion", default="")

    @property
    def key(self) -> str:
        """What a sink calls it: `namespace/name`, for kinds outside namespaces the name; empty: it has no name."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class Headed(msgspec.Struct):
    """An object of any kind, as far as its head."""

    metadata: Head


_HEADED = msgspec.json.Decoder(Headed)


def head_of(raw: bytes) -> Head | None:
    """The object's head; `None`: even that cannot be read."""
    try:
        return decoded(_HEADED, raw).metadata
    except (msgspec.MsgspecError, UnicodeError):
        return None


class Pool:
    """Values of which equal ones are to be one object, known as long as others hold them (a cache would hold more)."""

    def __init__(self) -> None:
        self.known: dict[ref[Any], ref[Any]] = {}  # a value → the same, held loosely: equal while both live

    def one(self, value: T) -> T:
        """The first living value equal to this one; it can be referred to weakly. Cost: a hash and a comparison."""
        reference = self.known.get(ref(value))
        if reference is None:
            mine = ref(value, self.known.__delitem__)
            reference = self.known.setdefault(mine, mine)
        same: T | None = reference()
        return value if same is None else same


shared = Pool().one  # Among the parts of all objects: records, not tuples
_one_tuple = lru_cache(maxsize=1024)(tuple[Any, ...])  # of a tuple it makes the tuple itself


def shared_tuple(value: tuple[str | tuple[str, str], ...]) -> tuple[Any, ...]:
    """The same for tuples: one of the last thousand; long ones, by tenants, are not kept (docs/safety.md S21)."""
    chars = sum(len(part) if isinstance(part, str) else len(part[0]) + len(part[1]) for part in value)
    return _one_tuple(value) if len(value) <= _SHORT and chars <= _SHORT_CHARS else value
