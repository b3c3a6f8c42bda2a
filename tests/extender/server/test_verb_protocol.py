"""A connection's own protocol: it answers what is plainly a call, as uvicorn would, and leaves uvicorn the rest."""

import asyncio
import inspect
import json
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest
import uvicorn
from hypothesis import given
from hypothesis import strategies as st
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import Server, ServerState

from extender.runtime.telemetry import Telemetry
from extender.server.app import App
from extender.server.dispatch import Callers, Dispatch, Serving, Supervisor
from extender.server.verb_protocol import VerbProtocol
from scoring.model.reasons import Reason
from tests.extender.server.served import Holding
from tests.fakes.transport import FakeTransport
from tests.fakes.verbs import ARGS, BINDING, FakeVerbs

ASK, BIND = json.dumps(ARGS).encode(), json.dumps(BINDING).encode()
MAX_BODY_BYTES = 1_000
_TURNS = 10  # turns of the event loop in which the slowest answer is made


def call(path: str, body: bytes, *headers: str, length: int | None = None, version: str = "1.1") -> bytes:
    """The bytes of a POST; `length`: another one than the body's own."""
    length_line = f"Content-Length: {len(body) if length is None else length}"
    lines = [f"POST {path} HTTP/{version}", "Host: netgang", "User-Agent: Go-http-client/1.1", length_line, *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


def chunked(path: str, body: bytes) -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: netgang\r\nTransfer-Encoding: chunked\r\n\r\n"
    return head.encode() + b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)


def get(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: netgang\r\n\r\n".encode()


@dataclass
class Side:
    transport: FakeTransport
    state: ServerState
    telemetry: Telemetry
    verbs: FakeVerbs

    @property
    def ours(self) -> bool:
        return isinstance(self.transport.protocol, VerbProtocol)

    async def settle(self) -> None:
        for _ in range(_TURNS):
            await asyncio.sleep(0)

    def outcomes(self) -> dict[tuple[str, ...], float]:
        """(metric, its labels) → value, of what is counted per call."""
        return {
            (sample.name, *sorted(sample.labels.values())): sample.value
            for family in self.telemetry.registry.collect()
            for sample in family.samples
            if sample.name.endswith("_total") and "created" not in sample.name and "process" not in sample.name
        }


async def documents(scope: Any, receive: Any, send: Any) -> None:
    """A document for every path; those of the real app take half the time of a test to build."""
    body = f"{scope['method']} {scope['path']}\n".encode()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
    await send({"type": "http.response.body", "body": body})


def connect(protocol: Any = VerbProtocol, verbs: FakeVerbs | None = None, **options: Any) -> Side:
    telemetry, verbs = Telemetry(), verbs or FakeVerbs()
    serving = Serving(MAX_BODY_BYTES, options.pop("body_timeout_s", 5.0), Callers.SCHEDULER_AND_CURL)
    app = App(Dispatch(verbs, telemetry, Supervisor(telemetry), serving), documents)
    config = uvicorn.Config(app, http=protocol, log_config=None, **({"access_log": False} | options))
    config.load()
    state = ServerState()
    state.default_headers = [(b"date", b"Mon, 01 Sep 2025 12:00:00 GMT"), (b"x-served-by", b"netgang")]
    made = config.http_protocol_class(config=config, server_state=state, app_state={}, _loop=None)  # type: ignore[call-arg]
    return Side(FakeTransport(made), state, telemetry, verbs)


async def both(*pieces: bytes, verbs: Callable[[], FakeVerbs] = FakeVerbs) -> tuple[Side, Side]:
    """The same bytes to our protocol and to uvicorn's, each piece when all before are dealt with."""
    sides = connect(VerbProtocol, verbs()), connect("httptools", verbs())
    for side in sides:
        for piece in pieces:
            side.transport.feed(piece)
            await side.settle()
    return sides


def assert_alike(ours: Side, theirs: Side) -> None:
    assert ours.transport.written == theirs.transport.written
    assert ours.outcomes() == theirs.outcomes()
    assert ours.transport.is_closing() == theirs.transport.is_closing()


def fail(*_: object) -> Any:
    raise KeyError("secret")


async def refuse(*_: object) -> Reason:
    return Reason.POD_CHANGED


# -- answered here ----------------------------------------------------------------------------------------------------

PLAIN: dict[str, tuple[bytes, ...]] = {
    "filter": (call("/filter", ASK),),
    "prioritize": (call("/prioritize", ASK),),
    "bind": (call("/bind", BIND),),
    "marked": (call("/filter?debug", ASK), call("/bind?debug", BIND)),
    "curl": (call("/filter", ASK, "User-Agent: curl/8.5.0"), call("/bind", BIND, "User-Agent: curl/8.5.0")),
    "no nodes": (call("/filter", ASK.replace(b'["n1", "n2", "n3"]', b"[]")),),
    "malformed": (call("/filter", b"hello"), call("/prioritize", b"{"), call("/bind", b"[]"), call("/bind", b"")),
    "one after the other": (call("/filter", ASK), call("/bind", BIND), call("/prioritize", ASK)),
    "head, then body": (call("/bind", BIND)[: -len(BIND)], BIND),
    "byte by byte": (call("/bind", BIND)[: -len(BIND)], *(BIND[i : i + 1] for i in range(len(BIND)))),
    "too large": (call("/filter", b"{", length=MAX_BODY_BYTES + 1), b"more", b"and more"),
    "the largest": (call("/filter", b" " * MAX_BODY_BYTES),),
    "kept alive, it says": (call("/bind", BIND, "Connection: Keep-Alive"),),
    "odd headers": (call("/bind", BIND, "x-empty:", "X-Tab:\t a \t", "x-high: \xe9"),),
}


@pytest.mark.parametrize("pieces", PLAIN.values(), ids=PLAIN)
async def test_calls_are_answered_as_uvicorn_would(pieces: tuple[bytes, ...]) -> None:
    ours, theirs = await both(*pieces)
    assert_alike(ours, theirs)
    assert ours.transport.written.startswith(b"HTTP/1.1 200 OK\r\ndate: Mon")
    assert ours.state.total_requests == theirs.state.total_requests > 0
    assert ours.ours


SERVICES: dict[str, Callable[[], FakeVerbs]] = {
    "a bug": lambda: FakeVerbs(fail, fail, fail),
    "a refusal": lambda: FakeVerbs(on_bind=refuse),
    "behind the watch": lambda: FakeVerbs(on_caught_up=lambda _: asyncio.sleep(0)),
    "a bug behind the watch": lambda: FakeVerbs(fail, on_caught_up=lambda _: asyncio.sleep(0)),
}


@pytest.mark.parametrize("service", SERVICES.values(), ids=SERVICES)
async def test_the_service_s_answers_are_sent_as_uvicorn_would(service: Callable[[], FakeVerbs]) -> None:
    ours, theirs = await both(call("/filter", ASK), call("/prioritize", ASK), call("/bind", BIND), verbs=service)
    assert_alike(ours, theirs)
    assert ours.ours


async def test_an_answer_from_memory_costs_no_task_and_one_write() -> None:
    side = connect()
    before = asyncio.all_tasks()
    for number, verb in enumerate(("filter", "prioritize"), start=1):
        side.transport.feed(call(f"/{verb}", ASK))
        assert (side.transport.writes, asyncio.all_tasks()) == (number, before)
    side.transport.feed(call("/bind", BIND))
    assert len(asyncio.all_tasks() - before) == len(side.state.tasks) == 1
    await side.settle()
    assert (side.transport.writes, asyncio.all_tasks()) == (3, before)


# -- handed over ------------------------------------------------------------------------------------------------------

OTHERS: dict[str, tuple[bytes, ...]] = {
    "a document": (get("/healthz"),),
    "another method": (get("/filter"),),
    "another path": (call("/filter/", ASK),),
    "another query": (call("/filter?debugging", ASK), call("/bind?debug=1", BIND)),
    "a whole address": (call("http://netgang/bind", BIND),),
    "an escaped path": (call("/%62ind?debug", BIND),),
    "HTTP/1.0": (call("/bind", BIND, version="1.0"),),
    "the last call": (call("/bind", BIND, "Connection: close"),),
    "chunks": (chunked("/filter", ASK),),
    "chunks that are too many": (chunked("/filter", b"x" * (MAX_BODY_BYTES + 1)),),
    "both lengths": (call("/bind", BIND, "Transfer-Encoding: chunked"),),
    "two lengths": (call("/bind", BIND, f"Content-Length: {len(BIND)}"),),
    "no length": (b"POST /bind HTTP/1.1\r\nHost: netgang\r\n\r\n",),
    "a length that is none": (call("/bind", b"", "Content-Length: -1").replace(b"Content-Length: 0\r\n", b""),),
    "a length beyond any": (b"POST /bind HTTP/1.1\r\nContent-Length: " + b"9" * 30 + b"\r\n\r\n",),
    "asks first": (call("/bind", b"", "Expect: 100-continue", length=len(BIND)), BIND),
    "an upgrade": (call("/bind", BIND, "Connection: upgrade", "Upgrade: h2c"),),
    "half a head": (call("/bind", BIND)[:30], call("/bind", BIND)[30:]),
    "a huge head": (call("/bind", BIND, *(f"X-Header-{i}: {'x' * 50}" for i in range(200))),),
    "no HTTP": (b"hello\r\n\r\n",),
    "garbage": (bytes(range(256)),),
    "the start of TLS": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",),
    "a header that is none": (call("/bind", BIND, "no colon"),),
    "a header with a control character": (call("/bind", BIND, "x: \x01"),),
    "a header that goes on": (call("/bind", BIND, "x: y", " z"),),
    "a name with a blank": (call("/bind", BIND, "x y: z"),),
    "a blank before the colon": (call("/bind", b"", "Content-Length : 7").replace(b"Content-Length: 0\r\n", b""),),
    "bare newlines": (call("/bind", BIND).replace(b"\r\n", b"\n"),),
    "two at once": (call("/bind", BIND) + call("/filter", ASK),),
    "calls, then a document, then a call": (call("/bind", BIND), get("/healthz"), call("/filter", ASK)),
    "a body and the next call's start": (
        call("/bind", BIND)[:-9],
        BIND[-9:] + get("/healthz")[:9],
        get("/healthz")[9:],
    ),
}


@pytest.mark.parametrize("pieces", OTHERS.values(), ids=OTHERS)
async def test_what_is_unusual_is_uvicorn_s(pieces: tuple[bytes, ...]) -> None:
    ours, theirs = await both(*pieces)
    assert_alike(ours, theirs)
    assert isinstance(ours.transport.protocol, HttpToolsProtocol)
    assert len(ours.state.connections) == len(theirs.state.connections)


requests = st.lists(
    st.sampled_from(
        [
            call("/filter", ASK), call("/prioritize", ASK), call("/bind", BIND), call("/bind?debug", BIND),
            call("/filter", b"hello"), call("/bind", b""), chunked("/bind", BIND), get("/healthz"), get("/bind"),
            call("/filter", ASK, "Connection: close"), call("/filter", b"{", length=MAX_BODY_BYTES + 1),
        ]
    ),
    min_size=1,
    max_size=4,
)  # fmt: skip


@given(requests, st.lists(st.integers(0, 2**16), max_size=6))
async def test_cuts_do_not_matter(messages: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(messages)
    places = [0, *sorted({cut % len(stream) for cut in cuts}), len(stream)]
    pieces = [stream[a:b] for a, b in pairwise(places) if a < b]
    ours, theirs = await both(*pieces)
    assert_alike(ours, theirs)


async def test_a_client_that_does_not_read_is_uvicorn_s() -> None:
    side = connect()
    side.transport.protocol.pause_writing()
    side.transport.protocol.resume_writing()
    side.transport.feed(call("/filter", ASK))
    assert side.ours, "a pause that is over before the next call means nothing"
    before = side.transport.written
    side.transport.protocol.pause_writing()
    side.transport.feed(call("/filter", ASK))
    await side.settle()
    assert (side.ours, side.transport.written) == (False, before)
    side.transport.protocol.resume_writing()
    await side.settle()
    assert side.transport.written[len(before) :].startswith(b"HTTP/1.1 200 OK")


# -- held calls -------------------------------------------------------------------------------------------------------


async def held() -> tuple[Holding, Side]:
    holding = Holding()
    side = connect(verbs=holding.verbs())
    side.transport.feed(call("/bind", BIND))
    await holding.held.wait()
    return holding, side


async def test_a_flood_behind_a_held_call_is_stopped() -> None:
    holding, side = await held()
    more = call("/bind", BIND)
    count = 65536 // len(more) + 1
    for number in range(count):
        assert side.transport.is_reading(), number
        side.transport.feed(more)
    assert not side.transport.is_reading()
    holding.released.set()
    while side.transport.written.count(b'{"Error":""}') < count + 1:
        assert side.state.tasks
        await asyncio.wait(side.state.tasks)
        await asyncio.sleep(0)
    assert side.transport.is_reading()
    assert len(side.verbs.bound) == count + 1


async def test_an_answer_without_a_caller_is_not_sent() -> None:
    holding, side = await held()
    side.transport.end(ConnectionResetError())
    await side.settle()
    assert (holding.dropped.is_set(), side.transport.written) == (True, b"")
    assert side.outcomes()["netgang_requests_total", "bind", "gone"] == 1
    assert not side.state.tasks
    assert not side.state.connections


@pytest.mark.looptime
async def test_timers_end_with_the_connection() -> None:
    """Neither the body's nor the idle time goes on without one: it would keep the connection in memory."""
    loop = asyncio.get_running_loop()
    side = connect(body_timeout_s=50.0, timeout_keep_alive=100)
    side.transport.feed(call("/bind", BIND))
    await side.settle()
    side.transport.feed(call("/bind", BIND)[:-3])
    side.transport.end()
    assert side.outcomes()["netgang_requests_total", "bind", "gone"] == 1
    assert not [one for one in loop._scheduled if not one.cancelled()]  # type: ignore[attr-defined]


@pytest.mark.looptime
async def test_an_idle_connection_s_time_begins_anew_with_each_answer() -> None:
    holding = Holding()
    side = connect(verbs=holding.verbs(), timeout_keep_alive=100)
    for request in (call("/filter", ASK), call("/filter", ASK), call("/bind", BIND), get("/healthz")):
        side.transport.feed(request)
        if side.state.tasks and not holding.released.is_set():
            await asyncio.sleep(200)
            holding.released.set()
        await asyncio.sleep(99)
        assert not side.transport.is_closing()
    await asyncio.sleep(2)
    assert (side.transport.is_closing(), side.ours) == (True, False)


# -- what of uvicorn is relied on -------------------------------------------------------------------------------------


async def test_uvicorn_makes_protocols_as_ours_is_made() -> None:
    """`Server.startup` passes these four by name: without them no connection can be served, or none but plain calls."""
    names = ["config", "server_state", "app_state", "_loop"]
    for protocol in (VerbProtocol, HttpToolsProtocol):
        assert list(inspect.signature(protocol).parameters) == names
    assert all(f"{name}=" in inspect.getsource(Server.startup) for name in names)
    assert uvicorn.Config(lambda: None, http=VerbProtocol).http is VerbProtocol


def test_the_server_s_state_and_protocol_have_what_is_used() -> None:
    """If this breaks: the shutdown reaches no connection or call, `Date` is missing, or nothing can be handed over."""
    state, source = ServerState(), inspect.getsource(Server)
    assert (state.connections, state.tasks, state.default_headers, state.total_requests) == (set(), set(), [], 0)
    for used in ("connection.shutdown()", "in self.server_state.tasks", "self.server_state.default_headers ="):
        assert used in source
    for told in ("connection_made", "data_received", "connection_lost", "pause_writing", "resume_writing", "shutdown"):
        assert callable(getattr(HttpToolsProtocol, told))
        assert callable(getattr(VerbProtocol, told))


async def test_an_app_that_is_not_ours_gets_uvicorn_s_protocol() -> None:
    config = uvicorn.Config(documents, http=VerbProtocol, log_config=None, access_log=False)
    config.load()
    side = Side(FakeTransport(VerbProtocol(config, ServerState(), {})), ServerState(), Telemetry(), FakeVerbs())
    side.transport.feed(call("/bind", BIND))
    await side.settle()
    assert side.transport.written.endswith(b"POST /bind\n")
