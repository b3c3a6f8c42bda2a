"""manifests/ as it lies in an API server, with a leader that renews its Lease."""

from itertools import count
from typing import Any

import yaml

from cli.doctor.cluster_facts import Look, Where
from tests.cli.doctor.system import ROOT, policies
from tests.fakes.operator_api import FakeOperatorApi

HOME = "namespaces/netgang-system"
LEASE = f"/apis/coordination.k8s.io/v1/{HOME}/leases/netgang-leader"
DEPLOYMENT = f"/apis/apps/v1/{HOME}/deployments/netgang"
SCHEDULER = f"/apis/apps/v1/{HOME}/deployments/netgang-scheduler"
SETTINGS = f"/api/v1/{HOME}/configmaps/netgang"
CONFIG = f"/api/v1/{HOME}/configmaps/netgang-scheduler-config"
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
PLURALS = {
    "MutatingAdmissionPolicy": "mutatingadmissionpolicies",
    "MutatingAdmissionPolicyBinding": "mutatingadmissionpolicybindings",
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
}


def read(path: str) -> Any:
    return yaml.safe_load((ROOT / path).read_text())


def text(path: str) -> str:
    return (ROOT / path).read_text()


def put(api: FakeOperatorApi, path: str, document: Any) -> None:
    api.add(path, **{key: value for key, value in document.items() if key != "metadata"})


def installed() -> FakeOperatorApi:
    """Overlay second-scheduler with both policies, two replicas, one node, and one gang at the gate."""
    api = FakeOperatorApi()
    api.objects["/version"] = {"gitVersion": "v1.36.3"}
    api.objects[ADMISSION] = {"resources": [{"name": "mutatingadmissionpolicies"}]}
    put(api, DEPLOYMENT, read("manifests/base/deployment.yaml"))
    scheduler = read("manifests/overlays/second-scheduler/scheduler.yaml")
    scheduler["spec"]["template"]["spec"]["containers"][0]["image"] += ":v1.36.3"
    put(api, SCHEDULER, scheduler)
    api.add(SETTINGS, data={"netgang.yaml": text("manifests/base/settings.yaml")})
    api.add(CONFIG, data={"scheduler.yaml": text("scheduler-config/second-scheduler.yaml")})
    service = read("manifests/base/service.yaml")
    put(api, f"/api/v1/{HOME}/services/netgang", service)
    api.add(LEASE, spec={"holderIdentity": "netgang-0", "renewTime": "0"})
    renewals = count(1)
    api.on_get = lambda path: api.change(LEASE, renewTime=str(next(renewals))) if path == LEASE else None
    for number, role in enumerate(("leader", "standby")):
        labels = {"app.kubernetes.io/name": "netgang", **({"netgang.io/role": role} if role == "leader" else {})}
        api.add(
            f"/api/v1/{HOME}/pods/netgang-{number}",
            metadata={"labels": labels},
            spec={"containers": [{"name": "netgang", "image": "netgang:0.1.0"}]},
            status={"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
        )
    seen = policies()
    for kind, objects in (
        ("MutatingAdmissionPolicy", seen.policies),
        ("MutatingAdmissionPolicyBinding", seen.bindings),
    ):
        for name, one in (objects or {}).items():
            put(api, f"{ADMISSION}/{PLURALS[kind]}/{name}", one)
    for one in yaml.safe_load_all(text("manifests/base/confinement.yaml")):
        put(api, f"{ADMISSION}/{PLURALS[one['kind']]}/{one['metadata']['name']}", one)
    api.add("/api/v1/nodes/n1", metadata={"labels": {"topology.kubernetes.io/zone": "a"}}, status={})
    return api


def look(api: FakeOperatorApi, **where: Any) -> Look:
    return Look(api, Where(**where))
