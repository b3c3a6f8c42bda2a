"""The kubelets of all nodes: pods that got a node run a while later, deleted pods end a while later.

Rule: what a kubelet writes is the pod's phase, and its end: a pod without a node never comes here.
"""

import asyncio
import random

from extender.kube.calls import PODS
from simulator.pods.latency import Latencies
from simulator.pods.server import with_condition
from simulator.pods.store import Change, Changed, Object, Store


class Kubelets:
    """All of them. `start` them before there are pods."""

    def __init__(self, store: Store, latencies: Latencies, rng: random.Random) -> None:
        self._store = store
        self._latencies = latencies
        self._rng = rng

    def start(self) -> None:
        """Follow pods."""
        self._store.follow(PODS, self._hear, delay_s=self._latencies.watch_s)

    def _hear(self, change: Changed) -> None:
        new, old = change.new, change.old
        if change.type is Change.DELETED or not new["spec"].get("nodeName"):
            return
        loop = asyncio.get_running_loop()
        metadata = new["metadata"]
        key = (metadata["namespace"], metadata["name"], metadata["uid"])
        if old is None or not old["spec"].get("nodeName"):
            loop.call_later(self._latencies.pod_start.draw(self._rng), self._begin, *key)
        if "deletionTimestamp" in metadata and (old is None or "deletionTimestamp" not in old["metadata"]):
            loop.call_later(self._latencies.pod_stop.draw(self._rng), self._end, *key)

    def _begin(self, namespace: str, name: str, uid: str) -> None:
        pod = self._there(namespace, name, uid)
        if pod is not None and pod["status"].get("phase") == "Pending":
            ready = {"type": "Ready", "status": "True", "lastTransitionTime": self._store.stamp()}
            self._store.replace(PODS, {**pod, "status": {**with_condition(pod, ready), "phase": "Running"}})

    def _end(self, namespace: str, name: str, uid: str) -> None:
        if self._there(namespace, name, uid) is not None:
            self._store.delete(PODS, namespace, name)

    def _there(self, namespace: str, name: str, uid: str) -> Object | None:
        """The very pod, if it is there."""
        found = self._store.find(PODS, namespace, name)
        return found if found is not None and found["metadata"]["uid"] == uid else None
