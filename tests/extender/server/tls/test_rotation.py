"""Certificates that change while the process runs: new connections get the new ones, held binds keep theirs."""

import asyncio
import logging
import ssl
from functools import partial
from pathlib import Path

import httpx
import pytest

from extender import bootstrap
from extender.errors import ConfigError
from extender.runtime.clock import SystemClock
from extender.runtime.telemetry import Telemetry
from extender.server.tls.rotation import Rotation
from extender.settings.settings import Settings
from scoring.model.reasons import Reason
from tests.authority import Pair
from tests.extender.server.tls.conftest import Certificates, said
from tests.extender.server.tls.serving import CLUSTER, Served, client, client_context, held_bind, served
from tests.fakes.verbs import ARGS
from tests.liveness import LIVENESS_S

DAY_S = 86_400.0


@pytest.fixture
def pair(certificates: Certificates, tmp_path: Path) -> Pair:
    return certificates.server.into(tmp_path)


async def _serial(ports: Served, context: ssl.SSLContext) -> str:
    _, writer = await asyncio.open_connection("127.0.0.1", ports.port, ssl=context, server_hostname="localhost")
    writer.close()
    return str(writer.get_extra_info("peercert")["serialNumber"])


async def _look(ports: Served) -> None:
    assert ports.service.tls is not None
    await ports.service.tls.look()


async def test_a_held_bind_outlives_a_renewal(certificates: Certificates, pair: Pair) -> None:
    renewed = certificates.ours.server(file="renewed")
    context = client_context(certificates, certificates.client)
    async with served(certificates.settings(pair)) as ports, client(ports, context) as scheduler:
        before = await _serial(ports, context)
        call = await held_bind(ports, scheduler)
        renewed.into(pair.cert.parent)
        await _look(ports)
        assert await _serial(ports, context) != before
        assert ports.service.views.plan().held_binds == 1
        assert ports.count("tls_reloads_total", outcome="loaded") == 1
        await ports.service.shut_down()
        assert (await call)["Error"] == Reason.NOT_LEADER


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
    settings = certificates.settings().model_copy(update={"client_ca_file": authority})
    async with served(settings) as ports, client(ports, old) as scheduler:
        call = await held_bind(ports, scheduler)
        authority.write_bytes(certificates.theirs.cert.read_bytes())
        await _look(ports)
        async with client(ports, new) as late:
            assert (await late.get("/healthz")).status_code == 200
        with pytest.raises((httpx.TransportError, ssl.SSLError)):
            async with client(ports, old) as late:
                await late.get("/healthz")
        assert ports.service.views.plan().held_binds == 1
        await ports.service.shut_down()
        assert (await call)["Error"] == Reason.NOT_LEADER


async def test_a_broken_pair_leaves_the_old_one_in_force(
    certificates: Certificates, pair: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    context = client_context(certificates, certificates.client)
    async with served(certificates.settings(pair)) as ports:
        before = await _serial(ports, context)
        renewed = certificates.ours.server(file="renewed")
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


async def test_the_files_are_followed(certificates: Certificates, pair: Pair) -> None:
    telemetry = Telemetry()
    rotation = Rotation(certificates.settings(pair), SystemClock(), telemetry, reload_s=0.01)
    following = asyncio.create_task(rotation.follow())
    certificates.ours.server(file="renewed").into(pair.cert.parent)
    loaded = partial(telemetry.registry.get_sample_value, "netgang_tls_reloads_total", {"outcome": "loaded"})
    async with asyncio.timeout(LIVENESS_S):
        while not loaded():  # noqa: ASYNC110 - it reports nothing
            await asyncio.sleep(0.01)
    following.cancel()


async def test_an_expiry_is_shown(certificates: Certificates) -> None:
    clock, telemetry = SystemClock(), Telemetry()
    rotation = Rotation(certificates.settings(), clock, telemetry)
    for certificate in ("server", "client_ca"):
        labels = {"certificate": certificate}
        ends_s = telemetry.registry.get_sample_value("netgang_tls_expiry_timestamp_seconds", labels)
        assert ends_s == pytest.approx(clock.now_s() + 30 * DAY_S, abs=DAY_S)
    await rotation.look()
    assert "netgang_tls_reloads_total{" not in telemetry.exposition().decode(), "the files are the same"


async def test_a_broken_pair_at_the_start_is_refused(certificates: Certificates) -> None:
    """There is no old one that could stay: the process does not start."""
    tls = certificates.settings().model_copy(update={"key_file": certificates.client.key})
    with pytest.raises(ConfigError, match="is not the key of the certificate"):
        async with bootstrap.embedded(Settings(snapshot=CLUSTER, health_port=0, tls=tls)):
            pass
