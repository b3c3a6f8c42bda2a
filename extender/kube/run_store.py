"""The RunStore port over HTTP: one ConfigMap, which is read and replaced, and never created or deleted.

Rule: an update sends the whole object back, with the version that was read, so two leaders never write over each other;
an entry that is too long to be read again is not even kept in memory.
"""

from dataclasses import dataclass
from typing import Any, Final

import msgspec

from extender.kube import calls
from extender.kube.http.faults import mapped
from extender.kube.http.transport import Transport
from extender.notes import NoteKind
from extender.ports import StoredRuns

FORMER_RUNS: Final = "netgang-former-runs"  # The ConfigMap's name, as manifests/components/lengths has it
ENTRY: Final = "runs.json"
_TIMEOUT_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class _Stored(StoredRuns):
    raw: bytes


class _Head(msgspec.Struct, rename="camel"):
    uid: str = ""
    resource_version: str = ""
    annotations: dict[str, str] | None = None


class _ConfigMap(msgspec.Struct):
    metadata: _Head
    data: dict[str, str] | None = None


_CONFIG_MAP = msgspec.json.Decoder(_ConfigMap)


class KubeRunStore:
    """RunStore of one namespace."""

    def __init__(self, transport: Transport, namespace: str) -> None:
        self._transport = transport
        self._namespace = namespace

    @property
    def place(self) -> str:
        """What it is called, for people: `namespace/name`."""
        return f"{self._namespace}/{FORMER_RUNS}"

    async def read(self) -> StoredRuns | None:
        """The ConfigMap as storage has it; `None`: there is none. Errors: ApiError, ApiUnavailableError."""
        path = calls.FORMER_RUNS_GET.path(self._namespace, FORMER_RUNS)
        body = await self._transport.find(path, timeout_s=_TIMEOUT_S)
        return self._stored(path, body) if body is not None else None

    async def write(self, text: str, note: str, over: StoredRuns) -> StoredRuns:
        """Replace the runs of `over`; as stored. ConflictError: it has changed since."""
        path = calls.FORMER_RUNS_UPDATE.path(self._namespace, FORMER_RUNS)
        if not isinstance(over, _Stored):
            raise TypeError("what is written over was not read here")
        found: dict[str, Any] = msgspec.json.decode(over.raw)
        found["data"] = {ENTRY: text}
        found["metadata"]["annotations"] = {
            **(found["metadata"].get("annotations") or {}),
            NoteKind.FORMER_RUNS.value: note,
        }
        body = msgspec.json.encode(found)
        return self._stored(path, await self._transport.send("PUT", path, body=body, timeout_s=_TIMEOUT_S))

    def _stored(self, path: str, body: bytes) -> StoredRuns:
        with mapped(path):
            found = _CONFIG_MAP.decode(body)
        head, data = found.metadata, found.data or {}
        note = (head.annotations or {}).get(NoteKind.FORMER_RUNS, "")
        return _Stored(self.place, head.uid, head.resource_version, data.get(ENTRY, ""), note, body)
