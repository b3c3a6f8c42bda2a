"""Which job a pod belongs to, what it does there, and its index: from the labels that job controllers write.

One adapter per framework, tried in a fixed order, most explicit first (facts of the job kinds). Rule: only labels that
the framework itself puts on pods count; a role name that is not known means worker, because every framework's
nameless majority are its workers. A TFJob's worker 0 stays a worker even when it acts as chief: it is scaled as one.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from sys import intern

import msgspec
from msgspec.structs import replace

from extender.convert.decode import Owner, shared, whole_number
from scoring.ids import JobKey
from scoring.model import Role, RunRef
from scoring.model.policy import KNOWN_OPTIONS, option_chars

OWN_PREFIX = "netgang.io/"
ROLE_ANNOTATION = OWN_PREFIX + "role"
INDEX_ANNOTATION = OWN_PREFIX + "index"
COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"
_TRAINING = "training.kubeflow.org/"
_JOBSET = "jobset.sigs.k8s.io/"
_LWS = "leaderworkerset.sigs.k8s.io/"
_BATCH = "batch.kubernetes.io/"
_NO_RUNS = frozenset({"apps/v1", "v1/ReplicationController"})  # API versions, or kinds, that replace pods without end
_VOLCANO = "volcano.sh/"

_ROLES: Mapping[str, Role] = {
    # role as the framework names it, in lower case → role class
    "ps": Role.PS, "server": Role.PS, "parameter-server": Role.PS,
    "chief": Role.CHIEF, "master": Role.CHIEF, "launcher": Role.CHIEF, "leader": Role.CHIEF, "head": Role.CHIEF,
    "coordinator": Role.CHIEF, "driver": Role.CHIEF, "mpimaster": Role.CHIEF, "scheduler": Role.CHIEF,
    "evaluator": Role.OTHER, "dataset-initializer": Role.OTHER, "model-initializer": Role.OTHER,
    "initializer": Role.OTHER,
}  # fmt: skip
_SPAN = 100_000  # Members that an index leaves room for in one Job or group of which the size is not known


_MOST_OPTIONS = 64
NAME_CHARS = 253  # Longest name of anything that the API server names


class Membership(msgspec.Struct, frozen=True):
    """A pod's place in its job; `job` is `None` when none is recognised."""

    role: Role = Role.OTHER
    job: JobKey | None = None
    index: int | None = None


def membership(
    namespace: str,
    labels: Mapping[str, str],
    annotations: Mapping[str, str],
    owners: Sequence[Owner] = (),
    *,
    in_gang: bool = False,
) -> Membership:
    """Recognise job, role and index. Own annotations `netgang.io/role` and `/index` override what labels say.

    A controller of unknown kind makes its pods workers of a job only when they form a gang: a Deployment is no job.
    """
    found = _by_labels(namespace, labels, annotations)
    if found.job is None and in_gang:
        found = _by_owner(namespace, labels, owners)
    if not annotations:
        return found
    if (role := own_role(annotations)) is not None:
        found = replace(found, role=role)
    index = whole_number(annotations.get(INDEX_ANNOTATION))
    return found if index is None else replace(found, index=index)


def run_of(labels: Mapping[str, str], owners: Sequence[Owner]) -> RunRef | None:
    """The object whose pods are the pod's run, also if orphaned by it; `None`: not said, or its controller has none."""
    owner = next((one for one in owners if one.controller), None)
    if owner is None:
        uid = labels.get(_BATCH + "controller-uid") or labels.get("controller-uid")
        if uid is None:
            return None
        kind, name = "Job.batch", labels.get(_BATCH + "job-name") or labels.get("job-name") or ""
    elif owner.api_version in _NO_RUNS or f"{owner.api_version}/{owner.kind}" in _NO_RUNS:
        return None
    else:
        uid, name = owner.uid, owner.name
        kind = f"{owner.kind}.{owner.api_version.partition('/')[0]}" if "/" in owner.api_version else owner.kind
        if _TRAINING + "job-name" in labels:
            kind = _TRAINING + labels.get(_TRAINING + "operator-name", "")
    whole = labels.get(_JOBSET + "jobset-uid", "")
    return shared(RunRef(*(text[:NAME_CHARS] for text in (uid, kind, name, whole))))


def own_role(annotations: Mapping[str, str]) -> Role | None:
    """The role that annotation `netgang.io/role` gives; `None` when there is none or it is not a role."""
    text = annotations.get(ROLE_ANNOTATION)
    return Role(text) if text is not None and text in list(Role) else None


def own_options(annotations: Mapping[str, str], *, written_by_us: frozenset[str]) -> tuple[tuple[str, str], ...]:
    """The `netgang.io/…` annotations without the prefix, sorted.

    Left out: role and index when they were understood (else the reader of options reports them), and `written_by_us`.
    Of a name that does not exist nothing but the name is kept, and of a value that is too long as much as shows that it
    is: what a pod keeps is bounded (docs/safety.md S21).
    """
    found = {k[len(OWN_PREFIX) :]: v for k, v in annotations.items() if k.startswith(OWN_PREFIX)}
    if not found:
        return ()
    if own_role(annotations) is not None:
        found.pop("role", None)
    if whole_number(annotations.get(INDEX_ANNOTATION)) is not None:
        found.pop("index", None)
    kept = sorted((name, value) for name, value in found.items() if name not in written_by_us)
    return tuple(
        (name[:NAME_CHARS], value[: option_chars(name) + 1] if name in KNOWN_OPTIONS else "")
        for name, value in kept[:_MOST_OPTIONS]
    )


def _by_labels(namespace: str, labels: Mapping[str, str], annotations: Mapping[str, str]) -> Membership:
    if (name := labels.get(_TRAINING + "job-name")) is not None:
        role = labels.get(_TRAINING + "replica-type") or labels.get(_TRAINING + "job-role")
        return Membership(_role(role), _job(namespace, name), whole_number(labels.get(_TRAINING + "replica-index")))
    if (name := labels.get(_VOLCANO + "job-name")) is not None:
        role = labels.get(_VOLCANO + "task-spec") or annotations.get(_VOLCANO + "task-spec")
        index = labels.get(_VOLCANO + "task-index") or annotations.get(_VOLCANO + "task-index")
        return Membership(_role(role), _job(namespace, name), whole_number(index))
    if (name := labels.get(_JOBSET + "jobset-name")) is not None:
        role = labels.get(_JOBSET + "replicatedjob-name")
        return Membership(_role(role), _job(namespace, name), _jobset_index(labels, annotations))
    if (name := labels.get(_LWS + "name")) is not None:
        return _leader_worker(namespace, name, labels, annotations)
    if (name := labels.get("ray.io/cluster")) is not None:
        return Membership(_role(labels.get("ray.io/node-type")), _job(namespace, name))
    if (name := labels.get("batch.kubernetes.io/job-name") or labels.get("job-name")) is not None:
        return Membership(Role.WORKER, _job(namespace, name), _completion_index(labels, annotations))
    return Membership()


def _by_owner(namespace: str, labels: Mapping[str, str], owners: Sequence[Owner]) -> Membership:
    for owner in owners:
        if owner.controller and owner.kind != "Node" and len(owner.name) <= NAME_CHARS:
            return Membership(
                Role.WORKER, _job(namespace, owner.name), whole_number(labels.get("apps.kubernetes.io/pod-index"))
            )
    return Membership()


def _jobset_index(labels: Mapping[str, str], annotations: Mapping[str, str]) -> int | None:
    """Completion index inside the only Job of its role; else counted through all Jobs of the set."""
    inside = _completion_index(labels, annotations)
    if labels.get(_JOBSET + "replicatedjob-replicas") == "1":
        return inside
    job = whole_number(labels.get(_JOBSET + "job-global-index") or labels.get(_JOBSET + "job-index"))
    return None if job is None else job * _SPAN + (inside or 0)


def _leader_worker(namespace: str, name: str, labels: Mapping[str, str], annotations: Mapping[str, str]) -> Membership:
    group = whole_number(labels.get(_LWS + "group-index"))
    inside = whole_number(labels.get(_LWS + "worker-index"))
    if inside is None:
        return Membership(Role.WORKER, _job(namespace, name))
    size = whole_number(annotations.get(_LWS + "size")) or _SPAN
    return Membership(Role.CHIEF if inside == 0 else Role.WORKER, _job(namespace, name), (group or 0) * size + inside)


def _completion_index(labels: Mapping[str, str], annotations: Mapping[str, str]) -> int | None:
    return whole_number(labels.get(COMPLETION_INDEX) or annotations.get(COMPLETION_INDEX))


def _role(text: str | None) -> Role:
    return _ROLES.get((text or "")[:NAME_CHARS].lower(), Role.WORKER)


def _job(namespace: str, name: str) -> JobKey | None:
    return _job_key(namespace, name) if len(name) <= NAME_CHARS else None


@lru_cache(maxsize=64)
def _job_key(namespace: str, name: str) -> JobKey:
    """Equal keys are one object; pods of one job come together."""
    return JobKey(intern(f"{namespace}/{name}"))
