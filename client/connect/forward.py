"""A pod's port as a socket of this process: what `kubectl port-forward` does, for one question.

How: the API server's pods/portforward speaks WebSocket, subprotocol v4.channel.k8s.io. Each message begins with the
number of a channel: 0 is the connection's bytes, 1 is what went wrong; the first message of each holds the port and
nothing else. Each connection to our socket is one WebSocket.
Rule: the socket is a file in a directory that only this user may enter, so that no other user of this machine can use
the way while it is open. Why it could not be gone is kept: its client sees only an end.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final
from urllib.parse import quote

import aiohttp
from yarl import URL

from client.connect.target import Target
from extender.errors import ApiError, ApiUnavailableError, NetgangError, NetworkSourceError
from extender.kube.credentials import ApiServer
from extender.kube.http.faults import mapped, refusal
from extender.kube.operator_client import OperatorApi

_PROTOCOL: Final = "v4.channel.k8s.io"
_DATA, _ERROR = b"\x00", b"\x01"
_CHUNK_BYTES: Final = 32 * 1024
_CONNECT_S: Final = 10.0


@dataclass(eq=False, repr=False)
class Relay:
    """Carries connections from a socket to a port of a pod. Use `opened`."""

    server: ApiServer
    session: aiohttp.ClientSession
    path: str
    failure: NetgangError | None = None  # Why the last connection could not be carried
    _carriers: set[asyncio.Task[None]] = field(default_factory=set, init=False)

    @classmethod
    @asynccontextmanager
    async def opened(cls, server: ApiServer, target: Target) -> AsyncIterator[tuple["Relay", Path]]:
        """A relay to the pod that acts, and its socket. Errors: ApiError, ApiUnavailableError, NetworkSourceError."""
        pod = await _acting_pod(server, target)
        path = f"/api/v1/namespaces/{target.namespace}/pods/{quote(pod, safe='')}/portforward?ports={target.port}"
        connector = aiohttp.TCPConnector(ssl=server.tls if server.tls is not None else True)
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S)
        with TemporaryDirectory(prefix="netgang-") as directory:
            socket = Path(directory) / "port"
            async with aiohttp.ClientSession(connector=connector, timeout=timeout, trust_env=False) as session:
                relay = cls(server, session, path)
                listening = await asyncio.start_unix_server(relay._accept, socket)
                try:
                    yield relay, socket
                finally:
                    listening.close()
                    await relay._end()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        carrier = asyncio.create_task(self._carry(reader, writer), name="port-forward")
        self._carriers.add(carrier)
        carrier.add_done_callback(self._carriers.discard)

    async def _end(self) -> None:
        for carrier in tuple(self._carriers):
            carrier.cancel()
            with suppress(asyncio.CancelledError):
                await carrier

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with await self._connected() as far:
                up = asyncio.create_task(_up(reader, far), name="port-forward: up")
                try:
                    await self._down(far, writer)
                finally:
                    up.cancel()
                    with suppress(asyncio.CancelledError, OSError, aiohttp.ClientError):
                        await up
        except NetgangError as error:
            self.failure = error
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    async def _connected(self) -> aiohttp.ClientWebSocketResponse:
        url = URL(self.server.url + self.path, encoded=True)
        header = await self.server.authorization.header()
        common: dict[str, Any] = {
            "headers": {"Authorization": header} if header else {},
            "proxy": self.server.proxy,
            "server_hostname": self.server.tls_name,
        }
        with mapped(f"GET {self.path}"):
            try:
                far: aiohttp.ClientWebSocketResponse
                far = await self.session.ws_connect(url, protocols=(_PROTOCOL,), max_msg_size=0, **common)
            except aiohttp.WSServerHandshakeError as error:
                # An answer without upgrade has no body here; asked plainly, the API server says why.
                async with self.session.get(url, allow_redirects=False, **common) as answer:
                    said = refusal(answer.status, await answer.content.read(_CHUNK_BYTES))
                raise said if answer.status == error.status else ApiError(error.status, error.message) from error
        return far

    async def _down(self, far: aiohttp.ClientWebSocketResponse, writer: asyncio.StreamWriter) -> None:
        begun: set[bytes] = set()
        wrong = bytearray()
        async for message in far:
            if message.type is not aiohttp.WSMsgType.BINARY:
                break
            channel, content = message.data[:1], message.data[1:]
            if channel not in begun:  # the first one is the port's number
                begun.add(channel)
                content = content[2:]
            if channel == _DATA and content:
                writer.write(content)
                with suppress(ConnectionError):
                    await writer.drain()
            elif channel == _ERROR:
                wrong += content
        if wrong:
            raise ApiUnavailableError(wrong[:500].decode("utf-8", "replace"))


async def _up(reader: asyncio.StreamReader, far: aiohttp.ClientWebSocketResponse) -> None:
    while content := await reader.read(_CHUNK_BYTES):
        await far.send_bytes(_DATA + content)


async def _acting_pod(server: ApiServer, target: Target) -> str:
    """The leader's name; without one that of a pod that is ready, or at least runs."""
    path = f"/api/v1/namespaces/{target.namespace}/pods"
    async with OperatorApi.opened(server) as api:
        found = await api.listed(path, {"labelSelector": f"app.kubernetes.io/name={target.name}"})
    alive = {}
    for pod in found:
        meta, status = pod["metadata"], pod.get("status") or {}
        if status.get("phase") == "Running" and not meta.get("deletionTimestamp"):
            leads = (meta.get("labels") or {}).get("netgang.io/role") == "leader"
            conditions = status.get("conditions") or ()
            ready = any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions)
            alive[not leads, not ready, str(meta["name"])] = str(meta["name"])
    if not alive:
        raise NetworkSourceError(
            f"no pod in namespace {target.namespace} has label app.kubernetes.io/name={target.name} and runs; "
            "--service NAMESPACE/NAME says where netgang is"
        )
    return alive[min(alive)]
