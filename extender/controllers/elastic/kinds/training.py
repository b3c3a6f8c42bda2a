"""Kubeflow's jobs with replica specs by role: TFJob, PyTorchJob, PaddleJob, JAXJob, XGBoostJob, MPIJob.

Rules, each from the operators' sources (training-operator 1.8 and 1.9, mpi-operator 0.8):

- Defaults and the spelling of roles are only in the operator's memory: roles are compared without regard to case, a
  missing `replicas` is 1, and the patch uses the key as it is stored.
- TFJob: a worker that is stopped while it runs counts as failed, and the job with it, unless enableDynamicWorker is
  set; a chief gets no cluster in that mode. Worker 0 decides success. Workers must leave one by one: while a higher
  index still ends, the operator takes a lower one that is gone for missing, and in dynamic mode it then asks for the
  address of a worker that the job does not have, and crashes (1.8.1, seen).
- PyTorchJob and PaddleJob: failed pods count only when fewer run than are wanted, so shrinking is safe. Without
  elasticPolicy torchrun has a fixed number of nodes. JAXJob's operator counts as PyTorchJob's.
- XGBoostJob: every failed pod fails the job.
- MPIJob: only a launcher that reads its hosts again survives; the object does not say, so our annotation must.
- The operators write the PodGroup's minMember at each sync: schedulingPolicy.minAvailable, else all replicas. So a job
  that is resized gets its minimum there, in the same patch.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from extender.controllers.elastic.kinds.seen import (
    Bounds,
    Seen,
    Unsafe,
    Where,
    conditions_of,
    count,
    own_bounds,
    seen,
)
from extender.controllers.owners.failure_budget import Json

_GROUP = "kubeflow.org"
_WORKER = "worker"


@dataclass(frozen=True, slots=True)
class TrainingKind:
    """One kind of this family; `specs` is the field with its roles, `rule` what makes it unsafe."""

    where: Where
    specs: str
    rule: Callable[[Json, Mapping[str, Json]], Unsafe | None]
    infers: bool = False
    """Whether minAvailable and elasticPolicy suffice to make it elastic, because the object shows that it may be."""
    one_by_one: bool = False

    def read(self, job: Json) -> Seen:
        """See `Kind`."""
        spec = job.get("spec") or {}
        roles = {name.lower(): one or {} for name, one in (spec.get(self.specs) or {}).items()}
        workers = count(roles[_WORKER].get("replicas"), 1) if _WORKER in roles else 0
        others = sum(count(one.get("replicas"), 1) for name, one in roles.items() if name != _WORKER)
        template = roles.get(_WORKER, {}).get("template") or {}
        run = spec.get("runPolicy") or {}
        minimum = (run.get("schedulingPolicy") or {}).get("minAvailable")
        bounds = own_bounds(job, template)
        if self.infers:
            bounds = _inferred(bounds, spec.get("elasticPolicy") or {}, minimum, others=others)
        held = conditions_of(job)
        return seen(
            self.where,
            job,
            template,
            workers=workers,
            others=others,
            bounds=bounds,
            gang_minimum=count(minimum, 0) or None,
            steers_gang=True,
            unsafe=self.rule(spec, roles),
            managed_by=run.get("managedBy"),
            managers=("kubeflow.org/training-operator", "kubeflow.org/mpi-operator"),
            ends=("Succeeded", "Failed"),
            suspended=run.get("suspend") or "Suspended" in held,
            restarting="Restarting" in held,
        )

    def resized(self, job: Json, seen: Seen, workers: int) -> Json:
        """See `Kind`: the workers, and the gang's minimum where that is missing or more than the job's."""
        stored = next(name for name in job["spec"][self.specs] if name.lower() == _WORKER)
        spec: dict[str, Any] = {self.specs: {stored: {"replicas": workers}}}
        least = seen.others + min(seen.bounds.least or workers, workers)
        if seen.gang_minimum is None or seen.gang_minimum > least:
            spec["runPolicy"] = {"schedulingPolicy": {"minAvailable": least}}
        return {"spec": spec}


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
    policy = spec.get("elasticPolicy")
    if policy is None:
        return Unsafe.NO_ELASTIC_POLICY
    if "master" in roles:
        return Unsafe.MASTER
    return Unsafe.AUTOSCALED if policy.get("metrics") else None


def _mpi(spec: Json, _roles: Mapping[str, Json]) -> Unsafe | None:
    return Unsafe.LAUNCHER_WORKS if spec.get("runLauncherAsWorker") else None


def _xgboost(_spec: Json, _roles: Mapping[str, Json]) -> Unsafe | None:
    return Unsafe.FAILS_WHEN_SHRUNK


def _counts_what_is_missing(spec: Json, _roles: Mapping[str, Json]) -> Unsafe | None:
    return Unsafe.AUTOSCALED if (spec.get("elasticPolicy") or {}).get("metrics") else None


TF_JOB = TrainingKind(Where(_GROUP, "v1", "TFJob", "tfjobs"), "tfReplicaSpecs", _tf, infers=True, one_by_one=True)
PYTORCH_JOB = TrainingKind(
    Where(_GROUP, "v1", "PyTorchJob", "pytorchjobs"), "pytorchReplicaSpecs", _pytorch, infers=True
)
PADDLE_JOB = TrainingKind(Where(_GROUP, "v1", "PaddleJob", "paddlejobs"), "paddleReplicaSpecs", _counts_what_is_missing)
JAX_JOB = TrainingKind(Where(_GROUP, "v1", "JAXJob", "jaxjobs"), "jaxReplicaSpecs", _counts_what_is_missing)
XGBOOST_JOB = TrainingKind(Where(_GROUP, "v1", "XGBoostJob", "xgboostjobs"), "xgbReplicaSpecs", _xgboost)
MPI_JOB = TrainingKind(Where(_GROUP, "v2beta1", "MPIJob", "mpijobs"), "mpiReplicaSpecs", _mpi)
