"""Exchanges over TLS: whom we trust, who we say we are, and what an end of the connection means there."""

import asyncio
import shutil
from pathlib import Path

import pytest
import uvloop

from extender.errors import ApiUnavailableError
from extender.kube.credentials import ApiServer, Authorization, Token
from extender.kube.http.transport import Transport, TransportLimits
from extender.runtime.clock import SystemClock
from tests.extender.kube.scripted import (
    OK,
    Certificate,
    Talk,
    always_ok,
    echo,
    long_body,
    long_echo,
    make_certificate,
    scripted,
)

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl to make certificates with")


@pytest.fixture(params=[asyncio.DefaultEventLoopPolicy, uvloop.EventLoopPolicy], ids=["asyncio", "uvloop"])
def event_loop_policy(request: pytest.FixtureRequest) -> asyncio.AbstractEventLoopPolicy:
    """Each test on both loops."""
    policy: asyncio.AbstractEventLoopPolicy = request.param()
    return policy


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the certificates are."""
    return tmp_path_factory.mktemp("certificates")


@pytest.fixture(scope="module")
def good(place: Path) -> Certificate:
    """That of the API server, for its addresses."""
    return make_certificate(place, "good", alternatives="IP:127.0.0.1,IP:::1,DNS:localhost")


@pytest.fixture(scope="module")
def named(place: Path) -> Certificate:
    """One for another name than the server is reached by."""
    return make_certificate(place, "named", alternatives="DNS:api.cluster.example")


@pytest.fixture(scope="module")
def own(place: Path) -> Certificate:
    """That of the client."""
    return make_certificate(place, "own", alternatives="DNS:netgang")


def transport(url: str, *, trusts: Certificate, own: Certificate | None = None, name: str | None = None) -> Transport:
    """A transport that trusts one certificate."""
    authorization = Authorization(lambda: Token("Bearer t"), clock=SystemClock())
    server = ApiServer(url=url, authorization=authorization, tls=trusts.client(own=own), tls_name=name)
    return Transport(server, limits=TransportLimits(concurrency=8), agent="test")


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost"])
async def test_many_exchanges(host: str, good: Certificate) -> None:
    """A hundred at once and a hundred in a row, over at most as many connections as allowed, by address and by name."""
    listen = "127.0.0.1" if host == "localhost" else host
    served = scripted(echo, tls=good.server(), host=listen)
    async with served as server, transport(server.url.replace(listen, host), trusts=good) as one:
        paths = [f"/{number}" for number in range(100)]
        answers = await asyncio.gather(*(one.send("GET", path, timeout_s=20.0) for path in paths))
        assert answers == [path.encode() for path in paths]
        for path in paths:
            assert await one.send("GET", path, timeout_s=20.0) == path.encode()
        assert server.connections <= 8


async def test_a_long_answer(good: Certificate) -> None:
    """Megabytes over many records arrive as they were sent."""
    long = bytes(range(256)) * 12_000

    async def script(talk: Talk) -> None:
        await talk.request()
        await talk.say(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(long), long)
        await talk.hung_up()

    async with scripted(script, tls=good.server()) as server, transport(server.url, trusts=good) as one:
        assert await one.send("GET", "/x", timeout_s=20.0) == long


async def test_long_answers_side_by_side(good: Certificate) -> None:
    """Connections share the memory that they read into, and each caller gets every byte of its own answer."""
    paths = [f"/{number}" for number in range(40)]
    async with scripted(long_echo, tls=good.server()) as server, transport(server.url, trusts=good) as one:
        answers = await asyncio.gather(*(one.send("GET", path, timeout_s=20.0) for path in paths))
        assert answers == [long_body(path) for path in paths]
        assert server.connections > 1


async def test_a_stranger(good: Certificate, named: Certificate) -> None:
    """A certificate that is not trusted ends it before the token is sent."""
    async with scripted(always_ok, tls=named.server()) as server, transport(server.url, trusts=good) as one:
        with pytest.raises(ApiUnavailableError, match="certificate verify failed"):
            await one.send("GET", "/x", timeout_s=10.0)
        assert server.requests == []


async def test_another_name(named: Certificate) -> None:
    """A certificate for another name is refused, unless the credentials say that this is the name to check."""
    async with scripted(always_ok, tls=named.server()) as server:
        async with transport(server.url, trusts=named) as one:
            with pytest.raises(ApiUnavailableError, match="certificate verify failed"):
                await one.send("GET", "/x", timeout_s=10.0)
        assert server.requests == []
        async with transport(server.url, trusts=named, name="api.cluster.example") as one:
            assert await one.send("GET", "/x", timeout_s=10.0) == b"ok"


async def test_a_client_certificate(good: Certificate, own: Certificate) -> None:
    """It is shown to a server that asks; without one the server breaks off, which is an outage."""
    async with scripted(always_ok, tls=good.server(clients=own)) as server:
        async with transport(server.url, trusts=good, own=own) as one:
            assert await one.send("GET", "/x", timeout_s=10.0) == b"ok"
        async with transport(server.url, trusts=good) as one:
            with pytest.raises(ApiUnavailableError):
                await one.send("GET", "/x", timeout_s=10.0)
        assert len(server.requests) == 1


async def test_no_tls_there(good: Certificate) -> None:
    """A server that speaks plain HTTP at an https URL is an outage."""

    async def script(talk: Talk) -> None:
        await talk.say(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await talk.hung_up()

    async with scripted(script) as server, transport(server.url.replace("http:", "https:"), trusts=good) as one:
        with pytest.raises(ApiUnavailableError, match=r"cannot connect to 127\.0\.0\.1"):
            await one.send("GET", "/x", timeout_s=10.0)


async def test_a_handshake_that_does_not_end(good: Certificate) -> None:
    """A server that takes the connection and says nothing is waited for no longer than the exchange may take."""

    async def script(talk: Talk) -> None:
        await talk.hung_up()

    async with scripted(script) as server, transport(server.url.replace("http:", "https:"), trusts=good) as one:
        with pytest.raises(ApiUnavailableError, match="no answer in time"):
            await one.send("GET", "/x", timeout_s=0.05)


@pytest.mark.parametrize("body", [b"Content-Length: 5\r\n\r\nhel", b"\r\nhel", b""], ids=["length", "none", "head"])
async def test_a_reset_in_the_middle(body: bytes, good: Certificate) -> None:
    """Without the orderly end that TLS knows, an answer without a length has no end: it may have been cut."""

    async def script(talk: Talk) -> None:
        if talk.number > 1:
            await always_ok(talk)
        await talk.request()
        await talk.say(b"HTTP/1.1 200 OK\r\n" + body)
        talk.reset()

    async with scripted(script, tls=good.server()) as server, transport(server.url, trusts=good) as one:
        with pytest.raises(ApiUnavailableError, match="closed the connection"):
            await one.send("POST", "/x", body=b"{}", timeout_s=10.0)
        assert await one.send("GET", "/x", timeout_s=10.0) == b"ok"


async def test_an_orderly_end_is_the_end_of_the_answer(good: Certificate) -> None:
    """With it an answer without a length is whole."""

    async def script(talk: Talk) -> None:
        await talk.request()
        await talk.say(b"HTTP/1.1 200 OK\r\n\r\nhel", b"lo")

    async with scripted(script, tls=good.server()) as server, transport(server.url, trusts=good) as one:
        assert await one.send("GET", "/x", timeout_s=10.0) == b"hello"


async def test_an_idle_connection_that_the_server_closes(good: Certificate) -> None:
    """The next exchange works, over a new connection."""
    ended = asyncio.Event()

    async def script(talk: Talk) -> None:
        await talk.request()
        await talk.say(OK)
        if talk.number == 1:
            talk.writer.close()
            await talk.hung_up()
            ended.set()
        await talk.hung_up()

    async with scripted(script, tls=good.server()) as server, transport(server.url, trusts=good) as one:
        assert await one.send("GET", "/x", timeout_s=10.0) == b"ok"
        await ended.wait()
        assert await one.send("GET", "/x", timeout_s=10.0) == b"ok"
        assert server.connections == 2
