"""Whether PodDisruptionBudgets let a whole gang go at once.

Why not leave it to the Eviction API: a gang that is suspended is removed by its owner, which no budget stops, and one
that is evicted member by member may be stopped in the middle. Rule: all or nothing; a budget whose status is behind its
spec, or that cannot be read, forbids. Pure: raw JSON in, a name out.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from extender.controllers.owners.failure_budget import Json, decoded


def forbidding(budgets: Sequence[bytes], pods: Sequence[bytes]) -> str | None:
    """The first budget that forbids the loss of all of `pods` now; `None`: none does. ValueError: not API objects."""
    labels = [(pod.get("metadata") or {}).get("labels") or {} for pod in map(decoded, pods) if _counts(pod)]
    for budget in sorted(map(decoded, budgets), key=lambda one: str(one["metadata"]["name"])):
        selector = (budget.get("spec") or {}).get("selector")
        hit = sum(matches(selector, one) for one in labels)
        status = budget.get("status") or {}
        behind = int(status.get("observedGeneration") or 0) < int(budget["metadata"].get("generation") or 0)
        if hit and (behind or hit > int(status.get("disruptionsAllowed") or 0)):
            return str(budget["metadata"]["name"])
    return None


def matches(selector: Mapping[str, Any] | None, labels: Mapping[str, str]) -> bool:
    """Whether a label selector of policy/v1 selects these labels: `None` nothing, an empty one everything."""
    if selector is None:
        return False
    exact = selector.get("matchLabels") or {}
    if any(labels.get(key) != value for key, value in exact.items()):
        return False
    return all(_holds(one, labels) for one in selector.get("matchExpressions") or ())


def _holds(requirement: Json, labels: Mapping[str, str]) -> bool:
    key, values = requirement["key"], requirement.get("values") or ()
    match requirement["operator"]:
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
        case other:
            raise ValueError(f"{other} is no operator of a label selector")


def _counts(pod: Json) -> bool:
    ended = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
    going = bool((pod.get("metadata") or {}).get("deletionTimestamp"))
    return bool((pod.get("spec") or {}).get("nodeName")) and not ended and not going
