"""Exchanges over TLS: whom we trust, who we say we are, and what an end of the connection means there."""

import asyncio
import ssl
from dataclasses import dataclass
from pathlib import Path

import pytest

from extender.errors import ApiUnavailableError
from extender.kube.http.transport import Transport, TransportLimits
from tests.authority import Authority, Pair
from tests.extender.kube.conftest import server_of
from tests.extender.kube.scripted import Talk, always_ok, echo, long_body, long_echo, scripted
from tests.extender.kube.scripted import event_loop_policy as event_loop_policy


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
    """For all tests."""
    place: Path = tmp_path_factory.mktemp("certificates")
    authority, other = Authority.made(place, "cluster"), Authority.made(place, "other")
    good = authority.issue("good", san="IP:127.0.0.1,IP:::1,DNS:localhost", usage="serverAuth")
    named = authority.issue("named", san="DNS:api.cluster.example", usage="serverAuth")
    return Certificates(authority, good, named, other.server(), authority.issue("netgang"))


def serves(pair: Pair, *, clients: Authority | None = None) -> ssl.SSLContext:
    """A server that has this certificate, and asks clients for one of an authority."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.cert, pair.key)
    if clients is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(clients.cert)
    return context


def transport(url: str, known: Certificates, *, own: Pair | None = None, name: str | None = None) -> Transport:
    """A transport that trusts the authority."""
    tls = ssl.create_default_context(cafile=str(known.authority.cert))
    if own is not None:
        tls.load_cert_chain(own.cert, own.key)
    return Transport(server_of(url, tls=tls, tls_name=name), limits=TransportLimits(concurrency=8), agent="test")


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost"])
async def test_many_exchanges(host: str, known: Certificates) -> None:
    """A hundred at once and a hundred in a row, over at most as many connections as allowed, by address and by name."""
    listen = "127.0.0.1" if host == "localhost" else host
    served = scripted(echo, tls=serves(known.good), host=listen)
    async with served as server, transport(server.url.replace(listen, host), known) as one:
        paths = [f"/{number}" for number in range(100)]
        answers = await asyncio.gather(*(one.send("GET", path, timeout_s=20.0) for path in paths))
        assert answers == [path.encode() for path in paths]
        for path in paths:
            assert await one.send("GET", path, timeout_s=20.0) == path.encode()
        assert server.connections <= 8


async def test_long_answers_side_by_side(known: Certificates) -> None:
    """Connections share the memory that they read into, and each caller gets every byte of its own answer."""
    paths = [f"/{number}" for number in range(40)]
    async with scripted(long_echo, tls=serves(known.good)) as server, transport(server.url, known) as one:
        answers = await asyncio.gather(*(one.send("GET", path, timeout_s=20.0) for path in paths))
        assert answers == [long_body(path) for path in paths]
        assert server.connections > 1


async def test_a_foreign_certificate(known: Certificates) -> None:
    """A certificate that is not trusted ends it before the token is sent."""
    async with scripted(always_ok, tls=serves(known.foreign)) as server, transport(server.url, known) as one:
        with pytest.raises(ApiUnavailableError, match="certificate verify failed"):
            await one.send("GET", "/x", timeout_s=10.0)
        assert server.requests == []


async def test_another_name(known: Certificates) -> None:
    """A certificate for another name is refused, unless the credentials say that this is the name to check."""
    async with scripted(always_ok, tls=serves(known.named)) as server:
        async with transport(server.url, known) as one:
            with pytest.raises(ApiUnavailableError, match="certificate verify failed"):
                await one.send("GET", "/x", timeout_s=10.0)
        assert server.requests == []
        async with transport(server.url, known, name="api.cluster.example") as one:
            assert await one.send("GET", "/x", timeout_s=10.0) == b"ok"


async def test_a_client_certificate(known: Certificates) -> None:
    """It is shown to a server that asks; without one the server breaks off, which is an outage."""
    async with scripted(always_ok, tls=serves(known.good, clients=known.authority)) as server:
        async with transport(server.url, known, own=known.own) as one:
            assert await one.send("GET", "/x", timeout_s=10.0) == b"ok"
        async with transport(server.url, known) as one:
            with pytest.raises(ApiUnavailableError):
                await one.send("GET", "/x", timeout_s=10.0)
        assert len(server.requests) == 1


async def test_no_tls_there(known: Certificates) -> None:
    """A server that speaks plain HTTP at an https URL is an outage."""

    async def script(talk: Talk) -> None:
        await talk.say(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await talk.hung_up()

    async with scripted(script) as server, transport(server.url.replace("http:", "https:"), known) as one:
        with pytest.raises(ApiUnavailableError, match=r"cannot connect to 127\.0\.0\.1"):
            await one.send("GET", "/x", timeout_s=10.0)


async def test_a_handshake_that_does_not_end(known: Certificates) -> None:
    """A server that takes the connection and says nothing is waited for no longer than the exchange may take."""

    async def script(talk: Talk) -> None:
        await talk.hung_up()

    async with scripted(script) as server, transport(server.url.replace("http:", "https:"), known) as one:
        with pytest.raises(ApiUnavailableError, match="no answer in time"):
            await one.send("GET", "/x", timeout_s=0.05)


@pytest.mark.parametrize("body", [b"Content-Length: 5\r\n\r\nhel", b"\r\nhel", b""], ids=["length", "none", "head"])
async def test_a_reset_in_the_middle(body: bytes, known: Certificates) -> None:
    """Without the orderly end that TLS knows, an answer without a length has no end: it may have been cut."""

    async def script(talk: Talk) -> None:
        if talk.number > 1:
            await always_ok(talk)
        await talk.request()
        await talk.say(b"HTTP/1.1 200 OK\r\n" + body)
        talk.reset()

    async with scripted(script, tls=serves(known.good)) as server, transport(server.url, known) as one:
        with pytest.raises(ApiUnavailableError, match="closed the connection"):
            await one.send("POST", "/x", body=b"{}", timeout_s=10.0)
        assert await one.send("GET", "/x", timeout_s=10.0) == b"ok"


async def test_an_orderly_end_is_the_end_of_the_answer(known: Certificates) -> None:
    """With it an answer without a length is whole."""

    async def script(talk: Talk) -> None:
        await talk.request()
        await talk.say(b"HTTP/1.1 200 OK\r\n\r\nhel", b"lo")

    async with scripted(script, tls=serves(known.good)) as server, transport(server.url, known) as one:
        assert await one.send("GET", "/x", timeout_s=10.0) == b"hello"
