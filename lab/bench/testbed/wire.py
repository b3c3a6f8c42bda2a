"""Move whole arrays over several TCP connections at once, until a deadline.

Why: a parameter server hears all workers at the same time; done one after the other, it would measure our own waiting.
Rule: sizes are known on both ends, so nothing but numbers is sent.
"""

import selectors
import socket
import struct
from collections.abc import Iterator, Sequence
from contextlib import suppress
from time import monotonic
from typing import Final

import msgspec
import numpy as np

from lab.bench.testbed.model import Floats

CONGESTION: Final = b"cubic"
"""What a stock Linux sends with. Some kernels' default (bbr) takes random loss for no sign of congestion."""


class OutOfTime(Exception):
    """The deadline passed before everything was moved."""


class Meter(msgspec.Struct):
    """What was moved so far."""

    deadline_s: float
    """By `monotonic`."""
    received_bytes: int = 0
    sent_bytes: int = 0


class Flow(msgspec.Struct):
    """What is left to do on one connection; both ways at once."""

    out: list[memoryview] = []
    into: list[memoryview] = []

    @classmethod
    def of(cls, *, send: Sequence[Floats] = (), receive: Sequence[Floats] = ()) -> "Flow":
        """These arrays in this order, each way for itself, without empty ones: to read nothing looks like an end."""
        return cls([_bytes_of(one) for one in send if one.size], [_bytes_of(one) for one in receive if one.size])

    @property
    def events(self) -> int:
        """What to wait for, in `selectors`' numbers; 0: all is moved."""
        return (selectors.EVENT_WRITE if self.out else 0) | (selectors.EVENT_READ if self.into else 0)


def transfer(
    meter: Meter,
    *,
    send: Sequence[tuple[socket.socket, Floats]] = (),
    receive: Sequence[tuple[socket.socket, Floats]] = (),
) -> None:
    """Send and fill all these arrays, in any order that the network allows; sockets must not block.

    Errors: OutOfTime at the deadline; ConnectionError when an end is gone.
    """
    arrays: dict[socket.socket, tuple[list[Floats], list[Floats]]] = {}
    for one, array in send:
        arrays.setdefault(one, ([], []))[0].append(array)
    for one, array in receive:
        arrays.setdefault(one, ([], []))[1].append(array)
    for _ in moved(meter, {one: Flow.of(send=out, receive=into) for one, (out, into) in arrays.items()}):
        pass


def moved(meter: Meter, flows: dict[socket.socket, Flow]) -> Iterator[socket.socket]:
    """Move everything; gives each connection as soon as its own flow is done.

    The caller may put a new flow for the connection into `flows`, which then begins at once; it ends when no flow
    is left. Errors: as `transfer`.
    """
    with selectors.DefaultSelector() as selector:
        for one, flow in flows.items():
            if flow.events:
                selector.register(one, flow.events, one)
        while selector.get_map():
            left_s = meter.deadline_s - monotonic()
            if left_s <= 0.0:
                raise OutOfTime
            for key, ready in selector.select(left_s):
                connection: socket.socket = key.data
                flow = flows[connection]
                if ready & selectors.EVENT_WRITE:
                    _send(connection, flow, meter)
                if ready & selectors.EVENT_READ:
                    _receive(connection, flow, meter)
                if not flow.events:
                    yield connection
                events = flows[connection].events
                if not events:
                    selector.unregister(connection)
                elif events != key.events:
                    selector.modify(connection, events, connection)


def _send(connection: socket.socket, flow: Flow, meter: Meter) -> None:
    try:
        count = connection.send(flow.out[0])
    except BlockingIOError:
        return
    meter.sent_bytes += count
    flow.out[0] = flow.out[0][count:]
    if not flow.out[0]:
        del flow.out[0]


def _receive(connection: socket.socket, flow: Flow, meter: Meter) -> None:
    try:
        count = connection.recv_into(flow.into[0])
    except BlockingIOError:
        return
    if count == 0:
        raise ConnectionResetError("the other end is gone")
    meter.received_bytes += count
    flow.into[0] = flow.into[0][count:]
    if not flow.into[0]:
        del flow.into[0]


def _bytes_of(array: Floats) -> memoryview:
    if array.dtype != np.float32 or not array.flags.c_contiguous:
        raise ValueError("only contiguous float32 arrays are sent as they are")
    return array.data.cast("B")


def prepared(connection: socket.socket) -> socket.socket:
    """The connection as training uses it: not blocking, no delay of small segments, an end that sends nothing more."""
    prefer_cubic(connection)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.setblocking(False)
    return connection


def prefer_cubic(connection: socket.socket) -> str:
    """Use the stock congestion control where the kernel has it and we may; gives the name of the one in use."""
    with suppress(OSError):  # the name that is returned says so, and the report prints it
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, CONGESTION)
    name = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16)
    return name.rstrip(b"\0").decode()
