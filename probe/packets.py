"""The packets that agents exchange, 44 bytes each: STAMP without authentication (RFC 8762), session id of RFC 8972.

    sender:     sequence 4 · timestamp 8 · error estimate 2 · session id 2 · zero 28
    reflector:  sequence 4 · timestamp 8 · error estimate 2 · session id 2 · receive timestamp 8
                · sender's sequence 4 · timestamp 8 · error estimate 2 · zero 6

Rule: an answer is exactly as long as its request, so that a forged source address gains nothing. Time is 64 bits,
seconds since 1900 and their fraction of 2^-32 (RFC 5905); differences are modulo 2^64, so the end of the era in 2036
changes nothing.

The reflector numbers the answers of each session from zero (RFC 8762, stateful): the sender sees from them which
packets came and which answers were lost. A session whose requests the agent's own full socket may have dropped begins
again at zero, as after a restart: the sender (`probe.session`) judges no further than that, and blames no link for it.
"""

import struct
from collections import OrderedDict
from collections.abc import Iterable
from typing import Final, NamedTuple

UNITS_PER_S: Final = 1 << 32
UNITS_PER_MS: Final = UNITS_PER_S / 1000.0
_MASK: Final = (1 << 64) - 1
_EPOCH_S: Final = 2_208_988_800  # from 1900 to 1970


def from_unix_ns(unix_ns: int) -> int:
    """NTP's 64 bits of a Unix time in nanoseconds.

    >>> hex(from_unix_ns(500_000_000))
    '0x83aa7e8080000000'
    """
    return from_timespec(*divmod(unix_ns, 1_000_000_000))


def from_timespec(seconds: int, rest_ns: int) -> int:
    """The same of seconds and nanoseconds, as the kernel says times."""
    return (((seconds + _EPOCH_S) << 32) | (rest_ns << 32) // 1_000_000_000) & _MASK


def between(earlier: int, later: int) -> int:
    """Units from one timestamp to another; negative if `later` is the earlier one.

    >>> between(from_unix_ns(0), from_unix_ns(1_500_000_000)) / UNITS_PER_S, between(1, 0), between(_MASK, 0)
    (1.5, -1, 1)
    """
    units = (later - earlier) & _MASK
    return units if units < 1 << 63 else units - (1 << 64)


BYTES: Final = 44
_SENDER: Final = struct.Struct("!IQHH28x")
_ANSWER: Final = struct.Struct("!IQH2sQ14s6x")  # As it is made: the sender's first 14 bytes as they came …
_REFLECTOR: Final = struct.Struct("!IQHHQIQ")  # … and as it is read
SYNCHRONIZED: Final = 0x8000  # Bit S of an error estimate: the clock is synchronised with UTC
MOST_OF_ONE: Final = 8  # Sessions of one address, of which netgang names 128 at most; one more costs it its own oldest


class ReflectorAnswer(NamedTuple):
    """What a reflector's packet says; timestamps are NTP's."""

    sequence: int
    timestamp: int
    error: int
    session_id: int
    received: int
    sender_sequence: int
    sender_timestamp: int


def request(sequence: int, timestamp: int, error: int, session_id: int) -> bytes:
    """A sender's packet."""
    return _SENDER.pack(sequence, timestamp, error, session_id)


def answer(datagram: bytes, *, sequence: int, error: int, received: int, now: int) -> bytes:
    """The reflector's packet for a sender's; `now` is when it is sent."""
    return _ANSWER.pack(sequence, now, error, datagram[14:16], received, datagram[:14])


def read_answer(datagram: bytes) -> ReflectorAnswer | None:
    """What a datagram says as a reflector's packet."""
    return ReflectorAnswer(*_REFLECTOR.unpack_from(datagram)) if len(datagram) == BYTES else None


def error_estimate(error_s: float, *, synchronized: bool) -> int:
    """The 16 bits that say how wrong a clock may be: multiplier · 2^scale · 2^-32 s, never less than the true value."""
    units, scale = max(int(min(error_s, 1e9) * (1 << 32)) + 1, 1), 0
    while units > 0xFF:
        units, scale = (units + 1) >> 1, scale + 1
    return (SYNCHRONIZED if synchronized else 0) | scale << 8 | units


def error_s(estimate: int) -> float:
    """Seconds that an error estimate stands for."""
    return float((estimate & 0xFF) * 2.0 ** ((estimate >> 8 & 0x3F) - 32))


class SessionReflector:
    """Answers requests. Cost: O(1) a datagram."""

    def __init__(self) -> None:
        self.error = error_estimate(1.0, synchronized=False)  # Of the clock, renewed by the agent
        self._allowed: frozenset[str] = frozenset()
        self._sessions: dict[str, OrderedDict[tuple[int, bytes], int]] = {}
        """address → (port, session id) → number of the next answer"""
        self._dropped = 0

    def allow(self, addresses: Iterable[str]) -> None:
        """Answer these addresses alone from now on."""
        self._allowed = frozenset(addresses)
        for address in self._sessions.keys() - self._allowed:
            del self._sessions[address]

    def note_dropped(self, total: int) -> None:
        """Take how many datagrams the kernel has dropped for want of room in the agent's own socket."""
        if total != self._dropped:
            self._dropped = total
            self._sessions.clear()

    def answer(self, datagram: bytes, source: tuple[str, int], *, received: int, now: int) -> bytes | None:
        """The answer to an address and port; `None`: there is none. `received` and `now` are NTP timestamps."""
        address, port = source
        if address not in self._allowed or len(datagram) != BYTES:
            return None
        mine = self._sessions.setdefault(address, OrderedDict())
        session = port, datagram[14:16]
        sequence = mine.pop(session, 0)
        mine[session] = (sequence + 1) & 0xFFFFFFFF
        if len(mine) > MOST_OF_ONE:
            mine.popitem(last=False)
        return answer(datagram, sequence=sequence, error=self.error, received=received, now=now)
