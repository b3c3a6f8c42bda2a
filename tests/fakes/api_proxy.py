"""An API server as those see it who ask netgang through it: services/proxy, on the loopback.

As the real one (1.36, `pkg/registry/core` and `endpoints/filters`): the caller's Authorization is checked and taken
away; a refusal is a Status.
"""

import json
from http import HTTPStatus
from pathlib import Path

import httpx
import yaml

from tests.fakes.raw_http import RawServer, ok

TOKEN = "of-the-person"
NAMESPACE = "netgang-system"


class ApiProxy(RawServer):
    """Between `with` and its end it answers one request at a time; `ports` are those of the Service."""

    def __init__(self, ports: dict[int, int]) -> None:
        """`ports`: port of the Service → port of this machine."""
        super().__init__({})
        self.ports, self.tls = ports, True  # whether netgang speaks TLS: in truth it does not
        self.denied: set[str] = set()  # subresources that the person may not use

    @property
    def asked(self) -> list[str]:
        """METHOD PATH of each request."""
        return [head.partition(" HTTP/")[0] for head in self.requests]

    def answer_to(self, path: str) -> bytes:
        if f"authorization: bearer {TOKEN}\r\n" not in f"{self.requests[-1].lower()}\r\n":
            return refusal(HTTPStatus.UNAUTHORIZED, "Unauthorized")
        head, _, rest = path.removeprefix(f"/api/v1/namespaces/{NAMESPACE}/services/").partition("/proxy/")
        if "services/proxy" in self.denied:
            return refusal(HTTPStatus.FORBIDDEN, 'User "ann" cannot get resource "services/proxy"')
        scheme, _, port = head.rpartition("netgang:")
        if int(port) not in self.ports:
            return refusal(HTTPStatus.SERVICE_UNAVAILABLE, f'no service port {port} found for service "netgang"')
        if bool(scheme) is not self.tls:
            return refusal(HTTPStatus.BAD_GATEWAY, "error trying to reach service: EOF")
        answer = httpx.get(f"http://127.0.0.1:{self.ports[int(port)]}/{rest}")
        return ok(answer.content, status=answer.status_code)


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


def refusal(code: HTTPStatus, message: str) -> bytes:
    return ok(json.dumps({"kind": "Status", "code": code.value, "message": message}).encode(), status=code)
