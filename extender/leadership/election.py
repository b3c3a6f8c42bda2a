"""Acquire, renew, lose a Lease: what to ask the API server next, and whether we lead now. Sans-I/O.

How it works: the leader writes into the Lease every `retry_period_s`. All candidates read it, more often; one that has
seen no change of it for the leader's duration, by its own clock, writes itself in at that very moment. Writes name the
version that they replace, so of two only one succeeds. Rules:

- A holder counts from the moment *before* it sent the write that succeeded, the others from the moment *after* they
  read it, so the holder's time is over first, whatever the network did in between.
- It leads for `renew_deadline_s` and then stands down by itself. What it sends must be over at `DRIFT_RATIO` before the
  duration ends: that much may two clocks differ in speed.
- A write whose answer was lost counts if it is found in the Lease, from the moment when it was sent.
- Each write differs from the last, even where the wall clock stands still: an unchanged Lease is a dead holder's.
- A Lease that vanishes does not free candidates that knew it from waiting for its last holder.

Times in a Lease are another clock's: they are compared for being the same or not.
"""

import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Protocol

from msgspec import Struct, field
from msgspec.structs import replace

DRIFT_RATIO = 0.05  # How much slower than another's a clock may go; real ones differ by less than a thousandth of that
_NEVER = -float("inf")


class LeaseSpec(Struct, frozen=True):
    """What a Lease says; times as text, because no other clock is trusted."""

    holder: str = field(name="holderIdentity", default="")  # The leader; "": there is none to wait for
    duration_s: int = field(name="leaseDurationSeconds", default=0)  # How long others wait after the last change
    acquired: str = field(name="acquireTime", default="")
    renewed: str = field(name="renewTime", default="")
    transitions: int = field(name="leaseTransitions", default=0)


class Lease(Struct, frozen=True):
    """A Lease as it is stored."""

    spec: LeaseSpec
    version: str  # Its resourceVersion: a write that names another one is refused
    raw: bytes = b""  # The whole object, so that what others wrote on it stays


class LeaseApi(Protocol):
    """What a candidate asks of the API server. Its own connection: nothing else may delay a renewal."""

    async def read(self) -> Lease | None:
        """The Lease as storage has it; `None`: there is none. Errors: ApiError, ApiUnavailableError."""

    async def write(self, spec: LeaseSpec, over: Lease | None) -> Lease:
        """Replace `over`, or create the Lease; as stored. Errors: ConflictError, NotFoundError, and as `read`."""

    async def label(self, pod: str, role: str | None) -> None:
        """Set or remove the role's label on a pod of our namespace. Errors: NotFoundError and as `read`."""

    async def labelled(self, role: str) -> Sequence[str]:
        """Names of the pods of our namespace that carry this role's label. Errors: as `read`."""


class LeaseTimes(Struct, frozen=True):
    """A leader that cannot renew stands down after `renew_deadline_s`; two renewals fit in: one may be lost."""

    duration_s: int = 3
    renew_deadline_s: float = 2.3
    retry_period_s: float = 0.5

    @classmethod
    def for_duration(cls, duration_s: int) -> "LeaseTimes":
        """The times of a Lease of this duration; of a short one the last requests keep half a second."""
        last_s = duration_s * (1.0 - DRIFT_RATIO) - 0.5
        return cls(duration_s, min(duration_s * 23.0 / 30.0, last_s), duration_s / 6.0)

    @property
    def write_s(self) -> float:
        """From the beginning of a term until all that was sent in it must be over, without a renewal."""
        return self.duration_s * (1.0 - DRIFT_RATIO)

    @property
    def look_period_s(self) -> float:
        """Between two looks of a candidate; a dead leader is followed at the latest after `duration_s` and one look."""
        return self.retry_period_s / 2.5


class Write(Struct, frozen=True):
    """Write `spec` over this version of the Lease; over `None`: create it."""

    spec: LeaseSpec
    over: Lease | None


class Election:
    """One candidate. The caller carries out `next` at `due_s`, and reports the result by one of four methods."""

    def __init__(self, identity: str, times: LeaseTimes, *, rng: random.Random) -> None:
        self.identity, self.times, self._rng = identity, times, rng
        self.due_s = _NEVER
        self._lease: Lease | None = None
        self._outdated, self._refused_before = True, False
        self._free_at_s = _NEVER  # From when on we may take it, by what we saw
        self._renewed_s = _NEVER  # When the write was sent by which we hold it
        self._unanswered: list[tuple[Write, float]] = []  # Writes whose outcome is not known, and when each was sent
        self._last_us = 0

    @property
    def lead_until_s(self) -> float:
        """Until when we lead unless it is renewed."""
        return self._renewed_s + self.times.renew_deadline_s

    @property
    def write_until_s(self) -> float:
        """Until when everything must be over that was sent while we led."""
        return self._renewed_s + self.times.write_s

    def leading(self, now_s: float) -> bool:
        """Whether we lead, by our own clock alone."""
        return now_s < self.lead_until_s

    @property
    def lease(self) -> LeaseSpec | None:
        """What the Lease said when we last heard of it."""
        return None if self._lease is None else self._lease.spec

    def next(self, *, now_s: float, wall_us: int) -> Write | None:
        """What to write now; `None`: the Lease is to be read. `wall_us` is only for people who read it."""
        if self._outdated or not (self._is_mine or now_s >= self._free_at_s):
            return None
        return Write(self._renewal(wall_us), self._lease)

    def release(self, *, wall_us: int) -> Write | None:
        """The write that gives the Lease back; `None`: it is not ours to give. We do not lead from now on."""
        mine = self._lease if self._is_mine and not self._outdated else None
        self._renewed_s, self._outdated = _NEVER, True
        return None if mine is None else Write(replace(self._renewal(wall_us), holder="", duration_s=1), mine)

    def was_read(self, lease: Lease | None, *, sent_s: float, now_s: float) -> None:
        """The Lease was read; `None`: there is none."""
        led, before, self._lease = self.leading(now_s), self._lease, lease
        for write, sent_s in self._unanswered:
            if lease is not None and lease.spec == write.spec:
                self._renewed_s = max(sent_s, self._renewed_s)
        version = lease and lease.version
        self._unanswered = [sent for sent in self._unanswered if (sent[0].over and sent[0].over.version) == version]
        if not self._is_mine:
            self._renewed_s = _NEVER
        if lease is None:
            if led:
                self._free_at_s = _NEVER
            elif before is not None:  # its holder may have renewed it just before
                self._free_at_s = now_s + (before.spec.duration_s or self.times.duration_s)
        elif before is None or before.spec != lease.spec:
            waits = lease.spec.holder not in ("", self.identity)
            self._free_at_s = now_s + (lease.spec.duration_s or self.times.duration_s) if waits else _NEVER
        self._outdated = False
        later_s = now_s if self._is_mine else sent_s + self.times.look_period_s
        self.due_s = max(now_s, min(later_s, self._free_at_s))

    def was_written(self, stored: Lease, *, sent_s: float) -> None:
        """A write succeeded: we hold the Lease from the moment it was sent."""
        self._lease, self._renewed_s, self._unanswered = stored, sent_s, []
        self._outdated = self._refused_before = False
        self._free_at_s = _NEVER
        self.due_s = sent_s + self.times.retry_period_s

    def was_refused(self, *, sent_s: float, now_s: float) -> None:
        """The Lease changed or vanished before our write: read it, at once unless that happened just before."""
        self._outdated = True
        self.due_s = max(now_s, sent_s + self._pause_s()) if self._refused_before else now_s
        self._refused_before = True

    def has_failed(self, call: Write | None, *, sent_s: float, now_s: float) -> None:
        """No usable answer: a write may have taken effect, or may still."""
        if call is not None:
            self._unanswered = [*self._unanswered, (call, sent_s)][-16:]  # one that is forgotten does not count
        self._outdated = True
        self.due_s = max(now_s, sent_s + self._pause_s())

    @property
    def _is_mine(self) -> bool:
        return self._lease is not None and self._lease.spec.holder == self.identity

    def _renewal(self, wall_us: int) -> LeaseSpec:
        self._last_us = max(wall_us, self._last_us + 1)
        # What the API calls MicroTime: RFC 3339 with exactly six digits, so that what was written is read again
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=self._last_us)
        now = moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = self.lease
        if spec is not None and self._is_mine:
            return replace(spec, duration_s=self.times.duration_s, renewed=now)
        transitions = 0 if spec is None else spec.transitions + 1
        return LeaseSpec(self.identity, self.times.duration_s, now, now, transitions)

    def _pause_s(self) -> float:
        return self.times.retry_period_s * (1.0 + 0.2 * self._rng.random())  # so that candidates do not come together
