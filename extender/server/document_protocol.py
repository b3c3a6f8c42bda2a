"""uvicorn's protocol with bounds: what is not plainly a call of a verb, at all ports.

Why: uvicorn bounds neither how long a head or a body takes, nor how large a head is, how many headers or pieces of a
body it has, nor how many requests may come at once; and a body that dribbles in after its answer keeps a connection
without end. Rule (docs/safety.md S28): what is out of bounds ends the connection, by 400 where that can be said; within
them every byte is uvicorn's. Time and room are `connections`', the order of documents `document_line`'s.
"""

import asyncio
from collections.abc import Container
from typing import Any, Final

from starlette.types import ASGIApp
from uvicorn import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from extender.server.connections import Connection, Connections, State

_HEAD_MAX_BYTES: Final = 65536
_HEADERS_MAX: Final = 256
_PIPELINE_MAX: Final = 512  # Requests behind one that is being answered; 64 kB of a verb's calls are fewer
_REQUEST_BYTES: Final = 4096  # What a request that waits costs besides its body
_PIECES_FREE: Final = 1024
_PIECE_LEAST_BYTES: Final = 64  # Mean beyond `_PIECES_FREE`: each piece costs as much as a small request


class DocumentProtocol(HttpToolsProtocol):
    """One connection that another protocol hands over, as the port counts it."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        port: Connections,
        counted: Connection,
        verbs: Container[str],
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._port = port
        self._counted = counted
        self._verbs = verbs
        self._head_bytes = 0
        self._headers = 0
        self._pieces = 0
        self._body_bytes = 0
        self._reads = State.IDLE  # HEAD or BODY: of a request that is not whole; IDLE: of none

    def data_received(self, data: bytes) -> None:
        """More of a request, or several."""
        if self._reads is not State.BODY:
            self._head_bytes += len(data)
        super().data_received(data)
        if self._reads is State.HEAD and self._head_bytes > _HEAD_MAX_BYTES and not self.transport.is_closing():
            self.send_400_response("Request head too large.")
        self._settle()

    def pause_writing(self) -> None:
        """The client does not read its answers."""
        super().pause_writing()
        self._settle()

    def resume_writing(self) -> None:
        """It does again."""
        super().resume_writing()
        self._settle()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone."""
        self._port.closed(self._counted)
        super().connection_lost(exc)

    def end(self) -> None:
        """End for want of time or room."""
        if self.transport.get_write_buffer_size():
            self.transport.abort()
        else:
            self.transport.close()

    def on_message_begin(self) -> None:
        """A request begins."""
        if len(self.pipeline) >= _PIPELINE_MAX:
            raise _OutOfBoundsError("too many requests at once")
        self._reads, self._headers = State.HEAD, 0
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header."""
        self._headers += 1
        if self._headers > _HEADERS_MAX:
            raise _OutOfBoundsError("too many headers")
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """A head is whole."""
        self._reads, self._head_bytes, self._body_bytes, self._pieces = State.BODY, 0, 0, 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """A piece of a body."""
        self._pieces += 1
        self._body_bytes += len(body)
        if self._pieces > _PIECES_FREE and self._body_bytes < self._pieces * _PIECE_LEAST_BYTES:
            raise _OutOfBoundsError("too many small pieces of a body")
        super().on_body(body)

    def on_message_complete(self) -> None:
        """A request is whole."""
        self._reads = State.IDLE
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """An answer is written."""
        super().on_response_complete()
        self._body_bytes = 0
        self._settle()

    def _should_upgrade_to_ws(self) -> bool:
        """There are no websockets here, and theirs would not be counted."""
        return False

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGIApp) -> None:  # type: ignore[override]
        if cycle.scope["path"] in self._verbs:
            super()._start_asgi_task(cycle, app)  # type: ignore[arg-type]
        else:
            self._port.documents.enter(lambda: self._begin(cycle, app))

    def _begin(self, cycle: RequestResponseCycle, app: ASGIApp) -> bool:
        if cycle.disconnected:
            return False
        super()._start_asgi_task(cycle, app)  # type: ignore[arg-type]
        return True

    def _settle(self) -> None:
        kept_bytes = self._body_bytes + len(self.pipeline) * _REQUEST_BYTES
        answers = self.cycle is not None and not self.cycle.response_complete
        if self.transport.is_closing() or self.flow.write_paused:
            state = State.UNREAD
            kept_bytes += self.transport.get_write_buffer_size()
        elif self._reads is not State.IDLE:
            state = self._reads
        elif answers:
            state = State.CALL if self.cycle.scope["path"] in self._verbs else State.ASKED
        else:
            state = State.IDLE
        self._port.move(self._counted, state, now_s=self.loop.time())
        if kept_bytes != self._counted.bytes:
            self._port.keep(self._counted, kept_bytes)


class _OutOfBoundsError(Exception):
    """A request that no client of ours sends; the parser stops at it, and uvicorn answers 400."""
