"""The machine's clocks, and a UDP socket that knows when the kernel received each datagram and how many it dropped.

Linux says both beside the datagram (SO_TIMESTAMPNS, SO_RXQ_OVFL; socket(7)), so that a datagram may wait until the
agent runs. Where the kernel does not, there is no agent: the time of reading would be a delay of the agent's.
"""

import ctypes
import socket
import struct
import time
from collections.abc import Iterator
from ipaddress import ip_address
from typing import Final

from probe import packets

_UNSYNCHRONIZED: Final = 0x40
_CLOCK_ERROR: Final = 5
_UNKNOWN_S: Final = 16.0  # What the kernel itself says of a clock that is not disciplined (NTP_PHASE_LIMIT)


class MachineClock:
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
    """(how wrong the clock may be in seconds, whether it is synchronised), as adjtimex(2) says; if it says it."""
    timex = _Timex()
    try:
        state = ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.byref(timex))
    except (OSError, AttributeError):
        return _UNKNOWN_S, False
    if state < 0 or state == _CLOCK_ERROR or timex.status & _UNSYNCHRONIZED:
        return _UNKNOWN_S, False
    return timex.maxerror / 1e6, True


_TIMESTAMPNS: Final = 35
_RXQ_OVFL: Final = 40
_TIMESPEC: Final = struct.Struct("@qq")
_DROPPED: Final = struct.Struct("@I")
_BUFFER_BYTES: Final = 1 << 20  # For while the agent does not run; the kernel gives no more than net.core.rmem_max
_ANCILLARY_BYTES: Final = 128
_AT_ONCE: Final = 4096


class UdpSocket:
    """Bound to (address, port); port 0: any. Errors: OSError, also where the kernel is not Linux's."""

    def __init__(self, address: str, port: int) -> None:
        self.dropped = 0  # Datagrams that the kernel dropped here, in all
        self.version = ip_address(address).version
        self._socket = socket.socket(socket.AF_INET if self.version == 4 else socket.AF_INET6, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        try:
            for option, value in ((socket.SO_RCVBUF, _BUFFER_BYTES), (_TIMESTAMPNS, 1), (_RXQ_OVFL, 1)):
                self._socket.setsockopt(socket.SOL_SOCKET, option, value)
            self._socket.bind((address, port))
        except OSError:
            self._socket.close()
            raise
        self.port: int = self._socket.getsockname()[1]

    def close(self) -> None:
        """Give the port back."""
        self._socket.close()

    def send(self, content: bytes, target: tuple[str, int]) -> bool:
        """Whether the kernel took it: it may have no route or no room."""
        try:
            self._socket.sendto(content, target)
        except OSError:
            return False
        return True

    def waiting(self) -> Iterator[tuple[bytes, tuple[str, int], int]]:
        """(content, (address, port), NTP timestamp of its arrival) of what is there, at most some thousands."""
        receive = self._socket.recvmsg
        for _ in range(_AT_ONCE):
            try:
                content, ancillary, _, source = receive(packets.BYTES + 1, _ANCILLARY_BYTES)
            except OSError:  # BlockingIOError: no more; others are about what we sent
                return
            arrived = None
            for _, kind, value in ancillary:
                if kind == _TIMESTAMPNS:
                    arrived = packets.from_timespec(*_TIMESPEC.unpack_from(value))
                elif kind == _RXQ_OVFL:
                    self.dropped = _DROPPED.unpack_from(value)[0]
            if arrived is not None:
                yield content, source[:2], arrived
