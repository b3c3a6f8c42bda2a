"""Fetch the decision log of a running netgang: /v1/record.

Rule: as `client.network`; the log is read in parts, so that its progress can be shown.
"""

from collections.abc import Callable
from typing import Final

import httpx

from client.link import _detail
from extender.errors import ConfigError, NetworkSourceError

_TIMEOUT_S: Final = 120.0
_MOST_BYTES: Final = 1 << 30


async def fetch_record(
    url: str, *, told: Callable[[int, int | None], None], transport: httpx.AsyncBaseTransport | None = None
) -> bytes:
    """The log as it came; `told` gets how many bytes are there, and how many are due if that is known.

    Errors: ConfigError for a bad address, NetworkSourceError without a usable answer, or nothing is kept there.
    """
    where = f"{url.rstrip('/')}/v1/record"
    parts = bytearray()
    try:
        async with (
            httpx.AsyncClient(timeout=_TIMEOUT_S, trust_env=False, transport=transport) as client,
            client.stream("GET", where, headers={"accept-encoding": "identity"}) as response,
        ):
            length = response.headers.get("content-length", "")
            async for part in response.aiter_bytes():
                parts += part
                told(len(parts), int(length) if length.isdigit() else None)
                if len(parts) > _MOST_BYTES:
                    raise NetworkSourceError(f"{where}: more than {_MOST_BYTES} bytes")
    except (httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
        raise ConfigError(f"--url {url!r}: {error}; accepted: http://HOST:PORT") from error
    except httpx.HTTPError as error:
        raise NetworkSourceError(f"{where}: {str(error) or type(error).__name__}; does netgang run there?") from error
    if response.status_code != httpx.codes.OK:
        said = _detail(httpx.Response(response.status_code, content=bytes(parts))) or "no reason given"
        raise NetworkSourceError(f"{where}: status {response.status_code}: {said}")
    return bytes(parts)
