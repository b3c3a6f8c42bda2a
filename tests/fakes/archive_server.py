"""A server of measurements on loopback, with TLS and faults: what MaDDash, OpenSearch or Prometheus answer.

One link, a → b, in all three metrics; what differs between the kinds is the shape of the answers. One connection per
request, so that an exchanged certificate counts from the next request on.
"""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from tests.authority import Authority, Pair
from tests.fakes.maddash_server import MaddashServer

_HUGE_PIECES = 4096  # 256 MiB: far beyond what any source reads


class Fault(Enum):
    SLOW = "no answer until the server stops"
    SERVER_ERROR = "500"
    TRUNCATED = "half a body, then the connection ends"
    GARBAGE = "200 with bytes that are nothing"
    EMPTY = "200 without a body"
    HUGE = "200 with a body that never ends"
    REFUSED = "401"
    MOVED = "302 to another host"


@dataclass(slots=True)
class Archive:
    """How the server behaves now; a test may change every field at any time."""

    kind: str
    at_s: float  # the server's clock, and the time of every measurement
    fault: Fault | None = None
    loss_ratio: float = 0.01
    delay_ms: float = 5.0
    throughput_bps: float = 9e9
    maddash: MaddashServer | None = None  # answers for kind `maddash`
    requests: list[str] = field(default_factory=list)  # first lines
    headers: list[str] = field(default_factory=list)  # authorization of each request

    def body(self, path: str, form: dict[str, list[str]]) -> bytes:
        at_s = self.at_s
        if self.kind == "maddash":
            assert self.maddash is not None
            return self.maddash.answer(path)[2]
        answer = self._search(path, at_s) if self.kind == "opensearch" else self._vector(form["query"][0], at_s)
        return json.dumps(answer).encode()

    def _search(self, path: str, at_s: float) -> dict[str, Any]:
        key = {"source": "a", "target": "b", "source_host": None, "target_host": None}
        bucket: dict[str, Any] = {"key": key, "doc_count": 1, "at": {"value": at_s * 1000.0}}
        if "_throughput" in path:
            bucket["throughput"] = {"values": {"50.0": self.throughput_bps}}
        elif "_latency" in path:
            bucket |= {
                "lost": {"value": self.loss_ratio * 1000.0},
                "sent": {"value": 1000.0},
                "loss": {"value": self.loss_ratio},
                "delay": {"value": self.delay_ms},
                "narrowest": {"value": 0.001},
                "widest": {"value": 0.001},
            }
        buckets = [] if "_rtt" in path else [bucket]
        return {
            "took": 3,
            "timed_out": False,
            "_shards": {"total": 1, "successful": 1, "skipped": 0, "failed": 0},
            "hits": {"max_score": None, "hits": []},
            "aggregations": {"pairs": {"buckets": buckets}},
        }

    def _vector(self, query: str, at_s: float) -> dict[str, Any]:
        value = {"loss": self.loss_ratio, "delay": self.delay_ms, "throughput": self.throughput_bps}[query]
        series = {"metric": {"source": "a", "target": "b"}, "value": [at_s, repr(value)]}
        return {"status": "success", "data": {"resultType": "vector", "result": [series]}}


@dataclass(frozen=True, slots=True)
class Certificates:
    ca_file: Path
    good: Pair
    bad: Pair  # of another authority


def make_certificates(place: Path) -> Certificates:
    trusted, other = Authority.made(place, "good"), Authority.made(place, "bad")
    return Certificates(trusted.cert, trusted.server(), other.server())


class Served:
    """A running server; `gone` and `back` take it away and bring it back at the same port."""

    def __init__(self, archive: Archive, certificates: Certificates) -> None:
        self._archive = archive
        self._certificates = certificates
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.certificate(good=True)
        self._server: asyncio.Server | None = None
        self._busy: set[asyncio.Task[Any]] = set()
        self.port = 0

    @property
    def url(self) -> str:
        path = {"maddash": "/maddash", "opensearch": "/opensearch"}
        return f"https://127.0.0.1:{self.port}{path.get(self._archive.kind, '')}"

    def certificate(self, *, good: bool) -> None:
        pair = self._certificates.good if good else self._certificates.bad
        self._tls.load_cert_chain(pair.cert, pair.key)

    async def back(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, ssl=self._tls)
        self.port = self._server.sockets[0].getsockname()[1]

    async def gone(self) -> None:
        if self._server is not None:
            self._server.close()
        for task in self._busy:
            task.cancel()
        await asyncio.gather(*self._busy, return_exceptions=True)
        if self._server is not None:
            await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._busy.add(task)
        try:
            # `gone` cancels; a cancelled handler would make asyncio's streams complain in 3.11
            with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
                await self._answer(reader, writer)
        finally:
            self._busy.discard(task)
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        archive = self._archive
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        first, *lines = head.split("\r\n")
        fields = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        sent = (await reader.readexactly(int(fields.get("content-length", "0")))).decode()
        archive.requests.append(first)
        archive.headers.append(fields.get("authorization", ""))
        fault, path = archive.fault, first.split(" ")[1]
        if fault is Fault.SLOW:
            await asyncio.Event().wait()
        status, extra = "200 OK", ""
        if fault is None or fault is Fault.TRUNCATED:
            form = parse_qs(sent) if not sent.startswith("{") else {}
            body = archive.body(path, form)
        else:
            body = {
                Fault.SERVER_ERROR: b"java.lang.NullPointerException",
                Fault.GARBAGE: b"\x00\xff{]",
                Fault.REFUSED: b"Unauthorized",
                Fault.HUGE: b"[" * 65536,
            }.get(fault, b"")
        if fault in (Fault.SERVER_ERROR, Fault.REFUSED, Fault.MOVED):
            status = {Fault.SERVER_ERROR: "500 X", Fault.REFUSED: "401 X", Fault.MOVED: "302 X"}[fault]
            extra = "Location: https://elsewhere.example.org/login?token=1\r\n" if fault is Fault.MOVED else ""
        length = f"Content-Length: {len(body)}\r\n" if fault is not Fault.HUGE else ""
        head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\n{length}{extra}Connection: close\r\n\r\n"
        writer.write(head.encode() + (body[: len(body) // 2] if fault is Fault.TRUNCATED else body))
        for _ in range(_HUGE_PIECES if fault is Fault.HUGE else 0):  # over TLS `drain` may not say that nobody listens
            writer.write(body)
            await writer.drain()
            await asyncio.sleep(0)
        await writer.drain()


@asynccontextmanager
async def served(archive: Archive, certificates: Certificates) -> AsyncIterator[Served]:
    server = Served(archive, certificates)
    await server.back()
    try:
        yield server
    finally:
        await server.gone()
