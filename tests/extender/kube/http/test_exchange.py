"""One exchange over a real socket: what counts as an answer, and after which the connection is used again."""

import asyncio
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pytest
import uvloop

from extender.errors import ApiError, ApiUnavailableError
from extender.kube.http.transport import Transport, TransportLimits
from tests.authority import Authority, Pair
from tests.extender.kube.conftest import server_of
from tests.extender.kube.scripted import OK, Talk, always_ok, answering, echo, ok, scripted


def transport(url: str, *, token: str = "", agent: str = "test", **fields: str) -> Transport:
    return Transport(
        server_of(url, token=token, **fields), limits=TransportLimits(object_bytes=100_000, concurrency=4), agent=agent
    )


class Link(NamedTuple):
    served: ssl.SSLContext | None
    opened: Callable[[str], Transport]


@pytest.fixture
def event_loop_policy() -> uvloop.EventLoopPolicy:
    return uvloop.EventLoopPolicy()


@dataclass(frozen=True, slots=True)
class Certificates:
    """That of the API server for its addresses, one of it for another name, a foreign one, and the client's own."""

    authority: Authority
    good: Pair
    named: Pair
    foreign: Pair
    own: Pair


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    place: Path = tmp_path_factory.mktemp("certificates")
    authority, other = Authority.made(place, "cluster"), Authority.made(place, "other")
    good = authority.issue("good", san="IP:127.0.0.1,IP:::1,DNS:localhost", usage="serverAuth")
    named = authority.issue("named", san="DNS:api.cluster.example", usage="serverAuth")
    return Certificates(authority, good, named, other.server(), authority.issue("netgang"))


def serves(pair: Pair, *, clients: Authority | None = None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.cert, pair.key)
    if clients is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(clients.cert)
    return context


def secure(url: str, known: Certificates, *, own: Pair | None = None, name: str | None = None) -> Transport:
    tls = ssl.create_default_context(cafile=str(known.authority.cert))
    if own is not None:
        tls.load_cert_chain(own.cert, own.key)
    return Transport(server_of(url, tls=tls, tls_name=name), limits=TransportLimits(concurrency=8), agent="test")


@pytest.fixture(params=["TCP", "TLS"])
def link(request: pytest.FixtureRequest) -> Link:
    if request.param == "TCP":
        return Link(None, transport)
    known: Certificates = request.getfixturevalue("known")
    return Link(serves(known.good), lambda url: secure(url, known))


HEAD = b"HTTP/1.1 200 OK\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
CLOSING = HEAD + b"Connection: close\r\nContent-Length: 2\r\n\r\nok"
ANSWERS = {  # case: (body, connection is used again, parts that are sent)
    "a length": (b"ok", True, [OK]),
    "a length, byte by byte": (b"ok", True, [OK[i : i + 1] for i in range(len(OK))]),
    "no content": (b"", True, [b"HTTP/1.1 204 No Content\r\n\r\n"]),
    "chunks cut anywhere": (b"hello", True, [CHUNKED + b"5", b"\r\nhel", b"lo\r", b"\n0\r\n", b"\r\n"]),
    "many chunks": (b"x" * 90_000, True, [CHUNKED, *[b"64\r\n" + b"x" * 100 + b"\r\n"] * 900, b"0\r\n\r\n"]),
    "an interim answer first": (b"ok", True, [b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n", OK]),
    "the server will close": (b"ok", False, [CLOSING]),
    "HTTP/1.0": (b"ok", False, [b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok"]),
}


@pytest.mark.parametrize(("want", "again", "parts"), ANSWERS.values(), ids=ANSWERS)
async def test_whole_answers(want: bytes, again: bool, parts: Sequence[bytes]) -> None:
    """A whole answer counts however it is framed and cut; the connection is used again if it may be."""
    async with scripted(answering(*parts, then=always_ok)) as server, transport(server.url) as one:
        assert want == await one.send("GET", "/x", timeout_s=10.0)
        assert await one.send("GET", "/y", timeout_s=10.0) == (b"ok" if again else want)
        assert server.connections == (1 if again else 2)


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
    "nothing": ("closed the connection before its answer", []),
    "half a body": ("in the middle of its answer", [HEAD + b"Content-Length: 5\r\n\r\nhel"]),
    "no last chunk": ("in the middle of its answer", [CHUNKED + b"5\r\nhello\r\n"]),
    "another protocol": ("not an answer of HTTP/1.1", [b"SSH-2.0-OpenSSH_9.6\r\n"]),
    "a head without end": ("without one of its body", [HEAD, *[b"X: " + b"x" * 5000] * 30]),
    "longer than allowed": ("longer than 100000 bytes", [HEAD + b"Content-Length: 100001\r\n\r\n"]),
    "longer than allowed, in chunks": (
        "longer than 100000 bytes",
        [CHUNKED, *[b"3E8\r\n" + b"x" * 1000 + b"\r\n"] * 101],
    ),
}


@pytest.mark.parametrize(("want", "parts"), BROKEN.values(), ids=BROKEN)
async def test_what_is_no_answer(want: str, parts: Sequence[bytes]) -> None:
    async with scripted(answering(*parts, later=always_ok)) as server, transport(server.url) as one:
        with pytest.raises(ApiUnavailableError, match=want):
            await one.send("POST", "/x", body=b"{}", timeout_s=10.0, limit_bytes=100_000)
        assert await one.send("GET", "/y", timeout_s=10.0) == b"ok"
        assert server.connections == 2
        assert len(server.requests) == 2  # nothing was repeated


@pytest.mark.parametrize("parts", [[], [HEAD + b"Content-Length: 5\r\n\r\nhel"]])
async def test_a_reset(parts: Sequence[bytes], link: Link) -> None:
    """A reset is never the end of an answer, nor is over TLS an end that is not orderly: it may have been cut."""
    cutting = answering(*parts, then=Talk.reset, later=always_ok)
    async with scripted(cutting, tls=link.served) as server, link.opened(server.url) as one:
        with pytest.raises(ApiUnavailableError, match="closed the connection"):
            await one.send("POST", "/x", body=b"{}", timeout_s=10.0)
        assert await one.send("GET", "/y", timeout_s=10.0) == b"ok"
        assert len(server.requests) == 2


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


async def test_a_slow_server_is_not_waited_for() -> None:
    closed = asyncio.Event()

    async def note_the_end(talk: Talk) -> None:
        await talk.hung_up()
        closed.set()

    slow = answering(HEAD + b"Content-Length: 9\r\n\r\nslow", then=note_the_end, later=always_ok)
    async with scripted(slow) as server, transport(server.url) as one:
        with pytest.raises(ApiUnavailableError, match="GET /x: no answer in time"):
            await one.send("GET", "/x", timeout_s=0.05)
        await closed.wait()
        assert await one.send("GET", "/y", timeout_s=10.0) == b"ok"


async def test_a_request_that_is_given_up_does_not_arrive_later() -> None:
    """Its connection is reset, with no orderly end, so that the kernel forgets what is not sent yet."""
    ended: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    async def script(talk: Talk) -> None:
        try:
            await talk.reader.read()
            ended.set_result(False)
        except ConnectionResetError:
            ended.set_result(True)

    async with scripted(script) as server, transport(server.url) as one:
        with pytest.raises(ApiUnavailableError, match="no answer in time"):
            await one.send("POST", "/api/v1/pods", body=b"{}", timeout_s=0.2)
        assert await ended


async def test_nothing_can_end_a_line() -> None:
    async with scripted(always_ok) as server:
        async with transport(server.url, token="Bearer secret\r\nX: y") as one:
            with pytest.raises(ValueError, match="header") as caught:
                await one.send("GET", "/x", timeout_s=10.0)
            assert "secret" not in str(caught.value)
        async with transport(server.url) as one:
            for path in ("/x y", "/x\r\nX: y", "/\u00e4"):
                with pytest.raises(ValueError, match="not a path"):
                    await one.send("GET", path, timeout_s=10.0)
        with pytest.raises(ValueError, match="header"):
            transport(server.url, agent="a\nb")
    assert server.requests == []


async def test_a_proxy_is_asked_for_the_whole_url() -> None:
    """The API server's own address is not needed then; the limit of the size holds there too."""

    async def script(talk: Talk) -> None:
        for answer in (OK, HEAD + b"Content-Length: 100001\r\n\r\n"):
            await talk.request()
            await talk.say(answer)
        await talk.hung_up()

    async with scripted(script) as proxy, transport("http://api.invalid:8080", proxy=proxy.url) as one:
        assert await one.send("POST", "/x", body=b"{}", timeout_s=10.0) == b"ok"
        with pytest.raises(ApiUnavailableError, match="GET /y: answer longer than 100000 bytes"):
            await one.send("GET", "/y", timeout_s=10.0)
    assert proxy.requests[0][0].startswith("POST http://api.invalid:8080/x HTTP/1.1\r\n")


# -- TLS: whom we trust, and who we say we are -----------------------------------------------------------------------


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
async def test_many_exchanges(host: str, known: Certificates) -> None:
    """A hundred at once and a hundred in a row, over at most as many connections as allowed."""
    served = scripted(echo, tls=serves(known.good), host=host)
    async with served as server, secure(server.url, known) as one:
        paths = [f"/{number}" for number in range(100)]
        answers = await asyncio.gather(*(one.send("GET", path, timeout_s=20.0) for path in paths))
        assert answers == [path.encode() for path in paths]
        for path in paths:
            assert await one.send("GET", path, timeout_s=20.0) == path.encode()
        assert server.connections <= 8


async def test_a_foreign_certificate(known: Certificates) -> None:
    async with scripted(always_ok, tls=serves(known.foreign)) as server, secure(server.url, known) as one:
        with pytest.raises(ApiUnavailableError, match="certificate verify failed"):
            await one.send("GET", "/x", timeout_s=10.0)
        assert server.requests == []


async def test_another_name(known: Certificates) -> None:
    """A certificate for another name is refused, unless the credentials say that this is the name to check."""
    async with scripted(always_ok, tls=serves(known.named)) as server:
        async with secure(server.url, known) as one:
            with pytest.raises(ApiUnavailableError, match="certificate verify failed"):
                await one.send("GET", "/x", timeout_s=10.0)
        assert server.requests == []
        async with secure(server.url, known, name="api.cluster.example") as one:
            assert await one.send("GET", "/x", timeout_s=10.0) == b"ok"


async def test_a_client_certificate(known: Certificates) -> None:
    async with scripted(always_ok, tls=serves(known.good, clients=known.authority)) as server:
        async with secure(server.url, known, own=known.own) as one:
            assert await one.send("GET", "/x", timeout_s=10.0) == b"ok"
        async with secure(server.url, known) as one:
            with pytest.raises(ApiUnavailableError):
                await one.send("GET", "/x", timeout_s=10.0)
        assert len(server.requests) == 1
