"""A gang as the API server has it now: read before anything is removed (docs/safety.md S11).

Rule: a consistent list, not the cache; a member is compared by what a decision to remove it rests on. A kubelet writes
into the status of pods that run, so the version alone says too little; it goes into each request all the same.
"""

from collections.abc import Mapping, Sequence
from typing import TypeAlias
from urllib.parse import quote, urlencode

import msgspec

from extender.controllers.owners.failure_budget import (
    KINDS,
    NotAllowed,
    WhyKept,
    budget,
    controller_of,
    decoded,
    uid_of,
)
from extender.convert import pod_from_json
from extender.ports import ClusterApi, read_all
from scoring.ids import GangKey, PodUid
from scoring.model import Controller, Gang, GangSource, Pod

_LABEL = {
    # where a gang's name comes from → the label that its members have; of others all pods of the namespace are read
    GangSource.POD_GROUP: "scheduling.x-k8s.io/pod-group",
    GangSource.LABELS: "pod-group.scheduling.sigs.k8s.io/name",
}

_JOB_LABELS = ("training.kubeflow.org/job-name", "jobset.sigs.k8s.io/jobset-name", "batch.kubernetes.io/job-name")
"""By which a job's pods are listed, in the order in which a pod's job is recognised (`extender.convert.labels`)."""


class Fresh(msgspec.Struct, frozen=True):
    """A member as it was read: our record, and the object itself."""

    pod: Pod
    raw: bytes

    @property
    def controller_uid(self) -> str:
        """Its controller's uid, read from the object: our record has it of members only. Empty: it has none."""
        ref = controller_of(self.raw)
        return ref.uid if ref is not None else ""


async def read_budgets(api: ClusterApi, namespace: str) -> list[bytes]:
    """All PodDisruptionBudgets of a namespace. Errors: ApiError and its kind."""
    return await read_all(api, f"/apis/policy/v1/namespaces/{quote(namespace, safe='')}/poddisruptionbudgets")


async def read_owner(api: ClusterApi, namespace: str, owner: Controller) -> bytes | None:
    """That very owner; `None`: another object has its name by now. Errors: ApiError and its kind, ValueError."""
    raw = await api.get_object(owner.api_version, owner.kind, namespace, owner.name)
    return raw if uid_of(raw) == owner.uid else None


Verdicts: TypeAlias = Mapping[Controller | None, tuple[int | NotAllowed, Sequence[Fresh]]]
"""Controller of pods (`None`: of those without) → what it says to the loss of all of them (`budget`), and the pods"""


async def read_verdicts(api: ClusterApi, pods: Sequence[Fresh]) -> Verdicts:
    """What those who own the pods say, read now. Errors: ApiError and its kind; ValueError: replaced, not readable."""
    by_owner: dict[Controller | None, list[Fresh]] = {}
    for one in pods:
        by_owner.setdefault(controller_of(one.raw), []).append(one)
    verdicts: dict[Controller | None, tuple[int | NotAllowed, Sequence[Fresh]]] = {}
    for owner, theirs in by_owner.items():
        if owner is None:
            verdict: int | NotAllowed = NotAllowed(WhyKept.BARE)
        elif owner.group_kind not in KINDS:
            verdict = NotAllowed(WhyKept.UNKNOWN_KIND, f"{owner.kind} of {owner.api_version}")
        elif (raw := await read_owner(api, theirs[0].pod.namespace, owner)) is not None:
            verdict = budget(raw, [one.raw for one in theirs])
        else:
            raise ValueError(f"{owner.kind} {owner.name} was replaced by another of the same name")
        verdicts[owner] = verdict, theirs
    return verdicts


async def read_members(api: ClusterApi, key: GangKey, source: GangSource | None) -> tuple[Fresh, ...]:
    """All pods that name the gang, by name, from one list. Errors: ApiError and its kind; ValueError: not readable."""
    namespace, _, name = key.partition("/")
    label = _LABEL.get(source) if source is not None else None
    found = await _read(api, namespace, f"{label}={name}" if label is not None else "")
    return tuple(one for one in found if one.pod.group is not None and one.pod.group.key == key)


async def read_job(api: ClusterApi, members: Sequence[Fresh]) -> tuple[Fresh, ...]:
    """The members and all else that their owner takes with it, by name, from one list. Errors: as `read_members`."""
    if not members:
        return ()
    jobs = {one.pod.job for one in members if one.pod.job is not None}
    owners = {owner for one in members if (owner := one.controller_uid)}
    labels = [decoded(one.raw).get("metadata", {}).get("labels") or {} for one in members]
    selectors = {next((f"{name}={its[name]}" for name in _JOB_LABELS if its.get(name)), "") for its in labels}
    pods: dict[PodUid, Fresh] = {one.pod.uid: one for one in members}
    for selector in sorted(selectors) if "" not in selectors else ("",):
        for one in await _read(api, members[0].pod.namespace, selector):
            if one.pod.job in jobs or one.controller_uid in owners:
                pods.setdefault(one.pod.uid, one)
    return tuple(sorted(pods.values(), key=lambda one: one.pod.name))


async def _read(api: ClusterApi, namespace: str, selector: str) -> tuple[Fresh, ...]:
    path = f"/api/v1/namespaces/{quote(namespace, safe='')}/pods"
    if selector:
        path += f"?{urlencode({'labelSelector': selector})}"
    items = await read_all(api, path)
    try:
        found = [Fresh(pod_from_json(raw), raw) for raw in items]
    except Exception as error:
        raise ValueError(f"a pod cannot be read: {error}") from error
    return tuple(sorted(found, key=lambda one: one.pod.name))


def same_as_known(gang: Gang, fresh: tuple[Fresh, ...]) -> bool:
    """Whether the pods of all its runs are those of the cache, where the cache has them, in the phase that it knows."""
    known = (*gang.members, *gang.earlier, *gang.later)
    return {_looks(pod) for pod in known} == {_looks(one.pod) for one in fresh}


def of_this_run(gang: Gang, fresh: tuple[Fresh, ...]) -> tuple[Fresh, ...]:
    """Those of `fresh` that are members: pods of other runs have nothing to do with what is decided of this one."""
    members = {pod.uid for pod in gang.members}
    return tuple(one for one in fresh if one.pod.uid in members)


def _looks(pod: Pod) -> tuple[object, ...]:
    return pod.uid, pod.node, pod.phase, pod.deleting
