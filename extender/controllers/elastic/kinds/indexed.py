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
from dataclasses import dataclass, replace
from typing import Any

from extender.controllers.elastic.kinds.seen import (
    Bounds,
    Json,
    Seen,
    Unsafe,
    Where,
    annotations_of,
    conditions_of,
    count,
    labels_of,
    outside_rule,
    own_bounds,
    seen,
    state_of,
)

_MIN_AVAILABLE = "pod-group.scheduling.sigs.k8s.io/min-available"
FIXED = "netgang.io/fixed"
"""Annotation on a JobSet: replicated Jobs that are no workers, separated by commas."""
_ENDED = frozenset({"Complete", "Failed", "FailureTarget", "SuccessCriteriaMet"})


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
        held = conditions_of(job)
        return seen(
            self.where,
            job,
            template,
            workers=count(spec.get("parallelism"), 1),
            bounds=_limited(own_bounds(job, template), template),
            unsafe=outside_rule(job, spec.get("managedBy"), "kubernetes.io/job-controller") or _unequal(spec),
            state=state_of(job, ended=bool(held & _ENDED), suspended=bool(spec.get("suspend"))),
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
        held = conditions_of(job)
        return seen(
            self.where,
            job,
            template,
            workers=count(inner.get("parallelism"), 1) if number is not None else 0,
            others=others,
            bounds=_limited(own_bounds(job, template), template) if annotations_of(job) else Bounds(),
            unsafe=outside_rule(job, spec.get("managedBy"), "jobset.sigs.k8s.io/jobset-controller")
            or (Unsafe.SEVERAL_WORKER_JOBS if number is None else _unequal(inner)),
            state=state_of(job, ended=bool(held & {"Completed", "Failed"}), suspended=bool(spec.get("suspend"))),
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


JOB = IndexedJob(Where("batch", "v1", "Job", "jobs"))
JOB_SET = JobSet(Where("jobset.x-k8s.io", "v1alpha2", "JobSet", "jobsets"))
