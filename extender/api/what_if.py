"""POST /v1/what-if: what is supposed is read as what the API server has, and planned beside the service.

Rules: pods and PodGroups go through the readers with their bounds (docs/safety.md S21) and a cache of their own, so
that a supposed job is judged as the real one would be; nothing of the service is changed. One thread answers one
question after the other, as each costs a plan, up to a second with a thousand waiting gangs (docs/safety.md S15).
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, TypeVar

import msgspec
from msgspec.structs import replace

from extender.cache.cluster import ClusterCache
from extender.convert import pod_from_json, pod_group_from_json
from extender.errors import ConfigError
from extender.runtime.slices import WorkerThread
from extender.scheduling.planner_loop import Planner
from extender.settings.settings import Settings
from scoring import PodName, PodUid
from scoring.explain.words import counted
from scoring.model import GATE, Gang, GangSource, Pod, Policy
from scoring.plan import Plan, PlannerCache
from scoring.records import Supposed
from scoring.what_if import MOST_PODS, MisfitError, PodSet, Situation, WhatIf, what_if

_T = TypeVar("_T")
MOST_WAITING: Final = 4
_DECIDING: Final = ("score", "queue", "selection", "zone_policy", "spill_wait_s", "zone_distance_ms")


class BusyError(Exception):
    """It cannot be answered now: too many questions wait, or the first plan is not made yet."""


@dataclass(eq=False, repr=False)
class WhatIfs:
    """Questions about the running cluster, answered one after the other."""

    planner: Planner
    settings: Settings
    empty_cache: Callable[[], ClusterCache]
    _asked: int = field(default=0, init=False)
    _worker: WorkerThread = field(default_factory=lambda: WorkerThread("what-if"), init=False)
    """A question whose caller hung up is still answered, and the next waits"""

    async def suppose(self, what: WhatIf) -> Supposed:
        """What the plan would be. Errors: MisfitError, BusyError."""
        planner = self.planner
        if planner.snapshot is None:
            raise BusyError("the first plan is not made yet")
        if self._asked > MOST_WAITING:
            raise BusyError("others are being answered")
        base = Situation(planner.snapshot, planner.policy, planner.now_s)
        given = (base, planner.current, what, self.settings, self.empty_cache)
        self._asked += 1
        try:
            return await self._worker(partial(supposed, *given, cache=planner.cache.borrowed()))
        finally:
            self._asked -= 1


def supposed(
    base: Situation,
    plan: Plan,
    what: WhatIf,
    settings: Settings,
    empty_cache: Callable[[], ClusterCache],
    *,
    cache: PlannerCache | None = None,
) -> Supposed:
    """What is supposed makes this of `plan`, the plan of `base`. Errors: MisfitError names the field that is wrong."""
    policy = policy_with(settings, what.settings) if what.settings else None
    gangs = gangs_of(empty_cache(), what) if what.pods else ()
    return what_if(base, plan, what, gangs=gangs, policy=policy, cache=cache)


def read_what_if(body: bytes | str) -> WhatIf:
    """What is supposed, from JSON. Errors: MisfitError names the field that is wrong."""
    try:
        return msgspec.json.decode(body, type=WhatIf)
    except msgspec.ValidationError as error:
        what, _, place = str(error).partition(" - at `$")
        where = re.sub(r"\[(\d+)\]", r".\1", place).replace("[...]", "").strip(".`")
        raise MisfitError(f"{where or 'body'}: {what}") from error
    except msgspec.DecodeError as error:
        raise MisfitError(f"body: not JSON: {error}") from error


def policy_with(settings: Settings, given: Mapping[str, Any]) -> Policy:
    """The policy of `settings` with those of `given` instead, sections merged. MisfitError names what is wrong."""
    if unknown := next((name for name in given if name not in _DECIDING), None):
        raise MisfitError(f"settings.{unknown}: decides nothing in a plan; accepted: {', '.join(_DECIDING)}")
    try:
        return settings.changed(given).policy()
    except ConfigError as error:
        raise MisfitError(f"settings.{str(error).splitlines()[0]}") from error


def gangs_of(cache: ClusterCache, what: WhatIf) -> tuple[Gang, ...]:
    """The gangs of the pods, each pod in one. `cache`: empty; it knows which pods are ours. Errors: MisfitError."""
    if sum(pod_set.count for pod_set in what.pods) > MOST_PODS:
        raise MisfitError(f"pods: more than {MOST_PODS}")
    groups = [_read(f"pod_groups.{n}", pod_group_from_json, raw) for n, raw in enumerate(what.pod_groups)]
    heads = [msgspec.json.decode(raw, type=_GroupHead) for raw in what.pod_groups]
    native = [head.apiVersion.startswith("scheduling.k8s.io/") for head in heads]
    pods = [_as_admitted(cache, pod) for n, pod_set in enumerate(what.pods) for pod in _pods(f"pods.{n}", pod_set)]
    if len({pod.uid for pod in pods}) < len(pods):
        raise MisfitError("pods: two have one name")
    cache.pod_groups.replace([group for group, own in zip(groups, native, strict=True) if not own])
    cache.native_groups.replace([group for group, own in zip(groups, native, strict=True) if own])
    cache.pods.replace(pods)
    gangs = cache.snapshot().gangs
    for pod in pods:
        gang = gangs.get(pod.group.key) if pod.group is not None else None
        if pod.group is not None and pod.group.source is GangSource.NATIVE:
            raise MisfitError(
                f"pods: kube-scheduler itself plans {pod.group.key}, by spec.schedulingGroup without gate {GATE}"
            )
        if gang is not None and len(gang.members) < gang.min_member:
            few = f"{counted(len(gang.members), 'pod')}, and its minimum is {gang.min_member}"
            raise MisfitError(f"pods: gang {gang.key} has {few}: it would never start")
        if gang is None or not gang.own:
            raise MisfitError(f"pods: netgang does not plan {pod.key}: its schedulerName is {pod.scheduler_name}")
    return tuple(gangs[key] for key in sorted(gangs))


class _GroupHead(msgspec.Struct):
    apiVersion: str = ""


def _as_admitted(cache: ClusterCache, pod: Pod) -> Pod:
    """The pod with the gate that the policy adds, where only gated gangs of Kubernetes' own can be ours."""
    if pod.group is None or pod.group.source is not GangSource.NATIVE or cache.is_own(pod):
        return pod
    gated = replace(pod, group=replace(pod.group, source=GangSource.GATED_NATIVE), gates=(*pod.gates, GATE))
    return gated if cache.is_own(gated) else pod


def _pods(where: str, given: PodSet) -> Iterator[Pod]:
    pod = _read(f"{where}.pod", pod_from_json, given.pod)
    if pod.group is None:
        raise MisfitError(f"{where}.pod: {pod.key} is in no gang: no label or annotation names one")
    if pod.node is not None or pod.terminal:
        raise MisfitError(f"{where}.pod: {pod.key} is on a node already")
    for i in range(given.count):
        name = pod.name if given.count == 1 else PodName(f"{pod.name}-{i}")
        index = pod.index if given.count == 1 else i
        yield replace(pod, name=name, uid=PodUid(f"what-if/{pod.namespace}/{name}"), index=index)


def _read(where: str, reader: Callable[[bytes], _T], raw: msgspec.Raw) -> _T:
    try:
        return reader(bytes(raw))
    except ValueError as error:
        raise MisfitError(f"{where}: {error}") from error
