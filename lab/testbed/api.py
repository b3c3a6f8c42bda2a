"""Raw JSON access to the API server, for tests: any kind, any verb, no typed models.

Why: tests look at exactly what the API server stores, and the kinds they need (custom resources, policies) are not
known to one client library.
Rule: an object is the dict that the API server sends; kinds are found by discovery, so a new resource definition
needs no change here. An error status becomes `ApiRefused`, and waiting is always bounded.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Self, TypeAlias, TypeVar

import aiohttp
import msgspec
import yaml

from lab.testbed.errors import ApiRefused, ControlPlaneError
from lab.testbed.processes.pace import LIVENESS_S, allowances

Object: TypeAlias = dict[str, Any]
"""A Kubernetes object as JSON."""

T = TypeVar("T")

_DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_KIND_LIMIT_S = 75.0  # mostly a second; a group that kube-apiserver read too early is read again a minute later
_POLL_S = 0.05


class Resource(msgspec.Struct, frozen=True):
    """Where a kind is served: `root` (`/api/v1`, `/apis/GROUP/VERSION`), plural, whether in namespaces."""

    root: str
    plural: str
    namespaced: bool

    def path(self, name: str | None, namespace: str | None) -> str:
        """URL path of one object, or of the collection when `name` is None."""
        inside = f"/namespaces/{namespace}" if self.namespaced and namespace is not None else ""
        return f"{self.root}{inside}/{self.plural}" + (f"/{name}" if name is not None else "")


class Api:
    """A client of one API server with one token; an async context manager, bound to one event loop."""

    def __init__(self, server: str, *, token: str, certificate_authority: Path) -> None:
        self._server = server
        self._token = token
        self._authority = certificate_authority
        self._session: aiohttp.ClientSession | None = None
        self._kinds: dict[tuple[str, str], Resource] = {}  # (apiVersion or "", kind) → resource

    async def __aenter__(self) -> Self:
        context = ssl.create_default_context(cafile=str(self._authority))
        self._session = aiohttp.ClientSession(
            self._server,
            headers={"Authorization": f"Bearer {self._token}"},
            connector=aiohttp.TCPConnector(ssl=context),
            timeout=aiohttp.ClientTimeout(total=30.0),
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: object = None,
        params: Mapping[str, str] | None = None,
        content_type: str = "application/json",
    ) -> Any:
        """Send one request and return the decoded JSON (or the text of a plain answer)."""
        assert self._session is not None, "use `async with`"
        data, headers = None if body is None else json.dumps(body), {"Content-Type": content_type}
        async with self._session.request(method, path, params=params, data=data, headers=headers) as reply:
            text = await reply.text()
            if reply.status >= 400:
                raise ApiRefused(status=reply.status, message=_message(text), request=f"{method} {path}")
            return json.loads(text) if "json" in reply.content_type else text

    async def warnings(self, method: str, path: str, *, body: object, params: Mapping[str, str]) -> list[str]:
        """Send one request and return the texts of its Warning headers, as kubectl prints them."""
        assert self._session is not None, "use `async with`"
        async with self._session.request(method, path, json=body, params=params) as reply:
            if reply.status >= 400:
                raise ApiRefused(status=reply.status, message=_message(await reply.text()), request=f"{method} {path}")
            return [one.partition('"')[2].rpartition('"')[0] for one in reply.headers.getall("Warning", [])]

    async def create(self, item: Object) -> Object:
        """POST one object and return it as stored."""
        resource = await self._resource(item["kind"], item["apiVersion"])
        path = resource.path(None, item["metadata"].get("namespace", "default"))
        created: Object = await self.request("POST", path, body=item)
        return created

    async def create_all(self, items: Iterable[Object]) -> list[Object]:
        """POST many objects, 32 at a time; the answers keep the order of `items`."""
        places = asyncio.Semaphore(32)

        async def one(item: Object) -> Object:
            async with places:
                return await self.create(item)

        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(one(item)) for item in items]
        except ExceptionGroup as several:  # the first refusal says enough
            raise several.exceptions[0] from several
        return [task.result() for task in tasks]

    async def apply(self, source: str | Path | Object | Sequence[Object]) -> list[Object]:
        """Server-side apply of YAML text, a file, or dicts, in their order; conflicts are overridden."""
        applied: list[Object] = []
        params, content_type = {"fieldManager": "netgang-testbed", "force": "true"}, "application/apply-patch+yaml"
        for item in _objects(source):
            resource, meta = await self._resource(item["kind"], item["apiVersion"]), item["metadata"]
            path = resource.path(meta["name"], meta.get("namespace", "default"))
            applied.append(await self.request("PATCH", path, body=item, params=params, content_type=content_type))
        return applied

    async def get(self, kind: str, name: str, *, namespace: str = "default") -> Object:
        """One object; ApiRefused with status 404 if it does not exist."""
        resource = await self._resource(kind)
        found: Object = await self.request("GET", resource.path(name, namespace))
        return found

    async def list_all(
        self, kind: str, *, namespace: str | None = None, labels: str = "", fields: str = "", api_version: str = ""
    ) -> list[Object]:
        """The objects of a kind, of all namespaces unless one is named; selectors as in kubectl."""
        resource = await self._resource(kind, api_version)
        params = {"labelSelector": labels, "fieldSelector": fields}
        answer = await self.request("GET", resource.path(None, namespace), params=params)
        items: list[Object] = answer["items"]
        return items

    async def watch(
        self, kind: str, *, namespace: str | None = None, resource_version: str = ""
    ) -> AsyncIterator[tuple[str, Object]]:
        """(ADDED | MODIFIED | DELETED, object) as it happens since a version; aiohttp.ClientError without a server.

        Without a version after ADDED for what is there, and again so when the server ends the watch of a slow reader.
        Of all namespaces unless one is named.
        """
        resource = await self._resource(kind)
        assert self._session is not None, "use `async with`"
        limit = aiohttp.ClientTimeout(total=None)
        path = resource.path(None, namespace)
        while True:
            params = {"watch": "true"} | ({"resourceVersion": resource_version} if resource_version else {})
            async with self._session.get(path, params=params, timeout=limit) as reply:
                async for line in reply.content:
                    change = json.loads(line)
                    if change["type"] == "ERROR":  # the version is too old
                        resource_version = ""
                        break
                    if resource_version:
                        resource_version = change["object"]["metadata"]["resourceVersion"]
                    yield change["type"], change["object"]
            await asyncio.sleep(_POLL_S)

    async def patch(
        self,
        kind: str,
        name: str,
        change: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        *,
        namespace: str = "default",
        subresource: str = "",
    ) -> Object:
        """A dict is a strategic merge patch for built-in kinds, a merge patch elsewhere; a list is a JSON patch."""
        resource = await self._resource(kind)
        if not isinstance(change, Mapping):
            content_type = "application/json-patch+json"
        elif "." in resource.root:  # strategic merge needs the Go struct's tags
            content_type = "application/merge-patch+json"
        else:
            content_type = "application/strategic-merge-patch+json"
        path = resource.path(name, namespace) + (f"/{subresource}" if subresource else "")
        patched: Object = await self.request("PATCH", path, body=change, content_type=content_type)
        return patched

    async def delete(
        self, kind: str, name: str, *, namespace: str = "default", grace_s: int | None = None, uid: str = ""
    ) -> None:
        """Delete one object; `grace_s` 0 removes a pod at once. One that is gone, or has another `uid`, is fine."""
        resource, only = await self._resource(kind), {"preconditions": {"uid": uid}} if uid else {}
        try:
            await self.request("DELETE", resource.path(name, namespace), body=_delete_options(grace_s) | only)
        except ApiRefused as refused:
            if refused.status != 404 and not (uid and refused.status == 409):
                raise

    async def delete_all(
        self, kind: str, *, namespace: str | None = None, grace_s: int | None = None, api_version: str = ""
    ) -> None:
        """Delete a collection: of one namespace, or of a kind without namespaces."""
        resource = await self._resource(kind, api_version)
        path = resource.path(None, namespace)
        await self.request("DELETE", path, body=_delete_options(grace_s))

    async def until(
        self, read: Callable[[], Awaitable[T]], accept: Callable[[T], bool], *, what: str, limit_s: float = LIVENESS_S
    ) -> T:
        """Poll `read` until `accept` likes its result and return that; ControlPlaneError with the last result.

        The limit is for a usual machine; a slower one gets longer (`lab.testbed.processes.pace`).
        """
        last: T | None = None
        waited_s = 0.0
        async for allowed_s in allowances(limit_s):
            waited_s += allowed_s
            with suppress(TimeoutError):
                async with asyncio.timeout(allowed_s):
                    while True:
                        last = await read()
                        if accept(last):
                            return last
                        await asyncio.sleep(_POLL_S)
        raise ControlPlaneError(f"{what}: not within {waited_s:g} s; last seen: {last!r:.2000}")

    async def bound(self, namespace: str, *, labels: str = "") -> dict[str, str]:
        """Pod name → node name, for the pods of a namespace that have a node."""
        pods = await self.list_all("Pod", namespace=namespace, labels=labels)
        return {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in pods if pod["spec"].get("nodeName")}

    async def until_bound(self, namespace: str, count: int, *, limit_s: float = LIVENESS_S) -> dict[str, str]:
        """Wait until at least `count` pods have a node; returns pod → node as `bound`."""
        read, what = partial(self.bound, namespace), f"{count} pods of {namespace} bound"
        return await self.until(read, lambda found: len(found) >= count, what=what, limit_s=limit_s)

    async def serves(self, kind: str) -> bool:
        """Whether there is such a kind right now; other calls wait for one whose definition may be new."""
        self._kinds = await self._discover()
        return ("", kind) in self._kinds

    async def _resource(self, kind: str, api_version: str = "") -> Resource:
        """Where `kind` is served; asks discovery again for a while, because a definition may be new."""
        try:
            async with asyncio.timeout(_KIND_LIMIT_S):
                while (api_version, kind) not in self._kinds:
                    self._kinds = await self._discover()
                    if (api_version, kind) not in self._kinds:
                        await asyncio.sleep(_POLL_S)
        except TimeoutError as late:
            raise ControlPlaneError(f"the API server does not serve {kind} {api_version}".rstrip()) from late
        return self._kinds[api_version, kind]

    async def _discover(self) -> dict[tuple[str, str], Resource]:
        """All kinds; without an apiVersion the first group that serves the kind wins (core first)."""
        found: dict[tuple[str, str], Resource] = {}
        assert self._session is not None, "use `async with`"
        for base in ("/api", "/apis"):
            async with self._session.get(base, headers={"Accept": _DISCOVERY}) as reply:
                groups = await reply.json(content_type=None)
            for group in groups["items"]:
                name = group["metadata"].get("name", "")
                for version in group["versions"]:
                    api_version = f"{name}/{version['version']}" if name else version["version"]
                    for entry in version["resources"]:
                        inside = entry["scope"] == "Namespaced"
                        resource = Resource(f"{base}/{api_version}", entry["resource"], inside)
                        for asked in (api_version, ""):
                            found.setdefault((asked, entry["responseKind"]["kind"]), resource)
        return found


def _objects(source: str | Path | Object | Sequence[Object]) -> list[Object]:
    """The objects of a source, Lists flattened."""
    text = source.read_text() if isinstance(source, Path) else source
    if isinstance(text, str):
        found = [one for one in yaml.load_all(text, yaml.CSafeLoader) if one]
    else:
        found = [text] if isinstance(text, dict) else list(text)
    return [inner for one in found for inner in (one["items"] if one["kind"] == "List" else [one])]


def _delete_options(grace_s: int | None) -> Object:
    options: Object = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}
    return options if grace_s is None else {**options, "gracePeriodSeconds": grace_s}


def _message(text: str) -> str:
    """The message of a Status object, else the text itself."""
    try:
        status = json.loads(text)
    except json.JSONDecodeError:
        return text.strip()
    return str(status.get("message", text)) if isinstance(status, dict) else text
