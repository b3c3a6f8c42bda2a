"""The decision log: snapshots and the plans that were made from them, so that `netgang plan FILE` decides them again.

The planner is a pure function: decided again, each plan must be the same, bit for bit. Each decision is a gzip member:
its length in four bytes, then MessagePack. Rules: it is written by a thread, because that costs more than half of
deciding; what is kept is bounded in bytes, the oldest goes first; a reader trusts nothing in a log.
"""

import asyncio
import gzip
import io
import logging
import zlib
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
import numpy as np

from scoring.model import Policy, Snapshot
from scoring.plan import Plan, plan

GZIP: Final = b"\x1f\x8b"  # A log begins with it
_log = logging.getLogger(__name__)


class BadLogError(ValueError):
    """This is no decision log, or it was cut or changed; the text says where."""


class RecordedPlan(msgspec.Struct, frozen=True):
    """What went into a planner run, and what came out."""

    at_s: float
    policy: Policy
    previous: Plan
    snapshot: Snapshot
    made: Plan

    def again(self) -> Plan:
        """The plan, decided again."""
        return plan(self.snapshot, self.policy, now_s=self.at_s, previous=self.previous)

    @property
    def same(self) -> bool:
        """Whether it is decided again as it was, bit for bit."""
        return _CANONICAL.encode(self.again()) == _CANONICAL.encode(self.made)


@dataclass(eq=False, repr=False)
class Recorder:
    """The last decisions of one process; `run` it."""

    policy: Policy
    most_bytes: int = 16 * 2**20  # Compressed size of what is kept: hours of a busy cluster
    failed: Callable[[str], None] = lambda _: None  # Where a bug was
    _waiting: deque[RecordedPlan] = field(default_factory=lambda: deque(maxlen=64), init=False)
    _kept: deque[bytes] = field(default_factory=deque, init=False)  # Compressed, oldest first
    _one_at_a_time: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)

    def record(self, at_s: float, snapshot: Snapshot, previous: Plan, plan: Plan) -> None:
        """Take note of a planner run; O(1)."""
        self._waiting.append(RecordedPlan(at_s, self.policy, previous, snapshot, plan))

    async def run(self) -> None:
        """Write what was recorded, until cancelled."""
        while True:
            await asyncio.sleep(0.25)
            await self._write()

    async def log(self) -> bytes:
        """The log up to now."""
        await self._write()
        return b"".join(self._kept)

    async def _write(self) -> None:
        async with self._one_at_a_time:
            while self._waiting:
                try:
                    self._kept.append(await asyncio.to_thread(encoded, self._waiting.popleft()))
                except Exception:  # noqa: BLE001 - supervisor: a log that cannot be written stops no scheduling
                    _log.exception("internal error: a decision is not in the decision log")
                    self.failed("decision log")
            while len(self._kept) > 1 and sum(map(len, self._kept)) > self.most_bytes:
                self._kept.popleft()


def encoded(decision: RecordedPlan) -> bytes:
    """One decision, as it stands in a log."""
    body = _ENCODER.encode(decision)
    return gzip.compress(len(body).to_bytes(4, "big") + body, compresslevel=1)


def decisions(log: bytes) -> Iterator[RecordedPlan]:
    """What stands in a log, oldest first. Errors: BadLogError; what stands before the fault is given first."""
    number = 0
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(log)) as file:
            while head := file.read(4):
                size = int.from_bytes(head, "big")
                body = file.read(size) if size <= 256 * 2**20 else b""  # a log may come from anybody
                if len(head) < 4 or len(body) < size:
                    raise BadLogError(f"decision {number} ends too early: the log was cut or changed")
                yield _DECODER.decode(body)
                number += 1
    except (OSError, EOFError, zlib.error) as error:
        raise BadLogError(f"this is no whole gzip file: {error}") from error
    except msgspec.DecodeError as error:
        raise BadLogError(f"decision {number} is none of this netgang: {error}") from error


def _written(value: object) -> object:
    if isinstance(value, np.ndarray):
        return [value.dtype.str, value.shape, value.tobytes()]
    raise TypeError(f"a decision log holds no {type(value).__name__}")


def _array(_kind: object, value: Any) -> Any:
    kind, shape, data = value
    if kind not in ("<i8", "<f8", "|u1", "|b1"):
        raise ValueError(f"no array of a log has numbers of kind {kind!r}")
    return np.frombuffer(data, kind).reshape(shape)


_ENCODER: Final = msgspec.msgpack.Encoder(enc_hook=_written)  # A snapshot has classes of members as keys
_CANONICAL: Final = msgspec.msgpack.Encoder(enc_hook=_written, order="deterministic")
_DECODER: Final = msgspec.msgpack.Decoder(RecordedPlan, dec_hook=_array)
