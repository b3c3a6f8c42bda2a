"""Kubernetes' own Indexed Job, and JobSets made of them.

Rules (Kubernetes 1.31 and later; JobSet 0.12 with its gate ElasticJobSet):

- `completions` may change only together with `parallelism` and to the same value; then the pods with the highest
  indexes go and count as no failure. Reducing `parallelism` alone would let the Job controller choose others.
- The gang's minimum is written in the pods (label `min-available`) or in a PodGroup that people made: both are limits
  for us and never changed. Where nothing else is said, the label is the minimum.
- A JobSet is elastic by our annotation alone, and with exactly one replicated Job of one replica that is not named in
  `netgang.io/fixed`; an API server or controller without the gate refuses the patch, which is then said.
"""

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from extender.controllers.elastic.kinds.seen import (
    Bounds,
    Kind,
    Seen,
    Unsafe,
    annotations_of,
    count,
    labels_of,
    own_bounds,
    seen,
)
from extender.controllers.owners.failure_budget import Json
from extender.convert.decode import whole_number

_MIN_AVAILABLE = "pod-group.scheduling.sigs.k8s.io/min-available"
_LABEL_CHARS = 63
FIXED = "netgang.io/fixed"  # Annotation on a JobSet: replicated Jobs that are no workers, separated by commas


def _limited(bounds: Bounds, template: Json) -> Bounds:
    """With the pods' own min-available as the least of all minimums, and as the minimum where none is said."""
    label = whole_number(labels_of(template).get(_MIN_AVAILABLE), digits=_LABEL_CHARS)
    if label is None or (bounds.least is not None and label <= bounds.least):
        return bounds
    return replace(bounds, least=label, source="label min-available")


def _unequal(spec: Json) -> Unsafe | None:
    if spec.get("completionMode") != "Indexed":
        return Unsafe.NOT_INDEXED
    return Unsafe.UNEQUAL if spec.get("completions") != spec.get("parallelism", 1) else None


def _job(kind: Kind, job: Json) -> Seen:
    spec = job.get("spec") or {}
    template = spec.get("template") or {}
    bounds = _limited(own_bounds(job, template), template)
    workers = count(spec.get("parallelism"), 1)
    return seen(kind, job, template, spec, workers=workers, bounds=bounds, unsafe=_unequal(spec))


def _resized_job(_job: Json, _seen: Seen, workers: int) -> Json:
    """Both counts in one patch."""
    return {"spec": {"parallelism": workers, "completions": workers}}


def _job_set(kind: Kind, job: Json) -> Seen:
    spec = job.get("spec") or {}
    parts: Sequence[Json] = spec.get("replicatedJobs") or ()
    inners = [(one.get("template") or {}).get("spec") or {} for one in parts]
    number = _workers(job, parts)
    inner = inners[number] if number is not None else {}
    template = inner.get("template") or {}
    pods = [
        count(one.get("replicas"), 1) * count(of.get("parallelism"), 1) for one, of in zip(parts, inners, strict=True)
    ]
    return seen(
        kind,
        job,
        template,
        spec,
        workers=pods[number] if number is not None else 0,
        others=sum(number_of for at, number_of in enumerate(pods) if at != number),
        bounds=_limited(own_bounds(job, template), template) if annotations_of(job) else Bounds(),
        unsafe=Unsafe.SEVERAL_WORKER_JOBS if number is None else _unequal(inner),
    )


def _resized_job_set(job: Json, _seen: Seen, workers: int) -> Json:
    """A merge patch replaces lists whole, so all replicated Jobs are in it, as they were read."""
    parts: list[Any] = list(job["spec"]["replicatedJobs"])
    number = _workers(job, parts)
    assert number is not None, "an unsafe job is not resized"
    template = parts[number]["template"]
    inner = {**template["spec"], "parallelism": workers, "completions": workers}
    parts[number] = {**parts[number], "template": {**template, "spec": inner}}
    return {"spec": {"replicatedJobs": parts}}


def _workers(job: Json, parts: Sequence[Json]) -> int | None:
    """Which of the replicated Jobs are the workers; `None`: not exactly one of one replica."""
    fixed = {name.strip() for name in str(annotations_of(job).get(FIXED, "")).split(",")}
    found = [at for at, one in enumerate(parts) if one.get("name") not in fixed]
    return found[0] if len(found) == 1 and count(parts[found[0]].get("replicas"), 1) == 1 else None


JOB = Kind(
    "batch",
    "v1",
    "Job",
    "jobs",
    _job,
    _resized_job,
    managers=("kubernetes.io/job-controller",),
    ends=("Complete", "Failed", "FailureTarget", "SuccessCriteriaMet"),
)
JOB_SET = Kind(
    "jobset.x-k8s.io",
    "v1alpha2",
    "JobSet",
    "jobsets",
    _job_set,
    _resized_job_set,
    managers=("jobset.sigs.k8s.io/jobset-controller",),
    ends=("Completed", "Failed"),
)
