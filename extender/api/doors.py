"""A door that leads to some addresses only: the same service at a port that shows less of it.

Why: a port that needs no client certificate must not lead to what does; and one that kube-scheduler alone may reach
need not show documents. Rule: what is not listed is answered here, and nothing behind the door hears of it.
"""

from collections.abc import Set as AbstractSet
from http import HTTPStatus
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from extender.api.problems import problem_response

PROBES: Final = frozenset({"/healthz", "/readyz", "/metrics"})
"""What probes and Prometheus ask for: it names no job, and asking changes nothing."""


class Only:
    """An ASGI app that passes on requests to these paths alone; `elsewhere` is a sentence for all others."""

    def __init__(self, app: ASGIApp, paths: AbstractSet[str], *, elsewhere: str) -> None:
        self._app = app
        self._paths = paths
        self._elsewhere = elsewhere

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass one request on, or answer 404 with a problem document."""
        if scope["type"] == "http" and scope["path"] in self._paths:
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            await problem_response(HTTPStatus.NOT_FOUND, self._elsewhere)(scope, receive, send)
        else:  # a websocket: there is none anywhere
            await send({"type": "websocket.close", "code": 1008})
