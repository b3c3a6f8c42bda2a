"""An API server as those see it who ask netgang through it: services/proxy, on the loopback.

As the real one (1.36, `pkg/registry/core` and `endpoints/filters`): the caller's Authorization is checked and taken
away; a refusal is a Status.
"""

import asyncio
import threading
from http import HTTPStatus
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml
from aiohttp import ClientSession, web

TOKEN = "of-the-person"
NAMESPACE = "netgang-system"


class ApiProxy:
    """Between `with` and its end it answers; `ports` are those of the Service."""

    def __init__(self, ports: dict[int, int]) -> None:
        """`ports`: port of the Service → port of this machine."""
        self.ports = ports
        self.denied: set[str] = set()  # subresources that the person may not use
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
        app.router.add_route("*", f"{base}/services/{{service}}/proxy/{{rest:.*}}", self._proxied)
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


def status(code: HTTPStatus, message: str) -> web.Response:
    return web.json_response({"kind": "Status", "code": code.value, "message": message}, status=code.value)
