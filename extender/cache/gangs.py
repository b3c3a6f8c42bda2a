"""One gang from its pods and PodGroups: size, order, and what is wrong with it.

Rule: a contradiction is never resolved by a guess; it becomes a constant reason and a sentence on what to change. What
finished and deleted members say no longer counts, so a mended template works as soon as its first pods exist.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from contextlib import suppress
from operator import attrgetter
from types import MappingProxyType

import msgspec
from msgspec.structs import replace

from scoring.feasibility.quorum import quorum_of
from scoring.feasibility.runs import Runs
from scoring.ids import GangKey, PodUid
from scoring.lengths import EXPECTED_DURATION, duration_s
from scoring.model import Gang, GangSource, GroupRef, Pod, PodGroup, Reason, Role, counts

PodGroups = Mapping[tuple[GangKey, bool], PodGroup]
"""gang, and whether the PodGroup is Kubernetes' own → its PodGroup; there may be one of either kind"""

_DECLARED = attrgetter(  # What `build_gang` reads of a pod
    *("group", "options", "priority", "scheduler_name", "deleting", "terminal", "index", "name", "created_s"),
    *("owner", "run", "member_class.role", "limit_s"),
)
_ROLE_ORDER: Mapping[Role, int] = {Role.PS: 0, Role.CHIEF: 1, Role.WORKER: 2, Role.OTHER: 3}
"""role → place among the members"""


class _Fault(msgspec.Struct, frozen=True):
    reason: Reason
    detail: str


def build_gang(
    members: Iterable[Pod],
    pod_groups: PodGroups,
    *,
    is_own: Callable[[Pod], bool],
    owner_created_s: float | None = None,
    most_needed: int | None = None,
    owner_options: tuple[tuple[str, str], ...] = (),
    beside: Runs = Runs(()),
) -> Gang:
    """Put a gang together from the pods of one run that name it (at least one). Cost: O(n log n).

    Its age is its owner's, where that is known, else its PodGroup's, else its oldest pod's (docs/safety.md S14). Its
    minimum is the PodGroup's, else the labels', else all pods there are, and at most `most_needed`, what its owner
    still needs (docs/safety.md S8). `owner_options`: its owner's own annotations, which count where pods have none.
    `beside`: pods of its other runs.
    """
    ordered = tuple(sorted(members, key=_order))
    current = [pod for pod in ordered if not pod.deleting and not pod.terminal] or list(ordered)
    if any(_ref(pod).source is GangSource.GATED_NATIVE for pod in current):
        # Members that started before pods were gated count; what they lack is no fault by now.
        current = [pod for pod in current if pod.node is None or _ref(pod).source is GangSource.GATED_NATIVE]
    first = _ref(current[0])
    group = _pod_group(first, pod_groups)
    created_s = group.created_s if group is not None else min(pod.created_s for pod in ordered)
    declared = group.min_member if group is not None else first.min_available
    least = declared if declared is not None and declared > 0 else len(current)
    fault = _fault(current, first, group) or _mixed(current)
    return Gang(
        key=first.key,
        source=first.source,
        min_member=min(least, most_needed) if most_needed is not None else least,
        members=ordered,
        priority=max(pod.priority for pod in current),
        created_s=owner_created_s if owner_created_s is not None else created_s,
        options=_options(current, owner_options),
        problem=fault.reason if fault is not None else None,
        problem_detail=fault.detail if fault is not None else "",
        schedule_timeout_s=group.schedule_timeout_s if group is not None else None,
        own=all(is_own(pod) for pod in current),
        earlier=tuple(sorted(beside.earlier, key=_order)),
        later=tuple(sorted(beside.later, key=_order)),
    )


def declared_minimum(pods: Sequence[Pod], pod_groups: PodGroups) -> int:
    """The minimum that the gang's PodGroup, else any of its pods, declares; 1: none does."""
    if (group := _pod_group(_ref(pods[0]), pod_groups)) is not None:
        return group.min_member
    return max([pod.group.min_available or 1 for pod in pods if pod.group is not None])


def renewed(known: Gang, members: Mapping[PodUid, Pod]) -> Gang | None:
    """`known` with these members' newer records; `None`: more than how far they are has changed, so build it again.

    A gang of n is bound in n steps, each with an event. Cost: O(n), a third of `build_gang`. The PodGroup, and which
    members are ours, must be what `known` was built with.
    """
    if len(members) != len(known.members) + len(known.earlier) or known.later or known.problem is not None:
        return None
    current, earlier = _newer(known.members, members), _newer(known.earlier, members)
    return None if current is None or earlier is None else replace(known, members=current, earlier=earlier)


def _newer(some: tuple[Pod, ...], members: Mapping[PodUid, Pod]) -> tuple[Pod, ...] | None:
    found: list[Pod] = []
    for before in some:
        after = members.get(before.uid)
        if after is None or not (after is before or _DECLARED(before) == _DECLARED(after)):
            return None
        found.append(after)
    return tuple(found)


def continued(
    gang: Gang, before: Gang | None, shown: Set[PodUid], noted: Mapping[PodUid, GangKey] = MappingProxyType({})
) -> Gang:
    """The gang with what is known of its past: whether it has started. Cost: O(n), O(n log n) when it becomes whole.

    It has when the watch shows its minimum on nodes; then for as long as one of those that counted counts; and when a
    note of ours says so. An invalid gang does not start: its minimum is not known. `shown`: members that count by what
    the watch shows; `noted`: pods by which a former process noted the start of their gang. Confirmed Bindings prove
    nothing: a member may be deleted between its own and the last one.

    >>> from tests.builders import bound, gang, pod
    >>> a, b = bound(pod("a"), "n1"), bound(pod("b"), "n2")
    >>> whole, both = gang("g", members=[a, b]), {a.uid, b.uid}
    >>> continued(whole, None, both).started, continued(whole, None, {a.uid}).started
    (True, False)
    >>> left = gang("g", members=[a], min_member=2)
    >>> continued(left, continued(whole, None, both), {a.uid}).started, continued(left, None, {a.uid}).started
    (True, False)
    """
    started = _went_on(gang, before) or any(noted.get(pod.uid) == gang.key and counts(pod) for pod in gang.members)
    if not started and gang.problem is None and len(shown) >= gang.min_member:
        started = quorum_of(gang).reached_by(shown)
    return gang if gang.started is started else replace(gang, started=started)


def _went_on(gang: Gang, before: Gang | None) -> bool:
    """Whether the gang had started, and some of those that counted then are among those that count now."""
    if before is None or not before.started:
        return False
    counted = {pod.uid for pod in before.members if counts(pod)}
    return any(pod.uid in counted and counts(pod) for pod in gang.members)


def _order(pod: Pod) -> tuple[int, bool, int, str]:
    return _ROLE_ORDER[pod.member_class.role], pod.index is None, pod.index or 0, pod.name


def _ref(pod: Pod) -> GroupRef:
    if pod.group is None:
        raise ValueError(f"pod {pod.key} is a member of no gang")
    return pod.group


def _pod_group(ref: GroupRef, pod_groups: PodGroups) -> PodGroup | None:
    """The PodGroup that belongs to the gang's source; an annotation may mean Volcano's or coscheduling's."""
    if ref.source is GangSource.LABELS:
        return None
    return pod_groups.get((ref.key, ref.source.is_native))


def _fault(current: Sequence[Pod], first: GroupRef, group: PodGroup | None) -> _Fault | None:
    for pod in current:
        if (problem := _ref(pod).problem) is not None:
            return _Fault(Reason.INVALID_GROUP, f"pod {pod.key}: {problem}")
    if sources := _differing(current, lambda pod: _ref(pod).source):
        return _Fault(Reason.INVALID_GROUP, f"the pods name their group in different ways: {sources}; use one of them")
    if first.source is GangSource.NATIVE:
        return None  # kube-scheduler itself gangs these, and says what is wrong with them
    if group is not None:
        if group.min_member < 1:
            field = "minCount" if first.source.is_native else "minMember"
            detail = f"PodGroup {group.key} has {field} {group.min_member}: it must be at least 1"
            return _Fault(Reason.INVALID_GROUP, detail)
        return None
    if first.source is GangSource.GATED_NATIVE:
        detail = f"PodGroup {first.key} of scheduling.k8s.io does not exist: create it, with the minCount of its gang"
        return _Fault(Reason.INVALID_GROUP, detail)
    if first.source is GangSource.POD_GROUP:
        return _Fault(Reason.INVALID_GROUP, f"PodGroup {first.key} does not exist: create it, or remove the label")
    if minimums := _differing(current, lambda pod: _ref(pod).min_available or "none"):
        return _Fault(Reason.INVALID_GROUP, f"the pods name different min-available: {minimums}; make them equal")
    if first.min_available is None:
        detail = f"PodGroup {first.key} does not exist, and no pod has annotation scheduling.k8s.io/group-min-member"
        return _Fault(Reason.INVALID_GROUP, f"{detail}: create the one or add the other")
    return None


def _mixed(current: Sequence[Pod]) -> _Fault | None:
    if current[0].group is not None and current[0].group.source is GangSource.NATIVE:
        return None
    if names := _differing(current, lambda pod: pod.scheduler_name):
        return _Fault(Reason.MIXED_SCHEDULERS, f"spec.schedulerName differs: {names}; make them equal")
    if priorities := _differing(current, lambda pod: pod.priority):
        return _Fault(Reason.MIXED_PRIORITIES, f"spec.priority differs: {priorities}; use one priorityClassName")
    return None


def _differing(pods: Sequence[Pod], what: Callable[[Pod], object]) -> str:
    """Name one pod for each differing value, in the order of the members; nothing when all agree."""
    found: dict[object, str] = {}
    for pod in pods:
        found.setdefault(what(pod), pod.name)
    return ", ".join(f"{value} ({name})" for value, name in found.items()) if len(found) > 1 else ""


def _options(current: Sequence[Pod], owners: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    """All members' annotations; where they differ the first member's counts (ps before chief before workers)."""
    found = dict(owners)
    found.update({name: value for pod in reversed(current) for name, value in pod.options})
    return tuple(sorted(found.items()))


class JobSays(msgspec.Struct, frozen=True):
    """What a gang's job itself says of its length."""

    expected: str = ""  # Annotation `netgang.io/expected-duration`, bounded; empty: it has none
    limit_s: float | None = None  # `activeDeadlineSeconds` of the job


def length_s(gang: Gang, job: JobSays | None) -> float | None:
    """How long the gang runs, seconds; `None`: nothing is said. Cost: O(members).

    A deadline cuts what is declared, because it ends the run; alone it is taken for the length, as batch systems take
    the limit that each of their jobs must name, so nothing that is promised by it comes late.

    >>> from tests.builders import gang
    >>> said = gang("g", 2, options={"expected-duration": "1h"})
    >>> length_s(said, None), length_s(said, JobSays(limit_s=60.0)), length_s(gang("g", 2), None)
    (3600.0, 60.0, None)
    """
    found = [pod.limit_s for pod in gang.members if pod.limit_s is not None]
    if job is not None and job.limit_s is not None:
        found.append(job.limit_s)
    for name, text in gang.options:
        if name == EXPECTED_DURATION:
            with suppress(ValueError):  # `scoring.model.policy.gang_options` says so
                found.append(duration_s(text))
    return min(found, default=None)
