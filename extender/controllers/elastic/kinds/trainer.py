"""Kubeflow Trainer's TrainJob: it cannot be resized, and its status shows the training's progress.

Rules (Trainer 2.2 and 2.3): `spec.trainer` cannot be changed once the job exists, so it is followed to be shown and
never patched. Its pods are those of a JobSet of the same name that it owns. `status.trainerStatus` has the newest
values alone, as texts, and the moment at which they came; without that moment it says nothing.
"""

from dataclasses import dataclass, replace

import msgspec

from extender.controllers.elastic.kinds.seen import (
    Json,
    Seen,
    Unsafe,
    Where,
    conditions_of,
    count,
    outside_rule,
    own_bounds,
    seen,
    state_of,
)

_STATUS_BYTES = 16 * 1024
"""Longest status that is kept: some dozen values, each a name and a number."""


@dataclass(frozen=True, slots=True)
class TrainJob:
    """trainer.kubeflow.org TrainJob."""

    where: Where
    one_by_one: bool = False

    def read(self, job: Json) -> Seen:
        """See `Kind`."""
        spec = job.get("spec") or {}
        held = conditions_of(job)
        found = seen(
            self.where,
            job,
            {},
            workers=count((spec.get("trainer") or {}).get("numNodes"), 1),
            bounds=own_bounds(job, {}),
            unsafe=outside_rule(job, spec.get("managedBy"), "trainer.kubeflow.org/trainjob-controller")
            or Unsafe.FIXED_TRAINER,
            state=state_of(job, ended=bool(held & {"Complete", "Failed"}), suspended=bool(spec.get("suspend"))),
        )
        status = (job.get("status") or {}).get("trainerStatus")
        told = isinstance(status, dict) and len(msgspec.json.encode(status)) <= _STATUS_BYTES
        return replace(found, trainer_status=status if told else None)

    def resized(self, job: Json, seen: Seen, workers: int) -> Json:
        """See `Kind`. AssertionError: always, because an unsafe job is not resized."""
        raise AssertionError("a TrainJob is never resized")


TRAIN_JOB = TrainJob(Where("trainer.kubeflow.org", "v1alpha1", "TrainJob", "trainjobs"))
