"""Kubeflow's jobs with replica specs by role that can be resized: TFJob, PyTorchJob, MPIJob.

Rules, each from the operators' sources (training-operator 1.8 and 1.9, mpi-operator 0.8):

- Defaults and the spelling of roles are only in the operator's memory: roles are compared without regard to case, a
  missing `replicas` is 1, and the patch uses the key as it is stored.
- TFJob: a worker that is stopped while it runs counts as failed, and the job with it, unless enableDynamicWorker is
  set; a chief gets no cluster in that mode. Worker 0 decides success. Workers must leave one by one: while a higher
  index still ends, the operator takes a lower one that is gone for missing, and in dynamic mode it then asks for the
  address of a worker that the job does not have, and crashes (1.8.1, seen).
- PyTorchJob: failed pods count only when fewer run than are wanted, so shrinking is safe. Without elasticPolicy
  torchrun has a fixed number of nodes.
- MPIJob: only a launcher that reads its hosts again survives; the object does not say, so our annotation must.
- The operators write the PodGroup's minMember at each sync: schedulingPolicy.minAvailable, else all replicas. So a job
  that is resized gets its minimum there, in the same patch.
"""

from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace

from extender.controllers.elastic.kinds.seen import Bounds, Kind, Seen, Unsafe, count, own_bounds, seen
from extender.controllers.owners.failure_budget import Json

_WORKER = "worker"


Rule = Callable[[Json, Mapping[str, Json]], Unsafe | None]  # Spec and roles → what makes a change unsafe


def _training(
    kind: str,
    plural: str,
    specs: str,
    rule: Rule,
    *,
    version: str = "v1",
    infers: bool = False,
    one_by_one: bool = False,
) -> Kind:
    """One kind of this family; `specs` is the field with its roles.

    `infers`: minAvailable and elasticPolicy suffice to make it elastic, because the object shows that it may be.
    """

    def look(kind: Kind, job: Json) -> Seen:
        spec = job.get("spec") or {}
        roles = {name.lower(): one or {} for name, one in (spec.get(specs) or {}).items()}
        others = sum(count(one.get("replicas"), 1) for name, one in roles.items() if name != _WORKER)
        template = roles.get(_WORKER, {}).get("template") or {}
        run = spec.get("runPolicy") or {}
        minimum = (run.get("schedulingPolicy") or {}).get("minAvailable")
        bounds = own_bounds(job, template)
        return seen(
            kind,
            job,
            template,
            run,
            workers=count(roles[_WORKER].get("replicas"), 1) if _WORKER in roles else 0,
            others=others,
            bounds=_inferred(bounds, spec.get("elasticPolicy") or {}, minimum, others=others) if infers else bounds,
            gang_minimum=count(minimum, 0) or None,
            steers_gang=True,
            unsafe=rule(spec, roles),
        )

    def resized(job: Json, seen: Seen, workers: int) -> Json:
        """The workers, and the gang's minimum where that is missing or more than the job's."""
        stored = next(name for name in job["spec"][specs] if name.lower() == _WORKER)
        spec: dict[str, Any] = {specs: {stored: {"replicas": workers}}}
        least = seen.others + min(seen.bounds.least or workers, workers)
        if seen.gang_minimum is None or seen.gang_minimum > least:
            spec["runPolicy"] = {"schedulingPolicy": {"minAvailable": least}}
        return {"spec": spec}

    served = ("kubeflow.org", version, kind, plural)
    managers = ("kubeflow.org/training-operator", "kubeflow.org/mpi-operator")
    return Kind(*served, look, resized, managers=managers, ends=("Succeeded", "Failed"), one_by_one=one_by_one)


def _inferred(bounds: Bounds, policy: Json, minimum: Any, *, others: int) -> Bounds:
    """What the framework itself says where our annotations do not."""
    least, most, source = bounds.least, bounds.most, bounds.source
    if least is None and policy.get("minReplicas") is not None:
        least, source = count(policy["minReplicas"], 1), "spec.elasticPolicy"
    if most is None and policy.get("maxReplicas") is not None:
        most = count(policy["maxReplicas"], 1)
    if least is None and minimum is not None and count(minimum, 0) > others:
        least, source = count(minimum, 0) - others, "schedulingPolicy.minAvailable"
    bad = bounds.bad or (least is not None and most is not None and least > most)
    return replace(bounds, least=least, most=most, source=source, bad=bad)


def _tf(spec: Json, roles: Mapping[str, Json]) -> Unsafe | None:
    if spec.get("enableDynamicWorker") is not True:
        return Unsafe.STATIC_WORKERS
    if "chief" in roles or "master" in roles:
        return Unsafe.CHIEF
    if roles.get(_WORKER, {}).get("restartPolicy", "Never") == "Never":
        return Unsafe.NEVER_RESTARTS
    return None


def _pytorch(spec: Json, roles: Mapping[str, Json]) -> Unsafe | None:
    if spec.get("elasticPolicy") is None:
        return Unsafe.NO_ELASTIC_POLICY
    if "master" in roles:
        return Unsafe.MASTER
    return Unsafe.AUTOSCALED if spec["elasticPolicy"].get("metrics") else None


def _mpi(spec: Json, _roles: Mapping[str, Json]) -> Unsafe | None:
    return Unsafe.LAUNCHER_WORKS if spec.get("runLauncherAsWorker") else None


TF_JOB = _training("TFJob", "tfjobs", "tfReplicaSpecs", _tf, infers=True, one_by_one=True)
PYTORCH_JOB = _training("PyTorchJob", "pytorchjobs", "pytorchReplicaSpecs", _pytorch, infers=True)
MPI_JOB = _training("MPIJob", "mpijobs", "mpiReplicaSpecs", _mpi, version="v2beta1")
