"""An API server as those see it who ask netgang through it: services/proxy, on the loopback.

As the real one (1.36, `pkg/registry/core` and `endpoints/filters`): the caller's Authorization is checked and taken
away; a refusal is a Status.
"""

import json
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import yaml

from tests.fakes.raw_http import InThread

TOKEN = "of-the-person"
NAMESPACE = "netgang-system"


class ApiProxy(InThread):
    """Between `with` and its end it answers; `ports` are those of the Service."""

    def __init__(self, ports: dict[int, int]) -> None:
        """`ports`: port of the Service → port of this machine."""
        self.ports = ports
        self.denied: set[str] = set()  # subresources that the person may not use
        self.asked: list[str] = []  # METHOD PATH of each request
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.asked.append(f"{self.command} {self.path}")
                status, body = outer._answer(self.path, self.headers.get("Authorization", ""))
                self.send_response(status)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        super().__init__(ThreadingHTTPServer(("127.0.0.1", 0), Handler))

    def _answer(self, path: str, authorization: str) -> tuple[int, bytes]:
        if authorization != f"Bearer {TOKEN}":
            return refusal(HTTPStatus.UNAUTHORIZED, "Unauthorized")
        head, _, rest = path.removeprefix(f"/api/v1/namespaces/{NAMESPACE}/services/").partition("/proxy/")
        if "services/proxy" in self.denied:
            return refusal(HTTPStatus.FORBIDDEN, 'User "ann" cannot get resource "services/proxy"')
        scheme, _, port = head.rpartition("netgang:")
        if int(port) not in self.ports or scheme:
            return refusal(HTTPStatus.SERVICE_UNAVAILABLE, f'no service port {port} found for service "netgang"')
        answer = httpx.get(f"http://127.0.0.1:{self.ports[int(port)]}/{rest}")
        return answer.status_code, answer.content


def kubeconfig(directory: Path, server: str, *, namespace: str = "", token: str = TOKEN) -> Path:
    named = {"cluster": "c", "user": "u", **({"namespace": namespace} if namespace else {})}
    content = {
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": {"token": token}}],
        "contexts": [{"name": "site", "context": named}],
        "current-context": "site",
    }
    path = directory / "kubeconfig"
    path.write_text(yaml.safe_dump(content))
    return path


def refusal(code: HTTPStatus, message: str) -> tuple[int, bytes]:
    return code.value, json.dumps({"kind": "Status", "code": code.value, "message": message}).encode()
