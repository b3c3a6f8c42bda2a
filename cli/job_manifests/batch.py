"""Pods of Kubernetes' own kinds: Pod, and Job as kube-controller-manager 1.36 makes its pods."""

from cli.job_manifests.manifest import Object
from cli.job_manifests.pods import BATCH, Made, count_of, name_of, pod_set


def pod(one: Object) -> Made:
    """It itself."""
    return Made((pod_set(one, {"metadata": one["metadata"], "spec": one["spec"]}, name_of(one), 1, {}),))


def pod_group_itself(one: Object) -> Made:
    """A PodGroup of any kind, without its status."""
    kept = {"kind": one["kind"], "apiVersion": one.get("apiVersion"), "metadata": one["metadata"], "spec": one["spec"]}
    return Made((), (kept,))


def job(one: Object) -> Made:
    """As many pods as run at once."""
    name, spec = name_of(one), one["spec"]
    labels = {BATCH + "job-name": name, "job-name": name}
    return Made((pod_set(one, spec["template"], name, parallel(spec), labels),))


def parallel(spec: Object) -> int:
    """How many pods of a Job run at once at first.

    >>> parallel({"parallelism": 4, "completions": 2}), parallel({"parallelism": 4}), parallel({})
    (2, 4, 1)
    """
    most = count_of(spec, "parallelism", 1)
    return min(most, count_of(spec, "completions", most))
