"""Install, upgrade and uninstall with the chart on a real API server; the doctor finds what is put wrong.

There is no kubelet: the pods' commands are run by hand, with what the installed objects say.
"""

import asyncio
import json
import os
import sys
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab.testbed.api import Api, Object
from lab.testbed.cluster import INSTALLED_IN, NETGANG_SCHEDULER, Cluster
from lab.testbed.errors import ApiRefused
from lab.testbed.objects import namespace, pod_group, zone_nodes
from lab.testbed.parts.helm import CHART, Helm, find_helm, hooks
from lab.testbed.parts.hooks import jobs_by_hand
from lab.testbed.parts.replicas import replica
from lab.testbed.parts.service import Netgang, start_netgang
from lab.testbed.processes.credentials import service_account
from lab.testbed.processes.network import free_ports
from lab.testbed.programs.build import ensure_program
from probe.exchange import Exchange
from tests.authority import openssl
from tests.e2e.objects import GATE, as_stored, gang, gates
from tests.e2e.stage import say

UNINSTALL = "netgang-uninstall"
IMAGE = ("--set", "image.repository=netgang")
VALUES: Mapping[str, Any] = {"gates": {"enabled": True}, "scheduler": {"namespaces": True}}
TEAM = "team"


@pytest.fixture
def helm() -> Path:
    return find_helm() or ensure_program("helm")


@pytest.fixture
def own_cluster() -> Iterator[Cluster]:
    with Cluster(users=[service_account(INSTALLED_IN, UNINSTALL)]) as running:
        yield running


@pytest.fixture
async def admin(own_cluster: Cluster) -> AsyncIterator[Api]:
    await own_cluster.install("podgroup-crd")
    async with own_cluster.api() as client:
        await client.create(namespace(TEAM))
        yield client
    own_cluster.check_alive()


@pytest.mark.timeout(240, func_only=True)  # fixtures have their own time: helm may have to be built
async def test_from_install_to_uninstall(own_cluster: Cluster, admin: Api, helm: Path, tmp_path: Path) -> None:
    tool = Helm(helm, tmp_path, own_cluster.kubeconfig())
    values = tmp_path / "values.yaml"
    values.write_text(yaml.safe_dump(VALUES))
    release = ("netgang", str(CHART), "--namespace", INSTALLED_IN, "--values", str(values), *IMAGE)
    await asyncio.to_thread(tool.good, "install", *release, "--create-namespace")
    another = await asyncio.to_thread(tool.run, "install", "second", str(CHART), "--namespace", TEAM, *IMAGE)
    assert f"this cluster has a netgang: release netgang in namespace {INSTALLED_IN}" in another.complaint
    running = await _by_hand(own_cluster, admin, tmp_path)
    await own_cluster.add_nodes(zone_nodes({"a": 3}, cpu="4"))

    async def gates_given() -> list[str]:
        return gates(await as_stored(admin, gang("probe", 1, TEAM)[0]))

    await admin.until(gates_given, lambda found: found == [GATE], what="pods gated")
    await admin.create(pod_group("first", 3, namespace=TEAM))
    await admin.create_all(gang("first", 3, TEAM, cpu="1"))
    await admin.until_bound(TEAM, 3)

    await asyncio.to_thread(tool.good, "upgrade", *release, "--set", "settings.spill_wait_s=7")
    assert yaml.safe_load(await mounted(admin, "netgang", "netgang.yaml"))["spill_wait_s"] == 7
    await admin.create_all(gang("second", 3, TEAM, cpu="3"))
    clean = await _doctor(own_cluster, "--url", running.debug_url)
    assert (clean, clean and clean[0]) == ([], []), "a system as it should be"

    await running.part.stop()
    await _break(admin)
    found = {one["id"]: one["fix"] for one in await _doctor(own_cluster)}
    assert {name: words for name, words in SEEDED.items() if words not in found.get(name, "")} == {}, found
    assert set(found) == set(SEEDED)
    say(f"seeded misconfigurations that the doctor found: {len(SEEDED)}")

    objects = [one for one in yaml.safe_load_all(tool.good("get", "manifest", "netgang", "-n", INSTALLED_IN)) if one]
    async with jobs_by_hand(own_cluster, INSTALLED_IN) as ran:
        await asyncio.to_thread(tool.good, "uninstall", "netgang", "--namespace", INSTALLED_IN)
    assert ran.codes == {f"{UNINSTALL}-pre-delete": 0, f"{UNINSTALL}-post-delete": 0}, ran.said
    waiting = [one for one in await admin.list_all("Pod", namespace=TEAM) if not one["spec"].get("nodeName")]
    assert len(waiting) >= 3
    assert [gates(one) for one in waiting] == [[]] * len(waiting)
    assert len(objects) > 20
    assert await _left(admin, objects) == []
    assert hooks(objects) == []


@pytest.mark.timeout(120, func_only=True)
async def test_certificates_are_made_kept_and_renewed(
    own_cluster: Cluster, admin: Api, helm: Path, tmp_path: Path
) -> None:
    """By an upgrade after four years; kube-scheduler and agents trust netgang, and the former authority for a while."""
    tool = Helm(helm, tmp_path, own_cluster.kubeconfig())
    release = ("netgang", str(CHART), "--namespace", INSTALLED_IN, *IMAGE)
    await asyncio.to_thread(tool.good, "install", *release, "--create-namespace")
    secrets = ("netgang-tls", "netgang-scheduler-tls", "netgang-notes")

    async def keys() -> list[Object]:
        return [(await admin.get("Secret", name, namespace=INSTALLED_IN))["data"] for name in secrets]

    async def restarts() -> list[str]:
        deployments = await admin.list_all("Deployment", namespace=INSTALLED_IN)
        return [one["spec"]["template"]["metadata"]["annotations"]["checksum/settings"] for one in deployments]

    made, began = await keys(), await restarts()
    await asyncio.to_thread(tool.good, "upgrade", *release)
    assert (await keys(), await restarts()) == (made, began)
    for days, kept in ((1400, True), (1500, False)):
        at_s = int(b64decode(made[0]["made"])) - days * 86400
        for secret in secrets[:2]:
            old = {"data": {"made": b64encode(str(at_s).encode()).decode()}}
            await admin.patch("Secret", secret, old, namespace=INSTALLED_IN)
        await asyncio.to_thread(tool.good, "upgrade", *release)
        same = [new.get("tls.crt") == old.get("tls.crt") for new, old in zip(await keys(), made, strict=True)]
        assert same == [kept, kept, True]
        before, began = began, await restarts()
        assert {*before}.isdisjoint(began), "what reads them once reads them again"
    hosts = ("netgang.netgang-system.svc", "netgang-scheduler")
    for secret, former, host in zip(secrets, made, hosts, strict=False):
        place = await _certificates(admin, secret, tmp_path)
        (former_file := tmp_path / "former.crt").write_bytes(b64decode(former["tls.crt"]))
        for certificate in (place / "tls.crt", former_file):
            checked = ("-x509_strict", "-CAfile", str(place / "ca.crt"), "-verify_hostname", host)
            assert openssl("verify", *checked, str(certificate)).endswith(": OK\n")
    (authority := tmp_path / "authority.crt").write_text(await mounted(admin, "netgang-ca", "ca.crt"))
    settings = await _settings(admin, tmp_path) | {"leader_election": "off"}
    await start_netgang(own_cluster, settings, tls=True)
    (token := tmp_path / "token").write_text("of nobody")
    agent = Exchange(f"https://127.0.0.1:{settings['reports']['port']}", token_file=token, ca_file=authority)
    told = await asyncio.to_thread(agent.post, b"{}")
    assert told.error.startswith("401 "), told


SEEDED = {  # what is put wrong → words of its fix; each comes out as one finding (all others: tests/cli/doctor)
    "bind-timeout": "httpTimeout: 60s",
    "rights-missing": "helm upgrade",
    "zone-labels": "kubectl label node",
    "leader-missing": "Lease netgang-leader",
    "leader-label": "POD_NAME",
    "gates-stranded": "netgang uninstall",
}


async def _break(admin: Api) -> None:
    config = yaml.safe_load(await mounted(admin, "netgang-scheduler-config", "scheduler.yaml"))
    config["extenders"][1]["httpTimeout"] = "10s"
    changed = {"data": {"scheduler.yaml": yaml.safe_dump(config)}}
    await admin.patch("ConfigMap", "netgang-scheduler-config", changed, namespace=INSTALLED_IN)
    role = await admin.get("ClusterRole", "netgang")
    rules = [rule for rule in role["rules"] if "pods/binding" not in rule["resources"]]
    await admin.patch("ClusterRole", "netgang", [{"op": "replace", "path": "/rules", "value": rules}])
    await admin.patch("Node", "node1", {"metadata": {"labels": {"topology.kubernetes.io/zone": None}}})
    await admin.create_all(gang("late", 3, TEAM, gated=True))


async def _certificates(admin: Api, secret: str, directory: Path) -> Path:
    """Where the Secret's files are, as a volume."""
    (place := directory / secret).mkdir(exist_ok=True)
    for name, text in (await admin.get("Secret", secret, namespace=INSTALLED_IN))["data"].items():
        (place / name).write_bytes(b64decode(text))
    return place


async def _settings(admin: Api, directory: Path) -> dict[str, Any]:
    place, [port] = await _certificates(admin, "netgang-tls", directory), free_ports(1)
    settings: dict[str, Any] = yaml.safe_load(await mounted(admin, "netgang", "netgang.yaml"))
    files = {"cert_file": "tls.crt", "key_file": "tls.key", "client_ca_file": "ca.crt"}
    return settings | {
        "tls": settings["tls"] | {key: str(place / file) for key, file in files.items()},
        "reports": {"port": port},
    }


async def _by_hand(cluster: Cluster, admin: Api, directory: Path) -> Netgang:
    name = "netgang-0"
    await admin.create(replica(name))
    settings, own = await _settings(admin, directory), {"POD_NAME": name, "POD_NAMESPACE": INSTALLED_IN}
    running = await start_netgang(cluster, settings, env=own, tls=True)
    place = await _certificates(admin, "netgang-scheduler-tls", directory)
    config = yaml.safe_load(await mounted(admin, "netgang-scheduler-config", "scheduler.yaml"))
    for entry in config["extenders"]:
        files = {"certFile": "tls.crt", "keyFile": "tls.key", "caFile": "ca.crt"}
        entry["tlsConfig"] |= {key: str(place / file) for key, file in files.items()}
    await cluster.start_scheduler(config, name=NETGANG_SCHEDULER, extender=running.url, account=NETGANG_SCHEDULER)
    ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    await admin.patch("Pod", name, ready, namespace=INSTALLED_IN, subresource="status")
    return running


async def mounted(api: Api, name: str, key: str) -> str:
    return str((await api.get("ConfigMap", name, namespace=INSTALLED_IN))["data"][key])


async def _doctor(cluster: Cluster, *options: str) -> list[dict[str, str]]:
    argv = ("-m", "cli.main", "doctor", "--json", f"--kubeconfig={cluster.kubeconfig()}", *options)
    pipe = asyncio.subprocess.PIPE
    done = await asyncio.create_subprocess_exec(sys.executable, *argv, stdout=pipe, stderr=pipe, env=dict(os.environ))
    out, err = await done.communicate()
    assert done.returncode in (0, 1), err.decode()
    document: dict[str, Any] = json.loads(out)
    assert document["ok"] is (done.returncode == 0)
    return document["findings"]


async def _left(admin: Api, objects: list[Object]) -> list[str]:
    left = []
    more = [("Lease", one) for one in ("netgang-leader", "netgang-scheduler")]
    more += [("ServiceAccount", UNINSTALL), ("Secret", "sh.helm.release.v1.netgang.v2")]
    listed = [(one["kind"], one["metadata"]["name"], one["metadata"].get("namespace", INSTALLED_IN)) for one in objects]
    for kind, name, place in [*listed, *((kind, name, INSTALLED_IN) for kind, name in more)]:
        try:
            await admin.get(kind, name, namespace=place)
            left.append(f"{kind}/{name}")
        except ApiRefused as refused:
            if refused.status != 404:
                raise
    roles = [one["metadata"] for one in await admin.list_all("ClusterRole")]
    return left + [one["name"] for one in roles if UNINSTALL in str(one)]
