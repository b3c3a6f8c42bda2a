"""A connection without a network: what a protocol is told is what the test says, and what it writes is kept."""

import asyncio
from collections.abc import Iterable
from typing import Any


class FakeTransport(asyncio.Transport):
    def __init__(self, protocol: asyncio.Protocol) -> None:
        super().__init__({"peername": ("127.0.0.1", 40000), "sockname": ("127.0.0.1", 8888)})
        self.protocol = protocol  # who has the connection now
        self.written = b""
        self.writes = 0  # how often something was written
        self._closing = False
        self._reading = True
        protocol.connection_made(self)

    def feed(self, data: bytes) -> None:
        """Bytes of the client arrive, unless nobody listens any more."""
        if not self._closing:
            assert self._reading, "what comes while reading is paused would wait in the kernel"
            self.protocol.data_received(data)

    def end(self, error: Exception | None = None) -> None:
        self._closing = True
        self.protocol.connection_lost(error)

    def write(self, data: Any) -> None:
        self.writelines([data])

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        if not self._closing:
            self.written += b"".join(list_of_data)
            self.writes += 1

    def close(self) -> None:
        """Close; the protocol hears of it in the loop's next turn, as from a real one."""
        if not self._closing:
            self._closing = True
            asyncio.get_running_loop().call_soon(self.protocol.connection_lost, None)

    def abort(self) -> None:
        """Close; what is not read by the client is lost."""
        self.close()

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return self._closing

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        self._reading = True

    def is_reading(self) -> bool:
        return self._reading and not self._closing

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        assert isinstance(protocol, asyncio.Protocol)
        self.protocol = protocol
