"""TokenReview on the wire, and what its answers mean."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from extender.errors import ApiUnavailableError
from extender.kube.client import KubeReviews
from extender.kube.http.transport import Transport
from extender.ports import Identity
from tests.extender.kube.conftest import serving

TOKENS = "/apis/authentication.k8s.io/v1/tokenreviews"
ANN = Identity("ann", (("key", ("a", "b")),))
ANN_JSON = {"username": "ann", "uid": "u1", "groups": ["devs", "system:authenticated"], "extra": {"key": ["a", "b"]}}


@asynccontextmanager
async def asked(body: object) -> AsyncIterator[tuple[KubeReviews, list[tuple[str, Any]]]]:
    seen: list[tuple[str, Any]] = []

    async def answer(request: web.Request) -> web.Response:
        assert (request.method, request.headers["Authorization"]) == ("POST", "Bearer abc")
        seen.append((request.path, await request.json()))
        return web.Response(status=201, text=body if isinstance(body, str) else json.dumps(body))

    async with serving(answer) as access, Transport(access) as transport:
        yield KubeReviews(transport), seen


async def test_a_token_is_reviewed() -> None:
    async with asked({"status": {"authenticated": True, "user": ANN_JSON}}) as (reviews, seen):
        assert await reviews.identity("secret") == ANN
    want = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": "secret"}}
    assert seen == [(TOKENS, want)]


@pytest.mark.parametrize(
    ("for_whom", "known"),
    [(["netgang"], True), (["vault", "netgang"], True), (["vault"], False), ([], False), (None, False)],
)
async def test_a_token_may_have_to_be_for_us(for_whom: list[str] | None, known: bool) -> None:
    """What it is for is asked and compared: an authenticator that knows no audiences says yes and names none."""
    status = {"authenticated": True, "user": ANN_JSON, **({} if for_whom is None else {"audiences": for_whom})}
    async with asked({"status": status}) as (reviews, seen):
        assert await reviews.identity("secret", audiences=("netgang", "other")) == (ANN if known else None)
    assert [body["spec"] for _, body in seen] == [{"token": "secret", "audiences": ["netgang", "other"]}]


NO_IDENTITY = {
    "not authenticated": {"authenticated": False},
    "an error": {"error": "token expired"},
    "nothing said": {},
    "a name but no yes": {"user": ANN_JSON},
    "a yes but no name": {"authenticated": True, "user": {"groups": ["system:masters"]}},
}


@pytest.mark.parametrize("status", NO_IDENTITY.values(), ids=NO_IDENTITY)
async def test_no_identity(status: dict[str, Any]) -> None:
    """Only a plain yes with a name counts."""
    async with asked({"status": status}) as (reviews, _):
        assert await reviews.identity("x") is None


@pytest.mark.parametrize("body", ["", "{}", "null", '{"status": {"authenticated": "yes"}}'])
async def test_an_answer_that_makes_no_sense_is_no_answer(body: str) -> None:
    """An error, so that the caller refuses; never a yes."""
    async with asked(body) as (reviews, _):
        with pytest.raises(ApiUnavailableError):
            await reviews.identity("x")
