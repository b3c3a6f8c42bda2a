"""TLS between a real kube-scheduler and netgang: who gets to bind, and certificates that change under a held gang."""

import asyncio
import ssl
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
import msgspec
import yaml

from lab.testbed.cluster import INSTALLED_IN, NETGANG_SCHEDULER
from lab.testbed.objects import zone_nodes
from lab.testbed.parts.helm import Helm, find_helm
from lab.testbed.parts.service import Netgang
from lab.testbed.processes.network import LOOPBACK
from lab.testbed.programs.build import ensure_program
from lab.testbed.programs.catalogue import KUBERNETES
from tests.authority import Authority, Pair
from tests.e2e.stage import Stage, document, metric

SERVICE = "netgang.netgang-system.svc"


class Guarded(msgspec.Struct, frozen=True):
    netgang: Netgang  # its port for people, which needs none
    url: str
    authority: Authority
    pair: Pair
    client_ca: Path


async def _start(stage: Stage, directory: Path) -> Guarded:
    authority = Authority.made(directory, "ours")
    pair = _server(authority).into(directory)
    client_ca = directory / "client-ca.crt"
    client_ca.write_bytes(authority.cert.read_bytes())
    tls = {"cert_file": pair.cert, "key_file": pair.key, "client_ca_file": client_ca}
    guard = {"tls": {name: str(path) for name, path in tls.items()} | {"client_names": ["netgang-scheduler"]}}
    netgang = await stage.start_netgang(guard, tls=True)
    people = Netgang(netgang.part, netgang.debug_url, netgang.debug_url)
    return Guarded(people, netgang.url, authority, pair, client_ca)


def _server(authority: Authority, *, file: str = "") -> Pair:
    return authority.issue("netgang", san=f"DNS:{SERVICE},IP:{LOOPBACK}", usage="serverAuth", file=file)


async def _schedule(stage: Stage, guarded: Guarded) -> None:
    pair = guarded.authority.issue("netgang-scheduler")
    configuration = await asyncio.to_thread(_installed)
    for entry in configuration["extenders"]:
        assert entry["enableHTTPS"] is True
        files = {"caFile": guarded.authority.cert, "certFile": pair.cert, "keyFile": pair.key}
        assert files.keys() < entry["tlsConfig"].keys()
        entry["tlsConfig"] |= {field: str(path) for field, path in files.items()}
    own = NETGANG_SCHEDULER
    await stage.cluster.start_scheduler(configuration, name=own, extender=guarded.url, account=own)


def _installed() -> dict[str, Any]:
    with TemporaryDirectory() as home:
        helm = Helm(find_helm() or ensure_program("helm"), Path(home))
        objects = helm.render({"tls": {"enabled": True}}, namespace=INSTALLED_IN, version=KUBERNETES)
    (found,) = [one for one in objects if one["metadata"]["name"] == "netgang-scheduler-config"]
    configuration: dict[str, Any] = yaml.safe_load(found["data"]["scheduler.yaml"])
    return configuration


async def test_certificates_change_under_a_held_gang(stage: Stage, tmp_path: Path) -> None:
    await stage.add_nodes(*zone_nodes({"a": 5}, cpu="1500m"))
    guarded = await _start(stage, tmp_path)
    await _schedule(stage, guarded)
    await stage.create_held_gang(guarded.netgang, "g", 4)

    _server(guarded.authority, file="renewed").into(tmp_path)
    other = Authority.made(tmp_path, "another")
    guarded.client_ca.write_text(guarded.authority.cert.read_text() + other.cert.read_text())
    await _until_reloads(stage, guarded, "loaded", 1)
    (tmp_path / "tls.key").write_text("not a key")
    await _until_reloads(stage, guarded, "refused", 1)

    plan = await document(guarded.netgang, "/v1/plan")
    assert plan["held_binds"] == 3
    taken = {where for gang in plan["admitted"] for where in gang["members"].values()}
    await stage.create_anchor(sorted({f"node{i}" for i in range(1, 6)} - taken)[0])
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
