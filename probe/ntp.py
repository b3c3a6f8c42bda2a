"""Time as STAMP packets carry it: 64 bits, seconds since 1900 and their fraction of 2^-32 (RFC 5905).

Differences are computed in these units, modulo 2^64, so that the end of the era in 2036 changes nothing.
"""

from typing import Final

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
