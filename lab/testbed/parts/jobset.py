"""JobSet's controller as a part of the cluster.

Why the real one: the labels on its pods are what netgang reads, and how it passes on a change of size is what netgang's
resizing rests on. Rule: it runs out of the cluster with the webhooks of its own release on the loopback, because its
controller relies on the defaults that they write. Its certificate is the caller's.
"""

import base64
from collections.abc import Mapping
from pathlib import Path

import yaml

from lab.testbed.api import Object
from lab.testbed.cluster import Cluster
from lab.testbed.processes.network import LOOPBACK, free_ports
from lab.testbed.processes.process import Child
from lab.testbed.programs.build import ensure_asset, ensure_program

JOBSET = "jobset"
CRDS = "jobset-crds"
WEBHOOKS = "jobset-webhooks"


async def start_jobset(
    cluster: Cluster, *, certificates: Path, authority: Path, gates: Mapping[str, bool] | None = None
) -> Child:
    """Start it, its kind and webhooks installed, and wait until it is ready; it stops with the cluster.

    `certificates` holds tls.crt and tls.key for the loopback, which `authority` signed; `gates` are features of its.
    """
    program = ensure_program(JOBSET)
    await cluster.install(CRDS)
    health, webhook = free_ports(2)
    config = cluster.directory / "jobset.yaml"
    config.write_text(yaml.safe_dump(_configuration(health, webhook, certificates, gates or {})))
    argv: list[str | Path] = [program, f"--kubeconfig={cluster.kubeconfig()}", f"--config={config}"]
    async with cluster.api() as api:
        part = await cluster.start_part(JOBSET, argv, ready_url=f"http://{LOOPBACK}:{health}/readyz")
        await api.apply(_hooks(webhook, authority))
    return part


async def end_jobset(cluster: Cluster) -> None:
    """Stop it and take away what `start_jobset` installed, the JobSets with it; fine if it got half-way only."""
    if JOBSET in cluster.parts:
        await cluster.remove(JOBSET)
    for path in (ensure_asset(WEBHOOKS), ensure_asset(CRDS)):
        await cluster.kubectl("delete", "--ignore-not-found", "--wait=false", "--filename", str(path))


def _hooks(port: int, authority: Path) -> list[Object]:
    """The webhooks of the release, to be asked on the loopback and trusted by this authority."""
    (file,) = ensure_asset(WEBHOOKS).iterdir()
    found = list(yaml.safe_load_all(file.read_text()))
    bundle = base64.b64encode(authority.read_bytes()).decode()
    for one in (hook for document in found for hook in document["webhooks"]):
        path = one["clientConfig"]["service"]["path"]
        one["clientConfig"] = {"url": f"https://{LOOPBACK}:{port}{path}", "caBundle": bundle}
    return found


def _configuration(health: int, webhook: int, certificates: Path, gates: Mapping[str, bool]) -> dict[str, object]:
    return {
        "apiVersion": "config.jobset.x-k8s.io/v1alpha1",
        "kind": "Configuration",
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": False},
        "metrics": {"bindAddress": "0"},
        "health": {"healthProbeBindAddress": f"{LOOPBACK}:{health}"},
        "webhook": {"host": LOOPBACK, "port": webhook, "certDir": str(certificates)},
        "featureGates": dict(gates),
    }
