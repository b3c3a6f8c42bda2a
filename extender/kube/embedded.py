"""A cluster in memory behind the ClusterApi port: `netgang serve --snapshot` and the demo.

So a newcomer sees with curl what kube-scheduler would get. Rule: a Binding changes the cache as a watch would, and
nothing is written anywhere else.
"""

from collections.abc import AsyncIterator, Mapping
from typing import Any

from msgspec.structs import replace

from extender.cache.cluster import ClusterCache
from extender.errors import ConflictError, NotFoundError
from extender.ports import Binding, Clock, WatchEvent
from scoring import PodUid
from scoring.model import Phase, Pod


class EmbeddedCluster:
    """ClusterApi over the cache itself. Nothing is listed or watched: the cache is filled once, from a file."""

    def __init__(self, cache: ClusterCache, pods_json: Mapping[str, bytes], clock: Clock) -> None:
        self._cache, self._pods_json, self._clock = cache, pods_json, clock

    async def _nothing(self, *_: Any, **__: Any) -> Any:
        raise NotFoundError(404, "a saved cluster serves nothing but its pods")

    list_page = get_object = patch_object = patch_group_status = patch_node_status = _nothing

    async def watch(self, path: str, *, resource_version: str, timeout_s: int) -> AsyncIterator[WatchEvent]:
        """There is nothing to watch."""
        yield await self._nothing()

    async def bind(self, binding: Binding) -> None:
        """Put the pod on the node now, as its condition PodScheduled would say, and let it run."""
        pod = self._existing(binding.uid, binding.namespace, binding.name)
        if pod.node is not None and pod.node != binding.node:
            raise ConflictError(409, f"pod {pod.key} is on node {pod.node}")
        if pod.node is None:
            now_s = self._clock.now_s()
            self._cache.pods.put(replace(pod, node=binding.node, phase=Phase.RUNNING, scheduled_s=now_s))

    async def _there(self, namespace: str, name: str, uid: PodUid, *_: Any, **__: Any) -> None:
        """No pod is parked here, so there is none to wake; conditions are for people who look at a live pod."""
        self._existing(uid, namespace, name)

    annotate_pod = patch_pod_status = _there

    async def admit_pod(self, namespace: str, name: str, uid: PodUid, patch: bytes) -> None:
        """Open our gate; there is no other scheduler here that would read the affinity."""
        pod = self._existing(uid, namespace, name)
        self._cache.pods.put(replace(pod, gates=pod.foreign_gates))

    async def get_pod(self, namespace: str, name: str) -> bytes:
        """The pod as it was in the file."""
        body = self._pods_json.get(f"{namespace}/{name}")
        if body is None:
            raise NotFoundError(404, f"pods {namespace}/{name} not found")
        return body

    async def labelled_owners(self, *labels: str) -> AsyncIterator[tuple[str, str, bytes]]:
        """A saved cluster has no owners of pods."""
        for owner in list[tuple[str, str, bytes]]():
            yield owner

    async def evict(self, namespace: str, name: str, uid: PodUid, *, resource_version: str = "") -> None:
        """Remove the pod."""
        pod = self._existing(uid, namespace, name)
        if resource_version not in ("", pod.resource_version):
            raise ConflictError(409, f"pod {pod.key} has changed")
        self._cache.pods.remove(pod.key)

    async def create_event(self, namespace: str, event: Mapping[str, Any]) -> None:
        """No client reads Events here; the log has them."""

    def _existing(self, uid: PodUid, namespace: str, name: str) -> Pod:
        pod = self._cache.pod(uid)
        if pod is None:
            raise NotFoundError(404, f"pods {namespace}/{name} not found")
        return pod
