"""Every call to the Kubernetes API that the client can make.

Rule: the client builds each path from an entry of this table and refuses a collection that is not in it; a contract
test compares the table with the RBAC rules of the chart, which must be exactly what the program uses.
"""

import re
from collections.abc import Iterable, Mapping
from urllib.parse import quote

import msgspec
from msgspec.structs import replace


class Resource(msgspec.Struct, frozen=True):
    """Where a kind is served: API group ("" is the core group), version, plural; nodes are not in namespaces."""

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
        """URL path of one object or of its subresource; names are quoted, so that none can leave its place.

        >>> PODS.path("team-a", "w-0", "binding")
        '/api/v1/namespaces/team-a/pods/w-0/binding'
        >>> PODS.path("team-a", "../x")
        '/api/v1/namespaces/team-a/pods/..%2Fx'
        """
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
SUSPENDED: Mapping[tuple[str, str], Resource] = {
    # (API group, kind) → an owner that has suspend and resume, by which its gang is restarted as a whole
    key: resource
    for key, resource in OWNERS.items()
    if key == ("batch", "Job") or key[0] == _KUBEFLOW
}
SUSPENDED_AT: tuple[tuple[str, Resource], ...] = (
    *((kind, resource) for (_, kind), resource in SUSPENDED.items()),
    ("MPIJob", Resource(_KUBEFLOW, "v2beta1", "mpijobs")),
)
"""Kind and address of each collection in which suspended owners may be; MPIJobs are served in one of two versions."""
BUDGETS = Resource("policy", "v1", "poddisruptionbudgets")
QUOTAS = Resource("", "v1", "resourcequotas")
JOB_SETS = Resource("jobset.x-k8s.io", "v1alpha2", "jobsets")
AUTOSCALERS = Resource("autoscaling", "v2", "horizontalpodautoscalers")
PATCHED: Mapping[tuple[str, str], Resource] = {**SUSPENDED, ("jobset.x-k8s.io", "JobSet"): JOB_SETS}
"""(API group, kind) → a job that may be suspended or whose worker count may be changed"""
RESIZED: Mapping[tuple[str, str], Resource] = {
    key: resource for key, resource in PATCHED.items() if key[1] in ("Job", "TFJob", "PyTorchJob", "MPIJob", "JobSet")
}
"""(API group, kind) → a job whose worker count may be changed"""
_VERSION = re.compile(r"v[0-9]+((alpha|beta)[0-9]+)?")


class Call(msgspec.Struct, frozen=True):
    """One RBAC verb on a resource or on a subresource of it."""

    verb: str
    resource: Resource
    subresource: str = ""

    @property
    def rule(self) -> tuple[str, str, str]:
        """What RBAC calls it: (verb, API group, resource[/subresource])."""
        tail = f"/{self.subresource}" if self.subresource else ""
        return self.verb, self.resource.group, f"{self.resource.plural}{tail}"

    def path(self, namespace: str, name: str) -> str:
        """URL path of this call on one object."""
        return self.resource.path(namespace, name, self.subresource)


POD_GET = Call("get", PODS)
POD_PATCH = Call("patch", PODS)
POD_BIND = Call("create", PODS, "binding")
POD_STATUS = Call("patch", PODS, "status")
POD_EVICT = Call("create", PODS, "eviction")
POD_GROUP_STATUS = Call("patch", POD_GROUPS, "status")
EVENT_CREATE = Call("create", EVENTS)
LEASE_GET = Call("get", LEASES)
LEASE_CREATE = Call("create", LEASES)
LEASE_UPDATE = Call("update", LEASES)
TEXT_GET = Call("get", CONFIG_MAPS)
TEXT_UPDATE = Call("update", CONFIG_MAPS)
TOKEN_REVIEW = Call("create", Resource("authentication.k8s.io", "v1", "tokenreviews", namespaced=False))

READ = (PODS, NODES, POD_GROUPS, *NATIVE_GROUPS, DAEMON_SETS, AUTOSCALERS)  # May be listed and watched

CALLS: tuple[Call, ...] = (
    *(Call(verb, resource) for resource in READ for verb in ("list", "watch")),
    POD_GET,
    POD_PATCH,
    POD_BIND,
    POD_EVICT,
    POD_STATUS,
    POD_GROUP_STATUS,
    EVENT_CREATE,
    TOKEN_REVIEW,
    *(Call("list", resource) for resource in (BUDGETS, QUOTAS)),
    *(Call("get", resource) for resource in {**OWNERS, **RESIZED}.values()),
    *(Call(verb, resource) for resource in PATCHED.values() for verb in ("list", "patch")),
    *(Call("watch", resource) for resource in RESIZED.values()),
)

LEADING: tuple[Call, ...] = (LEASE_GET, LEASE_CREATE, LEASE_UPDATE)  # Rights in a Role of the Lease's namespace

STARTED: tuple[Call, ...] = (TEXT_GET, TEXT_UPDATE)
"""For one ConfigMap of netgang's own namespace, with the gangs that have started: rights in a Role there."""


LISTED = (  # Collections that may be listed
    *(*READ, BUDGETS, QUOTAS, JOB_SETS),
    *(resource for _, resource in SUSPENDED_AT),
)


def rules(calls: Iterable[Call] = CALLS) -> frozenset[tuple[str, str, str]]:
    """The calls as RBAC would have to allow them."""
    return frozenset(call.rule for call in calls)


def served_as(api_version: str, kind: str, *, among: Mapping[tuple[str, str], Resource] = OWNERS) -> Resource:
    """The kind in the version that is named: rights are by group. ValueError: `among` has none, or it is no version."""
    group, _, version = api_version.rpartition("/")
    resource = among.get((group, kind))
    if resource is None or not _VERSION.fullmatch(version):
        raise ValueError(f"{kind} of {api_version} is not an owner or kind that extender.kube.calls has")
    return replace(resource, version=version)


def resource_of(path: str) -> Resource:
    """Which collection of `LISTED` a list or watch path means. ValueError: none, a mistake of ours."""
    bare = path.partition("?")[0]
    namespace = bare.rpartition("/namespaces/")[2].partition("/")[0]
    for resource in LISTED:
        if bare == resource.collection() or (resource.namespaced and bare == resource.collection(namespace)):
            return resource
    raise ValueError(f"{path} is not a collection that extender.kube.calls allows to list or watch")
