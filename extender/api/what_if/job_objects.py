"""The gangs that pods and PodGroups of a supposed job form: read and put together as those of the API server are.

Rule: the same readers with the same bounds (docs/safety.md S21) and the same cache decide what a gang is, so that a
supposed job is judged as the real one would be.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeVar

import msgspec

from extender.cache import ClusterCache
from extender.convert import pod_from_json, pod_group_from_json
from scoring.ids import PodName, PodUid
from scoring.model import GATE, Gang, GangSource, Pod
from scoring.what_if.changes import MOST_PODS, AddJob, MisfitError, PodSet

_T = TypeVar("_T")


class _Head(msgspec.Struct):
    apiVersion: str = ""


def gangs_of(empty_cache: Callable[[], ClusterCache], job: AddJob) -> tuple[Gang, ...]:
    """The gangs of the job's pods, each pod in one. `empty_cache` knows which pods are ours. Errors: MisfitError."""
    if sum(one.count for one in job.pods) > MOST_PODS:
        raise MisfitError(f"pods: more than {MOST_PODS}")
    groups = [
        (_read(f"pod_groups.{n}", pod_group_from_json, raw), _read(f"pod_groups.{n}", _is_native, raw))
        for n, raw in enumerate(job.pod_groups)
    ]
    cache = empty_cache()
    pods = [_as_admitted(cache, pod) for n, one in enumerate(job.pods) for pod in _pods(f"pods.{n}", one)]
    if len({pod.uid for pod in pods}) < len(pods):
        raise MisfitError("pods: two have one name")
    cache.pod_groups.replace([group for group, native in groups if not native])
    cache.native_groups.replace([group for group, native in groups if native])
    cache.pods.replace(pods)
    gangs = cache.snapshot().gangs
    for pod in pods:
        gang = gangs.get(pod.group.key) if pod.group is not None else None
        if pod.group is not None and pod.group.source is GangSource.NATIVE:
            raise MisfitError(
                f"pods: kube-scheduler itself plans {pod.group.key}, by spec.schedulingGroup without gate {GATE}"
            )
        if gang is None or not gang.own:
            raise MisfitError(f"pods: netgang does not plan {pod.key}: its schedulerName is {pod.scheduler_name}")
    return tuple(gangs[key] for key in sorted(gangs))


def _as_admitted(cache: ClusterCache, pod: Pod) -> Pod:
    """The pod with the gate that the policy adds, where only gated gangs of Kubernetes' own can be ours."""
    if pod.group is None or pod.group.source is not GangSource.NATIVE or cache.is_own(pod):
        return pod
    gated = replace(pod, group=replace(pod.group, source=GangSource.GATED_NATIVE), gates=(*pod.gates, GATE))
    return gated if cache.is_own(gated) else pod


def _is_native(raw: bytes) -> bool:
    return msgspec.json.decode(raw, type=_Head).apiVersion.startswith("scheduling.k8s.io/")


def _pods(field: str, given: PodSet) -> Iterator[Pod]:
    pod = _read(f"{field}.pod", pod_from_json, given.pod)
    if pod.group is None:
        raise MisfitError(f"{field}.pod: {pod.key} is in no gang: no label or annotation names one")
    if pod.node is not None or pod.terminal:
        raise MisfitError(f"{field}.pod: {pod.key} is on a node already")
    for i in range(given.count):
        name = pod.name if given.count == 1 else PodName(f"{pod.name}-{i}")
        index = pod.index if given.count == 1 else i
        yield replace(pod, name=name, uid=PodUid(f"what-if/{pod.namespace}/{name}"), index=index)


def _read(field: str, reader: Callable[[bytes], _T], raw: msgspec.Raw) -> _T:
    try:
        return reader(bytes(raw))
    except ValueError as error:
        raise MisfitError(f"{field}: {error}") from error
