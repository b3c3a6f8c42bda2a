"""A stand-in for netgang's reports port: assigns all agents to each other, and keeps what they report.

Why not netgang: what an agent measures and costs is to be seen without what netgang decides about peers.
"""

import json
import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping
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
        self.status = 200  # What is answered
        self.more: dict[str, Any] = {}  # Fields that are answered besides
        self.lag_s = 0.0  # How long a report waits before it is taken
        self.hangs_up = False  # Whether connections are closed after an answer that does not say so
        self.ports: list[int] = []  # Of the agents' connections, one for each report
        self.url = ""
        self._kept = defaultdict[tuple[str, bool], list[tuple[float, dict[str, Any]]]](list)
        """(node, whether it was taken) → when each report came, seconds of a monotonic clock; the report"""
        self._came = threading.Condition()

    def answer(self, body: bytes, status: int) -> bytes:
        """Keep a report; the assignment of the node that it names."""
        report = json.loads(body)
        with self._came:
            self._kept[report["node"], status == 200].append((monotonic(), report))
            self._came.notify_all()
        others = {node: address for node, address in self.addresses.items() if node != report["node"]}
        peers = [{"node": node, "address": address, "port": self.port} for node, address in others.items()]
        orders = {"interval_s": self.interval_s, "packet_interval_s": 0.1, "peers": peers}
        return json.dumps({**orders, "reflect_for": list(others.values()), **self.more}).encode()

    def reports(self, node: str) -> list[dict[str, Any]]:
        return [report for _, report in list(self._kept[node, True])]

    def taken_s(self, node: str) -> list[float]:
        return [at_s for at_s, _ in list(self._kept[node, True])]

    def wait(self, node: str, count: int, *, timeout_s: float, taken: bool = True) -> list[dict[str, Any]]:
        """Until so many reports were taken, or refused; those that were taken. Errors: TimeoutError."""
        kept = self._kept[node, taken]
        with self._came:
            if not self._came.wait_for(lambda: len(kept) >= count, timeout_s):
                raise TimeoutError(f"{len(kept)} reports of node {node}, not {count}")
        return self.reports(node)


@contextmanager
def serving(assigner: Assigner) -> Iterator[Assigner]:
    """Serve it over HTTP until the end of the block; its address is then `assigner.url`."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"  # keeps connections

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            threading.Event().wait(assigner.lag_s)
            status = assigner.status
            content = assigner.answer(body, status)
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            assigner.ports.append(self.client_address[1])
            self.close_connection = assigner.hangs_up
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Nothing: thousands of requests are as they should be."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        assigner.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield assigner
        finally:
            server.shutdown()
            thread.join()
