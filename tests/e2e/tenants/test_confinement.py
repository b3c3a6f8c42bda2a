"""What netgang's own account may write on a real API server, and what it may not, whatever a stolen token asks for."""

from collections.abc import AsyncIterator, Mapping
from typing import Any

import msgspec
import pytest

from extender.controllers.elastic.kinds import KINDS, LAST_CHANGE, resized
from extender.controllers.removal.suspensions import HISTORY, MARK, NOTE
from extender.convert import pod_from_json
from extender.convert.patches import admission_patch, condition_patch, mark_patch, narrowed_terms
from extender.kube.own_objects import ENTRY, ROLE_LABEL, STARTED_GANGS
from lab.testbed.api import Api, Object
from lab.testbed.cluster import INSTALLED_IN, NETGANG, Cluster
from lab.testbed.errors import ApiRefused
from lab.testbed.objects import ZONE_LABEL, node, pod, pod_group, restricted
from scoring import NodeName, PodUid, ZoneName
from scoring.model import GATE
from scoring.network.node_links import DEGRADED_TAINT, NodeMark
from scoring.queue.states import AdmittedCondition
from scoring.verbs.places import Listing
from tests.e2e.objects import kind
from tests.e2e.stage import LIMIT_S
from tests.fakes.notes import notes_of_a_former_process

FOREIGN = "example.org/quota"
WAITS = AdmittedCondition("False", "NoRoom", "Wait.")
LABEL = MARK.partition("=")[0]
MERGE, STRATEGIC, JSON = (f"application/{one}json" for one in ("merge-patch+", "strategic-merge-patch+", ""))
SSD = {"matchExpressions": [{"key": "ssd", "operator": "Exists"}]}
REQUIRED = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [SSD]}}
PREFERRED = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": SSD}]}
A, N1, N2 = ZoneName("a"), NodeName("n1"), NodeName("n2")
OWNER = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "00000000-0000-0000-0000-000000000000"}


class Ask(msgspec.Struct, frozen=True):
    method: str
    path: str
    body: Any = None
    content_type: str = JSON

    async def tried(self, api: Api) -> None:
        dry = {"dryRun": "All"}
        await api.request(self.method, self.path, body=self.body, params=dry, content_type=self.content_type)


def definition(group: str, version: str, of: str) -> Object:
    plural = f"{of.lower()}s"
    anything = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    served = {"name": version, "served": True, "storage": True, "schema": anything, "subresources": {"status": {}}}
    names = {"plural": plural, "singular": of.lower(), "kind": of}
    spec = {"group": group, "scope": "Namespaced", "names": names, "versions": [served]}
    return kind("apiextensions.k8s.io/v1", "CustomResourceDefinition", f"{plural}.{group}", spec=spec)


TEMPLATE: Object = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "main", "image": "one:1"}]}}
POD_TEMPLATE = {**TEMPLATE, "spec": {**TEMPLATE["spec"], "restartPolicy": "Never"}}
JOB_SPEC = {
    "suspend": True, "completionMode": "Indexed", "parallelism": 4, "completions": 4, "template": POD_TEMPLATE,
}  # fmt: skip
OBJECTS: Mapping[str, Object] = {
    "job": {"apiVersion": "batch/v1", "kind": "Job", "spec": JOB_SPEC},
    "training": {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "spec": {
            "runPolicy": {"cleanPodPolicy": "None"},
            "pytorchReplicaSpecs": {
                "Master": {"replicas": 1, "template": TEMPLATE},
                "Worker": {"replicas": 4, "restartPolicy": "OnFailure", "template": TEMPLATE},
            },
        },
    },
    "set": {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "spec": {"replicatedJobs": [{"name": "workers", "replicas": 1, "template": {"spec": JOB_SPEC}}]},
    },
    "other": {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "x"}}, "template": TEMPLATE, "serviceName": "x"},
    },
    "config": {"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"}},
}
RBAC = "rbac.authorization.k8s.io"
EXTRA = kind(  # what nothing ever should give
    f"{RBAC}/v1",
    "ClusterRole",
    "test-too-much",
    rules=[
        {"apiGroups": ["apps"], "resources": ["statefulsets"], "verbs": ["patch"]},
        {"apiGroups": [""], "resources": ["configmaps", "nodes"], "verbs": ["get", "patch", "delete"]},
    ],
)
BOUND = kind(
    f"{RBAC}/v1",
    "ClusterRoleBinding",
    "test-too-much",
    roleRef={"apiGroup": RBAC, "kind": "ClusterRole", "name": "test-too-much"},
    subjects=[{"kind": "ServiceAccount", "name": NETGANG, "namespace": INSTALLED_IN}],
)


class Ground(msgspec.Struct, frozen=True):
    namespace: str
    netgang: Api
    stored: Mapping[str, Object]

    def path(self, name: str, subresource: str = "") -> str:
        found = self.stored[name]
        group, plural = found["apiVersion"], found["kind"].lower() + "s"
        root = f"/apis/{group}" if "/" in group else f"/api/{group}"
        tail = f"/{subresource}" if subresource else ""
        return f"{root}/namespaces/{found['metadata']['namespace']}/{plural}/{name}{tail}"

    def change(self, name: str, change: Object) -> Ask:
        return Ask("PATCH", self.path(name), change, MERGE)

    def strategic(self, name: str, change: Object, subresource: str = "") -> Ask:
        return Ask("PATCH", self.path(name, subresource), change, STRATEGIC)

    def noted(self, name: str, **metadata: Any) -> Ask:
        return self.change(name, {"metadata": metadata})

    def specified(self, name: str, **spec: Any) -> Ask:
        return self.change(name, {"spec": spec})

    async def verdict(self, ask: Ask) -> str:
        try:
            await ask.tried(self.netgang)
        except ApiRefused as refused:
            if "ValidatingAdmissionPolicy" in refused.message:
                return "policy"
            return "rbac" if refused.status == 403 else f"{refused.status}: {refused.message}"
        return "done"


@pytest.fixture
async def ground(cluster: Cluster, api: Api, namespace: str) -> AsyncIterator[Ground]:
    await cluster.add_nodes([node("n1", zone="a")])
    definitions = [definition("kubeflow.org", "v1", "PyTorchJob"), definition("jobset.x-k8s.io", "v1alpha2", "JobSet")]
    await api.apply([*definitions, EXTRA, BOUND])
    pods = {
        "free": pod("free", namespace=namespace, scheduler="netgang"),
        "gated": pod("gated", namespace=namespace, scheduler="netgang", gates=[GATE, FOREIGN]),
        "picky": pod("picky", namespace=namespace, scheduler="netgang", gates=[GATE]),
        "foreign": pod("foreign", namespace=namespace, scheduler="netgang", gates=[FOREIGN]),
        "netgang-0": restricted(pod("netgang-0", namespace=INSTALLED_IN, gates=["example.org/never"])),
    }
    pods["picky"]["spec"]["affinity"] = {"nodeAffinity": {**REQUIRED, **PREFERRED}}
    group = pod_group("group", 2, namespace=namespace)
    stored = {name: await api.create(one) for name, one in {**pods, "group": group}.items()}
    for name, one in OBJECTS.items():
        wanted = {**one, "metadata": {"name": name, "namespace": namespace}}

        async def created(wanted: Object = wanted) -> Object:
            try:
                return await api.create(wanted)
            except ApiRefused as refused:
                if refused.status == 404:
                    return {}  # a kind that was just defined
                raise

        stored[name] = await api.until(created, bool, what=f"{name} can be created", limit_s=LIMIT_S)
    async with cluster.api(NETGANG) as account:
        there = Ground(namespace, account, stored)
        probe = there.change("free", {"metadata": {"labels": {"a": "b"}}})
        await api.until(lambda: there.verdict(probe), lambda found: found == "policy", what="the policies are in force")
        yield there
    await api.delete("Pod", "netgang-0", namespace=INSTALLED_IN, grace_s=0)
    for one in (*definitions, BOUND, EXTRA):
        await api.delete(one["kind"], one["metadata"]["name"])
    names = {one["metadata"]["name"] for one in definitions}

    async def left() -> set[str]:
        return names & {one["metadata"]["name"] for one in await api.list_all("CustomResourceDefinition")}

    # One that is still being deleted would take the next test's with it.
    await api.until(left, lambda found: not found, what="the definitions are gone")


def admits(stored: Object, listing: Listing, **more: Any) -> Object:
    found = pod_from_json(msgspec.json.encode(stored))
    terms = narrowed_terms(found.member_class.constraints.affinity, listing, zone_label=ZONE_LABEL)
    patch = msgspec.json.decode(admission_patch(found, N1, terms, notes=notes_of_a_former_process()))
    return {**patch, "spec": {**patch["spec"], **more}}


def resizes(stored: Object, kind: str) -> Object:
    metadata = {"resourceVersion": stored["metadata"]["resourceVersion"], "annotations": {LAST_CHANGE: "{}"}}
    return {"metadata": metadata, "spec": resized(KINDS[kind], stored, 2)}


def suspends(*inside: str, suspend: bool) -> Object:
    spec: Any = suspend
    for part in reversed(inside):
        spec = {part: spec}
    note, mark = ("{}", "suspended") if suspend else (None, None)
    annotations = {NOTE: note, HISTORY: "5"}
    return {"metadata": {"labels": {LABEL: mark}, "annotations": annotations}, "spec": spec}


def written(ground: Ground) -> Mapping[str, Ask]:
    stored, namespace = ground.stored, ground.namespace
    home = f"/apis/coordination.k8s.io/v1/namespaces/{INSTALLED_IN}/leases"
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "netgang-leader"}}
    started = kind("v1", "ConfigMap", STARTED_GANGS, INSTALLED_IN, data={ENTRY: ""})
    condition = condition_patch(PodUid(stored["free"]["metadata"]["uid"]), WAITS, at="")
    binding = {"metadata": {"name": "free", "uid": stored["free"]["metadata"]["uid"]}}
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "free", "namespace": namespace}}
    event = {
        "metadata": {"name": "e"}, "eventTime": "2026-01-01T00:00:00.000000Z", "reason": "Why", "action": "Wait",
        "type": "Normal", "reportingController": "netgang", "reportingInstance": "netgang-0",
        "regarding": {"kind": "Pod", "name": "free", "namespace": namespace},
    }  # fmt: skip
    return {
        "nudge": ground.noted("free", annotations={"netgang.io/nudge": "1.0"}, labels={"netgang.io/nudge": "1"}),
        "admit to nodes": ground.strategic("gated", admits(stored["gated"], Listing((A,), (N1, N2)))),
        "admit to a zone": ground.strategic("gated", admits(stored["gated"], Listing((A,)))),
        "admit anywhere": ground.strategic("gated", admits(stored["gated"], Listing(()))),
        "admit within the pod's terms": ground.strategic("picky", admits(stored["picky"], Listing((A,), (N1,), (N1,)))),
        "say why a pod waits": ground.strategic("free", msgspec.json.decode(condition), "status"),
        "bind": Ask("POST", ground.path("free", "binding"), {**binding, "target": {"kind": "Node", "name": "n1"}}),
        "evict": Ask("POST", ground.path("free", "eviction"), eviction),
        "lead": ground.noted("netgang-0", labels={ROLE_LABEL: "leader"}),
        "status of a PodGroup": Ask("PATCH", ground.path("group", "status"), {"status": {"phase": "Pending"}}, MERGE),
        "mark a node": on_node(
            msgspec.json.decode(mark_patch(NodeMark(True, 0.0), reason="BadLinks", message="")), "/status"
        ),
        "taint a node": on_node({"spec": {"taints": [{"key": DEGRADED_TAINT, "effect": "NoSchedule"}]}}),
        "Event": Ask("POST", f"/apis/events.k8s.io/v1/namespaces/{namespace}/events", event),
        "Lease": Ask("POST", home, {**lease, "metadata": {"name": "netgang-other"}}),
        "started gangs": Ask("PUT", f"/api/v1/namespaces/{INSTALLED_IN}/configmaps/{STARTED_GANGS}", started),
        "suspend a Job": ground.change("job", suspends("suspend", suspend=True)),
        "resume a Job": ground.change("job", suspends("suspend", suspend=False)),
        "resize a Job": ground.change("job", resizes(stored["job"], "Job.batch")),
        "suspend a training job": ground.change("training", suspends("runPolicy", "suspend", suspend=True)),
        "resume a training job": ground.change("training", suspends("runPolicy", "suspend", suspend=False)),
        "resize a training job": ground.change("training", resizes(stored["training"], "PyTorchJob.kubeflow.org")),
        "resize a JobSet": ground.change("set", resizes(stored["set"], "JobSet.jobset.x-k8s.io")),
    }


def on_node(change: Any, subresource: str = "") -> Ask:
    return Ask("PATCH", f"/api/v1/nodes/n1{subresource}", change, STRATEGIC)


async def test_what_netgang_does_is_allowed(ground: Ground) -> None:
    found = {what: await ground.verdict(ask) for what, ask in written(ground).items()}
    assert found == dict.fromkeys(found, "done")


def against_the_policy(ground: Ground) -> dict[str, Ask]:
    """What RBAC allows, as it knows no fields, and what would turn a stolen token into a way to run anything."""
    stored = ground.stored
    image = {"containers": [{"name": "main", "image": "evil"}]}
    tolerations = [{"operator": "Exists"}, {"key": "x", "operator": "Exists", "effect": "NoSchedule"}]
    workers = stored["training"]["spec"]["pytorchReplicaSpecs"]["Worker"]
    jobs = stored["set"]["spec"]["replicatedJobs"]
    evil_job = {**jobs[0], "template": {"spec": {**JOB_SPEC, "backoffLimit": 99}}}
    template = {"spec": {**TEMPLATE["spec"], **image}}
    gone = [{"$patch": "delete", "name": one} for one in (FOREIGN, GATE)]
    ready = {"conditions": [{"type": "Ready", "status": "False"}]}

    def status(**change: Any) -> Ask:
        return ground.strategic("free", change, "status")

    def strategic(name: str, **spec: Any) -> Ask:
        return ground.strategic(name, {"spec": spec})

    def admitted(**spec: Any) -> Ask:
        return ground.strategic("gated", admits(stored["gated"], Listing((A,), (N1,)), **spec))

    return {
        "a pod's phase": status(status={"phase": "Failed"}),
        "another condition of a pod": status(status=ready),
        "a pod's label with its status": status(metadata={"labels": {"a": "b"}}),
        "a pod's image": strategic("free", **image),
        "a pod's image while it is admitted": admitted(**image),
        "a pod's tolerations": ground.specified("free", tolerations=tolerations),
        "a pod's deadline": ground.specified("free", activeDeadlineSeconds=1),
        "a pod's nodeSelector while it is admitted": admitted(nodeSelector={"a": "b"}),
        "another controller's gate": strategic("foreign", schedulingGates=gone[:1]),
        "another controller's gate beside ours": strategic("gated", schedulingGates=gone),
        "the affinity of a pod that stays gated": ground.specified("foreign", affinity={"nodeAffinity": REQUIRED}),
        "what a pod prefers": admitted(affinity={"nodeAffinity": PREFERRED}),
        "a pod's label": ground.noted("free", labels={"app": "other"}),
        "the leader's label on a tenant's pod": ground.noted("free", labels={ROLE_LABEL: "leader"}),
        "another label of netgang's pod": ground.noted("netgang-0", labels={"app": "x"}),
        "a pod's annotation": ground.noted("free", annotations={"example.org/a": "b"}),
        "a pod's owner": ground.noted("free", ownerReferences=[OWNER]),
        "a pod's finalizer": ground.noted("free", finalizers=["example.org/stay"]),
        "a Job's backoffLimit": ground.specified("job", backoffLimit=99),
        "a Job's template": ground.specified("job", template={"spec": {"nodeSelector": {"a": "b"}}}),
        "a Job's label": ground.noted("job", labels={"app": "other"}),
        "a Job's annotation": ground.noted("job", annotations={"example.org/a": "b"}),
        "a Job's owner": ground.noted("job", ownerReferences=[OWNER]),
        "a Job's finalizer": ground.noted("job", finalizers=["example.org/stay"]),
        "a training job's image": ground.specified("training", pytorchReplicaSpecs={"Worker": {"template": template}}),
        "a training job's master": ground.specified("training", pytorchReplicaSpecs={"Master": {"replicas": 2}}),
        "a training job's further role": ground.specified("training", pytorchReplicaSpecs={"worker": workers}),
        "a training job's clean-up": ground.specified("training", runPolicy={"cleanPodPolicy": "All"}),
        "a training job's queue": ground.specified("training", runPolicy={"schedulingPolicy": {"queue": "x"}}),
        "another field of a training job": ground.specified("training", elasticPolicy={"maxRestarts": 9}),
        "a JobSet's Job": ground.specified("set", replicatedJobs=[evil_job]),
        "a JobSet's further Job": ground.specified("set", replicatedJobs=[*jobs, {**jobs[0], "name": "x"}]),
        "another field of a JobSet": ground.specified("set", suspend=True),
        "the size of an object of another kind": ground.specified("other", replicas=1),
        "data of an object of another kind": ground.change("config", {"data": {"a": "c"}}),
        "a node's cordon": on_node({"spec": {"unschedulable": True}}),
        "another taint of a node": on_node({"spec": {"taints": [{"key": "gpu", "effect": "NoSchedule"}]}}),
        "a taint that evicts": on_node({"spec": {"taints": [{"key": DEGRADED_TAINT, "effect": "NoExecute"}]}}),
        "a node's label": on_node({"metadata": {"labels": {"a": "b"}}}),
        "another condition of a node": on_node({"status": ready}, "/status"),
        "a node's room": on_node({"status": {"allocatable": {"cpu": "1"}}}, "/status"),
        "a node's label with its status": on_node({"metadata": {"labels": {"a": "b"}}}, "/status"),
        "the deletion of anything": Ask("DELETE", ground.path("config")),
    }


def against_rbac(ground: Ground) -> dict[str, Ask]:
    namespace = ground.namespace
    core = f"/api/v1/namespaces/{namespace}"
    policy = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/netgang-pods"
    root = {"apiGroup": RBAC, "kind": "ClusterRole", "name": "cluster-admin"}
    grant = {"metadata": {"name": "evil"}, "roleRef": root}
    return {
        "a new pod": Ask("POST", f"{core}/pods", pod("evil", namespace=namespace)),
        "the deletion of a pod": Ask("DELETE", ground.path("free")),
        "the deletion of all pods": Ask("DELETE", f"{core}/pods"),
        "the deletion of a Job": Ask("DELETE", ground.path("job")),
        "a new Job": Ask("POST", f"/apis/batch/v1/namespaces/{namespace}/jobs", {"metadata": {"name": "evil"}}),
        "a whole pod": Ask("PUT", ground.path("free"), ground.stored["free"]),
        "a container added to a pod": Ask("PATCH", ground.path("free", "ephemeralcontainers"), {}, MERGE),
        "a pod's log": Ask("GET", ground.path("free", "log")),
        "a pod's size": Ask("PATCH", ground.path("free", "resize"), {}, MERGE),
        "a command in a pod": Ask("POST", ground.path("free", "exec")),
        "a PodGroup's minimum": ground.specified("group", minMember=1),
        "a Job's status": Ask("PATCH", ground.path("job", "status"), {"status": {}}, MERGE),
        "secrets of a tenant": Ask("GET", f"{core}/secrets"),
        "a new secret of a tenant": Ask("POST", f"{core}/secrets", {"metadata": {"name": "evil"}}),
        "a token of an account": Ask("POST", f"{core}/serviceaccounts/default/token", {}),
        "another Lease": Ask("GET", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler"),
        "a role binding": Ask("POST", f"/apis/{RBAC}/v1/clusterrolebindings", grant),
        "its own confinement": Ask("PATCH", policy, {"spec": {"failurePolicy": "Ignore"}}, MERGE),
        "the end of its confinement": Ask("DELETE", policy),
        "a node's end": Ask("POST", "/api/v1/nodes", node("evil", zone="a")),
    }


async def test_what_a_stolen_token_may_not(ground: Ground) -> None:
    by_policy, by_rbac = against_the_policy(ground), against_rbac(ground)
    assert len(by_policy) >= 20
    assert len(by_rbac) >= 20
    found = {what: await ground.verdict(ask) for what, ask in (by_policy | by_rbac).items()}
    assert found == dict.fromkeys(by_policy, "policy") | dict.fromkeys(by_rbac, "rbac")


async def test_the_policies_are_for_netgang_alone(ground: Ground, api: Api) -> None:
    for ask in against_the_policy(ground).values():
        if ask.method == "PATCH" and ask.path.endswith("/free"):
            await ask.tried(api)
