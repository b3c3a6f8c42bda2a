"""What stands in a decision log, and how it is written.

A log is gzip over entries, each a MessagePack object behind its length in four bytes. A chapter begins with everything
(`Began`), so that the oldest can be dropped and the rest still be read. Rule: a reader trusts nothing in a log: sizes
are bounded, and what is not an entry is an error that says where.
"""

import gzip
import hashlib
import io
import zlib
from collections.abc import Iterator
from typing import Any, Final, TypeAlias, get_args

import msgspec
import numpy as np

from extender.decision_log.change import Change
from scoring.feasibility.quorum import Quorum
from scoring.model import Policy
from scoring.permit.protocol import Event, Instruction, PermitState
from scoring.plan import Plan

FORMAT: Final = 1  # Grows whenever an older netgang could not read a log any more
MOST_ENTRY_BYTES: Final = 256 * 1024 * 1024
_KINDS: Final[dict[str, type[Any]]] = {kind.__name__: kind for kind in (*get_args(Event), *get_args(Instruction))}
"""name → event or instruction of the permit machine"""


class BadLogError(ValueError):
    """This is no decision log, or it was cut or changed; the text says where."""


class Began(msgspec.Struct, frozen=True, tag=True):
    """A chapter: whose it is, by which rules, and the plan that was the current one."""

    format: int
    at_s: float
    policy: Policy
    plan: Plan


class Ran(msgspec.Struct, frozen=True, tag=True):
    """One planner run: what changed since the last one of the chapter, when, and what came out."""

    at_s: float
    change: Change
    digest: str


class Tagged(msgspec.Struct, frozen=True, tag="Told"):
    """A value of a closed set, by the name of its class."""

    kind: str
    value: msgspec.Raw


class Stepped(msgspec.Struct, frozen=True, tag=True):
    """One step of a gang's permit machine."""

    gang: str
    state: PermitState | None  # Before; `None`: what the gang's last step in this chapter left
    event: Tagged
    quorum: Quorum
    instructions: tuple[Tagged, ...]


class Lost(msgspec.Struct, frozen=True, tag=True):
    """So many entries are missing here, because writing did not keep up; a new chapter follows."""

    entries: int


Entry: TypeAlias = Began | Ran | Stepped | Lost


def tagged(value: Event | Instruction) -> Tagged:
    """A value of the permit machine, to be written."""
    return Tagged(type(value).__name__, msgspec.Raw(_ENCODER.encode(value)))


def value_of(one: Tagged) -> Any:
    """The value again. Errors: BadLogError."""
    kind = _KINDS.get(one.kind)
    if kind is None:
        raise BadLogError(f"{one.kind[:64]!r} is no event and no instruction of this netgang")
    return msgspec.msgpack.decode(one.value, type=kind)


def digest_of(plan: Plan) -> str:
    """Equal exactly for plans that say the same of every gang, in 32 letters.

    >>> one, same, other = Plan(version=3), Plan(version=3), Plan(version=4)
    >>> digest_of(one) == digest_of(same), digest_of(one) == digest_of(other)
    (True, False)
    """
    return hashlib.sha256(_CANONICAL.encode(plan)).hexdigest()[:32]


def encoded(entry: Entry) -> bytes:
    """One entry, with its length before it."""
    body = _ENCODER.encode(entry)
    return len(body).to_bytes(4, "big") + body


def read(log: bytes) -> Iterator[Entry]:
    """The entries of a log, one after the other. Errors: BadLogError; what stands before the fault is given first."""
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(log)) as file:
            number = 0
            while head := file.read(4):
                size = int.from_bytes(head, "big")
                if len(head) < 4 or size > MOST_ENTRY_BYTES:
                    raise BadLogError(f"entry {number} has no length that could be: the log was cut or changed")
                body = file.read(size)
                if len(body) < size:
                    raise BadLogError(f"entry {number} ends too early: the log was cut")
                yield _DECODER.decode(body)
                number += 1
    except (OSError, EOFError, zlib.error) as error:
        raise BadLogError(f"this is no whole gzip file: {error}") from error
    except msgspec.DecodeError as error:
        raise BadLogError(f"entry {number} is no entry of a decision log: {error}") from error


def _written(value: object) -> object:
    if isinstance(value, np.ndarray):
        return [value.dtype.str, value.shape, value.tobytes()]
    raise TypeError(f"a decision log holds no {type(value).__name__}")


def _array(_kind: object, value: Any) -> Any:
    kind, shape, data = value
    if kind not in ("<i8", "<f8", "|u1", "|b1"):
        raise ValueError(f"no array of a log has numbers of kind {kind!r}")
    return np.frombuffer(data, kind).reshape(shape)


_ENCODER: Final = msgspec.msgpack.Encoder(enc_hook=_written)
_CANONICAL: Final = msgspec.msgpack.Encoder(enc_hook=_written, order="deterministic")
_DECODER: Final = msgspec.msgpack.Decoder(Entry, dec_hook=_array)
