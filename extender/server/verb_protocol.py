"""A connection that answers kube-scheduler's calls itself, and leaves everything else to uvicorn.

Why: between socket and service an ASGI server makes a task, a scope, two channels and a second task that watches for
a hang-up: most of the CPU of a call that is answered from memory. `python -m bench.http_cpu` has 21 µs of CPU a call on
a kept connection where uvicorn's own takes 51, and 55 where it takes 93 for a bind that is held on a new one (medians
of three rounds; two cores, beside other work).

Rules:
- Answered here is what is plainly a call of a verb (`request_head`) on a connection that has had nothing else. At the
  first doubt (another path or method, half a head, chunks, a second request before the first is answered, an answer
  that no client reads) the connection and every byte not answered yet are handed over to uvicorn's own protocol, for
  good. So nothing here needs to understand HTTP, and what is unusual behaves as uvicorn and `app` have it.
- What is said and counted is `dispatch`'s; how it looks on the wire is as uvicorn would have written it.
- An answer from memory costs no task, one that takes time costs one. A hang-up is heard by `connection_lost`.
- uvicorn's promises stay: at shutdown an idle connection ends at once and one with a call when that is answered, with
  `Connection: close`; calls that take longer than the drain are cancelled. How long a connection may be idle, or take
  for a head, and how many there may be, is for `connections` to say (docs/safety.md S28).

What of uvicorn is relied on beyond its documents: what a protocol is made with, and `connections`, `tasks`,
`default_headers` and `total_requests` of the server's state.
"""

import asyncio
from collections.abc import Coroutine, Mapping
from time import perf_counter
from typing import Any, Final, cast
from weakref import WeakKeyDictionary

from uvicorn import Config
from uvicorn.server import ServerState

from extender.server.app import App
from extender.server.connections import Connection, Connections, PortLimits, State
from extender.server.dispatch import GONE, Dispatch, Reply, Verb
from extender.server.document_protocol import DocumentProtocol
from extender.server.request_head import HEAD_MAX_BYTES, Head, read_head

_AHEAD_MAX_BYTES: Final = 65536  # Kept of a client that goes on sending before it is answered; then it has to wait
_STATUS_OK: Final = b"HTTP/1.1 200 OK\r\n"
_STATUS_BROKEN_OFF: Final = b"HTTP/1.1 500 Internal Server Error\r\n"
_BROKEN_OFF: Final = b"Internal Server Error"


class VerbProtocol(asyncio.Protocol):
    """One connection: `uvicorn.Config(app, http=VerbProtocol)`. Any app but `App` gets uvicorn's own protocol."""

    # Defaults of the class: a connection for one call, as most held ones have, pays for what it uses.
    _transport: asyncio.Transport
    _counted: Connection
    _gone: asyncio.Future[None]  # Done when the caller hangs up while it is being answered
    _dispatch: Dispatch
    _head: Head
    _began_s = 0.0
    _verb: Verb | None = None  # The verb that is being called; `None`: the connection is idle
    _body = bytearray()
    _task: asyncio.Task[None] | None = None  # What answers the call, if that takes time
    _ahead = b""  # What came after the call that is being answered
    _late_timer: asyncio.TimerHandle | None = None
    _write_paused = False
    _ending = False  # The server shuts down: the call under way is the last one

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self._loop = _loop or asyncio.get_running_loop()
        self._made_with = (config, server_state, app_state)
        self._server = server_state
        self._connections = cast("set[object]", server_state.connections)  # typed as uvicorn's own protocols
        self._port = port_of(config)
        self._verbs: Mapping[str, Verb] = {}  # path → verb; none where the app is not `App`
        if isinstance(config.app, App):
            self._dispatch, self._verbs = config.app.dispatch, config.app.dispatch.by_path

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client connected."""
        self._transport = cast("asyncio.Transport", transport)
        self._gone = self._loop.create_future()
        self._counted = self._port.opened(self._transport, self._end)
        self._connections.add(self)

    def data_received(self, data: bytes) -> None:
        """A call, more of its body, or something for uvicorn."""
        if self._transport.is_closing():
            return
        if self._verb is None:
            self._begin(data)
        elif self._task is None:
            self._collect(data)
        else:
            self._ahead += data
            if len(self._ahead) > _AHEAD_MAX_BYTES:
                self._transport.pause_reading()
            self._port.keep(self._counted, len(self._ahead))

    def connection_lost(self, exc: Exception | None) -> None:
        """The client hung up, or we did."""
        self._connections.discard(self)
        self._port.closed(self._counted)
        self._cancel_timer()
        if self._task is not None:
            self._gone.set_result(None)
        elif self._verb is not None:
            self._reply(self._verb, GONE)

    def pause_writing(self) -> None:
        """The client does not read its answers."""
        self._write_paused = True
        if self._verb is None:
            self._move(State.UNREAD)
            self._port.keep(self._counted, self._transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        """It does again."""
        self._write_paused = False
        if self._verb is None and not self._transport.is_closing():
            self._port.keep(self._counted, 0)
            self._move(State.KEPT)

    def shutdown(self) -> None:
        """End now, or with the answer to the call that is under way; uvicorn's server says this to each connection."""
        if self._verb is None:
            self._transport.close()
        else:
            self._ending = True

    def _begin(self, data: bytes) -> None:
        end = data.find(b"\r\n\r\n", 0, HEAD_MAX_BYTES) + 4
        head = read_head(data[:end]) if end > 3 else None
        verb = self._verbs.get(head.path) if head is not None and not self._write_paused else None
        if verb is None or head is None:
            return self._hand_over(data)
        dispatch = self._dispatch
        self._began_s = perf_counter()
        self._verb, self._head = verb, head
        missing_bytes = head.body_bytes + end - len(data)
        if head.body_bytes > dispatch.serving.max_body_bytes:
            self._reply(verb, dispatch.too_large(verb))
        elif missing_bytes > 0:
            self._body = bytearray(data[end:])
            self._move(State.BODY)
            late = dispatch.too_late(verb)
            self._late_timer = self._loop.call_later(dispatch.serving.body_timeout_s, self._reply, verb, late)
        else:
            self._ahead = data[end + head.body_bytes :]
            self._answer(verb, data[end : end + head.body_bytes])

    def _collect(self, data: bytes) -> None:
        """More of a body; it grows in place, because a list of pieces that come byte by byte would be many times it."""
        missing_bytes = self._head.body_bytes - len(self._body)
        self._body += data[:missing_bytes]
        if len(data) < missing_bytes:
            self._port.keep(self._counted, len(self._body))
            return
        self._ahead = data[missing_bytes:]
        self._cancel_timer()
        body, self._body = bytes(self._body), bytearray()
        assert self._verb is not None
        self._answer(self._verb, body)

    def _answer(self, verb: Verb, body: bytes) -> None:
        answer = self._dispatch.answer(verb, body, self._gone, marked=self._head.marked, curl=self._head.curl)
        if isinstance(answer, Reply):
            self._reply(verb, answer)
            return
        self._move(State.CALL)
        self._task = self._loop.create_task(self._answer_in_time(verb, answer))
        self._server.tasks.add(self._task)

    async def _answer_in_time(self, verb: Verb, answer: Coroutine[Any, Any, Reply]) -> None:
        """Await the answer and send it from the same step of the task: gangs are answered in bursts."""
        try:
            reply = await answer
        except asyncio.CancelledError:  # longer than the drain: not answered as if it were decided
            if not self._transport.is_closing():
                self._write(_STATUS_BROKEN_OFF, b"text/plain; charset=utf-8", _BROKEN_OFF, last=True)
            raise
        finally:
            assert self._task is not None
            self._server.tasks.discard(self._task)
            self._task = None
        self._reply(verb, reply)

    def _reply(self, verb: Verb, reply: Reply) -> None:
        self._verb = None
        heard = reply is not GONE and not self._transport.is_closing()
        if heard:
            self._write(_STATUS_OK, b"application/json", reply.body, last=reply.last or self._ending)
        self._dispatch.done(verb, reply, duration_s=perf_counter() - self._began_s)
        if self._ahead and heard:
            self._hand_over(self._ahead)

    def _write(self, status: bytes, content_type: bytes, body: bytes, *, last: bool) -> None:
        common = [b"%b: %b\r\n" % header for header in self._server.default_headers]
        about = b"content-type: %b\r\ncontent-length: %d\r\n" % (content_type, len(body))
        end = b"connection: close\r\n\r\n" if last else b"\r\n"
        self._transport.writelines((b"".join((status, *common, about, end)), body))
        self._server.total_requests += 1
        if last:
            self._transport.close()
            self._move(State.UNREAD)
            return
        if not self._write_paused:
            self._move(State.KEPT)
            if self._counted.bytes:
                self._port.keep(self._counted, 0)

    def _hand_over(self, data: bytes) -> None:
        """Let uvicorn's protocol have the connection, as if it had been its own when `data` came."""
        if self._transport.is_closing():
            return
        self._cancel_timer()
        self._connections.discard(self)
        theirs = DocumentProtocol(
            *self._made_with, self._loop, port=self._port, counted=self._counted, verbs=self._verbs
        )
        self._counted.on_end = theirs.end
        self._move(State.HEAD)
        theirs.connection_made(self._transport)
        self._transport.set_protocol(theirs)
        if self._write_paused:
            theirs.pause_writing()
        if not self._transport.is_reading():
            self._transport.resume_reading()
        theirs.data_received(data)

    def _move(self, state: State) -> None:
        self._port.move(self._counted, state, now_s=self._loop.time())

    def _end(self) -> None:
        """End for want of time or room; half a body gets a reason."""
        self._cancel_timer()
        if self._verb is not None and self._task is None:
            self._reply(self._verb, self._dispatch.too_much(self._verb))
        elif self._transport.get_write_buffer_size():
            self._transport.abort()
        else:
            self._transport.close()

    def _cancel_timer(self) -> None:
        if self._late_timer is not None:
            self._late_timer.cancel()
            self._late_timer = None


PORTS: Final[WeakKeyDictionary[Config, Connections]] = WeakKeyDictionary()
"""A server's configuration → what counts its connections; set before it listens"""


def port_of(config: Config) -> Connections:
    """What counts the connections of a server; without limits of its own it has the usual ones and its idle time."""
    found = PORTS.get(config)
    if found is None:
        idle_s = config.timeout_keep_alive
        found = PORTS[config] = Connections(PortLimits(idle_s=idle_s, kept_s=idle_s))
    return found
