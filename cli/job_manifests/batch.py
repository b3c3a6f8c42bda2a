"""Pods of Kubernetes' own kinds: Pod, and Job as kube-controller-manager 1.36 and 1.37 make its pods."""

from cli.job_manifests.manifest import Object
from cli.job_manifests.pods import BATCH, Made, count_of, mapping, name_of, pod_set

_NATIVE = "scheduling.k8s.io/v1beta1"


def pod(one: Object) -> Made:
    """It itself."""
    return Made((pod_set(one, {"metadata": one["metadata"], "spec": one["spec"]}, name_of(one), 1, {}),))


def pod_group_itself(one: Object) -> Made:
    """A PodGroup of any kind, without its status."""
    kept = {"kind": one["kind"], "apiVersion": one.get("apiVersion"), "metadata": one["metadata"], "spec": one["spec"]}
    return Made((), (kept,))


def job(one: Object) -> Made:
    """As many pods as run at once; with a gang in `spec.scheduling` its PodGroup too (1.37, WorkloadWithJob).

    The PodGroup has the Job's name here; the controller adds hashes to it.
    """
    name, spec = name_of(one), one["spec"]
    labels = {BATCH + "job-name": name, "job-name": name}
    made = pod_set(one, spec["template"], name, parallel(spec), labels)
    policy = mapping(one, "spec", "scheduling", "schedulingPolicy")
    if "gang" not in policy or "schedulingGroup" in made["pod"]["spec"]:
        return Made((made,))
    made["pod"]["spec"]["schedulingGroup"] = {"podGroupName": name}
    least = count_of(mapping(policy, "gang"), "minCount", parallel(spec))
    metadata = {"name": name, "namespace": one["metadata"]["namespace"]}
    group = {"schedulingPolicy": {"gang": {"minCount": least}}}
    return Made((made,), ({"kind": "PodGroup", "apiVersion": _NATIVE, "metadata": metadata, "spec": group},))


def parallel(spec: Object) -> int:
    """How many pods of a Job run at once at first.

    >>> parallel({"parallelism": 4, "completions": 2}), parallel({"parallelism": 4}), parallel({})
    (2, 4, 1)
    """
    most = count_of(spec, "parallelism", 1)
    return min(most, count_of(spec, "completions", most))
