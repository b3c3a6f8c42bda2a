"""manifests/ as it lies in an API server, with a leader that renews its Lease."""

from collections.abc import Mapping
from itertools import count
from typing import Any

import yaml

from cli.doctor.facts import Look, Where, of_files
from lab.testbed.parts.installed import installed as installed_objects
from lab.testbed.parts.installed import installed_settings
from tests.contract.manifests.rendered import ROOT, gates
from tests.fakes.operator_api import FakeOperatorApi

HOME = "namespaces/netgang-system"
LEASE = f"/apis/coordination.k8s.io/v1/{HOME}/leases/netgang-leader"
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


def text(path: str) -> str:
    return (ROOT / path).read_text()


def path_of(one: Mapping[str, Any]) -> str:
    group, place = one["apiVersion"], f"{HOME}/" if "namespace" in one["metadata"] else ""
    root = f"/apis/{group}" if "/" in group else f"/api/{group}"
    plural = PLURALS.get(one["kind"], f"{one['kind'].lower()}s")
    return f"{root}/{place}{plural}/{one['metadata']['name']}"


def put(api: FakeOperatorApi, path: str, document: Any) -> None:
    api.add(path, **{key: value for key, value in document.items() if key != "metadata"})


def plain_settings() -> dict[str, Any]:
    """With a source instead of the probe, and so without certificates."""
    return installed_settings() | {"network": {"sources": [{"kind": "file", "path": "mesh.json"}]}}


def installed() -> FakeOperatorApi:
    """manifests/second-scheduler.yaml with plain settings, the policy of the gate, two replicas, and one node."""
    api = FakeOperatorApi()
    api.server.documents["/version"] = {"gitVersion": "v1.36.3"}
    for made in installed_objects():
        put(api, path_of(made), made)
    scheduler, settings = text("scheduler-config/second-scheduler.yaml"), yaml.safe_dump(plain_settings())
    api.edit(CONFIG, lambda one: one["data"].update({"scheduler.yaml": scheduler}))
    api.edit(SETTINGS, lambda one: one["data"].update({"netgang.yaml": settings}))
    api.add(LEASE, spec={"holderIdentity": "netgang-0", "renewTime": "0"})
    renewals = count(1)

    def renew(path: str) -> None:
        if path == LEASE:
            api.edit(LEASE, lambda lease: lease["spec"].update(renewTime=str(next(renewals))))

    api.on_get = renew
    for number, role in enumerate(("leader", "standby")):
        labels = {"app.kubernetes.io/name": "netgang", **({"netgang.io/role": role} if role == "leader" else {})}
        api.add(
            f"/api/v1/{HOME}/pods/netgang-{number}",
            metadata={"labels": labels},
            spec={"containers": [{"name": "netgang", "image": "netgang:0.1.0"}]},
            status={"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
        )
    for one in gates():
        if one["metadata"]["name"] == "netgang-gate":
            put(api, path_of(one), one)
    api.add("/api/v1/nodes/n1", metadata={"labels": {"topology.kubernetes.io/zone": "a"}}, status={})
    return api


def look(api: FakeOperatorApi, **where: Any) -> Look:
    given = Where(**where)
    return Look(api, given, of_files(given))
