"""What the removal of pods costs their owner: Jobs by the Job controller's own rules, other kinds by theirs."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.controllers.failure_budget import (
    KINDS,
    OVER,
    Json,
    NotAllowed,
    WhyKept,
    budget,
    controller_of,
    decoded,
    desired_pods,
    has_succeeded,
    runs_left,
)
from extender.kube.calls import OWNERS
from scoring.model import Controller

DISRUPTION = {"type": "DisruptionTarget"}


def other(api_version: str, kind: str, *, status: Json | None = None, **spec: Any) -> Json:
    return {"apiVersion": api_version, "kind": kind, "spec": spec, "status": status or {}}


def job(status: Json | None = None, **spec: Any) -> Json:
    return other("batch/v1", "Job", status=status, **{"completions": 4, "parallelism": 4, "backoffLimit": 6, **spec})


def member(index: int = 0, *, failures: int | str | None = None, conditions: tuple[Json, ...] = ()) -> Json:
    """A pending pod of an Indexed Job; `failures` is what its index has behind it."""
    annotations = {"batch.kubernetes.io/job-completion-index": str(index)}
    if failures is not None:
        annotations["batch.kubernetes.io/job-index-failure-count"] = str(failures)
    status = {"phase": "Pending", "conditions": list(conditions)}
    return {"metadata": {"name": f"p{index}", "annotations": annotations}, "status": status}


def pods(count: int) -> list[Json]:
    return [member(index) for index in range(count)]


def true(kind: str) -> Json:
    return {"type": kind, "status": "True"}


def policy(*rules: Json) -> Json:
    return {"rules": list(rules)}


IGNORE: Json = {"action": "Ignore", "onPodConditions": [DISRUPTION]}
ON_EXIT: Json = {"action": "FailJob", "onExitCodes": {"operator": "NotIn", "values": [0]}}
UNSCHEDULED = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}

JOBS: dict[str, tuple[Json, list[Json], int | WhyKept]] = {  # case: (Job, pods to remove, what it costs or why not)
    "default limit of six": (job(backoffLimit=None), pods(6), 6),
    "one more than that": (job(backoffLimit=None), pods(7), WhyKept.BACKOFF_LIMIT),
    "failures not yet counted count": (
        job({"failed": 4, "uncountedTerminatedPods": {"failed": ["u1"]}}), pods(2), WhyKept.BACKOFF_LIMIT),
    "restartPolicy OnFailure counts the same": (
        job(backoffLimit=1, template={"spec": {"restartPolicy": "OnFailure"}}), pods(2), WhyKept.BACKOFF_LIMIT),
    "podReplacementPolicy only delays": (job(backoffLimit=1, podReplacementPolicy="Failed"), pods(1), 1),
    "disruptions ignored, after a rule on exit codes": (
        job(backoffLimit=0, podFailurePolicy=policy(ON_EXIT, IGNORE)), pods(3), 0),
    "the first rule that matches decides": (
        job(backoffLimit=0, podFailurePolicy=policy({**IGNORE, "action": "Count"}, IGNORE)),
        pods(1), WhyKept.BACKOFF_LIMIT),
    "a rule for the condition when it is False": (
        job(backoffLimit=0, podFailurePolicy=policy({"action": "Ignore", "onPodConditions": [
            {"type": "DisruptionTarget", "status": "False"}]})),
        pods(1), WhyKept.BACKOFF_LIMIT),
    "a rule on a condition that the pod has": (
        job(podFailurePolicy=policy({"action": "FailJob", "onPodConditions": [
            {"type": "PodScheduled", "status": "False"}]}, IGNORE)),
        [member(conditions=(UNSCHEDULED,))], WhyKept.FAILURE_POLICY),
    "disruptions fail the Job": (
        job(podFailurePolicy=policy({**IGNORE, "action": "FailJob"})), pods(1), WhyKept.FAILURE_POLICY),
    "disruptions fail the index": (
        job(backoffLimitPerIndex=3, podFailurePolicy=policy({**IGNORE, "action": "FailIndex"})),
        pods(1), WhyKept.FAILURE_POLICY),
    "only exit codes have rules": (job(backoffLimit=1, podFailurePolicy=policy(ON_EXIT)), pods(1), 1),
    "per index, first failure": (job(backoffLimitPerIndex=1, backoffLimit=2147483647), pods(4), 4),
    "per index, without defaults": (job(backoffLimitPerIndex=1, backoffLimit=None), pods(9), 9),
    "per index, none allowed": (job(backoffLimitPerIndex=0, backoffLimit=None), pods(1), WhyKept.INDEX_LIMIT),
    "per index, used up": (
        job(backoffLimitPerIndex=2, backoffLimit=None), [member(0), member(1, failures=2)], WhyKept.INDEX_LIMIT),
    "per index, used up and ignored": (
        job(backoffLimitPerIndex=2, backoffLimit=None, podFailurePolicy=policy(IGNORE)), [member(1, failures=2)], 0),
    "per index, a count that is no number": (
        job(backoffLimitPerIndex=1, backoffLimit=None), [member(failures="-7")], 1),
    "per index and in all": (job(backoffLimitPerIndex=3, backoffLimit=1), pods(2), WhyKept.BACKOFF_LIMIT),
    "suspended": (job(suspend=True), pods(1), WhyKept.SUSPENDED),
    "complete": (job({"conditions": [true("Complete")]}), pods(1), WhyKept.ENDED),
    "failed": (job({"conditions": [true("Failed")]}), pods(1), WhyKept.ENDED),
    "about to fail": (job({"conditions": [true("FailureTarget")]}), pods(1), WhyKept.ENDED),
    "about to succeed": (job({"conditions": [true("SuccessCriteriaMet")]}), pods(1), WhyKept.ENDED),
    "resumed": (job({"conditions": [{"type": "Suspended", "status": "False"}]}, suspend=False), pods(1), 1),
    "work queue": (job(completions=None), pods(1), 1),
    "work queue that begins to end": (job({"succeeded": 1}, completions=None), pods(1), WhyKept.NO_MORE),
    "managed by somebody else": (job(managedBy="kueue.x-k8s.io/multikueue"), pods(1), WhyKept.UNKNOWN_KIND),
    "managed by the Job controller by name": (job(managedBy="kubernetes.io/job-controller"), pods(1), 1),
}  # fmt: skip


KUBEFLOW, OPERATOR = "kubeflow.org/v1", "kubeflow.org/training-operator"
OTHERS: dict[str, tuple[Json, WhyKept | None]] = {  # case: (owner, why not; None: freely)
    **{kind: (other(KUBEFLOW, kind), None)
       for kind in ("TFJob", "PyTorchJob", "MPIJob", "XGBoostJob", "PaddleJob", "JAXJob")},
    "MPIJob of its own operator": (
        other("kubeflow.org/v2beta1", "MPIJob", runPolicy={"managedBy": "kubeflow.org/mpi-operator"}), None),
    "training job, managed by name": (other(KUBEFLOW, "TFJob", runPolicy={"managedBy": OPERATOR}), None),
    "training job, managed elsewhere": (
        other(KUBEFLOW, "TFJob", runPolicy={"managedBy": "kueue.x-k8s.io/multikueue"}), WhyKept.UNKNOWN_KIND),
    "training job, running": (other(KUBEFLOW, "TFJob", status={"conditions": [true("Running")]}), None),
    "training job, failed": (other(KUBEFLOW, "TFJob", status={"conditions": [true("Failed")]}), WhyKept.ENDED),
    "training job, over": (other(KUBEFLOW, "TFJob", status={"conditions": [true("Succeeded")]}), WhyKept.ENDED),
    "training job, suspended": (other(KUBEFLOW, "PyTorchJob", runPolicy={"suspend": True}), WhyKept.SUSPENDED),
    "training job, about to resume": (
        other(KUBEFLOW, "PyTorchJob", status={"conditions": [true("Suspended")]}), WhyKept.SUSPENDED),
    "StatefulSet": (other("apps/v1", "StatefulSet", replicas=3), None),
    "ReplicaSet": (other("apps/v1", "ReplicaSet"), None),
    "ReplicaSet of none": (other("apps/v1", "ReplicaSet", replicas=0), WhyKept.NO_MORE),
    "LeaderWorkerSet": (other("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", replicas=2), None),
    "Ray": (other("ray.io/v1", "RayCluster"), WhyKept.UNKNOWN_KIND),
    "a Job of another group": (other("batch.volcano.sh/v1alpha1", "Job"), WhyKept.UNKNOWN_KIND),
    "nothing": ({}, WhyKept.UNKNOWN_KIND),
}  # fmt: skip


ON_143 = {"operator": "In", "values": [143]}
BOUND: dict[str, tuple[Json, int | WhyKept]] = {  # case: (owner, what two pods with nodes cost or why they must stay)
    "bound, of a Job": (job(), 2),
    "bound, of a Job whose exit codes may fail it": (
        job(podFailurePolicy=policy({"action": "FailJob", "onExitCodes": ON_143})), WhyKept.FAILURE_POLICY),
    "bound, of a Job that ignores exit codes": (
        job(podFailurePolicy=policy({"action": "Ignore", "onExitCodes": ON_143})), 2),
    "bound, of a TFJob": (other(KUBEFLOW, "TFJob"), WhyKept.COUNTS_AS_FAILED),
    "bound, of a StatefulSet": (other("apps/v1", "StatefulSet", replicas=4), 0),
}  # fmt: skip
VERDICTS = {
    **JOBS,
    **{case: (owner, pods(20), 0 if why is None else why) for case, (owner, why) in OTHERS.items()},
    **{
        case: (owner, [{**pod, "spec": {"nodeName": "n1"}} for pod in pods(2)], want)
        for case, (owner, want) in BOUND.items()
    },
}


@pytest.mark.parametrize(("owner", "removed", "want"), VERDICTS.values(), ids=VERDICTS)
def test_what_removals_cost(owner: Json, removed: list[Json], want: int | WhyKept) -> None:
    """As pkg/controller/job of Kubernetes 1.36 counts pods that are deleted before they ran; what is not known: no.

    Pods that run end with an exit code that nobody knows, and an operator may take them for failed ones.
    """
    verdict = budget(owner, removed)
    assert want == (verdict.reason if isinstance(verdict, NotAllowed) else verdict)


@pytest.mark.parametrize(("group", "kind"), KINDS)
def test_an_owner_that_is_being_deleted(group: str, kind: str) -> None:
    found = {**other(f"{group}/v1", kind), "metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}
    assert budget(found, pods(1)) == NotAllowed(WhyKept.DELETED)
    assert WhyKept.DELETED in OVER


def test_every_kind_can_be_read() -> None:
    assert set(KINDS) == set(OWNERS)


def test_the_detail_has_the_numbers() -> None:
    detail = "5 of at most 6 failures are used, 2 would be added"
    assert budget(job({"failed": 5}), pods(2)) == NotAllowed(WhyKept.BACKOFF_LIMIT, detail)


UP_TO_8 = st.integers(0, 8)


@given(limit=UP_TO_8, failed=UP_TO_8, count=st.integers(1, 8), ignored=st.booleans(), fewer=UP_TO_8)
def test_within_the_limit_exactly(limit: int, failed: int, count: int, ignored: bool, fewer: int) -> None:
    owner = job({"failed": failed}, backoffLimit=limit, podFailurePolicy=policy(IGNORE) if ignored else None)
    verdict = budget(owner, pods(count))
    assert isinstance(verdict, int) == (ignored or failed + count <= limit)
    if isinstance(verdict, int):
        assert isinstance(budget(owner, pods(min(fewer, count))), int)


CONFIG_MAP = {"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "1"}
REFERENCES: dict[str, tuple[Any, Controller | None]] = {
    "none": (None, None),
    "only an owner": ([CONFIG_MAP], None),
    "a controller after an owner": (
        [CONFIG_MAP, {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "2", "controller": True}],
        Controller("batch/v1", "Job", "j", "2"),
    ),
}


@pytest.mark.parametrize(("references", "want"), REFERENCES.values(), ids=REFERENCES)
def test_the_controller_of_a_pod(references: Any, want: Controller | None) -> None:
    """The one owner that is marked as controller; others would not recreate the pod."""
    assert controller_of({"metadata": {"ownerReferences": references}}) == want


INDEXED: Json = {"completionMode": "Indexed"}
TF_ROLES = {"PS": {"replicas": 1}, "worker": {"replicas": 3}}
PS_RUNS, UNCOUNTED = {"PS": {"active": 1}}, {"uncountedTerminatedPods": {"succeeded": ["uid"]}}
COUNTS: dict[str, tuple[Json, int | None, bool, int | None]] = {
    # case: (owner, pods that it wants, whether one has succeeded, completions that it is short of)
    "a new Job": (job(**INDEXED), 4, False, None),
    "fewer at a time": (job(parallelism=2), 2, False, None),
    "a queue of work": (job({"succeeded": 1}, parallelism=3, completions=None, **INDEXED), 3, True, None),
    "one of a Job": (job({"succeeded": 1}, **INDEXED), 4, True, 3),
    "one of a Job that has no indexes": (job({"succeeded": 1}, completionMode="NonIndexed"), 4, True, 3),
    "one that is not counted yet": (job(UNCOUNTED), 4, True, 3),
    "one more that is not counted yet": (job({"succeeded": 1, **UNCOUNTED}, **INDEXED), 4, True, 2),
    "all": (job({"succeeded": 4}, **INDEXED), 4, True, 0),
    "failures": (job({"failed": 3, "uncountedTerminatedPods": {"failed": ["uid"]}}, **INDEXED), 4, False, None),
    "one of a TFJob": (other(KUBEFLOW, "TFJob", status={"replicaStatuses": {**PS_RUNS, "Worker": {"succeeded": 1}}},
        tfReplicaSpecs=TF_ROLES), 4, True, None),
    "a TFJob that runs": (other(KUBEFLOW, "TFJob", status={"replicaStatuses": PS_RUNS}), None, False, None),
    "a role without number": (other(KUBEFLOW, "PyTorchJob", pytorchReplicaSpecs={"Worker": {}}), 1, False, None),
    "a StatefulSet": (other("apps/v1", "StatefulSet", replicas=4), 4, False, None),
    "one that does not tell": (other("apps/v1", "StatefulSet"), None, False, None),
}  # fmt: skip


@pytest.mark.parametrize(("owner", "wanted", "succeeded", "left"), COUNTS.values(), ids=COUNTS)
def test_what_an_owner_counts(owner: Json, wanted: int | None, succeeded: bool, left: int | None) -> None:
    """It remembers successes when the pods are gone (docs/safety.md S8)."""
    assert (desired_pods(owner), has_succeeded(owner), runs_left(owner)) == (wanted, succeeded, left)


UNREADABLE: dict[str, bytes] = {  # case: what a custom resource may hold, or a broken answer
    "nested beyond reading": b'{"metadata": {}, "spec": ' + b'{"x":' * 5_000 + b"1" + b"}" * 5_000 + b"}",
    "nothing": b"",
    "a list": b"[]",
    "cut": b'{"metadata": {',
    "not text": b'{"metadata": "\xff"}',
}


@pytest.mark.parametrize("raw", UNREADABLE.values(), ids=UNREADABLE)
def test_an_owner_that_cannot_be_read_is_a_value_error(raw: bytes) -> None:
    """Whatever a tenant writes: no other exception leaves the reader, and nothing is done (docs/safety.md S21)."""
    with pytest.raises(ValueError, match="not an API object"):
        decoded(raw)
