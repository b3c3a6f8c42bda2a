"""What owners of pods say: whether they recreate them, what a removal costs, how many they want; and budgets (S10).

Rule: what is not known is not allowed. Pure: API objects in, a verdict out.

- Job (Kubernetes 1.36, pkg/controller/job): a pod that is deleted before it succeeded counts as failed, at once or,
  with a podFailurePolicy or podReplacementPolicy Failed, when the pod garbage collector has ended it; unless the
  policy's first rule that matches says Ignore (the Eviction API adds the condition DisruptionTarget). The Job fails
  beyond backoffLimit; with backoffLimitPerIndex the index, whose pod carries how often it failed. A pod that ran ends
  with an exit code, which rules may match.
- Kubeflow's training jobs: pending pods are counted nowhere and created again by the next sync; one that runs while it
  is being deleted counts as failed, and Failed is final.
- StatefulSet, ReplicaSet, LeaderWorkerSet: they create what is missing, without counting.
- PodDisruptionBudgets: no budget stops an owner that is suspended, and evictions one by one may stop in the middle. So
  all or nothing; a budget whose status is behind its spec, or that cannot be read, forbids.
"""

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, TypeAlias

import msgspec

from scoring.model import Controller

Json: TypeAlias = Mapping[str, Any]


class WhyKept(StrEnum):
    """Why pods must stay; the value completes "it is not removed, because …"."""

    BARE = "no controller would create it again"
    UNKNOWN_KIND = "how its owner counts removed pods is not known"
    QUEUED = "Kueue manages its workload"
    NO_MORE = "its owner creates no more pods"
    BACKOFF_LIMIT = "its Job's backoffLimit would be exceeded"
    INDEX_LIMIT = "its Job's backoffLimitPerIndex would be exceeded"
    FAILURE_POLICY = "its Job's podFailurePolicy would fail it"
    OUR_MISTAKE = "its owner would count it as failed, and could not be suspended instead"
    COUNTS_AS_FAILED = "its operator takes a running pod that is removed for a failed one"
    DELETED = "its owner is being deleted"
    SUSPENDED = "its owner is suspended"
    ENDED = "its owner is finished or failed"


FAILURES = ("batch.kubernetes.io/job-index-failure-count", "batch.kubernetes.io/job-completion-index")  # Annotations
OVER = frozenset({WhyKept.DELETED, WhyKept.SUSPENDED, WhyKept.ENDED})  # netgang does nothing (docs/safety.md S8)


class NotAllowed(msgspec.Struct, frozen=True):
    """The pods must stay."""

    reason: WhyKept
    detail: str = ""

    @property
    def text(self) -> str:
        """For people, to complete "…, because "."""
        return f"{self.reason} ({self.detail})" if self.detail else self.reason


def controller_of(pod: Json) -> Controller | None:
    """The controller of a pod or of an owner; `None`: no controller would create another."""
    for ref in pod.get("metadata", {}).get("ownerReferences") or ():
        if ref.get("controller"):
            return Controller(ref["apiVersion"], ref["kind"], ref["name"], ref["uid"])
    return None


_QUEUE_LABELS = frozenset(f"kueue.x-k8s.io/{name}" for name in ("queue-name", "managed", "podset"))


def managed_by_queue(objects: Iterable[Json]) -> bool:
    """Whether Kueue manages any of these owners, pods, templates: two that remove pods would undo each other's work."""
    return any(not _QUEUE_LABELS.isdisjoint((thing.get("metadata") or {}).get("labels") or {}) for thing in objects)


class OwnerKind(msgspec.Struct, frozen=True):
    """How owners of a kind take the loss of pods, and whether they can be suspended instead."""

    losses: Callable[[Json, Sequence[Json]], int | NotAllowed]  # What they count when these pods go
    run: tuple[str, ...] = ("spec",)  # Where `suspend` and `managedBy` stand
    can_suspend: bool = False
    managers: tuple[str, ...] = ()  # Controllers that count so; the first is meant where none is named
    over: tuple[str, ...] = ()  # Conditions of which one says that it is finished or failed
    fixed_names: bool = False
    """Its pods' names are: one that never ends is in its successor's way. Kubeflow's operators also take a running pod
    that is being deleted for a failed one as soon as they are resumed."""


def can_suspend(owner: Controller) -> bool:
    """Whether its kind has suspend and resume."""
    return owner.group_kind in KINDS and KINDS[owner.group_kind].can_suspend


def budget(owner: Json, removed: Sequence[Json]) -> int | NotAllowed:
    """Failures that the owner counts when it recreates the evicted `removed`, or why not."""
    ref = Controller(str(owner.get("apiVersion", "")), str(owner.get("kind", "")), "", "")
    kind = KINDS.get(ref.group_kind)
    if kind is None:
        return NotAllowed(WhyKept.UNKNOWN_KIND, f"{ref.kind} of {ref.api_version}")
    if owner.get("metadata", {}).get("deletionTimestamp"):
        return NotAllowed(WhyKept.DELETED)
    run = value_at(owner, kind.run) or {}
    if kind.managers and (managed_by := run.get("managedBy") or kind.managers[0]) not in kind.managers:
        return NotAllowed(WhyKept.UNKNOWN_KIND, f"{kind.run[-1]}.managedBy is {managed_by}")
    if ended := true_condition(owner.get("status") or {}, *kind.over):
        return NotAllowed(WhyKept.ENDED, f"condition {ended}")
    if kind.can_suspend and run.get("suspend"):
        return NotAllowed(WhyKept.SUSPENDED)
    return kind.losses(owner, removed)


def _job(job: Json, pods: Sequence[Json]) -> int | NotAllowed:
    spec, status = job.get("spec") or {}, job.get("status") or {}
    if spec.get("completions") is None and status.get("succeeded"):
        return NotAllowed(WhyKept.NO_MORE, "a pod has succeeded, and spec.completions is not set")
    rules = (spec.get("podFailurePolicy") or {}).get("rules") or ()
    actions = [_action(rules, pod) for pod in pods]
    for action in ("FailJob", "FailIndex"):
        if action in actions:
            return NotAllowed(WhyKept.FAILURE_POLICY, f"a rule that matches says {action}")
    counted = [pod for pod, action in zip(pods, actions, strict=True) if action != "Ignore"]
    per_index = spec.get("backoffLimitPerIndex")
    for pod in counted:
        noted = pod.get("metadata", {}).get("annotations") or {}
        text = str(noted.get(FAILURES[0], ""))
        failures = int(text) if text.isascii() and text.isdigit() else 0  # as the Job controller reads it
        if per_index is not None and failures >= per_index:
            index = noted.get(FAILURES[1], "")
            return NotAllowed(WhyKept.INDEX_LIMIT, f"index {index} has used its {per_index} failures")
    limit = spec.get("backoffLimit")
    if limit is None and per_index is None:
        limit = 6  # The API server's default
    uncounted = (status.get("uncountedTerminatedPods") or {}).get("failed") or ()
    failed = int(status.get("failed") or 0) + len(uncounted)
    if counted and limit is not None and failed + len(counted) > limit:
        detail = f"{failed} of at most {limit} failures are used, {len(counted)} would be added"
        return NotAllowed(WhyKept.BACKOFF_LIMIT, detail)
    return len(counted)


def _training(job: Json, pods: Sequence[Json]) -> int | NotAllowed:
    if true_condition(job.get("status") or {}, "Suspended"):
        return NotAllowed(WhyKept.SUSPENDED)
    if running := sum(map(_may_run, pods)):
        return NotAllowed(WhyKept.COUNTS_AS_FAILED, f"{running} of {len(pods)} pods have nodes")
    return 0


_NONE_WANTED = NotAllowed(WhyKept.NO_MORE, "spec.replicas is 0")
_OF_REPLICAS = OwnerKind(lambda owner, _: _NONE_WANTED if value_at(owner, ("spec", "replicas")) == 0 else 0)
_OF_TRAINING = OwnerKind(
    _training,
    run=("spec", "runPolicy"),
    can_suspend=True,
    managers=("kubeflow.org/training-operator", "kubeflow.org/mpi-operator"),
    over=("Succeeded", "Failed"),
    fixed_names=True,
)
KINDS: Mapping[tuple[str, str], OwnerKind] = {  # by API group and kind
    ("batch", "Job"): OwnerKind(
        _job,
        can_suspend=True,
        managers=("kubernetes.io/job-controller",),
        over=("Complete", "Failed", "FailureTarget", "SuccessCriteriaMet"),
    ),
    ("apps", "StatefulSet"): _OF_REPLICAS,
    ("apps", "ReplicaSet"): _OF_REPLICAS,
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): _OF_REPLICAS,
    **{
        ("kubeflow.org", kind): _OF_TRAINING
        for kind in ("TFJob", "PyTorchJob", "MPIJob", "XGBoostJob", "PaddleJob", "JAXJob")
    },
}


def _succeeded(owner: Json) -> int:
    status = owner.get("status") or {}
    return int(status.get("succeeded") or 0) + len((status.get("uncountedTerminatedPods") or {}).get("succeeded") or ())


def has_succeeded(owner: Json) -> bool:
    """Whether any of its pods, gone ones too, has ended well: it finishes, and must not restart (docs/safety.md S8)."""
    roles = ((owner.get("status") or {}).get("replicaStatuses") or {}).values()
    return bool(_succeeded(owner) or any(role.get("succeeded") for role in roles))


def desired_pods(owner: Json) -> int | None:
    """How many pods the owner wants, those that have succeeded included; `None`: it does not say."""
    spec = owner.get("spec") or {}
    roles = next((value for name, value in spec.items() if name.endswith("ReplicaSpecs")), None)
    if roles is not None:
        return sum(int(role.get("replicas", 1)) for role in roles.values())
    counts = [int(spec[name]) for name in ("parallelism", "completions", "replicas") if spec.get(name) is not None]
    return min(counts) if counts else None


def runs_left(job: Json) -> int | None:
    """How many completions a Job is short of; `None`: none has succeeded, or it does not say."""
    spec, succeeded = job.get("spec") or {}, _succeeded(job)
    if not succeeded or spec.get("completions") is None:
        return None
    return max(int(spec["completions"]) - succeeded, 0)


def _action(rules: Sequence[Json], pod: Json) -> str:
    """What the first matching rule says of an evicted pod, else "Count"; of exit codes the worst is assumed."""
    of_pod = (pod.get("status") or {}).get("conditions") or ()
    has = {(condition["type"], condition["status"]) for condition in of_pod if condition["type"] != "DisruptionTarget"}
    has.add(("DisruptionTarget", "True"))
    for rule in rules:
        if rule.get("onExitCodes") and _may_run(pod) and rule["action"] in ("FailJob", "FailIndex"):
            return str(rule["action"])
        patterns = rule.get("onPodConditions") if not rule.get("onExitCodes") else ()
        if any((pattern["type"], pattern.get("status") or "True") in has for pattern in patterns or ()):
            return str(rule["action"])
    return "Count"


def _may_run(pod: Json) -> bool:
    return bool((pod.get("spec") or {}).get("nodeName"))


MOST_SELECTED = 512  # Labels, expressions and values of a budget's selector: each pod is compared with all of them


def forbidding(budgets: Sequence[Json], pods: Sequence[Json]) -> Generator[None, None, str | None]:
    """The first budget that forbids the loss of all of `pods` now; `None`: none does. In steps of a pod each.

    ValueError: a selector is too long, or cannot be read.
    """
    labels = [
        pod["metadata"].get("labels") or {}
        for pod in pods
        if _may_run(pod)
        and (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed")
        and not pod["metadata"].get("deletionTimestamp")
    ]
    for budget in sorted(budgets, key=lambda budget: str(budget["metadata"]["name"])):
        selector, hit = (budget.get("spec") or {}).get("selector"), 0
        labelled, lines = ((selector or {}).get(part) or () for part in ("matchLabels", "matchExpressions"))
        size = len(labelled) + sum(1 + len(line.get("values") or ()) for line in lines)
        if size > MOST_SELECTED:
            raise ValueError(f"a selector has {size} labels, expressions and values, of which {MOST_SELECTED} are read")
        for pod_labels in labels:
            hit += matches(selector, pod_labels)
            yield
        status = budget.get("status") or {}
        behind = int(status.get("observedGeneration") or 0) < int(budget["metadata"].get("generation") or 0)
        if hit and (behind or hit > int(status.get("disruptionsAllowed") or 0)):
            return str(budget["metadata"]["name"])
    return None


def matches(selector: Json | None, labels: Mapping[str, str]) -> bool:
    """Whether a label selector of policy/v1 selects these labels: `None` nothing, an empty one everything."""
    if selector is None:
        return False
    exact = [{"key": key, "operator": "In", "values": [it]} for key, it in (selector.get("matchLabels") or {}).items()]
    for requirement in (*exact, *(selector.get("matchExpressions") or ())):
        key, operator = requirement["key"], requirement["operator"]
        listed = labels.get(key) in (requirement.get("values") or ())
        holds = {"In": listed, "NotIn": not listed, "Exists": key in labels, "DoesNotExist": key not in labels}
        if operator not in holds:
            raise ValueError(f"{operator} is no operator of a label selector")
        if not holds[operator]:
            return False
    return True


def true_condition(status: Json, *types: str) -> str:
    """The first of the conditions that is True; empty: none is."""
    held = {condition["type"] for condition in status.get("conditions") or () if condition.get("status") == "True"}
    return next((name for name in types if name in held), "")


def value_at(content: Json, path: Sequence[str]) -> Any:
    """What stands there, if anything."""
    value: Any = content
    for part in path:
        value = (value or {}).get(part)
    return value


def decoded(raw: bytes) -> Json:
    """An API object. ValueError: it is none."""
    try:
        return msgspec.json.decode(raw, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"not an API object: {error}") from error
