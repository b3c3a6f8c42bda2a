"""TLS between a real kube-scheduler and netgang: who gets to bind, and certificates that change under a held gang.

The configuration is the one that manifests/components/tls installs, with the files of this test in its tlsConfig.
"""

from __future__ import annotations

import asyncio
import re
import ssl
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from testbed.cluster import NETGANG, NETGANG_SCHEDULER
from testbed.objects import gang_pods, zone_nodes
from testbed.parts.service import ROOT, Netgang, installed_gates
from testbed.processes.network import LOOPBACK, free_ports
from testbed.processes.schedulers import load_configuration
from tests.authority import Authority, Pair
from tests.e2e.faults.test_faults import needs_anchor, placed_pod
from tests.e2e.stage import Stage, document, metric, until_held

core = pytest.mark.e2e_core
OURS = "netgang"
COMPONENTS = ROOT / "manifests/components"
SERVICE = "netgang.netgang-system.svc"


@dataclass(frozen=True, slots=True)
class Guarded:
    """A netgang that demands client certificates, its authority, and the files that it reads."""

    netgang: Netgang
    """Its port for people, which needs none"""
    url: str
    authority: Authority
    pair: Pair
    client_ca: Path


async def _start(stage: Stage, directory: Path, **more: Any) -> Guarded:
    """Netgang with certificates in `directory`, ready by its health port."""
    authority = Authority.made(directory, "ours")
    pair = _server(authority).into(directory)
    client_ca = directory / "client-ca.crt"
    client_ca.write_bytes(authority.cert.read_bytes())
    port, debug_port, health_port = free_ports(3)
    settings = {
        "port": port,
        "debug_port": debug_port,
        "health_port": health_port,
        "tls": {
            "cert_file": str(pair.cert),
            "key_file": str(pair.key),
            "client_ca_file": str(client_ca),
            "client_names": ["netgang-scheduler"],
        },
        **more,
    }
    file = directory / "settings.yaml"
    file.write_text(yaml.safe_dump(settings))
    access = stage.cluster.kubeconfig(NETGANG)
    part = await stage.cluster.start_part(
        "netgang",
        [sys.executable, "-m", "cli.main", "serve", f"--kubeconfig={access}", f"--config={file}"],
        ready_url=f"http://{LOOPBACK}:{health_port}/readyz",
    )
    people = f"http://{LOOPBACK}:{debug_port}"
    return Guarded(Netgang(part, people, people), f"https://{LOOPBACK}:{port}", authority, pair, client_ca)


def _server(authority: Authority, *, file: str | None = None) -> Pair:
    """As docs/how-to/tls.md makes it, and for the loopback."""
    return authority.issue("netgang", san=f"DNS:{SERVICE},IP:{LOOPBACK}", usage="serverAuth", file=file)


async def _schedule(stage: Stage, guarded: Guarded, pair: Pair | None) -> None:
    """A kube-scheduler with the installed TLS configuration that shows `pair`; an earlier one is stopped."""
    if NETGANG_SCHEDULER in stage.cluster.parts:
        await stage.cluster.remove(NETGANG_SCHEDULER)
    configuration = load_configuration(COMPONENTS / "tls/second-scheduler.yaml")
    for entry in configuration["extenders"]:
        assert entry["enableHTTPS"] is True
        entry["tlsConfig"]["caFile"] = str(guarded.authority.cert)
        for field, path in (("certFile", pair and pair.cert), ("keyFile", pair and pair.key)):
            entry["tlsConfig"].pop(field)
            if path is not None:
                entry["tlsConfig"][field] = str(path)
    await stage.start_scheduler(
        configuration,
        name=NETGANG_SCHEDULER,
        version=stage.version,
        extender=guarded.url,
        account=NETGANG_SCHEDULER,
        feature_gates=installed_gates(),
    )


async def _handshakes(guarded: Guarded, outcome: str) -> float:
    return await metric(guarded.netgang, "netgang_tls_handshakes_total", outcome=outcome)


@core
async def test_only_the_right_certificate_gets_to_bind(stage: Stage, tmp_path: Path) -> None:
    """Four schedulers with a wrong, expired, missing or strange certificate ask nothing; the fifth starts the gang."""
    await stage.add_nodes(*zone_nodes({"a": 4}, cpu="1500m"))
    guarded = await _start(stage, tmp_path)
    ours, theirs = guarded.authority, Authority.made(tmp_path, "theirs")
    strangers = {
        "unknown_authority": theirs.issue("netgang-scheduler"),
        "expired": ours.issue("netgang-scheduler", days=-1, file="expired"),
        "no_certificate": None,
        "wrong_name": ours.issue("system:node:n1"),
    }
    await stage.api.create_all(gang_pods("g", 4, min_available=4, namespace=stage.namespace, scheduler=OURS))
    for outcome, pair in strangers.items():
        await _schedule(stage, guarded, pair)
        await stage.api.until(
            lambda: _handshakes(guarded, outcome),  # noqa: B023 - awaited in the same turn
            lambda count: count >= 2,
            what=f"two handshakes refused: {outcome}",
        )
    assert await stage.bound() == {}
    assert await metric(guarded.netgang, "netgang_requests_total") == 0
    assert await metric(guarded.netgang, "netgang_bindings_total") == 0
    await _schedule(stage, guarded, ours.issue("netgang-scheduler"))
    await stage.until_bound("g", 4)
    assert await _handshakes(guarded, "accepted") >= 1
    assert await metric(guarded.netgang, "netgang_bindings_total", outcome="bound") == 4


@core
async def test_kube_scheduler_s_log_names_the_cause(stage: Stage, tmp_path: Path) -> None:
    """Who looks there first finds a TLS alert and not just a closed connection."""
    await stage.add_nodes(*zone_nodes({"a": 1}))
    guarded = await _start(stage, tmp_path)
    await _schedule(stage, guarded, None)
    await stage.api.create_all(gang_pods("g", 1, min_available=1, namespace=stage.namespace, scheduler=OURS))

    async def messages() -> str:
        events = await stage.api.list_all("Event", namespace=stage.namespace)
        return "\n".join(str(one.get("message") or one.get("note")) for one in events)

    await stage.api.until(messages, lambda text: "certificate required" in text, what="the event names the cause")


@core
async def test_certificates_change_under_a_held_gang(stage: Stage, tmp_path: Path) -> None:
    """Three of four are held, server pair and client authorities change: no call is lost, the fourth completes them."""
    await stage.add_nodes(*zone_nodes({"a": 5}, cpu="1500m"))
    guarded = await _start(stage, tmp_path)
    await _schedule(stage, guarded, guarded.authority.issue("netgang-scheduler"))
    members = gang_pods("g", 4, min_available=4, namespace=stage.namespace, scheduler=OURS)
    needs_anchor(members[3])
    await stage.api.create_all(members)
    await until_held(stage, guarded.netgang, 3)

    _server(guarded.authority, file="renewed").into(tmp_path)
    other = Authority.made(tmp_path, "another")
    guarded.client_ca.write_text(guarded.authority.cert.read_text() + other.cert.read_text())
    await _until_reloads(stage, guarded, "loaded", 1)
    (tmp_path / "tls.key").write_text("not a key")
    await _until_reloads(stage, guarded, "refused", 1)

    plan = await document(guarded.netgang, "/v1/plan")
    assert plan["held_binds"] == 3
    taken = {where for gang in plan["admitted"] for where in gang["members"].values()}
    free = sorted({f"node{i}" for i in range(1, 6)} - taken)
    labels = {"anchor": "yes"}
    await stage.api.create(placed_pod("anchor", free[0], namespace=stage.namespace, labels=labels, cpu="100m"))
    await stage.until_bound("g", 4)
    assert await metric(guarded.netgang, "netgang_requests_total", verb="bind") == 4
    assert await metric(guarded.netgang, "netgang_requests_total", verb="bind", outcome="bound") == 4
    shown = await asyncio.to_thread(ssl.get_server_certificate, (LOOPBACK, httpx.URL(guarded.url).port or 0))
    assert shown.strip() == (tmp_path / "renewed.crt").read_text().strip()


async def _until_reloads(stage: Stage, guarded: Guarded, outcome: str, count: int) -> None:
    await stage.api.until(
        lambda: metric(guarded.netgang, "netgang_tls_reloads_total", outcome=outcome),
        lambda found: found >= count,
        what=f"certificates {outcome}",
    )


@pytest.fixture
async def reviews(stage: Stage) -> AsyncIterator[None]:
    """The rights of manifests/components/debug-auth, for one test."""
    found = await stage.api.apply(COMPONENTS / "debug-auth/rbac.yaml")
    yield
    for one in found:
        await stage.api.delete(one["kind"], one["metadata"]["name"])


async def test_documents_for_those_who_have_the_right(stage: Stage, tmp_path: Path, reviews: None) -> None:
    """A real TokenReview and SubjectAccessReview: an administrator reads, a service account may not."""
    guarded = await _start(stage, tmp_path, debug_auth="token")
    tokens = {name: _token(stage.cluster.kubeconfig(name)) for name in ("admin", NETGANG_SCHEDULER)} | {"": "wrong"}
    statuses = {}
    async with httpx.AsyncClient(base_url=guarded.netgang.debug_url) as people:
        for name, token in tokens.items():
            answer = await people.get("/v1/plan", headers={"Authorization": f"Bearer {token}"})
            statuses[name] = answer.status_code
    assert statuses == {"admin": 200, NETGANG_SCHEDULER: 403, "": 401}


def _token(kubeconfig: Path) -> str:
    (token,) = re.findall(r"token: (\S+)", kubeconfig.read_text())
    return str(token)
