"""Fetch the decision log of a running netgang: /v1/record.

Rule: as `client.ask`; the log is read in parts, so that its progress can be shown.
"""

from collections.abc import Callable
from typing import Final

import httpx

from client.ask import address, clear_errors, problem_text
from client.connect import Door
from extender.errors import NetworkSourceError

_TIMEOUT_S: Final = 120.0
_MOST_BYTES: Final = 1 << 30


async def fetch_record(door: Door, *, progress: Callable[[int, int | None], None]) -> bytes:
    """The log as it came; `progress` is given how many bytes are there, and how many are due if that is known.

    Errors: ConfigError for a bad address, NetworkSourceError when the answer is no log, or no log is kept there.
    """
    where = address(door, "/v1/record")
    parts = bytearray()
    with clear_errors(door, "/v1/record"):
        async with (
            httpx.AsyncClient(timeout=_TIMEOUT_S, trust_env=False, transport=door.way()) as client,
            client.stream("GET", where, headers={"accept-encoding": "identity"}) as response,
        ):
            length = response.headers.get("content-length", "")
            async for part in response.aiter_bytes():
                parts += part
                progress(len(parts), int(length) if length.isdigit() else None)
                if len(parts) > _MOST_BYTES:
                    raise NetworkSourceError(f"{where}: more than {_MOST_BYTES} bytes")
    if response.status_code != httpx.codes.OK:
        said = problem_text(bytes(parts)) or "no reason given"
        raise NetworkSourceError(f"{where}: status {response.status_code}: {said}")
    return bytes(parts)
