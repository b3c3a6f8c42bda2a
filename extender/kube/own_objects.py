"""The LeaseApi and TextStore ports over HTTP: objects of netgang's own, a Lease and a ConfigMap, and our role's label.

Rule: the transport is not that of Bindings, behind which a renewal would wait its turn; each call has one time limit,
for the Lease half the renew deadline, so that one lost answer does not cost it. An update sends the whole object back,
with the version that was read and everything that others wrote on it, so two leaders never write over each other.
"""

from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import quote, urlencode

import msgspec

from extender.convert.decode import Headed
from extender.kube import calls
from extender.kube.transport import Transport, mapped
from extender.leadership.election import Lease, LeaseSpec
from extender.ports import StoredText

ROLE_LABEL: Final = "netgang.io/role"
STARTED_GANGS: Final = "netgang-started-gangs"
ENTRY: Final = "members"
_TEXT_S: Final = 5.0


class _Lease(Headed):
    spec: LeaseSpec = LeaseSpec()


class _PodList(msgspec.Struct):
    items: list[Headed] | None


class _ConfigMap(Headed):
    data: dict[str, str] | None = None


class KubeLeases:
    """LeaseApi of one Lease; `pods_namespace` "": we are no pod, and label none."""

    def __init__(
        self, transport: Transport, namespace: str, name: str, *, pods_namespace: str = "", call_s: float
    ) -> None:
        self._transport, self._pods_namespace, self._call_s = transport, pods_namespace, call_s
        self._path = calls.LEASES.path(namespace, name)
        head = {"name": name, "namespace": namespace}
        self._new: dict[str, Any] = {"apiVersion": calls.LEASES.api_version, "kind": "Lease", "metadata": head}

    async def read(self) -> Lease | None:
        """The Lease as storage has it; `None`: there is none."""
        body = await self._transport.find(self._path, timeout_s=self._call_s)
        return self._stored(body) if body is not None else None

    async def write(self, spec: LeaseSpec, over: Lease | None) -> Lease:
        """Replace `over`, or create the Lease; returns it as stored. See `LeaseApi` for the errors."""
        method, path = ("PUT", self._path) if over else ("POST", self._path.rpartition("/")[0])
        lease = msgspec.json.decode(over.raw) if over else self._new
        lease = lease | {"spec": lease.get("spec", {}) | msgspec.to_builtins(spec)}
        body = msgspec.json.encode(lease)
        return self._stored(await self._transport.send(method, path, body=body, timeout_s=self._call_s))

    def _stored(self, body: bytes) -> Lease:
        with mapped(self._path):
            lease = msgspec.json.decode(body, type=_Lease)
        return Lease(lease.spec, lease.metadata.resource_version, body)

    async def label(self, pod: str, role: str | None) -> None:
        """Set or remove the role's label on a pod of our namespace."""
        path = calls.PODS.path(self._pods_namespace, pod)
        body = msgspec.json.encode({"metadata": {"labels": {ROLE_LABEL: role}}})
        await self._transport.send(
            "PATCH", path, body=body, content_type="application/merge-patch+json", timeout_s=self._call_s
        )

    async def labelled(self, role: str) -> Sequence[str]:
        """Names of the pods of our namespace that carry this role's label."""
        query = urlencode({"labelSelector": f"{ROLE_LABEL}={role}", "limit": 100}, quote_via=quote)
        path = f"{calls.PODS.collection(self._pods_namespace)}?{query}"
        body = await self._transport.send("GET", path, timeout_s=self._call_s)
        with mapped(f"GET {path}"):
            return [pod.metadata.name for pod in msgspec.json.decode(body, type=_PodList).items or ()]


class KubeTextStore:
    """TextStore of one namespace; the ConfigMap is never created or deleted."""

    def __init__(self, transport: Transport, namespace: str) -> None:
        self._transport = transport
        self.place = f"{namespace}/{STARTED_GANGS}"
        self._path = calls.CONFIG_MAPS.path(namespace, STARTED_GANGS)

    async def read(self) -> StoredText | None:
        """The ConfigMap as storage has it; `None`: there is none. Errors: ApiError, ApiUnavailableError."""
        body = await self._transport.find(self._path, timeout_s=_TEXT_S)
        return self._stored(body) if body is not None else None

    async def write(self, text: str, over: StoredText) -> StoredText:
        """Replace the text of `over`; as stored. ConflictError: it has changed since."""
        body = msgspec.json.encode(msgspec.json.decode(over.raw) | {"data": {ENTRY: text}})
        return self._stored(await self._transport.send("PUT", self._path, body=body, timeout_s=_TEXT_S))

    def _stored(self, body: bytes) -> StoredText:
        with mapped(self._path):
            stored = msgspec.json.decode(body, type=_ConfigMap)
        return StoredText(stored.metadata.resource_version, (stored.data or {}).get(ENTRY, ""), body)
