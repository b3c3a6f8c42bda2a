"""Which client comes in at which port, over real sockets: to the verbs with a certificate, to probes without."""

import logging
import ssl
from collections.abc import Callable

import httpx
import pytest

from tests.authority import Pair
from tests.extender.server.tls.conftest import Certificates, said
from tests.extender.server.tls.serving import FILTER, Served, client, client_context, served


async def test_the_right_certificate_gets_to_the_verbs(certificates: Certificates) -> None:
    context = client_context(certificates, certificates.client)
    async with served(certificates.settings()) as ports, client(ports, context) as scheduler:
        answer = await scheduler.post("/filter", content=FILTER)
        assert len(answer.json()["NodeNames"]) == 1


async def _refused(ports: Served, context: ssl.SSLContext) -> str:
    with pytest.raises((httpx.TransportError, ssl.SSLError)) as caught:  # httpx passes an alert of TLS 1.3 on as it is
        async with client(ports, context) as stranger:
            await stranger.post("/filter", content=FILTER)
    async with client(ports, context, port="health_port") as probe:
        metrics = (await probe.get("/metrics")).text
    assert "netgang_requests_total{" not in metrics
    return f"{caught.value!r} {caught.value.__cause__!r}"


FOREIGN = {  # case: (what the log says, alert that the client hears, what it shows)
    "none": ("not return a certificate", "certificate required|handshake failure", lambda _: None),
    "another authority": ("get local issuer", "unknown ca", lambda all_: all_.theirs.issue("system:x")),
    "expired": ("has expired", "certificate expired", lambda all_: all_.ours.issue("x", days=-1, file="expired")),
    "for servers": ("purpose", "unsupported certificate", lambda all_: all_.ours.server("x")),
}


@pytest.mark.parametrize(("want", "alert", "shown"), FOREIGN.values(), ids=FOREIGN)
async def test_a_refused_client_hears_why(
    want: str,
    alert: str,
    shown: Callable[[Certificates], Pair | None],
    certificates: Certificates,
    caplog: pytest.LogCaptureFixture,
) -> None:
    context = client_context(certificates, shown(certificates))
    with caplog.at_level(logging.WARNING, logger="netgang.tls"):
        async with served(certificates.settings()) as ports:
            heard = await _refused(ports, context)
    (line,) = said(caplog)
    assert line.startswith("a connection was refused: ")
    assert want in line
    assert any(part.replace(" ", "_") in heard.lower().replace(" ", "_") for part in alert.split("|")), heard


@pytest.mark.parametrize("name", ["system:kube-scheduler", "scheduler.example.org"], ids=["common", "alternative"])
async def test_a_certificate_of_another_name_is_refused(
    name: str, certificates: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    kubelet = certificates.ours.issue("system:node:n1", san="DNS:n1")
    async with served(certificates.settings(names=("else", name))) as ports:
        with caplog.at_level(logging.WARNING, logger="netgang.tls"):
            for _ in range(2):
                await _refused(ports, client_context(certificates, kubelet))
        names = "the client's certificate names n1, system:node:n1, which tls.client_names does not allow"
        assert said(caplog) == [f"a connection was refused: {names}"], "once in ten seconds"
        async with client(ports, client_context(certificates, certificates.client)) as scheduler:
            assert (await scheduler.post("/filter", content=FILTER)).status_code == 200


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
