"""Every call to the Kubernetes API that the client can make.

Rule: the client builds each path from a resource of this table and refuses a collection that is not in it; a contract
test compares the table with the RBAC rules of the chart, which must be exactly what the program uses.
"""

import re
from collections.abc import Mapping
from typing import TypeAlias
from urllib.parse import quote

import msgspec
from msgspec.structs import replace

Right: TypeAlias = tuple[str, str, str]  # (verb, API group, resource[/subresource]), as RBAC has it


class Resource(msgspec.Struct, frozen=True):
    """Where a kind is served; the core group is ""."""

    group: str
    version: str
    plural: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """As objects name it."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def root(self) -> str:
        """URL path of the group and version."""
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"

    def collection(self, namespace: str = "") -> str:
        """URL path of the collection, in one namespace or over all."""
        inside = f"/namespaces/{quote(namespace, safe='')}" if namespace else ""
        return f"{self.root}{inside}/{self.plural}"

    def path(self, namespace: str, name: str, subresource: str = "") -> str:
        """URL path of one object or of its subresource; names are quoted, so that none can leave its place."""
        tail = f"/{subresource}" if subresource else ""
        return f"{self.collection(namespace)}/{quote(name, safe='')}{tail}"


PODS = Resource("", "v1", "pods")
NODES = Resource("", "v1", "nodes", namespaced=False)
DAEMON_SETS = Resource("apps", "v1", "daemonsets")
POD_GROUPS = Resource("scheduling.x-k8s.io", "v1alpha1", "podgroups")
NATIVE_GROUPS = tuple(Resource("scheduling.k8s.io", version, "podgroups") for version in ("v1beta1", "v1alpha2"))
"""Kubernetes' own PodGroups, as 1.37 and 1.36 serve them; an API server serves one of these versions, or none."""
EVENTS = Resource("events.k8s.io", "v1", "events")
LEASES = Resource("coordination.k8s.io", "v1", "leases")
CONFIG_MAPS = Resource("", "v1", "configmaps")
TOKEN_REVIEWS = Resource("authentication.k8s.io", "v1", "tokenreviews", namespaced=False)
_KUBEFLOW = "kubeflow.org"
_TRAINING = ("TFJob", "PyTorchJob", "MPIJob", "XGBoostJob", "PaddleJob", "JAXJob")
OWNERS: Mapping[tuple[str, str], Resource] = {
    # (API group, kind) → an owner of pods that is read before such a pod is removed
    ("batch", "Job"): Resource("batch", "v1", "jobs"),
    ("apps", "StatefulSet"): Resource("apps", "v1", "statefulsets"),
    ("apps", "ReplicaSet"): Resource("apps", "v1", "replicasets"),
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): Resource("leaderworkerset.x-k8s.io", "v1", "leaderworkersets"),
    **{(_KUBEFLOW, kind): Resource(_KUBEFLOW, "v1", f"{kind.lower()}s") for kind in _TRAINING},
}
SUSPENDED = {  # Owners that have suspend and resume, by which their gang is restarted as a whole
    key: resource for key, resource in OWNERS.items() if key == ("batch", "Job") or key[0] == _KUBEFLOW
}
SUSPENDED_AT = (  # Kind and address of each collection in which suspended owners may be
    *((kind, resource) for (_, kind), resource in SUSPENDED.items()),
    ("MPIJob", Resource(_KUBEFLOW, "v2beta1", "mpijobs")),  # MPIJobs are served in one of two versions
)
BUDGETS = Resource("policy", "v1", "poddisruptionbudgets")
QUOTAS = Resource("", "v1", "resourcequotas")
JOB_SETS = Resource("jobset.x-k8s.io", "v1alpha2", "jobsets")
AUTOSCALERS = Resource("autoscaling", "v2", "horizontalpodautoscalers")
PATCHED = {**SUSPENDED, ("jobset.x-k8s.io", "JobSet"): JOB_SETS}  # Suspended, or changed in the number of workers
WRITTEN = {**PATCHED, ("", "Node"): NODES}
RESIZED = {  # Jobs of which the worker count may be changed
    key: resource for key, resource in PATCHED.items() if key[1] in ("Job", "TFJob", "PyTorchJob", "MPIJob", "JobSet")
}
READ = (PODS, NODES, POD_GROUPS, *NATIVE_GROUPS, DAEMON_SETS, AUTOSCALERS)  # May be listed and watched
_LISTED = (*READ, BUDGETS, QUOTAS, JOB_SETS, *(resource for _, resource in SUSPENDED_AT))


def _rights(verbs: str, *resources: Resource, of: str = "") -> frozenset[Right]:
    tail = f"/{of}" if of else ""
    return frozenset((verb, resource.group, resource.plural + tail) for resource in resources for verb in verbs.split())


CALLS: frozenset[Right] = frozenset().union(
    _rights("list watch", *READ),
    _rights("get patch", PODS),
    _rights("create", PODS, of="binding"),
    _rights("create", PODS, of="eviction"),
    _rights("patch", PODS, POD_GROUPS, NODES, of="status"),
    _rights("create", EVENTS, TOKEN_REVIEWS),
    _rights("list", BUDGETS, QUOTAS),
    _rights("get", *OWNERS.values(), *RESIZED.values()),
    _rights("list patch", *PATCHED.values()),
    _rights("watch", *RESIZED.values()),
)
LEADING = _rights("get create update", LEASES)  # In a Role of the Lease's namespace
TAINTING = _rights("get patch", NODES)  # Where a taint comes with the condition (setting `network.taint`)
STARTED = _rights("get update", CONFIG_MAPS)  # In a Role there, for one ConfigMap: the gangs that have started


def served_as(api_version: str, kind: str, *, among: Mapping[tuple[str, str], Resource] = OWNERS) -> Resource:
    """The kind in the version that is named: rights are by group. ValueError: `among` has none, or it is no version."""
    group, _, version = api_version.rpartition("/")
    resource = among.get((group, kind))
    if resource is None or not re.fullmatch(r"v[0-9]+((alpha|beta)[0-9]+)?", version):
        raise ValueError(f"{kind} of {api_version} is not an owner or kind that extender.kube.calls has")
    return replace(resource, version=version)


def resource_of(path: str) -> Resource:
    """Which collection that may be listed a list or watch path means. ValueError: none, a mistake of ours."""
    bare = path.partition("?")[0]
    namespace = bare.rpartition("/namespaces/")[2].partition("/")[0]
    for resource in _LISTED:
        if bare == resource.collection() or (resource.namespaced and bare == resource.collection(namespace)):
            return resource
    raise ValueError(f"{path} is not a collection that extender.kube.calls allows to list or watch")
