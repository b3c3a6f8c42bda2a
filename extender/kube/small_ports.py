"""The ports beside ClusterApi: the Lease and the role's label, the Secret with the keys for notes, reviews of tokens.

Rule: none goes over the transport of Bindings, behind which a renewal would wait its turn; an update sends the whole
object back, with the version that was read and all that others wrote on it; nothing of these is deleted.
"""

from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, urlencode

import msgspec

from extender.errors import ApiUnavailableError
from extender.kube import calls
from extender.kube.heads import Headed
from extender.kube.http.faults import mapped
from extender.kube.http.transport import Transport
from extender.leadership.lease import Lease, LeaseSpec
from extender.ports import Identity, StoredKeys

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


NOTE_KEYS: Final = "netgang-notes"  # The Secret's name, as manifests/base/notes.yaml has it
_TIMEOUT_S: Final = 5.0  # Of Secret and reviews; that of the Lease follows from its duration


@dataclass(frozen=True, slots=True)
class _Stored(StoredKeys):
    raw: bytes


class _Secret(Headed):
    data: dict[str, str] | None = None


_SECRET = msgspec.json.Decoder(_Secret)


class KubeKeyStore:
    """KeyStore of one namespace."""

    def __init__(self, transport: Transport, namespace: str) -> None:
        self._transport = transport
        self._namespace = namespace

    @property
    def place(self) -> str:
        """What it is called, for people: `namespace/name`."""
        return f"{self._namespace}/{NOTE_KEYS}"

    async def read(self) -> StoredKeys | None:
        """The Secret as storage has it; `None`: there is none. Errors: ApiError, ApiUnavailableError."""
        path = calls.NOTE_KEYS_GET.path(self._namespace, NOTE_KEYS)
        body = await self._transport.find(path, timeout_s=_TIMEOUT_S)
        return _stored(path, body) if body is not None else None

    async def write(self, data: Mapping[str, bytes], over: StoredKeys) -> StoredKeys:
        """Replace the data of `over`; as stored. ConflictError: it has changed since."""
        path = calls.NOTE_KEYS_UPDATE.path(self._namespace, NOTE_KEYS)
        if not isinstance(over, _Stored):
            raise TypeError("what is written over was not read here")
        secret: dict[str, Any] = msgspec.json.decode(over.raw)
        secret["data"] = {name: b64encode(value).decode() for name, value in data.items()}
        body = msgspec.json.encode(secret)
        return _stored(path, await self._transport.send("PUT", path, body=body, timeout_s=_TIMEOUT_S))


def _stored(path: str, body: bytes) -> StoredKeys:
    with mapped(path):
        found = _SECRET.decode(body)
    try:
        data = {name: b64decode(text) for name, text in (found.data or {}).items()}
    except (Base64Error, ValueError) as error:
        raise ApiUnavailableError(f"{path}: {error}") from error
    return _Stored(data, found.metadata.resource_version, body)


class _User(msgspec.Struct):
    username: str = ""
    uid: str = ""
    groups: list[str] | None = None
    extra: dict[str, list[str]] | None = None


class _TokenStatus(msgspec.Struct):
    authenticated: bool = False
    audiences: list[str] | None = None
    user: _User = msgspec.field(default_factory=_User)


class _TokenReview(msgspec.Struct):
    status: _TokenStatus


class _AccessStatus(msgspec.Struct):
    allowed: bool


class _AccessReview(msgspec.Struct):
    status: _AccessStatus


class KubeReviews:
    """The Reviews port; its transport is not that of Bindings."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def identity(self, token: str, *, audiences: Sequence[str] = ()) -> Identity | None:
        """Whose token it is; None: no account's, or not surely for one of `audiences`. Errors: as `Transport.send`."""
        spec = {"token": token, **({"audiences": list(audiences)} if audiences else {})}
        body = await self._create(calls.TOKEN_REVIEW, "TokenReview", spec)
        with mapped("TokenReview"):
            found = msgspec.json.decode(body, type=_TokenReview).status
        if not found.authenticated or not found.user.username:
            return None
        if audiences and not set(audiences).intersection(found.audiences or ()):
            return None
        extra = tuple(sorted((key, tuple(values)) for key, values in (found.user.extra or {}).items()))
        return Identity(found.user.username, found.user.uid, tuple(found.user.groups or ()), extra)

    async def may(self, caller: Identity, verb: str, path: str) -> bool:
        """Whether `caller` has the right to `verb` (get, post) this address. Errors: ApiError, ApiUnavailableError."""
        spec = {
            "user": caller.username,
            "uid": caller.uid,
            "groups": caller.groups,
            "extra": dict(caller.extra),
            "nonResourceAttributes": {"verb": verb, "path": path},
        }
        body = await self._create(calls.ACCESS_REVIEW, "SubjectAccessReview", spec)
        with mapped("SubjectAccessReview"):
            return msgspec.json.decode(body, type=_AccessReview).status.allowed

    async def _create(self, call: calls.Call, kind: str, spec: dict[str, Any]) -> bytes:
        body = msgspec.json.encode({"apiVersion": call.resource.api_version, "kind": kind, "spec": spec})
        return await self._transport.send("POST", call.resource.collection(), body=body, timeout_s=_TIMEOUT_S)
