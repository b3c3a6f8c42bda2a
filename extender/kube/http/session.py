"""What goes to the API server over aiohttp: streams, and exchanges that need a proxy or a password in the URL.

A watch is opened every few minutes and a proxy is rare: there a library's care counts for more than its CPU. Rule:
nothing is taken from the environment, no cookie is kept, no redirect is followed.
"""

import asyncio

import aiohttp
from yarl import URL

from extender.kube.credentials import ApiServer
from extender.kube.http.connection import Answer, LongAnswerError

_ERROR_BODY_BYTES = 64 * 1024
_READ_BUFFER_BYTES = 256 * 1024
_IDLE_CONNECTION_S = 60.0  # below the 90 s after which the API server closes an idle connection


class Session:
    """Requests through aiohttp; bound to one event loop; `close` it."""

    def __init__(self, server: ApiServer, *, concurrency: int, connect_s: float, agent: str) -> None:
        self._server = server
        self._slots = asyncio.Semaphore(concurrency)
        connector = aiohttp.TCPConnector(
            limit=0,  # bounded by _slots; watches must not take the places of exchanges
            keepalive_timeout=_IDLE_CONNECTION_S,
            ssl=server.tls if server.tls is not None else True,
        )
        self._opened = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": agent},
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=connect_s),
            read_bufsize=_READ_BUFFER_BYTES,
            trust_env=False,
        )

    async def request(
        self, method: str, path: str, *, authorization: str, body: bytes | None = None, content_type: str = ""
    ) -> aiohttp.ClientResponse:
        """Send a request; the answer once its head is there. Errors: OSError and those of aiohttp."""
        headers = {"Content-Type": content_type if body is not None else "", "Authorization": authorization}
        return await self._opened.request(
            method,
            URL(self._server.url + path, encoded=True),
            data=body,
            headers={name: value for name, value in headers.items() if value},
            allow_redirects=False,
            proxy=self._server.proxy,
            server_hostname=self._server.tls_name,
        )

    async def exchange(
        self, method: str, path: str, *, body: bytes | None, content_type: str, authorization: str, limit_bytes: int
    ) -> Answer:
        """One exchange, at most `concurrency` at a time; the answer whatever its status. Errors: OSError, aiohttp's."""
        async with self._slots:
            response = await self.request(
                method, path, authorization=authorization, body=body, content_type=content_type
            )
            async with response:
                if not 200 <= response.status < 300:
                    return await refused(response)
                return Answer(response.status, await _read(response, limit_bytes=limit_bytes))

    async def close(self) -> None:
        """Close all connections; requests under way fail."""
        await self._opened.close()


async def refused(response: aiohttp.ClientResponse) -> Answer:
    """A failure; a body that is too long for a Status is cut, not read."""
    body = await response.content.read(_ERROR_BODY_BYTES)
    if not response.content.at_eof():
        response.close()
    return Answer(response.status, body, response.headers.get("Retry-After", ""))


async def _read(response: aiohttp.ClientResponse, *, limit_bytes: int) -> bytes:
    body = bytearray()
    if (response.content_length or 0) <= limit_bytes:
        async for chunk in response.content.iter_any():
            body += chunk
            if len(body) > limit_bytes:
                break
        else:
            return bytes(body)
    response.close()
    raise LongAnswerError(f"answer longer than {limit_bytes} bytes")
