"""`FakeOperatorApi` behind HTTP, for the command line and for the adapter: what an API server would answer."""

import asyncio
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import yaml

from extender.errors import ApiError
from tests.fakes.operator_api import FakeOperatorApi
from tests.fakes.raw_http import InThread


class _Server(ThreadingHTTPServer):
    request_queue_size = 128  # a client that finds the queue full connects seconds later: one opens 16 at once

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hung up is no error, and its traceback would stand among what a command prints."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class OperatorServer(InThread):
    """Between `with` and its end it answers for `api`; `page` is the most items of a list, whatever is asked."""

    def __init__(self, api: FakeOperatorApi, *, page: int = 500) -> None:
        self.api = api
        self.page = page
        self.asked: list[str] = []
        self._one_by_one = threading.Lock()
        super().__init__(_Server(("127.0.0.1", 0), self._handler()))

    def kubeconfig(self, directory: Path) -> Path:
        named = {"clusters": [{"name": "c", "cluster": {"server": self.url}}], "users": [{"name": "u", "user": {}}]}
        contexts = [{"name": "x", "context": {"cluster": "c", "user": "u"}}]
        path = directory / "kubeconfig"
        path.write_text(yaml.safe_dump({**named, "contexts": contexts, "current-context": "x"}))
        return path

    async def answer(self, method: str, target: str, body: Any) -> Any:
        """The document for a request; `None`: 404. Errors: ApiError."""
        parts = urlsplit(target)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        match method:
            case "POST":
                return await self.api.create(parts.path, body)
            case "PATCH":
                await self.api.patch(parts.path, body)
                return {}
            case "DELETE":
                version = (body.get("preconditions") or {}).get("resourceVersion", "")
                return {} if await self.api.delete(parts.path, resource_version=version) else None
            case _ if "limit" in query:
                return await self._page(parts.path, query)
            case _:
                return await self.api.get(parts.path)

    async def _page(self, path: str, query: dict[str, str]) -> Any:
        every = await self.api.listed(path, query)
        first = int(query.get("continue", "0"))
        after = first + self.page
        token = {"continue": str(after)} if after < len(every) else {}
        return {"metadata": token, "items": every[first:after] or None}

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1  # head and body leave together, or a client that reads heads alone hangs up between them

            def do_any(self) -> None:
                outer.asked.append(f"{self.command} {self.path}")
                length = int(self.headers.get("Content-Length") or 0)
                body = json.loads(self.rfile.read(length)) if length else {}
                try:
                    with outer._one_by_one:  # the objects are plain dicts
                        document, status = asyncio.run(outer.answer(self.command, self.path, body)), 200
                except ApiError as error:
                    document, status = {"kind": "Status", "message": error.message, "code": error.status}, error.status
                if document is None:
                    document, status = {"kind": "Status", "message": "not found", "code": 404}, 404
                text = json.dumps(document).encode()
                self.send_response_only(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            do_GET = do_POST = do_PATCH = do_DELETE = do_any

        return Handler
