"""TokenReview on the wire, and what its answers mean."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from extender.errors import ApiUnavailableError
from extender.kube.client import KubeReviews
from extender.kube.transport import Transport
from extender.ports import Identity
from lab.testbed.apiserver.server import Fault, LoopbackApi
from tests.extender.kube.conftest import server_of

TOKENS = "/apis/authentication.k8s.io/v1/tokenreviews"
ANN = Identity("ann", (("key", ("a", "b")),))
ANN_JSON = {"username": "ann", "uid": "u1", "groups": ["devs", "system:authenticated"], "extra": {"key": ["a", "b"]}}


@pytest.fixture
async def reviews(loopback: LoopbackApi) -> AsyncIterator[KubeReviews]:
    async with Transport(server_of(loopback.url)) as transport:
        yield KubeReviews(transport)


def says(api: LoopbackApi, answer: object) -> None:
    """The next answer, a value or a text that need not be JSON."""
    text = answer if isinstance(answer, str) else json.dumps(answer)
    api.fail_next("create", Fault(status=201, body=text.encode()))


async def test_a_token_is_reviewed(loopback: LoopbackApi, reviews: KubeReviews) -> None:
    says(loopback, {"status": {"authenticated": True, "user": ANN_JSON}})
    assert await reviews.identity("secret") == ANN
    want = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": "secret"}}
    [seen] = loopback.seen
    assert (seen.method, seen.path, seen.headers["Authorization"]) == ("POST", TOKENS, "Bearer abc")
    assert json.loads(seen.body) == want


@pytest.mark.parametrize(
    ("for_whom", "known"),
    [(["netgang"], True), (["vault", "netgang"], True), (["vault"], False), ([], False), (None, False)],
)
async def test_a_token_may_have_to_be_for_us(
    for_whom: list[str] | None, known: bool, loopback: LoopbackApi, reviews: KubeReviews
) -> None:
    """What it is for is asked and compared: an authenticator that knows no audiences says yes and names none."""
    status = {"authenticated": True, "user": ANN_JSON, **({} if for_whom is None else {"audiences": for_whom})}
    says(loopback, {"status": status})
    assert await reviews.identity("secret", audiences=("netgang", "other")) == (ANN if known else None)
    assert json.loads(loopback.seen[0].body)["spec"] == {"token": "secret", "audiences": ["netgang", "other"]}


NO_IDENTITY = {
    "not authenticated": {"authenticated": False},
    "an error": {"error": "token expired"},
    "nothing said": {},
    "a name but no yes": {"user": ANN_JSON},
    "a yes but no name": {"authenticated": True, "user": {"groups": ["system:masters"]}},
}


@pytest.mark.parametrize("status", NO_IDENTITY.values(), ids=NO_IDENTITY)
async def test_no_identity(status: dict[str, Any], loopback: LoopbackApi, reviews: KubeReviews) -> None:
    """Only a plain yes with a name counts."""
    says(loopback, {"status": status})
    assert await reviews.identity("x") is None


@pytest.mark.parametrize("body", ["", "{}", "null", '{"status": {"authenticated": "yes"}}'])
async def test_no_sense_is_no_answer(body: str, loopback: LoopbackApi, reviews: KubeReviews) -> None:
    """An error, so that the caller refuses; never a yes."""
    says(loopback, body)
    with pytest.raises(ApiUnavailableError):
        await reviews.identity("x")
