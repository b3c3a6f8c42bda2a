"""Which gang a pod belongs to, from its own labels and annotations (first match wins).

Rule: what is missing, bad or contradictory becomes `GroupRef.problem`, a sentence that says what to change; the gang is
then refused with a constant reason. Nothing is guessed, and no pod with half a gang's labels runs as a plain pod.
"""

from collections.abc import Mapping
from functools import lru_cache
from sys import intern

from extender.convert.decode import shared, whole_number
from scoring.ids import GangKey, gang_key
from scoring.model import GangSource, GroupRef

POD_GROUP_LABEL = "scheduling.x-k8s.io/pod-group"
NAME_LABEL = "pod-group.scheduling.sigs.k8s.io/name"
MIN_AVAILABLE_LABEL = "pod-group.scheduling.sigs.k8s.io/min-available"
NAME_ANNOTATIONS = ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name")
MIN_MEMBER_ANNOTATIONS = ("scheduling.k8s.io/group-min-member", "scheduling.volcano.sh/group-min-member")
_NAME_CHARS = 253
_SHOWN_CHARS = 60
_PROBLEM_CHARS = 1000


def group_of(
    namespace: str,
    labels: Mapping[str, str],
    annotations: Mapping[str, str],
    native_group: str | None = None,
    *,
    gated: bool = False,
) -> GroupRef | None:
    """Recognise the pod's gang; `None`: it belongs to none. `native_group` is `spec.schedulingGroup.podGroupName`.

    `gated`: the pod has our gate, or the note of its removal: by that netgang queues and places Kubernetes' own gangs.
    """
    if native_group:
        return _ref(namespace, native_group, GangSource.GATED_NATIVE if gated else GangSource.NATIVE)
    if (name := labels.get(POD_GROUP_LABEL)) is not None:
        return _ref(namespace, name, GangSource.POD_GROUP, None, _pod_group_problem(name, labels))
    if NAME_LABEL in labels or MIN_AVAILABLE_LABEL in labels:
        return _from_labels(namespace, labels.get(NAME_LABEL), labels.get(MIN_AVAILABLE_LABEL))
    for key in NAME_ANNOTATIONS:
        if key in annotations:
            return _from_annotation(namespace, key, annotations)
    return None


def _pod_group_problem(name: str, labels: Mapping[str, str]) -> str | None:
    if not name:
        return f"label {POD_GROUP_LABEL} is empty: name the PodGroup, or remove the label"
    other = labels.get(NAME_LABEL, name)
    if other != name:
        problem = (
            f"labels {POD_GROUP_LABEL} ({name}) and {NAME_LABEL} ({other}) name different groups: keep one of them"
        )
        return problem[:_PROBLEM_CHARS]
    return None


def _from_labels(namespace: str, name: str | None, minimum: str | None) -> GroupRef:
    count: int | None = None
    problem: str | None = None
    if not name:
        fault = "is missing" if name is None else "is empty"
        problem = f"label {NAME_LABEL} {fault}: name the group, or remove label {MIN_AVAILABLE_LABEL}"
    elif minimum is None:
        problem = f"label {MIN_AVAILABLE_LABEL} is missing: set it to how many pods must start together"
    else:
        count = whole_number(minimum) or None
        if count is None:
            said = f"label {MIN_AVAILABLE_LABEL} is {_shown(minimum)}"
            problem = f'{said}: it must be a whole number of at least 1, such as "4"'
    return _ref(namespace, name or "", GangSource.LABELS, count, problem)


def _from_annotation(namespace: str, key: str, annotations: Mapping[str, str]) -> GroupRef:
    name = annotations[key]
    problem = None if name else f"annotation {key} is empty: name the group, or remove the annotation"
    count: int | None = None
    for minimum in MIN_MEMBER_ANNOTATIONS:
        if minimum in annotations:
            count = whole_number(annotations[minimum]) or None
            if count is None and problem is None:
                given = _shown(annotations[minimum])
                problem = f"annotation {minimum} is {given}: it must be a whole number of at least 1"
            break
    return _ref(namespace, name, GangSource.ANNOTATION, count, problem)


def _shown(text: str) -> str:
    return repr(text[:_SHOWN_CHARS])


def _ref(
    namespace: str, name: str, source: GangSource, minimum: int | None = None, problem: str | None = None
) -> GroupRef:
    """The reference; a name that is none is cut, so that nothing keeps a tenant's megabytes (docs/safety.md S21)."""
    if len(name) > _NAME_CHARS:
        name, problem = name[:_NAME_CHARS], f"the group's name is longer than {_NAME_CHARS} characters: shorten it"
    return _one_ref(namespace, name, source, minimum, problem)


@lru_cache(maxsize=64)
def _one_ref(namespace: str, name: str, source: GangSource, minimum: int | None, problem: str | None) -> GroupRef:
    """Equal references are one object, and so are their keys; pods of one gang come together."""
    return shared(GroupRef(GangKey(intern(gang_key(namespace, name))), source, minimum, problem))
