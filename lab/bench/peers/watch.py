"""See from outside when pods appear, are admitted and are bound.

Why a watch: the API server's own times have whole seconds. Rule: a pod's time is when the event that first shows its
node arrives here; a watch that the API server ends goes on from the last resourceVersion, so no event is missed, and
one whose version is too old is an error, because times would be wrong.
"""

import asyncio
import ssl
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter

import aiohttp
import msgspec
import yaml

from lab.testbed.errors import ControlPlaneError


class WatchLost(ControlPlaneError):
    """The API server no longer has the events that would come next."""


class _Gate(msgspec.Struct):
    name: str


class _Metadata(msgspec.Struct):
    resourceVersion: str
    name: str = ""


class _Spec(msgspec.Struct):
    nodeName: str = ""
    schedulingGates: list[_Gate] = []


class _Pod(msgspec.Struct):
    metadata: _Metadata
    spec: _Spec = msgspec.field(default_factory=_Spec)


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


_event = msgspec.json.Decoder(_Event)
_pod = msgspec.json.Decoder(_Pod)


@dataclass(slots=True)
class PodTimes:
    """What the watch saw, in seconds of `perf_counter`."""

    seen_s: dict[str, float] = field(default_factory=dict)
    """pod → first event at all"""
    bound_s: dict[str, float] = field(default_factory=dict)
    """pod → first event with a node"""
    let_in_s: dict[str, float] = field(default_factory=dict)
    """pod → first event without a scheduling gate, among those seen with one"""
    gated: set[str] = field(default_factory=set)
    """Pods that wait at a gate."""
    bound_now: set[str] = field(default_factory=set)
    """Pods that have a node and are still there."""
    moves: int = 0
    """How often a pod was bound, or a bound one went."""
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def take(self, line: bytes, *, now_s: float) -> str:
        """Note one event of a watch; returns its resourceVersion. WatchLost for an error event.

        >>> times = PodTimes()
        >>> pod = b'{"metadata":{"name":"p","resourceVersion":"8"},"spec":{"nodeName":"n"}}'
        >>> times.take(b'{"type":"MODIFIED","object":' + pod + b"}", now_s=2.0), times.bound_s
        ('8', {'p': 2.0})
        """
        event = _event.decode(line)
        if event.type == "ERROR":
            raise WatchLost(bytes(event.object).decode())
        pod = _pod.decode(event.object)
        name = pod.metadata.name
        if event.type == "DELETED":
            if name in self.bound_now:
                self.bound_now.discard(name)
                self.moves += 1
            self.changed.set()
        elif event.type in ("ADDED", "MODIFIED"):
            self.seen(name, pod.spec, now_s)
        return pod.metadata.resourceVersion

    def seen(self, name: str, spec: _Spec, now_s: float) -> None:
        """Note a pod as it is now."""
        self.seen_s.setdefault(name, now_s)
        if spec.schedulingGates:
            self.gated.add(name)
        elif name in self.gated:
            self.gated.discard(name)
            self.let_in_s[name] = now_s
        if spec.nodeName and name not in self.bound_now:
            self.bound_now.add(name)
            self.moves += 1
            self.bound_s.setdefault(name, now_s)
            self.changed.set()

    async def until(self, done: Callable[[], bool], *, limit_s: float) -> bool:
        """Wait until `done`, which is asked after each change; `False`: not within `limit_s`."""
        with suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                while not done():
                    self.changed.clear()
                    await self.changed.wait()
                return True
        return False


@asynccontextmanager
async def pod_times(kubeconfig: Path, namespace: str) -> AsyncGenerator[PodTimes, None]:
    """Follow the pods of a namespace for the time of an `async with`; existing ones are noted first.

    Raises WatchLost at the end if the watch broke in between.
    """
    server, token, authority = _access(kubeconfig)
    context = ssl.create_default_context(cafile=authority)
    headers = {"Authorization": f"Bearer {token}"}
    limits = aiohttp.ClientTimeout(total=None)
    connector = aiohttp.TCPConnector(ssl=context)
    async with aiohttp.ClientSession(server, headers=headers, connector=connector, timeout=limits) as session:
        times = PodTimes()
        path = f"/api/v1/namespaces/{namespace}/pods"
        async with session.get(path) as reply:
            reply.raise_for_status()
            version = _note_existing(times, await reply.read())
        following = asyncio.create_task(_follow(session, path, version, times))
        try:
            yield times
        finally:
            following.cancel()
            with suppress(asyncio.CancelledError):
                await following


class _List(msgspec.Struct):
    metadata: _Metadata
    items: list[_Pod]


def _note_existing(times: PodTimes, body: bytes) -> str:
    listed = msgspec.json.decode(body, type=_List)
    now_s = perf_counter()
    for pod in listed.items:
        times.seen(pod.metadata.name, pod.spec, now_s)
    return listed.metadata.resourceVersion


async def _follow(session: aiohttp.ClientSession, path: str, version: str, times: PodTimes) -> None:
    while True:
        parameters = {"watch": "true", "resourceVersion": version, "allowWatchBookmarks": "true"}
        with suppress(aiohttp.ClientPayloadError, aiohttp.ServerDisconnectedError):
            async with session.get(path, params=parameters) as reply:
                reply.raise_for_status()
                rest = b""
                async for chunk in reply.content.iter_any():
                    now_s = perf_counter()
                    *lines, rest = (rest + chunk).split(b"\n")
                    for line in lines:
                        version = times.take(line, now_s=now_s)


def _access(kubeconfig: Path) -> tuple[str, str, str]:
    """Server, token and the file of its certificate authority."""
    document = yaml.safe_load(kubeconfig.read_text())
    cluster = document["clusters"][0]["cluster"]
    return cluster["server"], document["users"][0]["user"]["token"], cluster["certificate-authority"]
