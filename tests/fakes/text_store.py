"""A TextStore in memory, that replicas may share, and other clients may write."""

from extender.errors import ConflictError
from extender.ports import StoredText


class FakeTextStore:
    def __init__(self) -> None:
        self.place = "netgang-system/netgang-started-gangs"
        self.stored: StoredText | None = StoredText("1", "")
        self.error: Exception | None = None  # what every call ends with
        self.writes = 0

    def put(self, text: str) -> None:
        """Another client writes."""
        version = int(self.stored.resource_version) if self.stored is not None else 0
        self.stored = StoredText(str(version + 1), text)

    async def read(self) -> StoredText | None:
        if self.error is not None:
            raise self.error
        return self.stored

    async def write(self, text: str, over: StoredText) -> StoredText:
        self.writes += 1
        if self.error is not None:
            raise self.error
        if self.stored is None or over.resource_version != self.stored.resource_version:
            raise ConflictError(409, "the ConfigMap has changed")
        self.stored = StoredText(str(int(over.resource_version) + 1), text)
        return self.stored
