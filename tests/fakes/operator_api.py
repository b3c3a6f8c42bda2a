"""The one in-memory API server as tools for operators meet it: objects by path."""

import re
from collections import Counter
from collections.abc import Callable
from typing import Any, cast

from extender.errors import ApiError
from extender.kube.calls import Resource
from extender.kube.client import OperatorApi
from lab.testbed.apiserver.server import LoopbackApi
from lab.testbed.apiserver.store import ApiStore, Key

Json = dict[str, Any]
_OBJECT = re.compile(r"/(?:api|apis/([^/]+))/([^/]+)(?:/namespaces/([^/]+))?/([^/]+)/([^/]+)")


class FakeOperatorApi(OperatorApi):
    """An operator's client of an API server in memory; `add`, `edit` and `remove` are what other people do."""

    def __init__(self) -> None:
        self.server = LoopbackApi(ApiStore())
        self.denied: set[tuple[str, str, str]] = set()  # (verb, API group, resource) of administrators alone
        self.forbidden: set[str] = set()  # beginnings of paths that we may not read, nor write
        self.refused: set[str] = set()  # paths that we may read, and not write
        self.calls: Counter[str] = Counter()
        self.on_get: Callable[[str], None] = lambda path: None  # told of each object that is read, before
        self.server.before = self._allowed
        self.server.documents["/apis/authorization.k8s.io/v1/subjectaccessreviews"] = self._review
        user = {"status": {"userInfo": {"username": "kubernetes-admin"}}}
        self.server.documents["/apis/authentication.k8s.io/v1/selfsubjectreviews"] = user

    async def __aexit__(self, *_: object) -> None:
        """There is no connection."""

    async def send(self, method: str, path: str, *, body: bytes | None = None, **how: Any) -> bytes:
        return self.server.answer(method, path, body or b"", how.get("content_type", "application/json"))

    def add(self, path: str, **fields: Any) -> Json:
        resource, (namespace, name) = _place(path)
        self.server.store.install(resource)
        meta = {"name": name, **({"namespace": namespace} if namespace else {}), **fields.pop("metadata", {})}
        return self.server.store.put(resource, {"metadata": meta, **fields})

    def stored(self, path: str) -> Json:
        resource, key = _place(path)
        return self.server.store.get(resource, *key)

    def edit(self, path: str, change: Callable[[Json], object]) -> None:
        copied = self.stored(path)
        change(copied)
        self.server.store.put(_place(path)[0], copied)

    def remove(self, path: str) -> None:
        resource, key = _place(path)
        self.server.store.remove(resource, *key)

    def paths(self) -> set[str]:
        store = self.server.store
        return {resource.path(*key) for resource in store.resources for key in store.bodies(resource)}

    def _review(self, body: Json) -> Json:
        asked = body["spec"]["resourceAttributes"]
        resource = "/".join(filter(None, (asked["resource"], asked.get("subresource"))))
        return {"status": {"allowed": (asked["verb"], asked.get("group", ""), resource) not in self.denied}}

    def _allowed(self, verb: str, path: str) -> None:
        self.calls[verb] += 1
        kept = path in self.refused and verb in ("patch", "delete")
        if kept or any(path.startswith(one) for one in self.forbidden):
            raise ApiError(403, f"kubernetes-admin cannot {verb} {path}")
        if verb == "get":
            self.on_get(path)


def _place(path: str) -> tuple[Resource, Key]:
    group, version, namespace, plural, name = cast("re.Match[str]", _OBJECT.fullmatch(path)).groups()
    return Resource(group or "", version, plural, namespaced=namespace is not None), (namespace or "", name)
