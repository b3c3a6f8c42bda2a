"""What people of one namespace may ask: explain, queue and jobs of their own; other namespaces' names are left out.

Why not a view of its own: the documents stay one truth, and what is added to them later is covered, because names are
replaced in the finished answer. Rules: a request is of a namespace only if its address or its one parameter
`namespace` says so; only GET of these documents, so there is no way to a verb; an answer that is not JSON is not given.
"""

import asyncio
import re
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import parse_qs

import msgspec
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from extender.api.problems import problem_response

OTHERS: Final = "another namespace's gang"
_NAME: Final = "[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?"
_OF_ONE: Final = re.compile(f"/v1/(?:explain|jobs)/({_NAME})/[^/]+")
_LISTS: Final = frozenset({"/v1/queue", "/v1/jobs"})
_QUERY_BYTES: Final = 1024
_KEY: Final = re.compile(f"(?<![A-Za-z0-9._/-])({_NAME})/[A-Za-z0-9][A-Za-z0-9._-]*")


def namespace_of(scope: Scope) -> str:
    """The namespace that a request is confined to; "": none, so it needs the right to see everything.

    >>> namespace_of({"method": "GET", "path": "/v1/explain/team/g", "query_string": b""})
    'team'
    >>> namespace_of({"method": "GET", "path": "/v1/queue", "query_string": b"namespace=team"})
    'team'
    >>> namespace_of({"method": "GET", "path": "/v1/queue", "query_string": b"namespace=a&namespace=b"})
    ''
    """
    if scope["method"] != "GET" or len(scope["query_string"]) > _QUERY_BYTES:
        return ""
    if (found := _OF_ONE.fullmatch(scope["path"])) is not None:
        return found[1]
    if scope["path"] not in _LISTS:
        return ""
    named = parse_qs(scope["query_string"].decode("latin-1")).get("namespace", [])
    return named[0] if len(named) == 1 and re.fullmatch(_NAME, named[0]) else ""


def seen_from(namespace: str, others: AbstractSet[str], document: Any) -> Any:
    """The decoded document without names of gangs and pods of `others`. Cost: O(length).

    >>> seen_from("a", {"b"}, {"ahead": ["a/x", "b/y"], "text": "Planned ahead: a/x, b/y and 5/2.", "namespace": "b"})
    {'ahead': ['a/x', "another namespace's gang"], 'text': "Planned ahead: a/x, another namespace's gang and 5/2.", \
'namespace': 'another namespace'}
    """

    def without(found: re.Match[str]) -> str:
        return OTHERS if found[1] != namespace and found[1] in others else found[0]

    def walked(part: Any) -> Any:
        if isinstance(part, str):
            return _KEY.sub(without, part) if "/" in part else part
        if isinstance(part, list):
            return [walked(one) for one in part]
        if isinstance(part, dict):
            return {walked(key): _bare(key, walked(value)) for key, value in part.items()}
        return part

    def _bare(key: str, value: Any) -> Any:
        return "another namespace" if key == "namespace" and value in others and value != namespace else value

    return walked(document)


@dataclass(frozen=True, slots=True)
class OfNamespace:
    """Passes a request on, and its answer back as people of this namespace may see it."""

    app: ASGIApp
    namespace: str
    others: Callable[[], AbstractSet[str]]  # Namespaces that have pods

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        status, body = HTTPStatus.SERVICE_UNAVAILABLE.value, bytearray()
        kind = b"application/json"

        async def take(message: Message) -> None:
            nonlocal status, kind
            if message["type"] == "http.response.start":
                status = message["status"]
                kind = dict(message["headers"]).get(b"content-type", b"")
            elif message["type"] == "http.response.body":
                body.extend(message.get("body", b""))

        await self.app(scope, receive, take)
        if b"json" not in kind:
            await problem_response(HTTPStatus.FORBIDDEN, "no document of a namespace")(scope, receive, send)
            return
        text = await asyncio.to_thread(_redacted, self.namespace, self.others(), bytes(body))
        length = (b"content-length", str(len(text)).encode())
        await send({"type": "http.response.start", "status": status, "headers": [(b"content-type", kind), length]})
        await send({"type": "http.response.body", "body": text})


def _redacted(namespace: str, others: AbstractSet[str], body: bytes) -> bytes:
    return msgspec.json.encode(seen_from(namespace, others, msgspec.json.decode(body)))
