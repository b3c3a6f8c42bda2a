"""Take netgang away in good order: no pod stays at a gate that no controller opens any more (docs/safety.md S19).

Rule: the admission policies go first, so that no new pod is gated; then pods that wait at the gate are released. That
is done in rounds, because an API server may still gate for some seconds by a policy that is deleted. Pods are released
one by one, with no promise of whole gangs: that promise ends with netgang. Leases are for after netgang is gone, and
one that is still renewed is left. Nodes lose netgang's condition and taint; a netgang that runs sets them again, so
that is done with the Leases once more. Doing it again does no harm, and a dry run changes nothing.
"""

import asyncio
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Final

import msgspec

from extender.convert import pod_from_json
from extender.convert.patches import taints_patch
from extender.errors import ApiError, ConflictError, NotFoundError
from extender.kube.client import OperatorApi
from extender.ports import Clock
from scoring.model import GATE, Pod
from scoring.network.node_links import NETWORK_DEGRADED

POLICIES: Final = ("netgang-gate", "netgang-scheduler-name")  # Of the chart, and their bindings
LEASES: Final = ("netgang-leader", "netgang-scheduler")
GROUP: Final = "admissionregistration.k8s.io"
VERSIONS: Final = ("v1", "v1beta1")
PLURALS: Final = ("mutatingadmissionpolicybindings", "mutatingadmissionpolicies")
CALLS: Final = frozenset(  # (verb, API group, resource): the rights that all of this needs, in the chart
    {
        *((verb, "", "pods") for verb in ("list", "get", "patch")),
        *(("list", "", "nodes"), ("patch", "", "nodes"), ("patch", "", "nodes/status")),
        *((verb, GROUP, plural) for plural in PLURALS for verb in ("get", "delete")),
        *((verb, "coordination.k8s.io", "leases") for verb in ("get", "delete")),
    }
)
_SETTLED_S: Final = 6.0  # A deleted policy is out of force at every API server by then: they hear of it within seconds
_PAUSE_S: Final = 1.0
_LIMIT_S: Final = 120.0
_LEASE_LIMIT_S: Final = 90.0


class Removed(msgspec.Struct):
    """What was done, or with a dry run would be."""

    policies: list[str] = []
    released: dict[str, str] = {}  # namespace/name of a pod → the scheduler it names
    leases: list[str] = []
    nodes: list[str] = []  # That lost condition or taint
    left: dict[str, str] = {}


@dataclass(eq=False, repr=False)
class Removal:
    """One removal."""

    cluster: OperatorApi
    clock: Clock
    _: KW_ONLY
    dry_run: bool
    pause: Callable[[float], Any] = asyncio.sleep
    done: Removed = field(default_factory=Removed, init=False)

    async def policies(self) -> None:
        """Delete policies and bindings, the bindings first. Errors: ApiError, ApiUnavailableError."""
        for plural in PLURALS:
            for name in POLICIES:
                for version in VERSIONS:
                    path = f"/apis/{GROUP}/{version}/{plural}/{name}"
                    if await self.cluster.get(path) is None:
                        continue
                    if self.dry_run or await self.cluster.delete(path):
                        self.done.policies.append(f"{plural}/{name}")
                    break  # served in several versions, it is one object all the same

    async def gates(self) -> None:
        """Release every pod that waits at the gate, until none was found that came after the policies were gone."""
        began_s = self.clock.monotonic_s()
        settled_s = began_s + (_SETTLED_S if self.done.policies else 0.0)
        while True:
            round_s = self.clock.monotonic_s()
            items = self.cluster.items("/api/v1/pods", {"fieldSelector": "status.phase=Pending"})
            gated = [pod async for item in items if (pod := pod_from_json(item)).gated]
            waiting = [pod for pod in gated if not pod.deleting and pod.key not in self.done.left]
            if self.dry_run:
                self.done.released |= {pod.key: pod.scheduler_name for pod in waiting}
                return
            try:
                async with asyncio.TaskGroup() as group:  # the API server is asked a few at a time, by its client
                    for pod in waiting:
                        group.create_task(self._open(pod))
            except ExceptionGroup as several:  # the first says enough
                raise several.exceptions[0] from several
            if not waiting and round_s >= settled_s:
                return
            if round_s - began_s > _LIMIT_S:
                for pod in waiting:
                    self.done.left.setdefault(pod.key, "new pods with the gate keep coming: is it in a template?")
                return
            await self.pause(_PAUSE_S)

    async def marks(self) -> None:
        """Take netgang's condition and taint off every node; one that its kubelet writes meanwhile is left."""
        async for item in self.cluster.items("/api/v1/nodes"):
            node = msgspec.json.decode(item)
            path, untainted = f"/api/v1/nodes/{(name := node['metadata']['name'])}", taints_patch(node, None)
            shown = any(c["type"] == NETWORK_DEGRADED for c in node.get("status", {}).get("conditions") or ())
            try:
                if untainted is not None and not self.dry_run:
                    await self.cluster.patch(path, untainted)
                if shown and not self.dry_run:
                    gone = {"$patch": "delete", "type": NETWORK_DEGRADED}
                    await self.cluster.patch(f"{path}/status", {"status": {"conditions": [gone]}})
            except (ConflictError, NotFoundError) as error:
                self.done.left[f"nodes/{name}"] = f"{error.message}: run it again"
            else:
                self.done.nodes += [name] if shown or untainted is not None else []

    async def leases(self, namespace: str) -> None:
        """Delete the Leases that are not renewed any more; one that is renewed for 90 s is left."""
        await asyncio.gather(*(self._lease(namespace, name) for name in LEASES))

    async def _open(self, pod: Pod) -> None:
        """Remove the gate of this very pod; one that is gone, or replaced, is the next round's."""
        path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"
        gone = {"metadata": {"uid": pod.uid}, "spec": {"schedulingGates": [{"$patch": "delete", "name": GATE}]}}
        try:
            await self.cluster.patch(path, gone)
        except (ConflictError, NotFoundError):
            return
        except ApiError as error:
            if error.status not in (403, 422):
                raise
            now = await self.cluster.get(path)
            if now is not None and now["metadata"].get("uid") == pod.uid:
                self.done.left[pod.key] = error.message
            return
        self.done.released[pod.key] = pod.scheduler_name

    async def _lease(self, namespace: str, name: str) -> None:
        path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{name}"
        began_s = self.clock.monotonic_s()
        while (lease := await self.cluster.get(path)) is not None:
            spec = lease.get("spec") or {}
            if spec.get("holderIdentity") and not self.dry_run:  # another clock says nothing: does it change meanwhile?
                await self.pause(float(spec.get("leaseDurationSeconds") or 0) + 1.0)
            try:
                if not self.dry_run:
                    await self.cluster.delete(path, resource_version=str(lease["metadata"]["resourceVersion"]))
                self.done.leases.append(name)
                return
            except ConflictError:
                if self.clock.monotonic_s() - began_s > _LEASE_LIMIT_S:
                    self.done.left[f"leases/{name}"] = f"{spec.get('holderIdentity')} renews it: does it still run?"
                    return
