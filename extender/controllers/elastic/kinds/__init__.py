"""The kinds of jobs whose worker count may be changed, one module per family, and those that are only shown.

Rules: a kind is known or it is left alone; nothing here reaches out, raw JSON comes in and values or patches go out.
Any other kind that has a worker count in `spec.replicas`, as most with a scale subresource do, needs a double opt-in,
because nothing in such an object shows what its controller does with fewer replicas: the operator of netgang names the
kind in `elastic.scale_kinds` and grants the rights; the job's owner sets `netgang.io/min-workers`. The count is changed
in the object itself, because the scale subresource takes no annotations, and a change without our note would look like
another client's. Its pods must show their index (`apps.kubernetes.io/pod-index`, `netgang.io/index`), and the highest
must be the first to go, as with StatefulSets.
"""

import re
from collections.abc import Iterable, Mapping

from extender.controllers.elastic.kinds.indexed import JOB, JOB_SET, TRAIN_JOB
from extender.controllers.elastic.kinds.seen import (
    MIN_WORKERS,
    Kind,
    Seen,
    State,
    Unsafe,
    count,
    read,
    resize_patch,
    seen,
)
from extender.controllers.elastic.kinds.training import JAX_JOB, MPI_JOB, PADDLE_JOB, PYTORCH_JOB, TF_JOB, XGBOOST_JOB
from extender.controllers.owners.failure_budget import Json

__all__ = [
    "KINDS", "MIN_WORKERS", "TRAIN_JOB", "Kind", "Seen", "State", "Unsafe", "kinds_with", "read", "resize_patch",
]  # fmt: skip

KINDS: Mapping[str, Kind] = {
    # kind and group, as JobKey has it → how it is read and resized
    kind.name: kind
    for kind in (JOB, TF_JOB, PYTORCH_JOB, MPI_JOB, JOB_SET, PADDLE_JOB, JAX_JOB, XGBOOST_JOB)
}
_NAMED = re.compile(r"([a-z0-9.-]+)/(v[0-9]+(?:(?:alpha|beta)[0-9]+)?)/([a-z0-9]+)/([A-Z][A-Za-z0-9]*)")


def kinds_with(named: Iterable[str]) -> Mapping[str, Kind]:
    """KINDS, and those that an operator has named as `GROUP/VERSION/PLURAL/KIND`; what KINDS knows better stays.

    ValueError: one names none.

    >>> kinds_with(["apps/v1/statefulsets/StatefulSet"])["StatefulSet.apps"].collection
    '/apis/apps/v1/statefulsets'
    """
    more = map(_scalable, named)
    return {**{kind.name: kind for kind in more}, **KINDS}


def _scalable(text: str) -> Kind:
    found = _NAMED.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is not GROUP/VERSION/PLURAL/KIND, such as apps/v1/statefulsets/StatefulSet")
    group, version, plural, kind = found.groups()
    ends = ("Complete", "Completed", "Succeeded", "Failed")
    return Kind(group, version, kind, plural, _look, _resized, ends=ends)


def _look(kind: Kind, job: Json) -> Seen:
    spec = job.get("spec") or {}
    unsafe = None if "replicas" in spec else Unsafe.NO_REPLICAS
    return seen(kind, job, spec.get("template") or {}, spec, workers=count(spec.get("replicas"), 1), unsafe=unsafe)


def _resized(_job: Json, _seen: Seen, workers: int) -> Json:
    return {"spec": {"replicas": workers}}
