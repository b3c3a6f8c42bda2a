"""Which client comes in at which port, over real sockets: to the verbs with a certificate, to probes without."""

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable

import httpx
import pytest

from extender.server.tls.context import Outcome
from extender.settings.ports import TlsSettings
from tests.authority import Pair
from tests.extender.server.tls.conftest import Certificates, said
from tests.extender.server.tls.serving import FILTER, Served, client, client_context, held_bind, served, until_held
from tests.liveness import LIVENESS_S

VERSIONS = (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)


@pytest.mark.parametrize("version", VERSIONS)
async def test_the_right_certificate_gets_to_the_verbs(version: ssl.TLSVersion, certificates: Certificates) -> None:
    context = client_context(certificates, certificates.client)
    context.maximum_version = context.minimum_version = version
    async with served(certificates.settings()) as ports, client(ports, context) as scheduler:
        answer = await scheduler.post("/filter", content=FILTER)
        assert len(answer.json()["NodeNames"]) == 1
        assert ports.outcomes() == {"accepted": 1.0}


async def _refused(ports: Served, context: ssl.SSLContext) -> str:
    with pytest.raises((httpx.TransportError, ssl.SSLError)) as caught:  # httpx passes an alert of TLS 1.3 on as it is
        async with client(ports, context) as stranger:
            await stranger.post("/filter", content=FILTER)
    async with client(ports, context, port="health_port") as probe:
        metrics = (await probe.get("/metrics")).text
    assert "netgang_requests_total{" not in metrics
    return f"{caught.value!r} {caught.value.__cause__!r}"


FOREIGN = {  # case: (outcome that is counted, alert that the client hears, what it shows)
    "none": (Outcome.NO_CERTIFICATE, "certificate required|handshake failure", lambda _: None),
    "another authority": (Outcome.UNKNOWN_AUTHORITY, "unknown ca", lambda all_: all_.theirs.issue("system:x")),
    "expired": (Outcome.EXPIRED, "certificate expired", lambda all_: all_.ours.issue("x", days=-1, file="expired")),
    "for servers": (Outcome.WRONG_PURPOSE, "unsupported certificate", lambda all_: all_.ours.server("x")),
}  # fmt: skip


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(("want", "alert", "shown"), FOREIGN.values(), ids=FOREIGN)
async def test_a_refused_client_hears_why(
    want: Outcome,
    alert: str,
    shown: Callable[[Certificates], Pair | None],
    version: ssl.TLSVersion,
    certificates: Certificates,
    caplog: pytest.LogCaptureFixture,
) -> None:
    context = client_context(certificates, shown(certificates))
    context.maximum_version = context.minimum_version = version
    with caplog.at_level(logging.WARNING, logger="netgang.tls"):
        async with served(certificates.settings()) as ports:
            heard = await _refused(ports, context)
            assert ports.outcomes() == {want.value: 1.0}
    assert [line.partition(":")[0] for line in said(caplog)] == ["a connection was refused"]
    assert any(part.replace(" ", "_") in heard.lower().replace(" ", "_") for part in alert.split("|")), heard


@pytest.mark.parametrize("name", ["system:kube-scheduler", "scheduler.example.org"], ids=["common", "alternative"])
async def test_a_certificate_of_another_name_is_refused(name: str, certificates: Certificates) -> None:
    kubelet = certificates.ours.issue("system:node:n1", san="DNS:n1")
    async with served(certificates.settings(names=("else", name))) as ports:
        await _refused(ports, client_context(certificates, kubelet))
        assert ports.outcomes() == {"wrong_name": 1.0}
        async with client(ports, client_context(certificates, certificates.client)) as scheduler:
            assert (await scheduler.post("/filter", content=FILTER)).status_code == 200


async def test_plain_http_gets_nowhere(certificates: Certificates) -> None:
    async with served(certificates.settings()) as ports:
        address = ports.urls["port"].replace("https", "http")
        async with httpx.AsyncClient(base_url=address, trust_env=False) as scheduler:
            with pytest.raises(httpx.TransportError):
                await scheduler.post("/filter", content=FILTER)
        assert ports.outcomes() == {"no_tls": 1.0}


async def test_a_client_that_does_not_trust_us_is_counted(certificates: Certificates) -> None:
    context = client_context(certificates, certificates.client, authority=certificates.theirs.cert)

    def shake_hands(port: int | None) -> None:
        """With OpenSSL on the socket itself, which sends its alert, as Go does."""
        with socket.create_connection(("127.0.0.1", port)) as plain, pytest.raises(ssl.SSLCertVerificationError):
            context.wrap_socket(plain, server_hostname="127.0.0.1")

    async with served(certificates.settings()) as ports, asyncio.timeout(LIVENESS_S):
        await asyncio.to_thread(shake_hands, ports.port)
        while not ports.outcomes():  # noqa: ASYNC110 - the alert is on its way
            await asyncio.sleep(0.005)
        assert ports.outcomes() == {"refused_by_client": 1.0}


async def test_repeated_refusals_are_one_line(certificates: Certificates, caplog: pytest.LogCaptureFixture) -> None:
    context = client_context(certificates, None)
    with caplog.at_level(logging.WARNING, logger="netgang.tls"):
        async with served(certificates.settings()) as ports:
            for _ in range(20):
                await _refused(ports, context)
            assert ports.outcomes() == {"no_certificate": 20.0}
    assert len(said(caplog)) == 1


PATHS = ("/healthz", "/readyz", "/metrics", "/v1/plan", "/docs", "/openapi.json")


async def _statuses(door: httpx.AsyncClient) -> list[int]:
    filtered = await door.post("/filter", content=FILTER)
    return [*[(await door.get(path)).status_code for path in PATHS], filtered.status_code]


async def test_each_port_has_its_own_addresses(certificates: Certificates) -> None:
    stranger = client_context(certificates, None)
    async with (
        served(certificates.settings()) as ports,
        client(ports, client_context(certificates, certificates.client)) as scheduler,
        client(ports, stranger, port="debug_port") as people,
        client(ports, stranger, port="health_port") as probe,
    ):
        assert await _statuses(scheduler) == [200, 200, 200, 404, 404, 404, 200]
        assert await _statuses(probe) == [200, 200, 200, 404, 404, 404, 404]
        assert await _statuses(people) == [200] * 7
        away = await scheduler.get("/v1/plan")
    assert away.headers["content-type"] == "application/problem+json"
    assert "debug_port" in away.json()["detail"]
    assert {url.partition(":")[0] for url in ports.urls.values()} == {"https", "http"}


async def test_without_client_certificates_nothing_but_the_scheme_changes(certificates: Certificates) -> None:
    tls = TlsSettings(cert_file=certificates.server.cert, key_file=certificates.server.key)
    async with served(tls) as ports, client(ports, client_context(certificates, None)) as scheduler:
        assert ports.urls["port"].startswith("https://")
        assert await _statuses(scheduler) == [200] * 7


async def test_beyond_the_loopback_the_port_for_people_has_tls(certificates: Certificates) -> None:
    async with served(certificates.settings(), debug_host="0.0.0.0", debug_open=True) as ports:
        assert ports.urls["debug_port"].startswith("https://0.0.0.0:")
        address = ports.urls["debug_port"].replace("0.0.0.0", "127.0.0.1")
        context = client_context(certificates, None)
        async with httpx.AsyncClient(base_url=address, verify=context, trust_env=False) as people:
            assert (await people.get("/v1/plan")).status_code == 200


async def test_a_hang_up_reaches_the_held_bind(certificates: Certificates) -> None:
    async with served(certificates.settings()) as ports:
        async with client(ports, client_context(certificates, certificates.client)) as scheduler:
            call = await held_bind(ports, scheduler)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
        await until_held(ports, 0)


async def test_sessions_have_no_tickets(certificates: Certificates) -> None:
    """Each connection shows its certificate again: what is refused now cannot come in with a ticket of before."""
    context = client_context(certificates, certificates.client)
    async with served(certificates.settings()) as ports:
        streams = asyncio.open_connection("127.0.0.1", ports.port, ssl=context, server_hostname="127.0.0.1")
        reader, writer = await streams
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: netgang\r\n\r\n")
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        assert writer.get_extra_info("ssl_object").session.has_ticket is False
        writer.close()
