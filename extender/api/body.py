"""Read the body of a request that people or jobs send: up to a largest size, for a longest time."""

import asyncio
from http import HTTPStatus
from typing import Final

from fastapi import Request
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from extender.api.problems import problem_response

LAST: Final = {"connection": "close"}
"""The rest of the body is not read, so what follows on its connection is not either."""


async def read_body(request: Request, most_bytes: int, timeout_s: float, *, advice: str = "") -> bytes | Response:
    """The whole body, or what is answered to one that is too large (with `advice`) or does not come."""
    body = bytearray()
    try:
        async with asyncio.timeout(timeout_s):
            async for more in request.stream():
                body += more
                if len(body) > most_bytes:
                    said = f"body: larger than {most_bytes} bytes{advice}"
                    return problem_response(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, said, headers=LAST)
    except TimeoutError:
        said = f"body: did not arrive within {timeout_s:g} s"
        return problem_response(HTTPStatus.REQUEST_TIMEOUT, said, headers=LAST)
    except ClientDisconnect:
        return problem_response(HTTPStatus.BAD_REQUEST, "body: broken off", headers=LAST)
    return bytes(body)
