"""The KeyStore port over HTTP: one Secret, which is read and replaced, and never created or deleted.

Rule: an update sends the whole object back, with the version that was read; the type of a Secret cannot be changed, so
this can become nothing but what the manifests made of it.
"""

from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from extender.errors import ApiUnavailableError
from extender.kube import calls
from extender.kube.http.faults import mapped
from extender.kube.http.transport import Transport
from extender.kube.object_names import Headed
from extender.ports import StoredKeys

NOTE_KEYS: Final = "netgang-notes"  # The Secret's name, as manifests/base/notes.yaml has it
_TIMEOUT_S: Final = 5.0


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
