"""Kubernetes' own Indexed Job, JobSets made of them, and TrainJobs made of JobSets.

Rules (Kubernetes 1.31 and later; JobSet 0.12 with its gate ElasticJobSet; Trainer 2.2 and 2.3):

- `completions` may change only together with `parallelism` and to the same value; then the pods with the highest
  indexes go and count as no failure. Reducing `parallelism` alone would let the Job controller choose others.
- The gang's minimum is written in the pods (label `min-available`) or in a PodGroup that people made: both are limits
  for us and never changed. Where nothing else is said, the label is the minimum.
- A JobSet is elastic by our annotation alone, and with exactly one replicated Job of one replica that is not named in
  `netgang.io/fixed`; an API server or controller without the gate refuses the patch, which is then said.
- A TrainJob is never patched, because `spec.trainer` cannot be changed once it exists; it is followed to be shown. Its
  pods are those of a JobSet of the same name that it owns. `status.trainerStatus` has the newest values alone, as
  texts, and the moment at which they came; without that moment it says nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from extender.controllers.elastic.kinds.seen import (
    Bounds,
    Seen,
    Unsafe,
    Where,
    annotations_of,
    count,
    labels_of,
    own_bounds,
    seen,
)
from extender.controllers.owners.failure_budget import Json

_STATUS_BYTES = 16 * 1024
"""Longest `trainerStatus` that is kept: some dozen values, each a name and a number."""
_MIN_AVAILABLE = "pod-group.scheduling.sigs.k8s.io/min-available"
FIXED = "netgang.io/fixed"
"""Annotation on a JobSet: replicated Jobs that are no workers, separated by commas."""


def _limited(bounds: Bounds, template: Json) -> Bounds:
    """With the pods' own min-available as the least of all minimums, and as the minimum where none is said."""
    text = labels_of(template).get(_MIN_AVAILABLE)
    if not isinstance(text, str) or not (text.isascii() and text.isdigit()):
        return bounds
    label = int(text)
    if bounds.least is None:
        return replace(bounds, least=label, source="label min-available")
    return replace(bounds, least=label, source="label min-available") if label > bounds.least else bounds


def _unequal(spec: Json) -> Unsafe | None:
    if spec.get("completionMode") != "Indexed":
        return Unsafe.NOT_INDEXED
    return Unsafe.UNEQUAL if spec.get("completions") != spec.get("parallelism", 1) else None


@dataclass(frozen=True, slots=True)
class IndexedJob:
    """batch/v1 Job."""

    where: Where
    one_by_one: bool = False

    def read(self, job: Json) -> Seen:
        """See `Kind`."""
        spec = job.get("spec") or {}
        template = spec.get("template") or {}
        return seen(
            self.where,
            job,
            template,
            workers=count(spec.get("parallelism"), 1),
            bounds=_limited(own_bounds(job, template), template),
            unsafe=_unequal(spec),
            managed_by=spec.get("managedBy"),
            managers=("kubernetes.io/job-controller",),
            ends=("Complete", "Failed", "FailureTarget", "SuccessCriteriaMet"),
            suspended=spec.get("suspend"),
        )

    def resized(self, job: Json, seen: Seen, workers: int) -> Json:
        """See `Kind`: both counts in one patch."""
        return {"spec": {"parallelism": workers, "completions": workers}}


@dataclass(frozen=True, slots=True)
class JobSet:
    """jobset.x-k8s.io JobSet with one replicated Job of workers."""

    where: Where
    one_by_one: bool = False

    def read(self, job: Json) -> Seen:
        """See `Kind`."""
        spec = job.get("spec") or {}
        parts: Sequence[Json] = spec.get("replicatedJobs") or ()
        number = self._workers(job, parts)
        inner = ((parts[number].get("template") or {}).get("spec") or {}) if number is not None else {}
        template = inner.get("template") or {}
        others = sum(
            count(one.get("replicas"), 1) * count(((one.get("template") or {}).get("spec") or {}).get("parallelism"), 1)
            for at, one in enumerate(parts)
            if at != number
        )
        return seen(
            self.where,
            job,
            template,
            workers=count(inner.get("parallelism"), 1) if number is not None else 0,
            others=others,
            bounds=_limited(own_bounds(job, template), template) if annotations_of(job) else Bounds(),
            unsafe=Unsafe.SEVERAL_WORKER_JOBS if number is None else _unequal(inner),
            managed_by=spec.get("managedBy"),
            managers=("jobset.sigs.k8s.io/jobset-controller",),
            ends=("Completed", "Failed"),
            suspended=spec.get("suspend"),
        )

    def resized(self, job: Json, seen: Seen, workers: int) -> Json:
        """See `Kind`: a merge patch replaces lists whole, so all replicated Jobs are in it, as they were read."""
        parts: list[Any] = list(job["spec"]["replicatedJobs"])
        number = self._workers(job, parts)
        assert number is not None, "an unsafe job is not resized"
        template = parts[number]["template"]
        inner = {**template["spec"], "parallelism": workers, "completions": workers}
        parts[number] = {**parts[number], "template": {**template, "spec": inner}}
        return {"spec": {"replicatedJobs": parts}}

    def _workers(self, job: Json, parts: Sequence[Json]) -> int | None:
        """Which of the replicated Jobs are the workers; `None`: not exactly one of one replica."""
        fixed = {name.strip() for name in str(annotations_of(job).get(FIXED, "")).split(",")}
        found = [at for at, one in enumerate(parts) if one.get("name") not in fixed]
        if len(found) != 1 or count(parts[found[0]].get("replicas"), 1) != 1:
            return None
        return found[0]


@dataclass(frozen=True, slots=True)
class TrainJob:
    """trainer.kubeflow.org TrainJob."""

    where: Where
    one_by_one: bool = False

    def read(self, job: Json) -> Seen:
        """See `Kind`."""
        spec = job.get("spec") or {}
        found = seen(
            self.where,
            job,
            {},
            workers=count((spec.get("trainer") or {}).get("numNodes"), 1),
            unsafe=Unsafe.FIXED_TRAINER,
            managed_by=spec.get("managedBy"),
            managers=("trainer.kubeflow.org/trainjob-controller",),
            ends=("Complete", "Failed"),
            suspended=spec.get("suspend"),
        )
        status = (job.get("status") or {}).get("trainerStatus")
        told = isinstance(status, dict) and len(msgspec.json.encode(status)) <= _STATUS_BYTES
        return replace(found, trainer_status=status if told else None)

    def resized(self, job: Json, seen: Seen, workers: int) -> Json:
        """See `Kind`. AssertionError: always, because an unsafe job is not resized."""
        raise AssertionError("a TrainJob is never resized")


JOB = IndexedJob(Where("batch", "v1", "Job", "jobs"))
JOB_SET = JobSet(Where("jobset.x-k8s.io", "v1alpha2", "JobSet", "jobsets"))
TRAIN_JOB = TrainJob(Where("trainer.kubeflow.org", "v1alpha1", "TrainJob", "trainjobs"))
