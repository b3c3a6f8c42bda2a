"""The port for people with `debug_auth: token`: which callers come in, what others hear, and what it costs to ask."""

import asyncio
from collections.abc import Collection, Mapping
from typing import Any

import httpx
import pytest
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from extender.api.auth import AuthLimits, Questions, TokenAuth
from extender.errors import ApiError, ApiUnavailableError
from extender.ports import Identity
from tests.fakes.clock import FakeClock
from tests.fakes.reviews import FakeReviews

ANN = {"authorization": "Bearer ann-token"}
RIGHTS = frozenset({("ann", "get", "/v1/plan"), ("ann", "post", "/filter")})


def bearer(token: object) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


class Door:
    """TokenAuth in front of an app that remembers the calls that came through."""

    def __init__(self, limits: AuthLimits = AuthLimits(), *, namespaces: Collection[str] = (), **reviews: Any) -> None:
        self.reviews = FakeReviews(**({"owners": {"ann-token": "ann", "bob-token": "bob"}, "rights": RIGHTS} | reviews))
        self.clock = FakeClock()
        self.came: list[str] = []
        self.text = ""  # JSON that the app answers; else plain text
        self.auth = TokenAuth(self._inside, self.reviews, self.clock, limits, namespaces=lambda: frozenset(namespaces))

    async def _inside(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.came.append(scope["path"])
        kind = None if scope["path"] == "/v1/plan" else "application/json"
        await PlainTextResponse(self.text or ("inside" if kind is None else "{}"), media_type=kind)(
            scope, receive, send
        )

    async def ask(
        self, headers: Mapping[str, str] | list[tuple[str, str]], path: str = "/v1/plan", *, peer: str = "10.0.0.1"
    ) -> httpx.Response:
        transport = httpx.ASGITransport(self.auth, client=(peer, 40000))
        async with httpx.AsyncClient(transport=transport, base_url="http://netgang") as client:
            return await client.get(path, headers=headers)


REFUSED = {  # case: (status, part of the detail, headers, path)
    "no token": (401, "show a token", {}, "/v1/plan"),
    "another scheme": (401, "show a token", {"authorization": "Basic YTpi"}, "/v1/plan"),
    "an empty token": (401, "show a token", {"authorization": "Bearer "}, "/v1/plan"),
    "two headers": (401, "show a token", [*ANN.items(), *ANN.items()], "/v1/plan"),
    "an unknown token": (401, "does not know this token", {"authorization": "Bearer x"}, "/v1/plan"),
    "another address": (403, "ann may not get /v1/network", ANN, "/v1/network"),
    "another verb": (403, "ann may not get /filter", ANN, "/filter"),
    "another person": (403, "bob may not get /v1/plan", {"authorization": "bearer bob-token"}, "/v1/plan"),
    "even for health": (401, "show a token", {}, "/healthz"),
}


@pytest.mark.parametrize(("status", "detail", "headers", "path"), REFUSED.values(), ids=REFUSED)
async def test_a_refused_caller_hears_why(status: int, detail: str, headers: Any, path: str) -> None:
    door = Door()
    answer = await door.ask(headers, path)
    assert (answer.status_code, door.came) == (status, [])
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["connection"] == "close"
    assert detail in answer.json()["detail"]
    assert ("www-authenticate" in answer.headers) == (status == 401)


@pytest.mark.parametrize("error", [ApiUnavailableError("no answer"), ApiError(403, "forbidden"), ApiError(500, "x")])
async def test_what_cannot_be_checked_is_refused(error: Exception) -> None:
    """Closed, not open, when the API server is away or does not let us ask; and not remembered as a no."""
    door = Door(error=error)
    answer = await door.ask(ANN)
    assert (answer.status_code, answer.headers["retry-after"], door.came) == (503, "1", [])
    door.reviews.error = None
    assert (await door.ask(ANN)).status_code == 200


async def test_a_yes_is_believed_for_a_minute_and_a_no_for_ten_seconds() -> None:
    """So a page that reloads costs nothing, and a right that is taken away ends soon."""
    door = Door()
    assert (await door.ask(ANN, "/v1/plan?x=1")).text == "inside", "the query is no part of the address"
    bob, stranger = bearer("bob-token"), bearer("x")
    for _ in range(3):
        statuses = [(await door.ask(one)).status_code for one in (ANN, bob, stranger)]
        assert statuses == [200, 403, 401]
    assert door.reviews.asked == ["identity", "may", "identity", "may", "identity"]
    door.reviews.rights = frozenset({("bob", "get", "/v1/plan")})
    door.clock.advance(10.0)
    assert [(await door.ask(one)).status_code for one in (ANN, bob, stranger)] == [200, 200, 401]
    assert door.reviews.asked[5:] == ["may", "identity"]
    door.clock.advance(50.0)
    assert (await door.ask(ANN)).status_code == 403
    assert door.reviews.asked[7:] == ["identity", "may"]


async def test_unknown_tokens_do_not_push_out_known_callers() -> None:
    door = Door(AuthLimits(remembered_max=4))
    await door.ask(ANN)
    for number in range(20):
        await door.ask(bearer(f"wrong-{number}"))
    asked = len(door.reviews.asked)
    await door.ask(ANN)
    assert len(door.reviews.asked) == asked


async def test_what_is_remembered_has_a_bound() -> None:
    paths = [f"/v1/explain/a/{number}" for number in range(5)]
    door = Door(AuthLimits(remembered_max=5), rights=frozenset(("ann", "get", path) for path in paths))
    for path in paths:
        await door.ask(ANN, path)
    assert door.reviews.asked.count("may") == 5
    await door.ask(ANN, paths[1])
    assert door.reviews.asked.count("may") == 5
    await door.ask(ANN, paths[0])
    assert door.reviews.asked.count("may") == 6


async def test_only_so_many_questions_at_a_time() -> None:
    closed = asyncio.Event()
    door = Door(AuthLimits(asked_max=2, waiting_max=4), closed=closed)
    calls = [asyncio.create_task(door.ask(bearer(number))) for number in range(4)]
    while len(door.reviews.asked) < 2:  # noqa: ASYNC110 - the fake reports nothing
        await asyncio.sleep(0)
    answer = await door.ask(ANN)
    assert (answer.status_code, "come again" in answer.json()["detail"]) == (503, True)
    assert len(door.reviews.asked) == 2
    closed.set()
    assert [answer.status_code for answer in await asyncio.gather(*calls)] == [401] * 4
    assert (await door.ask(ANN)).status_code == 200


async def test_a_caller_that_gives_up_leaves_its_place() -> None:
    closed = asyncio.Event()
    door = Door(AuthLimits(asked_max=1, waiting_max=1), closed=closed)
    call = asyncio.create_task(door.ask(ANN))
    while not door.reviews.asked:  # noqa: ASYNC110 - the fake reports nothing
        await asyncio.sleep(0)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    closed.set()
    assert (await door.ask(ANN)).status_code == 200


async def test_answers_are_kept_by_the_whole_identity() -> None:
    door = Door(owners={token: Identity("ann", groups=(token,)) for token in ("a", "b")})
    for token in ("a", "b"):
        await door.ask(bearer(token))
    assert door.reviews.asked == ["identity", "may", "identity", "may"]


async def test_unknown_tokens_cost_each_peer_a_bounded_number_of_questions() -> None:
    door = Door()

    async def flood(count: int, first: int = 0) -> list[int]:
        headers = [bearer(f"wrong-{first + number}") for number in range(count)]
        return [answer.status_code for answer in await asyncio.gather(*map(door.ask, headers))]

    statuses = await flood(64)
    assert (sorted(set(statuses)), door.reviews.asked.count("identity")) == ([401, 429], 10)
    again = await door.ask({"authorization": "Bearer another"})
    assert (again.status_code, again.headers["retry-after"]) == (429, "5")
    assert (await door.ask(ANN)).status_code == 429
    assert (await door.ask(ANN, peer="10.0.0.2")).status_code == 200
    assert (await door.ask(ANN)).status_code == 200
    door.clock.advance(100.0)
    asked = door.reviews.asked.count("identity")
    await flood(64, first=64)
    assert door.reviews.asked.count("identity") == asked + 10
    assert (await door.ask(ANN)).status_code == 200


async def test_addresses_without_number_cost_a_bounded_number_of_questions_too() -> None:
    door = Door()
    statuses = [(await door.ask(ANN, f"/v1/explain/x/{number}")).status_code for number in range(30)]
    assert (statuses.count(403), statuses.count(429), door.reviews.asked.count("may")) == (10, 20, 10)
    assert (await door.ask(ANN)).status_code == 429
    door.clock.advance(5.0)
    assert (await door.ask(ANN)).status_code == 200


async def test_questions_answered_yes_or_not_at_all_cost_nothing() -> None:
    """A page of many addresses is no flood, and an API server that is away locks no caller out."""
    rights = frozenset(("ann", "get", f"/v1/explain/x/{number}") for number in range(30))
    door = Door(rights=rights)
    assert {(await door.ask(ANN, path)).status_code for _, _, path in rights} == {200}
    away = Door(error=ApiUnavailableError("no answer"))
    assert {(await away.ask(ANN)).status_code for _ in range(30)} == {503}


def test_peers_are_bounded() -> None:
    questions = Questions(FakeClock().monotonic_s, peers_max=3)
    for number in range(10):
        assert questions.take(f"10.0.0.{number}")
    assert len(questions) == 3


WITHIN: dict[str, int] = {  # address → status for a caller who may see namespace team alone
    "/v1/explain/team/g": 200,
    "/v1/queue?namespace=team": 200,
    "/v1/jobs?namespace=team": 200,
    "/v1/jobs/team/j": 200,
    "/v1/explain/other/g": 403,
    "/v1/explain/team%2F..%2Fother/g": 403,
    "/v1/explain/team/../other/g": 403,
    "/v1/queue": 403,
    "/v1/queue?namespace=other": 403,
    "/v1/queue?namespace=team&namespace=other": 403,
    "/v1/queue?namespace=": 403,
    "/v1/plan?namespace=team": 403,
    "/v1/record": 403,
    "/filter": 403,
    "/bind": 403,
}  # fmt: skip


@pytest.mark.parametrize(("path", "status"), WITHIN.items(), ids=WITHIN)
async def test_a_caller_of_one_namespace_reaches_its_documents_alone(path: str, status: int) -> None:
    """No way to a verb, to the whole cluster, or to another namespace."""
    door = Door(rights=frozenset(), sees=frozenset({("ann", "team")}))
    answer = await door.ask(ANN, path)
    assert (answer.status_code, len(door.came)) == (status, int(status == 200))


async def test_verbs_are_closed_to_a_caller_of_one_namespace() -> None:
    door = Door(rights=frozenset(), sees=frozenset({("ann", "team")}))
    transport = httpx.ASGITransport(door.auth, client=("10.0.0.1", 40000))
    async with httpx.AsyncClient(transport=transport, base_url="http://netgang") as client:
        paths = ("/filter", "/prioritize", "/bind", "/v1/what-if", "/v1/explain/team/g", "/v1/queue?namespace=team")
        assert [(await client.post(path, headers=ANN)).status_code for path in paths] == [403] * len(paths)
    assert door.came == []


async def test_other_namespaces_are_not_named() -> None:
    door = Door(rights=frozenset(), sees=frozenset({("ann", "team")}), namespaces={"team", "other"})
    door.text = '{"ahead":["team/a","other/b"],"other/c-0":"n1","text":"behind other/b.\\nother/d"}'
    gang = "another namespace's gang"
    seen = (await door.ask(ANN, "/v1/explain/team/g")).json()
    assert seen == {"ahead": ["team/a", gang], gang: "n1", "text": f"behind {gang}\n{gang}"}
    door.reviews.rights = frozenset({("ann", "get", "/v1/explain/team/h")})
    assert "other/b" in (await door.ask(ANN, "/v1/explain/team/h")).text
