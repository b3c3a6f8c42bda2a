"""Ask an HTTP server of measurements for one document, with limits on time and size, and with credentials.

Why apart from the sources: everything that can go wrong between us and a server becomes one NetworkSourceError here,
whose text names the address and what it answered. Rule: the status is looked at before the body; redirects are not
followed (credentials would go along); a secret is read from its file or environment variable at each request, so that
an exchanged one works at once, and appears in no text.
"""

import asyncio
import base64
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx

from extender.errors import ConfigError, NetworkSourceError
from extender.network.sources.tls import verification

_SHOWN_CHARS: Final = 160
_READ_OF_ERRORS: Final = 8192
_IN_FLIGHT: Final = 4
_HINTS: Final = {401: ": username, password or token are missing or wrong", 403: ": this user may not read it"}


@dataclass(frozen=True, slots=True)
class Secret:
    """Where a password or token is: in a file or in an environment variable; never its text."""

    file: Path | None = None
    variable: str | None = None

    def read(self) -> str:
        """Its text without edge blanks. Errors: NetworkSourceError, so that a secret that comes late is found."""
        if self.file is not None:
            try:
                text = self.file.read_text(encoding="utf-8").strip()
            except (OSError, UnicodeDecodeError) as error:
                raise NetworkSourceError(f"secret file {self.file} cannot be read: {type(error).__name__}") from error
        else:
            text = os.environ.get(self.variable or "", "").strip()
        if not text or not text.isprintable() or not text.isascii():
            place = f"file {self.file}" if self.file is not None else f"environment variable {self.variable}"
            raise NetworkSourceError(f"secret {place} is empty or no line of plain characters")
        return text


@dataclass(frozen=True, slots=True)
class HttpServer:
    """Where a server is and how it is spoken to."""

    url: str
    """Base address, without user name, query and fragment."""
    ca_file: Path | None = None
    """PEM file of the authority that signed the server's certificate; `None`: those of the system."""
    insecure: bool = False
    """Accept any certificate."""
    username: str = ""
    password: Secret | None = None
    """With `username`: HTTP Basic."""
    token: Secret | None = None
    """Bearer token; goes before a password."""
    timeout_s: float = 30.0
    """For one whole answer."""
    connect_timeout_s: float = 10.0
    body_limit_bytes: int = 16 * 2**20
    """After decompression."""


class HttpClient:
    """Keeps the connections to one server; `aclose` ends them."""

    def __init__(self, server: HttpServer, *, transport: httpx.AsyncBaseTransport | None = None) -> None:
        """Prepare; nothing is sent. Errors: ConfigError for a bad `url` or `ca_file`."""
        self.server = server
        self._base = _base_url(server.url)
        self._slots = asyncio.Semaphore(_IN_FLIGHT)
        self._client = httpx.AsyncClient(
            transport=transport,
            verify=verification(ca_file=server.ca_file, insecure=server.insecure),
            timeout=httpx.Timeout(server.timeout_s, connect=server.connect_timeout_s),
            headers={"Accept": "application/json"},
            trust_env=False,  # no proxy or certificate settings from the environment: settings are in one place
        )

    @property
    def url(self) -> str:
        """The base address."""
        return self._base

    async def get(self, path: str, params: Mapping[str, str] | None = None) -> bytearray:
        """GET `path` below the base address. Errors: NetworkSourceError, naming address and cause."""
        return await self._send("GET", path, params=params or {})

    async def post_json(self, path: str, document: object) -> bytearray:
        """POST a JSON document. Errors: as `get`."""
        return await self._send("POST", path, json=document)

    async def post_form(self, path: str, fields: Mapping[str, str]) -> bytearray:
        """POST a form. Errors: as `get`."""
        return await self._send("POST", path, data=dict(fields))

    async def aclose(self) -> None:
        """End all connections."""
        await self._client.aclose()

    async def _send(self, method: str, path: str, **content: Any) -> bytearray:
        server, where = self.server, f"{self._base}{path.partition('?')[0]}"
        headers, secrets = self._authorization()
        try:
            async with self._slots, asyncio.timeout(server.timeout_s):
                request = self._client.build_request(method, self._base + path, headers=headers, **content)
                return await self._read(request, where, secrets)
        except TimeoutError as error:
            raise NetworkSourceError(f"{where}: no complete answer within {server.timeout_s:g} s") from error
        except httpx.HTTPError as error:
            raise NetworkSourceError(f"{where}: {str(error) or type(error).__name__}") from error

    def _authorization(self) -> tuple[dict[str, str], tuple[str, ...]]:
        """The header, and what to keep out of texts: a server may echo either."""
        server = self.server
        if server.token is not None:
            token = server.token.read()
            return {"Authorization": f"Bearer {token}"}, (token,)
        if server.password is not None:
            password = server.password.read()
            encoded = base64.b64encode(f"{server.username}:{password}".encode()).decode()
            return {"Authorization": f"Basic {encoded}"}, (encoded, password)
        return {}, ()

    async def _read(self, request: httpx.Request, where: str, secrets: Sequence[str]) -> bytearray:
        response = await self._client.send(request, stream=True)
        try:
            good = response.status_code == httpx.codes.OK
            limit = self.server.body_limit_bytes if good else _READ_OF_ERRORS
            body = bytearray()
            async for chunk in response.aiter_bytes(65536):
                body += chunk
                if len(body) > limit:
                    break
        finally:
            await response.aclose()
        if not good:
            hint = _HINTS.get(response.status_code, "")
            raise NetworkSourceError(f"{where}: status {response.status_code}{hint}: {_shown(response, body, secrets)}")
        if len(body) > limit:
            raise NetworkSourceError(f"{where}: the answer has more than {limit} bytes")
        return body


def _base_url(text: str) -> str:
    try:
        url = httpx.URL(text.strip().rstrip("/"))
    except httpx.InvalidURL as error:
        raise ConfigError(f"url {text!r}: {error}; accepted: https://HOST/PATH") from error
    if url.scheme not in ("http", "https") or not url.host or url.query or url.fragment or url.userinfo:
        raise ConfigError("url: accepted is http:// or https://, a host and a path; a user name has its own setting")
    return str(url).rstrip("/")


def _shown(response: httpx.Response, body: bytearray, secrets: Sequence[str]) -> str:
    if response.is_redirect:
        place = response.headers.get("location", "nowhere").partition("?")[0]
        return f"moved to {place}: configure that address"
    text = body.decode("utf-8", "replace")
    for secret in secrets:  # before the text is cut, which could leave half of one
        text = text.replace(secret, "…")
    text = text[:_SHOWN_CHARS]
    return "".join(c if c.isprintable() else " " for c in text).strip() or "no text"
