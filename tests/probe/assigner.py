"""A stand-in for netgang's reports port: assigns all agents to each other, and keeps what they report.

Why not netgang: what an agent measures and costs is to be seen without what netgang decides about peers.
"""

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from probe.__main__ import PORT


@pytest.fixture
def token(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text("secret\n")
    return path


class Assigner:
    def __init__(self, addresses: Mapping[str, str], *, interval_s: float, port: int = PORT) -> None:
        self.addresses = dict(addresses)  # Node → address
        self.interval_s = interval_s
        self.port = port
        self.status = 200  # What is answered; with another than 200 nothing is kept
        self.more: dict[str, Any] = {}  # Fields that are answered besides
        self.lag_s = 0.0  # How long a report waits before it is taken
        self.hangs_up = False  # Whether connections are closed after an answer that does not say so
        self.ports: list[int] = []  # Of the agents' connections, one for each report
        self.url = ""
        self._reports: dict[str, list[dict[str, Any]]] = {}
        self._taken_s: dict[str, list[float]] = {}
        self._refused = Counter[str]()
        self._came = threading.Condition()

    def answer(self, body: bytes) -> bytes:
        """Keep a report; the assignment of the node that it names."""
        report = json.loads(body)
        with self._came:
            self._reports.setdefault(report["node"], []).append(report)
            self._taken_s.setdefault(report["node"], []).append(monotonic())
            self._came.notify_all()
        others = {node: address for node, address in self.addresses.items() if node != report["node"]}
        peers = [{"node": node, "address": address, "port": self.port} for node, address in others.items()]
        orders = {"interval_s": self.interval_s, "packet_interval_s": 0.1, "peers": peers}
        return json.dumps({**orders, "reflect_for": list(others.values()), **self.more}).encode()

    def refuse(self, body: bytes) -> bytes:
        with self._came:
            self._refused[json.loads(body)["node"]] += 1
            self._came.notify_all()
        return b"no"

    def wait_refused(self, node: str, count: int, *, timeout_s: float) -> None:
        """Until so many reports of a node were refused. Errors: TimeoutError."""
        with self._came:
            if not self._came.wait_for(lambda: self._refused[node] >= count, timeout_s):
                raise TimeoutError(f"{self._refused[node]} reports of node {node} were refused, not {count}")

    def reports(self, node: str) -> list[dict[str, Any]]:
        with self._came:
            return list(self._reports.get(node, ()))

    def taken_s(self, node: str) -> list[float]:
        """When each of them was taken, seconds of a monotonic clock."""
        with self._came:
            return list(self._taken_s.get(node, ()))

    def wait(self, node: str, count: int, *, timeout_s: float) -> list[dict[str, Any]]:
        """The same, once there are so many. Errors: TimeoutError."""
        with self._came:
            if not self._came.wait_for(lambda: len(self._reports.get(node, ())) >= count, timeout_s):
                raise TimeoutError(f"node {node} sent {len(self._reports.get(node, ()))} reports, not {count}")
            return list(self._reports[node])


@contextmanager
def serving(
    assigner: Assigner, host: str = "127.0.0.1", *, listen: Callable[[Callable[[], None]], None] | None = None
) -> Iterator[Assigner]:
    """Serve it over HTTP until the end of the block; its address is then `assigner.url`.

    `listen` calls what it is given where the socket shall be, such as in another network namespace.
    """

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"  # keeps connections

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            threading.Event().wait(assigner.lag_s)
            content = assigner.answer(body) if assigner.status == 200 else assigner.refuse(body)
            self.send_response(assigner.status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            assigner.ports.append(self.client_address[1])
            self.close_connection = assigner.hangs_up
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Nothing: thousands of requests are as they should be."""

    made: list[ThreadingHTTPServer] = []
    (listen or (lambda bind: bind()))(lambda: made.append(ThreadingHTTPServer((host, 0), Handler)))
    with made[0] as server:
        assigner.url = f"http://{host}:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield assigner
        finally:
            server.shutdown()
            thread.join()
