"""A loopback HTTP server whose answers are raw: bytes, or whatever a function does with the connection."""

import re
import socket
import socketserver
import ssl
import struct
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path
from types import TracebackType
from typing import Self, TypeAlias

CERTIFICATE = Path(__file__).parents[1] / "fixtures" / "tls" / "loopback.crt"

Act: TypeAlias = Callable[[socket.socket, threading.Event], None]  # after the request; the event: the server stops
Answer: TypeAlias = bytes | Act


def ok(body: bytes, *, status: int = 200) -> bytes:
    head = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}", "Content-Type: application/json"]
    head += [f"Content-Length: {len(body)}", "Connection: close", "", ""]
    return "\r\n".join(head).encode() + body


def reset(connection: socket.socket, stopping: threading.Event) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def hang(connection: socket.socket, stopping: threading.Event) -> None:
    stopping.wait()


def drip(connection: socket.socket, stopping: threading.Event) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
    while not stopping.wait(0.02):
        connection.sendall(b" ")


def endless(connection: socket.socket, stopping: threading.Event) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n[")
    while not stopping.is_set():
        connection.sendall(b"[" * 65536)


class InThread:
    scheme = "http"

    def __init__(self, server: socketserver.TCPServer) -> None:
        self.stopping = threading.Event()
        self._server = server
        self._thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stopping.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class RawServer(InThread):
    def __init__(self, answers: Mapping[str, Answer], *, tls: bool = False) -> None:
        """`answers`: path → answer; other paths get 404. `tls`: with the self-signed certificate `CERTIFICATE`."""
        self.answers = dict(answers)
        self.requests: list[str] = []
        self.body = b""  # of the last one
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER) if tls else None
        if self._tls is not None:
            self._tls.load_cert_chain(CERTIFICATE, CERTIFICATE.with_suffix(".key"))
        self.scheme = "https" if tls else "http"
        super().__init__(_Server(("127.0.0.1", 0), self._handler()))

    def answer_to(self, path: str) -> Answer:
        return self.answers.get(path, ok(b"Row resource not found", status=404))

    def _handler(self) -> type[socketserver.BaseRequestHandler]:
        outer = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                with suppress(OSError):  # the client has gone, as clients with a timeout do
                    outer._talk(self.request)

        return Handler

    def _talk(self, plain: socket.socket) -> None:
        plain.settimeout(30.0)
        with plain if self._tls is None else self._tls.wrap_socket(plain, server_side=True) as connection:
            head = b""
            while b"\r\n\r\n" not in head:
                part = connection.recv(65536)
                if not part:
                    return
                head += part
            head, _, body = head.partition(b"\r\n\r\n")
            text = head.decode("latin-1")
            length = re.search(r"(?i)^content-length: *(\d+)", text, re.MULTILINE)
            left = (int(length[1]) if length is not None else 0) - len(body)
            while left > 0 and (part := connection.recv(left)):  # closed with bytes unread, a connection is reset
                left, body = left - len(part), body + part
            self.requests.append(text)
            self.body = body
            answer = self.answer_to(text.split(" ", 2)[1])
            if isinstance(answer, bytes):
                connection.sendall(answer)
            else:
                answer(connection, self.stopping)


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False
