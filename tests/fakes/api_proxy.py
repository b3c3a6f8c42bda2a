"""An API server as those see it who ask netgang through it: pods, pods/portforward and services/proxy, on the loopback.

As the real one (1.36, `pkg/registry/core` and `endpoints/filters`): the caller's Authorization is checked and taken
away; a refusal is a Status; port-forward wants an upgrade, and says on its error channel why a port is not reached.
"""

import asyncio
import threading
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml
from aiohttp import ClientSession, WSMsgType, web

TOKEN = "of-the-person"
NAMESPACE = "netgang-system"
_PROTOCOL = "v4.channel.k8s.io"


class ApiProxy:
    """Between `with` and its end it answers; `ports` are what listens on the pods' loopback."""

    def __init__(self, ports: dict[int, int]) -> None:
        """`ports`: port in the pod, and of the Service → port of this machine."""
        self.ports = ports
        self.pods = [pod("netgang-b"), pod("netgang-a", role="leader"), pod("netgang-0", phase="Failed", role="leader")]
        self.objects: dict[str, Any] = {}  # path → an object of any other kind
        self.denied: set[str] = set()  # subresources, and names of those objects, that the person may not use
        self.asked: list[str] = []  # METHOD PATH of each request
        self.port = 0
        self._ready = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._end = asyncio.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def kubeconfig(self, directory: Path, *, namespace: str = "", token: str = TOKEN) -> Path:
        named = {"cluster": "c", "user": "u", **({"namespace": namespace} if namespace else {})}
        path = directory / "kubeconfig"
        path.write_text(
            yaml.safe_dump(
                {
                    "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{self.port}"}}],
                    "users": [{"name": "u", "user": {"token": token}}],
                    "contexts": [{"name": "site", "context": named}],
                    "current-context": "site",
                }
            )
        )
        return path

    def __enter__(self) -> Self:
        self._thread.start()
        self._ready.wait(10)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        app = web.Application(middlewares=[self._authenticated])
        base = f"/api/v1/namespaces/{NAMESPACE}"
        app.router.add_get(f"{base}/pods", self._listed)
        app.router.add_get(f"{base}/pods/{{name}}/portforward", self._forwarded)
        app.router.add_route("*", f"{base}/services/{{service}}/proxy/{{rest:.*}}", self._proxied)
        app.router.add_get("/apis/{path:.*}", self._other)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self.port = runner.addresses[0][1]
        self._ready.set()
        await self._end.wait()
        await runner.cleanup()

    @web.middleware
    async def _authenticated(self, request: web.Request, handler: Any) -> web.StreamResponse:
        self.asked.append(f"{request.method} {request.path_qs}")
        if request.headers.get("Authorization") != f"Bearer {TOKEN}":
            return status(HTTPStatus.UNAUTHORIZED, "Unauthorized")
        parts = request.path.split("/")
        kind = f"{parts[5]}/{parts[7]}" if len(parts) > 7 else parts[5]
        if kind in self.denied:
            return status(HTTPStatus.FORBIDDEN, f'User "ann" cannot get resource "{kind}"')
        return await handler(request)

    async def _listed(self, request: web.Request) -> web.StreamResponse:
        assert request.query["labelSelector"].startswith("app.kubernetes.io/name=")
        name = request.query["labelSelector"].partition("=")[2]
        return web.json_response({"metadata": {}, "items": self.pods if name == "netgang" else None})

    async def _other(self, request: web.Request) -> web.StreamResponse:
        if request.path not in self.objects:
            return status(HTTPStatus.NOT_FOUND, "the server could not find the requested resource")
        return web.json_response(self.objects[request.path])

    async def _forwarded(self, request: web.Request) -> web.StreamResponse:
        if request.match_info["name"] not in [one["metadata"]["name"] for one in self.pods]:
            return status(HTTPStatus.NOT_FOUND, "pods not found")
        if "Upgrade" not in request.headers.get("Connection", "").title():
            return status(HTTPStatus.BAD_REQUEST, "Upgrade request required")
        far = web.WebSocketResponse(protocols=(_PROTOCOL,))
        await far.prepare(request)
        port = int(request.query["ports"])
        for channel in (0, 1):
            await far.send_bytes(bytes([channel]) + port.to_bytes(2, "little"))
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self.ports[port])
        except (KeyError, OSError):
            await far.send_bytes(b"\x01" + f"error forwarding port {port} to pod: connection refused".encode())
            await far.close()
            return far
        up = asyncio.create_task(self._up(far, writer))
        with suppress(ConnectionError):
            while content := await reader.read(1000):
                await far.send_bytes(b"\x00" + content)
        await far.close()
        await up
        return far

    async def _up(self, far: web.WebSocketResponse, writer: asyncio.StreamWriter) -> None:
        async for message in far:
            assert message.type is WSMsgType.BINARY
            assert message.data[:1] == b"\x00"
            writer.write(message.data[1:])
        writer.close()

    async def _proxied(self, request: web.Request) -> web.StreamResponse:
        scheme, _, named = request.match_info["service"].rpartition("netgang:")
        if int(named) not in self.ports or scheme:
            return status(HTTPStatus.SERVICE_UNAVAILABLE, f'no service port {named} found for service "netgang"')
        url = f"http://127.0.0.1:{self.ports[int(named)]}/{request.match_info['rest']}"
        headers = {name: text for name, text in request.headers.items() if name not in ("Authorization", "Host")}
        async with (
            ClientSession(auto_decompress=False) as session,
            session.request(
                request.method, url, params=request.query, headers=headers, data=await request.read()
            ) as answer,
        ):
            return web.Response(
                status=answer.status, body=await answer.read(), headers={"Content-Type": answer.content_type}
            )


def pod(name: str, *, role: str = "standby", phase: str = "Running") -> dict[str, Any]:
    ready = {"type": "Ready", "status": "True" if role == "leader" else "False"}
    return {
        "metadata": {"name": name, "labels": {"app.kubernetes.io/name": "netgang", "netgang.io/role": role}},
        "status": {"phase": phase, "conditions": [ready]},
    }


def status(code: HTTPStatus, message: str) -> web.Response:
    return web.json_response({"kind": "Status", "code": code.value, "message": message}, status=code.value)
