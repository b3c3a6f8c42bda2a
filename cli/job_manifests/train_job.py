"""Pods of a TrainJob of Kubeflow Trainer (trainer.kubeflow.org/v1alpha1, release 2.3): a JobSet of its runtime.

The trainer takes the runtime's template, merges the TrainJob's `runtimePatches` into it, gives the trainer's step (of
MPI: the step `node`) as many pods as `numNodes` and its container `node` the `resourcesPerNode`, and makes a PodGroup
of all pods of all steps if the runtime has a `podGroupPolicy`. It names no scheduler: the runtime's template must.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from cli.job_manifests.job_set import job_set
from cli.job_manifests.manifest import Object
from cli.job_manifests.patches import merged
from cli.job_manifests.pods import VOLCANO, Made, called, count_of, mapping, name_of, pod_group
from extender.convert.pod.gang_labels import NAME_ANNOTATIONS, POD_GROUP_LABEL

_STEP: Final = "trainer.kubeflow.org/trainjob-ancestor-step"
_ONCE: Final = frozenset({"trainer", "dataset-initializer", "model-initializer"})
_NODE: Final = "node"


def train_job(one: Object, runtime: Object) -> Made:
    """Pods and PodGroup of a TrainJob on this runtime. Errors: KeyError, TypeError, ValueError, ConfigError."""
    spec: Mapping[str, Any] = mapping(runtime, "spec", "template", "spec")
    for patch in mapping(one, "spec").get("runtimePatches") or ():
        spec = merged(spec, mapping(patch, "trainingRuntimeSpec", "template", "spec"))
    policy, trainer = mapping(runtime, "spec", "mlPolicy"), mapping(one, "spec", "trainer")
    wanted = mapping(runtime, "spec", "podGroupPolicy")
    steps = [_step(part, policy, trainer) for part in spec["replicatedJobs"]]
    named = _in_gang(one, wanted)
    parts = [{**step, "template": merged(step["template"], named)} for step in steps]
    whole = {"kind": one["kind"], "metadata": one["metadata"], "spec": {**spec, "replicatedJobs": parts}}
    found = job_set(whole)
    least = sum(step["template"]["spec"]["parallelism"] for step in steps)
    if "coscheduling" in wanted:
        return replace(found, pod_groups=(pod_group(one, least),))
    if "volcano" in wanted:
        return replace(found, pod_groups=(pod_group(one, least, VOLCANO),))
    note = f"{called(one)}: runtime {name_of(runtime)} has no podGroupPolicy, so that the trainer makes no PodGroup"
    return replace(found, notes=(*found.notes, note))


def _step(part: Object, policy: Object, trainer: Object) -> Object:
    """A replicated Job with its number of pods and its resources, as the trainer makes it."""
    job, kind = part["template"]["spec"], mapping(part, "template", "metadata", "labels").get(_STEP)
    mpi = policy.get("mpi")
    leads = mpi is not None and bool((mpi or {}).get("runLauncherAsNode"))
    trains = kind == "trainer"
    count = count_of(policy, "numNodes", 1) if trains and policy else count_of(job, "parallelism", 1)
    nodes = trainer.get("numNodes")
    if nodes is not None and (part["name"] == _NODE if mpi is not None else trains):
        count = int(nodes) - 1 if leads else int(nodes)
    count = max(count, 1)
    if trainer.get("resourcesPerNode") and ((trains and policy) or (leads and part["name"] == _NODE)):
        job = _with_resources(job, trainer["resourcesPerNode"])
    replicas = 1 if kind in _ONCE else count_of(part, "replicas", 1)
    inner = {**job, "parallelism": count, "completions": count}
    return {**part, "replicas": replicas, "template": {**part["template"], "spec": inner}}


def _with_resources(job: Object, given: Object) -> Object:
    """The Job whose container `node` asks for these, besides what it asked for."""
    spec = job["template"]["spec"]
    containers = [
        {**one, "resources": merged(one.get("resources") or {}, given)} if one.get("name") == _NODE else one
        for one in spec["containers"]
    ]
    return {**job, "template": {**job["template"], "spec": {**spec, "containers": containers}}}


def _in_gang(one: Object, wanted: Object) -> Object:
    """What the trainer adds to a Job's template so that its pods name the PodGroup; empty: nothing."""
    if "coscheduling" in wanted:
        metadata = {"labels": {POD_GROUP_LABEL: name_of(one)}}
    elif "volcano" in wanted:
        metadata = {"annotations": {NAME_ANNOTATIONS[0]: name_of(one)}}
    else:
        return {}
    return {"spec": {"template": {"metadata": metadata}}}
