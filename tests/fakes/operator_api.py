"""The calls of `extender.kube.operator_client.OperatorApi` on objects in memory: path → object."""

import copy
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import msgspec

from extender.errors import ApiError, ConflictError
from extender.kube.operator_client import OperatorApi

Json = dict[str, Any]
_NAMESPACE = re.compile(r"/namespaces/[^/]+")


class FakeOperatorApi(OperatorApi):
    """An API server's objects; `add` and `objects` are what other people do and see."""

    def __init__(self) -> None:
        self.objects: dict[str, Json] = {}  # path → object, at the version at which it is served
        self.denied: set[tuple[str, str, str]] = set()  # (verb, API group, resource) of administrators alone
        self.forbidden: set[str] = set()  # beginnings of paths that we may not read, nor write
        self.refused: set[str] = set()  # paths that we may read, and not write
        self.username = "kubernetes-admin"
        self.calls: Counter[str] = Counter()
        self.on_get: Callable[[str], None] = lambda path: None  # told of each object that is read, before
        self._versions = 0

    def add(self, path: str, **fields: Any) -> Json:
        """Put an object there; its name and namespace are those of the path."""
        self._versions += 1
        parts = path.split("/")
        meta = {"name": parts[-1], "uid": f"uid-{self._versions}", "resourceVersion": str(self._versions)}
        if "namespaces" in parts:
            meta["namespace"] = parts[parts.index("namespaces") + 1]
        found = {"metadata": {**meta, **fields.pop("metadata", {})}, **fields}
        self.objects[path] = found
        return found

    def change(self, path: str, **spec: Any) -> None:
        self._versions += 1
        self.objects[path]["spec"] |= spec
        self.objects[path]["metadata"]["resourceVersion"] = str(self._versions)

    async def get(self, path: str) -> Json | None:
        self._allowed("get", path)
        self.on_get(path)
        return copy.deepcopy(self.objects.get(path))

    async def items(self, path: str, query: Mapping[str, str] | None = None) -> AsyncIterator[bytes]:
        """A collection, of one namespace or all; selectors by label and phase are obeyed."""
        self._allowed("list", path)
        wanted = dict(pair.split("=", 1) for pair in (query or {}).get("labelSelector", "").split(",") if pair)
        phase = (query or {}).get("fieldSelector", "").removeprefix("status.phase=")
        for place, one in list(self.objects.items()):
            if path not in (_NAMESPACE.sub("", place).rpartition("/")[0], place.rpartition("/")[0]):
                continue
            labels = one["metadata"].get("labels") or {}
            if wanted.items() <= labels.items() and phase in ("", (one.get("status") or {}).get("phase", "Pending")):
                yield msgspec.json.encode(one)

    async def create(self, path: str, body: Mapping[str, Any]) -> Json:
        self._allowed("create", path)
        if path.endswith("/selfsubjectreviews"):
            return {"status": {"userInfo": {"username": self.username}}}
        asked = body["spec"]["resourceAttributes"]
        resource = "/".join(filter(None, (asked["resource"], asked.get("subresource"))))
        return {"status": {"allowed": (asked["verb"], asked.get("group", ""), resource) not in self.denied}}

    async def patch(self, path: str, change: Mapping[str, Any]) -> None:
        """Removal of gates; a wrong uid is a conflict."""
        self._allowed("patch", path)
        now = self.objects.get(path)
        if now is None or now["metadata"]["uid"] != change["metadata"]["uid"]:
            raise ConflictError(409, "replaced")
        gone = {one["name"] for one in change["spec"]["schedulingGates"] if one.get("$patch") == "delete"}
        left = [one for one in now["spec"].get("schedulingGates", []) if one["name"] not in gone]
        self.change(path, schedulingGates=left)

    async def delete(self, path: str, *, resource_version: str = "") -> bool:
        self._allowed("delete", path)
        now = self.objects.get(path)
        if now is None:
            return False
        if resource_version and now["metadata"]["resourceVersion"] != resource_version:
            raise ConflictError(409, "changed")
        del self.objects[path]
        return True

    def _allowed(self, verb: str, path: str) -> None:
        self.calls[verb] += 1
        kept = path in self.refused and verb in ("patch", "delete")
        if kept or any(path.startswith(one) for one in self.forbidden):
            raise ApiError(403, f"{self.username} cannot {verb} {path}")
