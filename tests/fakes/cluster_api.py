"""A ClusterApi in memory (an ApiStore): keeps the port's promises, and breaks them on demand."""

import asyncio
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from extender.kube.calls import (
    BUDGETS,
    DAEMON_SETS,
    DEVICE_CLAIMS,
    DEVICE_CLASSES,
    DEVICE_SLICES,
    DEVICES,
    EVENTS,
    NATIVE_GROUPS,
    NODES,
    OWNERS,
    POD_GROUPS,
    PODS,
    QUOTAS,
    Resource,
)
from extender.ports import Binding
from lab.simulator.apiserver.api import StoreApi
from lab.simulator.apiserver.store import ApiStore
from scoring.ids import PodUid
from tests.fakes.key_store import KEY, FakeKeyStore
from tests.fakes.text_store import FakeTextStore

_OWNERS = {kind: resource for (_, kind), resource in OWNERS.items()}
_RESOURCES: dict[str, Resource] = {
    "Pod": PODS,
    "Node": NODES,
    "PodGroup": POD_GROUPS,
    "Event": EVENTS,
    "DeviceClass": DEVICE_CLASSES,
    "ResourceSlice": DEVICE_SLICES,
    "ResourceClaim": DEVICE_CLAIMS,
    "PodDisruptionBudget": BUDGETS,
    "ResourceQuota": QUOTAS,
    "DaemonSet": DAEMON_SETS,
    **_OWNERS,
}


@dataclass(frozen=True, slots=True)
class _Fault:
    error: Exception
    applied: bool


class FakeClusterApi(StoreApi):
    """The API server as the service sees it; `add` and `remove` are what other people do to the cluster."""

    def __init__(self, *objects: Mapping[str, Any], store: ApiStore | None = None, bookmark_s: float = 60.0) -> None:
        store = store if store is not None else ApiStore()
        super().__init__(store, around=self._disturbed, bookmark_s=bookmark_s)
        store.install(BUDGETS, *DEVICES, QUOTAS, NATIVE_GROUPS[0])
        self.latency_s: dict[str, float] = {}  # verb → time each call takes before it has an effect
        self._faults: defaultdict[str, deque[_Fault]] = defaultdict(deque)
        self._held: dict[str, asyncio.Event] = {}
        self.keys = FakeKeyStore(KEY)  # the Secret in netgang's namespace
        self.runs, self.started = FakeTextStore(), FakeTextStore("netgang-started-gangs")  # ConfigMaps there
        for one in objects:
            self.add(one)

    # The cluster.

    def add(self, obj: Mapping[str, Any]) -> dict[str, Any]:
        """Create or replace an object (a Pod unless `kind` says otherwise); returns it as stored."""
        kind = obj.get("kind", "Pod")
        if kind in _OWNERS:
            self.store.install(_OWNERS[kind])
        native = str(obj.get("apiVersion", "")).startswith("scheduling.k8s.io/")
        return self.store.put(NATIVE_GROUPS[0] if native else _RESOURCES[kind], obj)

    def remove(self, name: str, *, namespace: str = "default", kind: str = "Pod") -> None:
        resource = _RESOURCES[kind]
        self.store.remove(resource, namespace if resource.namespaced else "", name)

    def pod(self, name: str, *, namespace: str = "default") -> dict[str, Any]:
        return self.store.get(PODS, namespace, name)

    @property
    def bindings(self) -> list[Binding]:
        return self.store.bindings

    @property
    def evictions(self) -> list[PodUid]:
        return self.store.evictions

    @property
    def patches(self) -> list[tuple[PodUid, dict[str, str]]]:
        return self.store.patches

    # Faults.

    def fail_next(self, verb: str, error: Exception, *, times: int = 1, applied: bool = False) -> None:
        """Let the next calls of `verb` end with `error`; `applied`: after they took effect, as a lost answer does."""
        self._faults[verb].extend([_Fault(error, applied)] * times)

    def heal(self) -> None:
        self._faults.clear()

    @property
    def open_watches(self) -> int:
        return self.store.open_watches

    def break_watches(self, error: Exception | None = None) -> None:
        self.store.hang_up(error)

    def hold(self, verb: str) -> asyncio.Event:
        """Let calls of `verb` wait, before they have an effect, until the returned event is set."""
        self._held[verb] = asyncio.Event()
        return self._held[verb]

    @asynccontextmanager
    async def _disturbed(self, verb: str) -> AsyncIterator[None]:
        """Let a call take its time, and fail it as planned: without an effect, or after it took effect."""
        if self.latency_s.get(verb):
            await asyncio.sleep(self.latency_s[verb])
        if verb in self._held:
            await self._held[verb].wait()
        fault = self._faults[verb].popleft() if self._faults[verb] else None
        if fault is not None and not fault.applied:
            raise fault.error
        yield
        if fault is not None:
            raise fault.error
