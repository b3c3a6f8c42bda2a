"""Exchanges and streams over a real socket: what is an answer, what is never repeated, limits, and whom we trust."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, nullcontext
from http import HTTPStatus
from itertools import pairwise
from typing import TypeAlias
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyreqwest.exceptions import CauseErrorDetails, ConnectError

from extender.errors import ApiError, ApiUnavailableError, ConflictError, GoneError, NotFoundError
from extender.kube.calls import PODS
from extender.kube.credentials import ApiServer, Authorization, Tls, Token
from extender.kube.transport import Transport, mapped, refusal, refusal_in_stream, split_lines
from extender.ports import SystemClock
from lab.testbed.apiserver.server import Fault, LoopbackApi
from tests.authority import Authority, Pair
from tests.extender.conftest import Certificates
from tests.extender.kube.conftest import server_of
from tests.extender.kube.scripted import OK, Talk, always_ok, answering, ok, scripted

Found: TypeAlias = tuple[str, str, int]


def transport(url: str, *, token: str = "", concurrency: int = 4, **fields: str) -> Transport:
    return Transport(server_of(url, token=token, **fields), concurrency=concurrency, agent="test")


def serves(pair: Pair, *, clients: Authority | None = None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.cert, pair.key)
    if clients is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(clients.cert)
    return context


def secure(url: str, ours: Authority, *, own: Pair | None = None, found_at: Found | None = None) -> Transport:
    identity = own.cert.read_bytes() + own.key.read_bytes() if own is not None else b""
    tls = Tls(ours.cert, identity, found_at=found_at)
    return Transport(server_of(url, tls=tls), agent="test")


HEAD = b"HTTP/1.1 200 OK\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
FAILED = b"HTTP/1.1 409 Conflict\r\n" + ok(b'{"message":"busy"}').removeprefix(HEAD)


async def test_a_failure_is_an_answer() -> None:
    failing = answering(FAILED, then=always_ok)
    async with scripted(failing, host="::1") as server, transport(server.url) as one:
        with pytest.raises(ApiError, match="409: busy"):
            await one.send("GET", "/x", timeout_s=10.0)
        assert await one.send("GET", "/y", timeout_s=10.0) == b"ok"
    assert server.connections == 1
    assert f"\r\nHost: {server.url.removeprefix('http://')}\r\n" in server.requests[0][0]


BROKEN: dict[str, tuple[str, Sequence[bytes]]] = {  # case: (words of the error, parts before the server closes)
    "nothing": ("connection closed before message completed", []),
    "half a body": ("end of file before message length reached", [HEAD + b"Content-Length: 5\r\n\r\nhel"]),
    "no last chunk": ("error reading a body", [CHUNKED + b"5\r\nhello\r\n"]),
    "another protocol": ("invalid HTTP version", [b"SSH-2.0-OpenSSH_9.6\r\n"]),
    "a head without end": ("message head is too large", [HEAD, *[b"X: " + b"x" * 5000 + b"\r\n"] * 120]),
    "longer than allowed": ("longer than 100000 bytes", [CHUNKED, *[b"3E8\r\n" + b"x" * 1000 + b"\r\n"] * 300]),
}


@pytest.mark.parametrize(("want", "parts"), BROKEN.values(), ids=BROKEN)
async def test_what_is_no_answer(want: str, parts: Sequence[bytes]) -> None:
    async with scripted(answering(*parts, later=always_ok)) as server, transport(server.url) as one:
        with pytest.raises(ApiUnavailableError, match=want):
            await one.send("POST", "/x", body=b"{}", timeout_s=10.0, limit_bytes=100_000)
        assert (await one.send("GET", "/y", timeout_s=10.0), server.connections) == (b"ok", 2)
        assert len(server.requests) == 2  # nothing was repeated


@pytest.mark.parametrize("secured", [False, True])
@pytest.mark.parametrize("parts", [[], [HEAD + b"Content-Length: 5\r\n\r\nhel"], [HEAD + b"\r\nhel"]])
async def test_a_reset(parts: Sequence[bytes], secured: bool, certificates: Certificates) -> None:
    """A reset is never the end of an answer, nor is over TLS an end that is not orderly: it may have been cut."""
    tls = serves(certificates.server) if secured else None
    cutting = scripted(answering(*parts, then=Talk.reset, later=always_ok), tls=tls)
    async with cutting as server, secure(server.url, certificates.ours) if secured else transport(server.url) as one:
        with pytest.raises(ApiUnavailableError, match="POST /x: "):
            await one.send("POST", "/x", body=b"{}", timeout_s=10.0)
        assert (await one.send("GET", "/y", timeout_s=10.0), len(server.requests)) == (b"ok", 2)


async def test_a_failure_is_read_up_to_a_limit() -> None:
    async def script(talk: Talk) -> None:
        await talk.request()
        await talk.say(b"HTTP/1.1 429 Slow\r\nRetry-After: 7\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            await talk.say(b"3E8\r\n" + b"x" * 1000 + b"\r\n")

    async with scripted(script) as server, transport(server.url) as one:
        with pytest.raises(ApiError, match="API server answered 429: xxx") as caught:
            await one.send("GET", "/x", timeout_s=10.0)
        assert caught.value.retry_after_s == 7.0


@pytest.mark.parametrize("cancelled", [False, True])
async def test_a_slow_call_ends_with_its_time(cancelled: bool) -> None:
    """A Binding that is given up must not be under way when another replica leads."""
    closed = asyncio.Event()

    async def note_the_end(talk: Talk) -> None:
        await talk.hung_up()
        closed.set()

    slow = answering(HEAD + b"Content-Length: 9\r\n\r\nslow", then=note_the_end, later=always_ok)
    async with scripted(slow) as server, transport(server.url) as one:
        call = asyncio.create_task(one.send("POST", "/x", body=b"{}", timeout_s=0.3))
        await server.arrival.wait()
        if cancelled:
            call.cancel()
        else:
            with pytest.raises(ApiUnavailableError, match="POST /x: no answer in time"):
                await call
        await closed.wait()
        assert await one.send("GET", "/y", timeout_s=10.0) == b"ok"


async def test_a_call_that_is_cancelled_before_its_turn_is_never_sent() -> None:
    async def script(talk: Talk) -> None:
        await talk.request()
        await talk.server.release.wait()
        await talk.say(OK)
        await always_ok(talk)

    async with scripted(script) as server, transport(server.url, concurrency=1) as one:
        first = asyncio.create_task(one.send("GET", "/first", timeout_s=10.0))
        await server.arrival.wait()
        with pytest.raises(ApiUnavailableError, match="no answer in time"):
            await one.send("POST", "/second", body=b"{}", timeout_s=0.05)
        server.release.set()
        assert await first == await one.send("GET", "/third", timeout_s=10.0) == b"ok"
        assert [head.split(" ", 2)[1] for head, _ in server.requests] == ["/first", "/third"]


async def test_nothing_can_end_a_line() -> None:
    async with scripted(always_ok) as server:
        async with transport(server.url, token="Bearer secret\r\nX: y") as one:
            with pytest.raises(ValueError, match="header") as caught:
                await one.send("GET", "/x", timeout_s=10.0)
            assert "secret" not in str(caught.value)
        async with transport(server.url) as one:
            for path in ("/x y", "/x\r\nX: y", "/\u00e4", "/api/../x", "/api/%2e%2e/x"):
                with pytest.raises(ValueError, match="not a path"):
                    await one.send("GET", path, timeout_s=10.0)
    assert server.requests == []


async def test_a_proxy_is_asked_for_the_whole_url() -> None:
    """The API server's own address is not needed then; the limit of the size holds there too."""

    async def script(talk: Talk) -> None:
        for answer in (OK, HEAD + b"Content-Length: 100001\r\n\r\n" + b"x" * 100_001):
            await talk.request()
            await talk.say(answer)
        await talk.hung_up()

    async with scripted(script) as proxy, transport("http://api.invalid:8080", proxy=proxy.url) as one:
        assert await one.send("POST", "/x", body=b"{}", timeout_s=10.0) == b"ok"
        with pytest.raises(ApiUnavailableError, match="GET /y: answer longer than 100000 bytes"):
            await one.send("GET", "/y", timeout_s=10.0, limit_bytes=100_000)
    assert proxy.requests[0][0].startswith("POST http://api.invalid:8080/x HTTP/1.1\r\n")


@pytest.mark.parametrize("trusted", [False, True], ids=["unknown", "trusted by the machine"])
async def test_a_foreign_certificate(
    trusted: bool, certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    if trusted:
        monkeypatch.setenv("SSL_CERT_FILE", str(certificates.theirs.cert))
    foreign = serves(certificates.theirs.server())
    async with scripted(always_ok, tls=foreign) as server, secure(server.url, certificates.ours) as one:
        with pytest.raises(ApiUnavailableError, match="certificate"):
            await one.send("GET", "/x", timeout_s=10.0)
        assert server.requests == []


async def test_another_name(certificates: Certificates) -> None:
    """A certificate for another name is refused, unless the credentials say that this is the name to check."""
    named = certificates.ours.issue("named", san="DNS:api.cluster.example", usage="serverAuth")
    async with scripted(always_ok, tls=serves(named)) as server:
        async with secure(server.url, certificates.ours) as one:
            with pytest.raises(ApiUnavailableError, match="certificate"):
                await one.send("GET", "/x", timeout_s=10.0)
        assert server.requests == []
        name, port = "api.cluster.example", urlsplit(server.url).port or 0
        async with secure(f"https://{name}:{port}", certificates.ours, found_at=(name, "127.0.0.1", port)) as one:
            assert await one.send("GET", "/x", timeout_s=10.0) == b"ok"


async def test_a_client_certificate(certificates: Certificates) -> None:
    async with scripted(always_ok, tls=serves(certificates.server, clients=certificates.ours)) as server:
        async with secure(server.url, certificates.ours, own=certificates.client) as one:
            assert await one.send("GET", "/x", timeout_s=10.0) == b"ok"
        async with secure(server.url, certificates.ours) as one:
            with pytest.raises(ApiUnavailableError):
                await one.send("GET", "/x", timeout_s=10.0)
        assert len(server.requests) == 1


POD = "/api/v1/namespaces/default/pods/p"


async def chunks(parts: Sequence[bytes]) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


async def lines_of(parts: Sequence[bytes], *, limit_bytes: int) -> list[bytes]:
    async with aclosing(split_lines(chunks(parts), limit_bytes=limit_bytes)) as lines:
        return [line async for line in lines]


@given(
    lines=st.lists(st.binary(min_size=1, max_size=20).filter(lambda line: b"\n" not in line), max_size=8),
    cuts=st.lists(st.integers(0, 200), max_size=12),
)
async def test_lines_do_not_depend_on_how_they_arrive(lines: list[bytes], cuts: list[int]) -> None:
    whole = b"".join(line + b"\n" for line in lines) + b"unfinished"
    ends = [0, *sorted(min(cut, len(whole)) for cut in cuts), len(whole)]
    parts = [whole[a:b] for a, b in pairwise(ends)]
    assert lines == await lines_of(parts, limit_bytes=20)


@pytest.mark.parametrize("parts", [[b"123456\n"], [b"12", b"34", b"56\n"]], ids=["one chunk", "many chunks"])
async def test_a_line_that_is_too_long_ends_the_stream(parts: list[bytes]) -> None:
    with pytest.raises(ApiUnavailableError, match="longer than 5 bytes"):
        await lines_of(parts, limit_bytes=5)


async def test_a_watch_takes_no_place(loopback: LoopbackApi) -> None:
    """Watches are endless, so exchanges must not wait for them."""
    loopback.store.put(PODS, {"metadata": {"name": "p"}})
    async with transport(loopback.url, concurrency=1) as one:
        path = "/api/v1/pods?watch=true&resourceVersion=1&timeoutSeconds=60"
        async with aclosing(one.lines(path, open_s=5.0)) as lines:
            assert b"ADDED" in await anext(lines)
            assert await one.send("GET", POD, timeout_s=5.0)


@pytest.mark.parametrize("renewed", [True, False])
async def test_a_refused_token_is_renewed(renewed: bool, loopback: LoopbackApi) -> None:
    loopback.store.put(PODS, {"metadata": {"name": "p"}})
    loopback.tokens = {"new"}
    tokens = ["Bearer old", *(["Bearer new"] if renewed else [])]
    left = list(tokens)
    authorization = Authorization(lambda: Token(left.pop(0) if left[1:] else left[0]), clock=SystemClock())
    async with Transport(ApiServer(loopback.url, authorization)) as one:
        with nullcontext() if renewed else pytest.raises(ApiError, match="401"):
            assert await one.send("GET", POD, timeout_s=5.0)
    assert [seen.headers["Authorization"] for seen in loopback.seen] == tokens


async def test_a_redirect_is_not_followed_and_a_stream_that_is_refused_is_an_error(loopback: LoopbackApi) -> None:
    loopback.fail_next("get", Fault(status=307, headers={"Location": "/api/v1/namespaces/default/pods/q"}))
    loopback.fail_next("watch", Fault(status=403, body=b'{"message":"pods is forbidden"}'))
    async with transport(loopback.url) as one:
        with pytest.raises(ApiError, match="307"):
            await one.send("GET", POD, timeout_s=5.0)
        assert len(loopback.seen) == 1
        with pytest.raises(ApiError, match="pods is forbidden"):
            async with aclosing(one.lines("/api/v1/pods?watch=true", open_s=5.0)) as lines:
                await anext(lines)


CAUSES: CauseErrorDetails = {"causes": [{"message": "error sending request"}, {"message": "tcp connect error"}]}


@pytest.mark.parametrize("error", [TimeoutError(), ConnectError("connection error", CAUSES)])
def test_every_failure_without_an_answer_is_mapped(error: Exception) -> None:
    no_answer = pytest.raises(ApiUnavailableError, match=r"^GET /x: (no answer in time|.*tcp connect error)$")
    with no_answer, mapped("GET /x"):
        raise error
    with pytest.raises(ZeroDivisionError), mapped("GET /x"):  # a defect of ours is not dressed up as an outage
        _ = 1 / 0


def test_every_failure_status_is_an_api_error() -> None:
    kinds = {404: NotFoundError, 409: ConflictError, 410: GoneError}
    for status in (one for one in HTTPStatus if one >= 300):
        found = refusal(status, b'{"kind":"Status","message":"why"}')
        assert (type(found), found.status, found.message) == (kinds.get(status, ApiError), status, "why")


REFUSALS = {  # case: (message, seconds until the next call; Retry-After, body)
    "only a reason": ("Forbidden", None, "", b'{"kind":"Status","reason":"Forbidden"}'),
    "plain text": ("404 page not found", 3.0, "3", b"404 page not found\n"),
    "nothing": ("no reason given", None, "", b""),
    "not text": ("\ufffd\ufffd", None, "", b"\xff\xfe"),
    "too much text": ("x" * 500, None, "", b"x" * 9000),
    "a pause": ("x", 2.0, "", b'{"message":"x","details":{"retryAfterSeconds":2}}'),
    "the longer of two": ("x", 9.0, "9", b'{"message":"x","details":{"retryAfterSeconds":2}}'),
    "a date is ignored": ("x", None, "Wed, 21 Oct 2026 07:28:00 GMT", b"x"),
    "negative is ignored": ("x", None, "-5", b"x"),
    "absurd is cut": ("x", 600.0, "99999999999999999999999", b"x"),
}


@pytest.mark.parametrize(("message", "wait_s", "header", "body"), REFUSALS.values(), ids=REFUSALS)
def test_a_refusal_is_readable(message: str, wait_s: float | None, header: str, body: bytes) -> None:
    found = refusal(429, body, retry_after=header)
    assert (found.message, found.retry_after_s) == (message, wait_s)


def test_an_error_inside_a_watch_has_the_status_of_its_object() -> None:
    assert isinstance(refusal_in_stream(b'{"code":410}'), GoneError)
    assert (refusal_in_stream(b"nonsense").status, refusal_in_stream(b'{"code":200}').status) == (500, 500)
