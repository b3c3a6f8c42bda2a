"""The TextStore port over HTTP: a ConfigMap of netgang's own, which is read and replaced, and never created or deleted.

Rule: an update sends the whole object back, with the version that was read, so two leaders never write over each other;
an entry that is too long to be read again is not even kept in memory.
"""

from dataclasses import dataclass
from typing import Any, Final

import msgspec

from extender.convert.decode import Headed
from extender.kube import calls
from extender.kube.http.faults import mapped
from extender.kube.http.transport import Transport
from extender.ports import StoredText

_TIMEOUT_S: Final = 5.0


STARTED_GANGS: Final = "netgang-started-gangs"
ENTRY: Final = "members"


@dataclass(frozen=True, slots=True)
class _Stored(StoredText):
    raw: bytes


class _ConfigMap(Headed):
    data: dict[str, str] | None = None


_CONFIG_MAP = msgspec.json.Decoder(_ConfigMap)


class KubeTextStore:
    """TextStore of one namespace."""

    def __init__(self, transport: Transport, namespace: str) -> None:
        self._transport = transport
        self._namespace = namespace

    @property
    def place(self) -> str:
        """What it is called, for people: `namespace/name`."""
        return f"{self._namespace}/{STARTED_GANGS}"

    async def read(self) -> StoredText | None:
        """The ConfigMap as storage has it; `None`: there is none. Errors: ApiError, ApiUnavailableError."""
        path = calls.TEXT_GET.path(self._namespace, STARTED_GANGS)
        body = await self._transport.find(path, timeout_s=_TIMEOUT_S)
        return self._stored(path, body) if body is not None else None

    async def write(self, text: str, over: StoredText) -> StoredText:
        """Replace the text of `over`; as stored. ConflictError: it has changed since."""
        path = calls.TEXT_UPDATE.path(self._namespace, STARTED_GANGS)
        if not isinstance(over, _Stored):
            raise TypeError("what is written over was not read here")
        found: dict[str, Any] = msgspec.json.decode(over.raw)
        found["data"] = {ENTRY: text}
        body = msgspec.json.encode(found)
        return self._stored(path, await self._transport.send("PUT", path, body=body, timeout_s=_TIMEOUT_S))

    def _stored(self, path: str, body: bytes) -> StoredText:
        with mapped(path):
            found = _CONFIG_MAP.decode(body)
        return _Stored(found.metadata.resource_version, (found.data or {}).get(ENTRY, ""), body)
