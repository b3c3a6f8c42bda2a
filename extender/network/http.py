"""Ask an HTTP server of measurements for one document, with limits on time and size, and with credentials.

Rule: whatever goes wrong becomes one NetworkSourceError, whose text names the address and what it answered; redirects
are not followed (credentials would go along); a secret is read from its file at each request, so that an exchanged one
works at once, and appears in no text.
"""

import asyncio
import base64
import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import httpx

from extender.errors import ConfigError, NetworkSourceError
from extender.settings.network import HttpSource

_HINTS: Final = {401: ": username, password or token are missing or wrong", 403: ": this user may not read it"}


def verification(*, ca_file: Path | None, insecure: bool) -> ssl.SSLContext:
    """Trust the system's authorities and `ca_file`; `insecure`: any. Errors: ConfigError for a bad `ca_file`."""
    context = ssl.create_default_context()
    if insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif ca_file is not None:
        try:
            context.load_verify_locations(cafile=str(ca_file))
        except OSError as error:  # ssl.SSLError is one
            raise ConfigError(f"ca_file {ca_file}: {error}; accepted: a PEM file") from error
    return context


class HttpClient:
    """Keeps the connections to one server; `aclose` ends them."""

    def __init__(self, server: HttpSource) -> None:
        """Prepare; nothing is sent. Errors: ConfigError for an address or a `ca_file` that cannot be used."""
        self.server = server
        try:
            self.url = str(httpx.URL(server.base_url))
        except httpx.InvalidURL as error:
            raise ConfigError(f"url {server.url!r}: {error}; accepted: https://HOST/PATH") from error
        self._slots = asyncio.Semaphore(server.in_flight)
        # without TLS there is no certificate to trust, and reading the system's takes 25 ms
        if self.url.startswith("http:") and server.ca_file is None:
            trusted = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        else:
            trusted = verification(ca_file=server.ca_file, insecure=server.insecure)
        self._client = httpx.AsyncClient(
            verify=trusted,
            timeout=httpx.Timeout(server.timeout_s, connect=server.connect_timeout_s),
            headers={"Accept": "application/json"},
            trust_env=False,  # no proxy or certificate settings from the environment: settings are in one place
        )
        self.aclose = self._client.aclose

    async def ask(self, method: str, path: str, **content: Any) -> bytearray:
        """The body of a good answer, with our credentials. Errors: NetworkSourceError names address and cause."""
        server, where = self.server, self.where(path)
        headers: dict[str, str] = {}
        secrets: tuple[str, ...] = ()  # a server may echo them
        if server.token_file is not None:
            secrets = (_secret(server.token_file),)
            headers["Authorization"] = f"Bearer {secrets[0]}"
        elif server.password_file is not None:
            password = _secret(server.password_file)
            secrets = (base64.b64encode(f"{server.username}:{password}".encode()).decode(), password)
            headers["Authorization"] = f"Basic {secrets[0]}"
        body = bytearray()
        timed = asyncio.timeout(server.timeout_s)
        asked = self._client.stream(method, self.url + path, headers=headers, **content)
        try:
            async with self._slots, timed, asked as response:
                good = response.status_code == httpx.codes.OK
                async for chunk in response.aiter_bytes(65536):
                    body += chunk
                    if len(body) > (server.body_limit_bytes if good else 8192):
                        break
        except TimeoutError as error:
            raise NetworkSourceError(f"{where}: no complete answer within {server.timeout_s:g} s") from error
        except httpx.HTTPError as error:
            raise NetworkSourceError(f"{where}: {str(error) or type(error).__name__}") from error
        finally:
            self._client.cookies.clear()  # nothing of theirs is asked for again
        if not good:
            hint = _HINTS.get(response.status_code, "")
            raise NetworkSourceError(f"{where}: status {response.status_code}{hint}: {_shown(response, body, secrets)}")
        if len(body) > server.body_limit_bytes:
            raise NetworkSourceError(f"{where}: the answer has more than {server.body_limit_bytes} bytes")
        return body

    def where(self, path: str) -> str:
        """The address below which `path` is, for texts."""
        return self.url + path.partition("?")[0]


def _shown(response: httpx.Response, body: bytearray, secrets: Sequence[str]) -> str:
    """What it says, for an error text, without these secrets."""
    if response.has_redirect_location:
        return f"moved to {response.headers['location'].partition('?')[0]}: configure that address"
    text = body.decode("utf-8", "replace")
    for secret in secrets:  # before the text is cut, which could leave half of one
        text = text.replace(secret, "…")
    return "".join(c if c.isprintable() else " " for c in text[:160]).strip() or "no text"


def _secret(file: Path) -> str:
    """Its text without edge blanks. Errors: NetworkSourceError, so that a secret that comes late is found."""
    try:
        text = file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise NetworkSourceError(f"secret file {file} cannot be read: {type(error).__name__}") from error
    if not text or not text.isprintable() or not text.isascii():
        raise NetworkSourceError(f"secret file {file} is empty or no line of plain characters")
    return text
