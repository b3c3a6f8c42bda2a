"""Gangs of Kubernetes' own on the test bed: the feature gates, the API version and the objects of each minor version.

Why here: tests and benchmarks switch on the same things. Rule: API server and kube-scheduler get what
docs/how-to/gates-and-schedulers.md says that they need.
"""

from collections.abc import Mapping
from typing import Any

from lab.testbed.api import Api, Object
from lab.testbed.cluster import Cluster
from lab.testbed.programs.catalogue import Version

_GATES = ("GenericWorkload", "TopologyAwareWorkloadScheduling")
_JOBS = "WorkloadWithJob"
SERVED: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "1.36": ("scheduling.k8s.io/v1alpha2", ("GangScheduling", *_GATES)),
    "1.37": ("scheduling.k8s.io/v1beta1", _GATES),
}
"""minor version → API of Workload and PodGroup, and the feature gates"""


def served(version: Version) -> tuple[str, dict[str, bool]]:
    """API of Workload and PodGroup, and the feature gates for API server and kube-scheduler. KeyError: has neither."""
    api, needed = SERVED[version.rpartition(".")[0]]
    return api, dict.fromkeys(needed, True)


async def switch_on(cluster: Cluster, *, jobs: bool = True) -> None:
    """Restart the cluster's API server with the gates, and what watches it.

    `jobs`: whether Jobs make groups of their own then; else what runs Jobs is left alone.
    """
    server, (api, on) = cluster.parts["kube-apiserver"], served(cluster.version)
    flag = "--feature-gates=" + ",".join(f"{gate}=true" for gate in (*on, *([_JOBS] if jobs else [])))
    server.argv = (*server.argv, flag, f"--runtime-config={api}=true")
    await cluster.restart("kube-apiserver")
    controllers = cluster.parts.get("kube-controller-manager")
    if jobs and controllers is not None:
        controllers.argv = (*controllers.argv, flag)
        await cluster.restart("kube-controller-manager")
    if "kwok" in cluster.parts:
        await cluster.restart("kwok")


def native_group(name: str, count: int, *, version: Version, namespace: str = "default", **more: Any) -> list[Object]:
    """Workload and PodGroup of a gang of `count`, in this order: the API server wants to know the Workload first.

    `more`: further fields of the PodGroup and of its template.
    """
    api, _ = served(version)
    how: dict[str, Any] = {"schedulingPolicy": {"gang": {"minCount": count}}, **more}
    if api.endswith("/v1beta1"):
        reference: dict[str, Any] = {"workloadRef": {"workloadName": name, "templateName": "workers"}}
    else:
        template = {"workload": {"workloadName": name, "podGroupTemplateName": "workers"}}
        reference = {"podGroupTemplateRef": template}
    workload = {"podGroupTemplates": [{"name": "workers", **how}]}
    return [
        {"apiVersion": api, "kind": kind, "metadata": {"name": name, "namespace": namespace}, "spec": spec}
        for kind, spec in (("Workload", workload), ("PodGroup", {**reference, **how}))
    ]


def in_group(member: Object, name: str) -> Object:
    """The pod as a member of the PodGroup of this name."""
    return {**member, "spec": {**member["spec"], "schedulingGroup": {"podGroupName": name}}}


async def delete_groups(api: Api, *, version: Version, namespace: str) -> None:
    """Delete all Workloads and PodGroups; no controller runs here that would take a PodGroup's finalizer away."""
    served_as, _ = served(version)
    for one in await api.list_all("PodGroup", namespace=namespace, api_version=served_as):
        if one["metadata"].get("finalizers"):
            path = f"/apis/{served_as}/namespaces/{namespace}/podgroups/{one['metadata']['name']}"
            body = {"metadata": {"finalizers": None}}
            await api.request("PATCH", path, body=body, content_type="application/merge-patch+json")
    for kind in ("PodGroup", "Workload"):
        await api.delete_all(kind, namespace=namespace, api_version=served_as)
