"""The LeaseApi port over HTTP: the Lease, and the role's label on our pods.

Rule: the transport is not that of Bindings, behind which a renewal would wait its turn; each call has one time limit,
half the renew deadline, so that one lost answer does not cost the lease; an update sends the whole object back, with
the version that was read and everything that others wrote on it.
"""

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote, urlencode

import msgspec

from extender.convert.decode import Headed
from extender.kube import calls
from extender.kube.http.faults import mapped
from extender.kube.http.transport import Transport
from extender.leadership.lease import Lease, LeaseSpec

ROLE_LABEL = "netgang.io/role"
_PODS_LISTED = 100


class _Lease(Headed):
    spec: LeaseSpec = LeaseSpec()


class _List(msgspec.Struct):
    items: list[Headed] | None


_LEASE = msgspec.json.Decoder(_Lease)
_LIST = msgspec.json.Decoder(_List)


class KubeLeases:
    """LeaseApi of one Lease; `pods_namespace` "": we are no pod, and label none."""

    def __init__(
        self, transport: Transport, namespace: str, name: str, *, pods_namespace: str = "", call_s: float
    ) -> None:
        self._transport = transport
        self._namespace = namespace
        self._name = name
        self._pods_namespace = pods_namespace
        self._call_s = call_s

    async def read(self) -> Lease | None:
        """The Lease as storage has it; `None`: there is none."""
        path = calls.LEASE_GET.path(self._namespace, self._name)
        body = await self._transport.find(path, timeout_s=self._call_s)
        return _lease(path, body) if body is not None else None

    async def write(self, spec: LeaseSpec, over: Lease | None) -> Lease:
        """Replace `over`, or create the Lease; returns it as stored. See `LeaseApi` for the errors."""
        if over is None:
            method, path = "POST", calls.LEASE_CREATE.resource.collection(self._namespace)
            found: dict[str, Any] = {
                "apiVersion": calls.LEASES.api_version,
                "kind": "Lease",
                "metadata": {"name": self._name, "namespace": self._namespace},
            }
        else:
            method, path = "PUT", calls.LEASE_UPDATE.path(self._namespace, self._name)
            found = msgspec.json.decode(over.raw)
        found["spec"] = found.get("spec", {}) | msgspec.to_builtins(spec)
        body = msgspec.json.encode(found)
        return _lease(path, await self._transport.send(method, path, body=body, timeout_s=self._call_s))

    async def label(self, pod: str, role: str | None) -> None:
        """Set or remove the role's label on a pod of our namespace."""
        path = calls.POD_PATCH.path(self._pods_namespace, pod)
        body = msgspec.json.encode({"metadata": {"labels": {ROLE_LABEL: role}}})
        await self._transport.send(
            "PATCH", path, body=body, content_type="application/merge-patch+json", timeout_s=self._call_s
        )

    async def labelled(self, role: str) -> Sequence[str]:
        """Names of the pods of our namespace that carry this role's label."""
        query = urlencode({"labelSelector": f"{ROLE_LABEL}={role}", "limit": _PODS_LISTED}, quote_via=quote)
        path = f"{calls.PODS.collection(self._pods_namespace)}?{query}"
        body = await self._transport.send("GET", path, timeout_s=self._call_s)
        with mapped(f"GET {path}"):
            return [one.metadata.name for one in _LIST.decode(body).items or ()]


def _lease(path: str, body: bytes) -> Lease:
    with mapped(path):
        found = _LEASE.decode(body)
    return Lease(found.spec, found.metadata.resource_version, bytes(body))
