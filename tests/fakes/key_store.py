"""A KeyStore in memory that replicas may share; its first key signs what a former process would have written."""

from collections.abc import Mapping
from typing import Any, Final

from extender.errors import ConflictError
from extender.notes.signatures import Bearer, Key, KeyRing, Notes
from extender.ports import StoredKeys

KEY: Final = Key("20231101000000", b"k" * 32)  # two weeks old when the clock of tests begins


def notes_of_a_former_process() -> Notes:
    return Notes(KeyRing([KEY], now_s=KEY.made_s))


def bearer_of(obj: Mapping[str, Any]) -> Bearer:
    meta = obj["metadata"]
    version, kind = obj.get("apiVersion", "v1"), obj.get("kind", "Pod")
    return Bearer(version, kind, meta.get("namespace", "default"), meta["name"], meta.get("uid", ""))


class FakeKeyStore:
    """The Secret; `data` is `None` while there is none."""

    def __init__(self, *keys: Key) -> None:
        self.data: dict[str, bytes] | None = {key.name: key.secret for key in keys}
        self.error: Exception | None = None  # what every call ends with
        self.reads = self.writes = 0
        self._version = 1

    @property
    def place(self) -> str:
        return "netgang-system/netgang-notes"

    def put(self, data: Mapping[str, bytes] | None) -> None:
        self.data = dict(data) if data is not None else None
        self._version += 1

    async def read(self) -> StoredKeys | None:
        self.reads += 1
        if self.error is not None:
            raise self.error
        return None if self.data is None else StoredKeys(dict(self.data), str(self._version))

    async def write(self, data: Mapping[str, bytes], over: StoredKeys) -> StoredKeys:
        self.writes += 1
        if self.error is not None:
            raise self.error
        if self.data is None or over.resource_version != str(self._version):
            raise ConflictError(409, "the Secret has changed")
        self.put(data)
        return StoredKeys(dict(data), str(self._version))
