"""The machine's clocks, and whether its time is known to be right."""

import ctypes
import time
from typing import Final

_UNSYNCHRONIZED: Final = 0x40
_CLOCK_ERROR: Final = 5
_UNKNOWN_S: Final = 16.0  # What the kernel itself says of a clock that is not disciplined (NTP_PHASE_LIMIT)


class Clock:
    """The machine's."""

    def monotonic_s(self) -> float:
        """Seconds that never go back."""
        return time.monotonic()

    def unix_ns(self) -> int:
        """Nanoseconds since 1970, the clock of the kernel's receive timestamps."""
        return time.time_ns()


class _Timex(ctypes.Structure):
    """The beginning of Linux's struct timex, and room for its rest."""

    _fields_ = (
        ("modes", ctypes.c_uint), ("offset", ctypes.c_long), ("freq", ctypes.c_long), ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long), ("status", ctypes.c_int), ("rest", ctypes.c_byte * 256),
    )  # fmt: skip


def clock_error() -> tuple[float, bool]:
    """(how wrong the clock may be in seconds, whether it is synchronised), as adjtimex(2) says without changing it.

    Not known (another system, a forbidden call): not synchronised.
    """
    found = _Timex()
    try:
        state = ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.byref(found))
    except (OSError, AttributeError):
        return _UNKNOWN_S, False
    if state < 0 or state == _CLOCK_ERROR or found.status & _UNSYNCHRONIZED:
        return _UNKNOWN_S, False
    return found.maxerror / 1e6, True
