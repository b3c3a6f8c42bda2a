"""Kueue's manager as a part of the cluster.

Why the real one: when it suspends a job, what it changes in a pod template and when it removes its gate is its code.
Rule: it runs out of the cluster, with fair sharing on. It makes its webhooks' certificate itself, for the name of its
Service, so the API server finds it through a Service whose external name is this computer.
"""

from pathlib import Path

import yaml

from lab.testbed.api import Api, Object
from lab.testbed.cluster import Cluster
from lab.testbed.objects import namespace
from lab.testbed.parts.carried import carried
from lab.testbed.processes.network import LOOPBACK, free_ports
from lab.testbed.processes.process import Child
from lab.testbed.programs.build import ensure_asset, ensure_program

KUEUE = "kueue"
CRDS = "kueue-crds"
WEBHOOKS = "kueue-webhooks"
_NAMESPACE = "kueue-system"
_SERVICE = "kueue-webhook-service"
_SECRET = "kueue-webhook-server-cert"  # noqa: S105 - the name of a Secret
_CONVERTED = ("clusterqueues", "cohorts", "localqueues", "multikueueclusters", "workloads")
_OBJECTS = "workloads,localqueues,clusterqueues,cohorts.kueue.x-k8s.io,resourceflavors"
_START_LIMIT_S = 120.0  # it takes about ten; it makes its certificate before it starts
_END_LIMIT = "--timeout=60s"


async def start_kueue(cluster: Cluster) -> Child:
    """Start it for Jobs, StatefulSets and plain pods, its kinds and webhooks installed, and wait until it is ready.

    Stops with the cluster; `end_kueue` takes the rest away. Minutes when the program has to be built.
    """
    program = ensure_program(KUEUE)
    await cluster.install(CRDS)
    health, webhook = free_ports(2)
    config, certificates = cluster.directory / "kueue.yaml", cluster.directory / "kueue-certificates"
    config.write_text(yaml.safe_dump(_configuration(health, webhook, certificates)))
    async with cluster.api() as api:
        await _prepare(api, webhook)
        async with carried(api, _SECRET, namespace=_NAMESPACE, to=[certificates]):
            command: list[str | Path] = [program, f"--kubeconfig={cluster.kubeconfig()}", f"--config={config}"]
            url = f"http://{LOOPBACK}:{health}/readyz"
            return await cluster.start_part(KUEUE, command, ready_url=url, limit_s=_START_LIMIT_S)


async def end_kueue(cluster: Cluster) -> None:
    """Delete its objects while it can still finish them, stop it, and take away its webhooks.

    Jobs and pods that it manages must be gone by then. Its namespace stays, with the certificate, and so do its kinds:
    while one is being deleted the next start could not make it again. Fine if it got half-way only.
    """
    if KUEUE in cluster.parts:
        await cluster.kubectl("delete", _OBJECTS, "--all", "--all-namespaces", "--ignore-not-found", _END_LIMIT)
        await cluster.remove(KUEUE)
    async with cluster.api() as api:
        for hook in _hooks(port=1):
            await api.delete(hook["kind"], hook["metadata"]["name"])


async def _prepare(api: Api, webhook: int) -> None:
    """What it wants to find: its namespace, a Secret and a Service, its webhooks, and kinds that it converts."""
    home = {"namespace": _NAMESPACE}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": _SECRET, **home}}
    leads = {"type": "ExternalName", "externalName": "localhost"}
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": _SERVICE, **home}, "spec": leads}
    await api.apply([namespace(_NAMESPACE), secret, service, *_hooks(webhook)])
    asked = {"service": {"name": _SERVICE, **home, "path": "/convert", "port": webhook}}
    conversion = {"strategy": "Webhook", "webhook": {"clientConfig": asked, "conversionReviewVersions": ["v1"]}}
    for plural in _CONVERTED:
        name = f"{plural}.kueue.x-k8s.io"
        await api.patch("CustomResourceDefinition", name, {"spec": {"conversion": conversion}})


def _hooks(port: int) -> list[Object]:
    """The webhooks of the release under the names that its installation gives them, asked at this port.

    Pods of the system and its own are left out, as its installation does it.
    """
    (file,) = ensure_asset(WEBHOOKS).iterdir()
    found = [one for one in yaml.safe_load_all(file.read_text()) if one]
    system = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system", _NAMESPACE]}
    for document in found:
        document["metadata"]["name"] = f"kueue-{document['metadata']['name']}"
        for hook in document["webhooks"]:
            hook["clientConfig"]["service"] |= {"name": _SERVICE, "namespace": _NAMESPACE, "port": port}
            if hook["rules"][0]["apiGroups"] != ["kueue.x-k8s.io"]:
                hook["namespaceSelector"] = {"matchExpressions": [system]}
    return found


def _configuration(health: int, webhook: int, certificates: Path) -> dict[str, object]:
    return {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "namespace": _NAMESPACE,
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {
            "enable": True,  # without it, it wants a certificate for its metrics at a place that cannot be configured
            "webhookServiceName": _SERVICE,
            "webhookSecretName": _SECRET,
        },
        "metrics": {"bindAddress": "0"},
        "health": {"healthProbeBindAddress": f"{LOOPBACK}:{health}"},
        "webhook": {"host": LOOPBACK, "port": webhook, "certDir": str(certificates)},
        "integrations": {"frameworks": ["batch/job", "pod", "statefulset"]},
        "fairSharing": {"preemptionStrategies": ["LessThanOrEqualToFinalShare", "LessThanInitialShare"]},
        "featureGates": {"VisibilityOnDemand": False},  # it would serve an API at a port of its own
    }
