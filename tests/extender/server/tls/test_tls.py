"""Which client comes in at which port, over real sockets; certificates that change while binds are held.

Certificate files that can be used, and the sentences about those that cannot.
"""

import asyncio
import json
import logging
import re
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
import uvloop
from msgspec.structs import astuple, replace

from extender import bootstrap
from extender.bootstrap import Service
from extender.bootstrap.serve import configs, running
from extender.errors import ConfigError
from extender.ports import SystemClock
from extender.runtime.telemetry import Telemetry
from extender.server import tls as server_tls
from extender.server.tls import Rotation, load, marks_of
from extender.settings.settings import Settings, TlsSettings
from scoring.model.reasons import Reason
from tests.authority import Authority, Pair
from tests.extender.beside import playing
from tests.extender.conftest import Certificates
from tests.extender.server.served import listening
from tests.fakes.verbs import ARGS
from tests.liveness import LIVENESS_S

ROOT = Path(__file__).parents[4]
CLUSTER = ROOT / "examples/snapshot/paper-testbed.json"
REQUESTS = ROOT / "examples/requests"
FILTER = (REQUESTS / "filter-case1.json").read_bytes()
PATHS = ("/healthz", "/readyz", "/metrics", "/v1/plan", "/docs", "/openapi.json")
DAY_S, NOW_S = 86_400.0, SystemClock().now_s


@pytest.fixture
def event_loop_policy() -> uvloop.EventLoopPolicy:
    return uvloop.EventLoopPolicy()


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What our TLS has logged; other loggers may be at any level, as the tests before have left them."""
    return [record.getMessage() for record in caplog.records if record.name == "netgang.tls"]


class Served(msgspec.Struct, frozen=True):
    service: Service
    urls: dict[str, str]  # setting of the port → base URL

    def count(self, name: str, **labels: str) -> float:
        return self.service.telemetry.registry.get_sample_value(f"netgang_{name}", labels) or 0.0


@asynccontextmanager
async def served(tls: TlsSettings) -> AsyncIterator[Served]:
    settings = Settings(snapshot=CLUSTER, port=0, health_port=0, debug_port=0, tls=tls)
    async with AsyncExitStack() as stack:
        service = await stack.enter_async_context(running(bootstrap.embedded(settings)))
        urls = {}
        for name, config in configs(settings, service):
            urls[name] = (await stack.enter_async_context(listening(config, setting=name))).url
        async with asyncio.timeout(LIVENESS_S):
            while service.planner.snapshot is None:  # noqa: ASYNC110 - it reports nothing
                await asyncio.sleep(0.001)
        stack.push_async_callback(service.shut_down)
        yield Served(service, urls)


def client_context(certificates: Certificates, pair: Pair | None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(certificates.ours.cert))
    if pair is not None:
        context.load_cert_chain(pair.cert, pair.key)
    return context


def client(served: Served, context: ssl.SSLContext, *, port: str = "port") -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=served.urls[port], verify=context, trust_env=False)


async def held_bind(served: Served, scheduler: httpx.AsyncClient) -> "asyncio.Task[dict[str, Any]]":
    answer = (await scheduler.post("/filter", content=FILTER)).json()
    body = json.loads((REQUESTS / "bind-case1.json").read_text()) | {"Node": answer["NodeNames"][0]}

    async def bind() -> dict[str, Any]:
        return dict((await scheduler.post("/bind", json=body, timeout=60.0)).json())

    call = asyncio.create_task(bind())
    async with asyncio.timeout(LIVENESS_S):
        while served.service.views.plan().held_binds != 1:  # noqa: ASYNC110 - it reports nothing
            await asyncio.sleep(0.005)
    return call


@pytest.fixture
def pair(certificates: Certificates, tmp_path: Path) -> Pair:
    return certificates.server.into(tmp_path)


async def _serial(ports: Served, context: ssl.SSLContext) -> str:
    port = httpx.URL(ports.urls["port"]).port
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname="localhost")
    writer.close()
    return str(writer.get_extra_info("peercert")["serialNumber"])


async def _look(ports: Served) -> None:
    assert ports.service.tls is not None
    await ports.service.tls.check_files()


@pytest.mark.slow
async def test_no_call_fails_while_certificates_are_renewed(certificates: Certificates, pair: Pair) -> None:
    """Each call on a new connection, eight at a time, while two pairs take turns under the same names."""
    context, renewed = client_context(certificates, certificates.client), certificates.ours.server(file="renewed")
    pairs, answered, over = (renewed, certificates.server), 0, False

    async def calls(ports: Served) -> None:
        nonlocal answered
        while not over:
            async with client(ports, context) as scheduler:
                assert (await scheduler.post("/filter", json=ARGS)).status_code == 200
                answered += 1

    async with served(certificates.settings(pair)) as ports:
        async with asyncio.TaskGroup() as callers:
            for _ in range(8):
                callers.create_task(calls(ports))
            for turn in range(20):
                before, _ = answered, pairs[turn % 2].into(pair.cert.parent)
                await _look(ports)
                while answered < before + 8:  # noqa: ASYNC110 - the callers report nothing but their count
                    await asyncio.sleep(0.001)
            over = True
        assert (ports.count("tls_reloads_total", outcome="loaded"), answered >= 160) == (20, True)


async def test_another_authority_counts_for_new_connections(certificates: Certificates, tmp_path: Path) -> None:
    authority = tmp_path / "ca.crt"
    authority.write_bytes(certificates.ours.cert.read_bytes())
    renewed = certificates.theirs.issue("system:kube-scheduler", file=str(tmp_path / "new"))
    old, new = (client_context(certificates, one) for one in (certificates.client, renewed))
    settings = replace(certificates.settings(), client_ca_file=authority)
    async with served(settings) as ports:
        authority.write_bytes(certificates.theirs.cert.read_bytes())
        await _look(ports)
        async with client(ports, new) as late:
            assert (await late.get("/healthz")).status_code == 200
        with pytest.raises((httpx.TransportError, ssl.SSLError)):
            async with client(ports, old) as late:
                await late.get("/healthz")


async def test_a_held_bind_outlives_a_renewal_and_a_broken_pair_leaves_the_old_one_in_force(
    certificates: Certificates, pair: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    renewed, context = certificates.ours.server(file="renewed"), client_context(certificates, certificates.client)
    async with served(certificates.settings(pair)) as ports, client(ports, context) as scheduler:
        before, call = await _serial(ports, context), await held_bind(ports, scheduler)
        pair.cert.write_bytes(renewed.cert.read_bytes())
        with caplog.at_level(logging.ERROR, logger="netgang.tls"):
            for _ in range(3):
                await _look(ports)
        (line,) = said(caplog)
        assert "stay in force" in line
        assert f"tls.key_file = {pair.key}: is not the key of the certificate" in line
        assert await _serial(ports, context) == before
        pair.key.write_bytes(renewed.key.read_bytes())
        await _look(ports)
        assert await _serial(ports, context) != before
        assert [ports.count("tls_reloads_total", outcome=one) for one in ("refused", "loaded")] == [1, 1]
        assert ports.service.views.plan().held_binds == 1
        await ports.service.shut_down()
        assert (await call)["Error"] == Reason.NOT_LEADER


async def test_the_files_are_followed(certificates: Certificates, pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    telemetry = Telemetry()
    monkeypatch.setattr(server_tls, "RELOAD_S", 0.01)
    rotation = Rotation(certificates.settings(pair), SystemClock(), telemetry)
    certificates.ours.server(file="renewed").into(pair.cert.parent)
    loaded = partial(telemetry.registry.get_sample_value, "netgang_tls_reloads_total", {"outcome": "loaded"})
    async with asyncio.timeout(LIVENESS_S), playing(rotation.follow()):
        while not loaded():  # noqa: ASYNC110 - it reports nothing
            await asyncio.sleep(0.01)


async def test_good_files_make_a_context_that_demands_a_certificate_and_their_ends_are_shown(
    certificates: Certificates,
) -> None:
    loaded, telemetry = load(certificates.settings(), now_s=NOW_S()), Telemetry()
    assert (loaded.for_verbs.verify_mode, loaded.for_people.verify_mode) == (ssl.CERT_REQUIRED, ssl.CERT_NONE)
    assert {loaded.for_verbs.minimum_version, loaded.for_people.minimum_version} == {ssl.TLSVersion.TLSv1_2}
    rotation = Rotation(certificates.settings(), SystemClock(), telemetry)
    for certificate in ("server", "client_ca"):
        labels = {"certificate": certificate}
        ends_s = telemetry.registry.get_sample_value("netgang_tls_expiry_timestamp_seconds", labels)
        assert ends_s == pytest.approx(NOW_S() + 30 * DAY_S, abs=DAY_S)
    await rotation.check_files()
    assert "netgang_tls_reloads_total{" not in telemetry.exposition().decode(), "the files are the same"


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


def _damaged(path: Path) -> Path:
    path.write_text("-----BEGIN CERTIFICATE-----\nMAAA\n-----END CERTIFICATE-----\n")
    return path


NO_FILE = "cannot be read: No such file or directory; accepted: a PEM file with"
NOT_ITS_KEY = "is not the key of the certificate in tls.cert_file = …; give the key that"
Made = Callable[[Certificates, Path], dict[str, Path]]
UNUSABLE: dict[str, tuple[str, Made]] = {  # case: (what the refusal says; settings that are not good)
    "no certificate": (f"tls.cert_file = …/none: {NO_FILE} the server's", lambda _, tmp: {"cert_file": tmp / "none"}),
    "a damaged certificate": (
        "tls.cert_file = …, tls.key_file = …: OpenSSL cannot use them: …; accepted: PEM",
        lambda _, tmp: {"cert_file": _damaged(tmp / "x")},
    ),
    "no key file": (f"tls.key_file = …/none: {NO_FILE} a private key", lambda _, tmp: {"key_file": tmp / "none"}),
    "another key": (f"tls.key_file = …: {NOT_ITS_KEY}", lambda all_, _: {"key_file": all_.client.key}),
    "an expired certificate": (
        "tls.cert_file = …: no client would accept it: certificate has expired; renew it",
        lambda all_, tmp: dict(
            zip(("cert_file", "key_file"), astuple(all_.ours.server("old", days=-1, file=f"{tmp}/old")), strict=True)),
    ),
    "no authorities": (f"tls.client_ca_file = …/none: {NO_FILE}", lambda _, tmp: {"client_ca_file": tmp / "none"}),
    "a client's certificate for an authority": (
        "tls.client_ca_file = …: holds no certificate of an authority (CA:TRUE); accepted",
        lambda all_, _: {"client_ca_file": all_.client.cert},
    ),
    "an expired authority": (
        "tls.client_ca_file = …: every certificate in it has expired; renew it",
        lambda _, tmp: {"client_ca_file": Authority.made(tmp, "old", days=-1).cert},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("want", "made"), UNUSABLE.values(), ids=UNUSABLE)
def test_a_file_that_cannot_be_used_is_named(want: str, made: Made, certificates: Certificates, tmp_path: Path) -> None:
    """Texts go to logs: not a line of a key is in them."""
    with pytest.raises(ConfigError) as caught:
        load(replace(certificates.settings(), **made(certificates, tmp_path)), now_s=NOW_S())
    assert re.search(re.escape(want).replace("…", ".+"), str(caught.value))
    secrets = [line for one in (certificates.client, certificates.server) for line in one.key.read_text().split("\n")]
    assert not [line for line in secrets if len(line) == 64 and line in str(caught.value)]


def test_a_kubelet_s_swap_is_another_version(certificates: Certificates, tmp_path: Path) -> None:
    """Files of a mounted Secret are links through one directory link, which the kubelet replaces in one step."""
    for version in ("first", "second"):
        (tmp_path / version).mkdir()
        certificates.server.into(tmp_path / version)
    (tmp_path / "..data").symlink_to("first")
    for name in ("tls.crt", "tls.key"):
        (tmp_path / name).symlink_to(f"..data/{name}")
    settings = certificates.settings(Pair(tmp_path / "tls.crt", tmp_path / "tls.key"))
    before = marks_of(settings)
    (tmp_path / "..data.new").symlink_to("second")
    (tmp_path / "..data.new").rename(tmp_path / "..data")
    assert marks_of(settings) != before
    (tmp_path / "tls.key").unlink()
    assert len(marks_of(settings)) == 3
