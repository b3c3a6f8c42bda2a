"""The port for reports: which callers come in, what others hear, and what it costs to ask."""

import asyncio
from collections.abc import Mapping
from typing import Any

import httpx
import pytest
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from extender.api.auth import Questions, Reporters, TokenAuth
from extender.errors import ApiError, ApiUnavailableError
from tests.fakes.clock import FakeClock
from tests.fakes.reviews import FakeReviews

ACCOUNT = "system:serviceaccount:team:"
OWNERS = {f"{name}-token": f"{ACCOUNT}{name}" for name in ("ann", "bob")}
ANN, BOB, STRANGER = ({"authorization": f"Bearer {token}"} for token in ("ann-token", "bob-token", "x"))
REPORT = "/v1/jobs/team/resnet/metrics"


def bearer(token: object) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


class Door:
    """TokenAuth in front of an app that remembers the calls that came through."""

    def __init__(self, *, reviews: FakeReviews | None = None, **limits: int) -> None:
        self.reviews = reviews if reviews is not None else FakeReviews(owners=OWNERS)
        self.clock = FakeClock()
        self.came: list[str] = []
        self.auth = TokenAuth(self._inside, Reporters(self.reviews), self.clock, **limits)

    async def _inside(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.came.append(scope["user"].username)
        await PlainTextResponse("inside")(scope, receive, send)

    async def ask(
        self, headers: Mapping[str, str] | list[tuple[str, str]], path: str = REPORT, *, peer: str = "10.0.0.1"
    ) -> httpx.Response:
        transport = httpx.ASGITransport(self.auth, client=(peer, 40000))
        async with httpx.AsyncClient(transport=transport, base_url="http://netgang") as client:
            return await client.post(path, headers=headers)


REFUSED = {  # case: (status, part of the detail, headers, path)
    "no token": (401, "show a token", {}, REPORT),
    "another scheme": (401, "show a token", {"authorization": "Basic YTpi"}, REPORT),
    "an empty token": (401, "show a token", {"authorization": "Bearer "}, REPORT),
    "two headers": (401, "show a token", [*ANN.items(), *ANN.items()], REPORT),
    "an unknown token": (401, "does not know this token", STRANGER, REPORT),
    "another namespace": (403, "of its own namespace", ANN, "/v1/jobs/other/resnet/metrics"),
    "another address": (403, "of its own namespace", ANN, "/v1/queue"),
    "the agents' address": (403, "an agent reports for the node", ANN, "/v1/probe"),
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
    door = Door(reviews=FakeReviews(owners=OWNERS, error=error))
    answer = await door.ask(ANN)
    assert (answer.status_code, answer.headers["retry-after"], door.came) == (503, "1", [])
    door.reviews.error = None
    assert ((await door.ask(ANN)).status_code, door.came) == (200, [f"{ACCOUNT}ann"])


async def test_a_yes_is_believed_for_a_minute_and_a_no_for_ten_seconds() -> None:
    door = Door()
    for _ in range(3):
        assert [(await door.ask(one)).status_code for one in (ANN, BOB, STRANGER)] == [200, 200, 401]
    assert door.reviews.asked == ["ann-token", "bob-token", "x"]
    door.clock.advance(10.0)
    assert [(await door.ask(one)).status_code for one in (ANN, STRANGER)] == [200, 401]
    assert door.reviews.asked[3:] == ["x"]
    door.clock.advance(50.0)
    door.reviews.owners = {}
    assert (await door.ask(ANN)).status_code == 401
    assert door.reviews.asked[4:] == ["ann-token"]


async def test_what_is_remembered_has_a_bound_and_unknown_tokens_do_not_push_out_known_callers() -> None:
    door = Door(remembered_max=5, reviews=FakeReviews(owners={str(number): f"{ACCOUNT}n" for number in range(6)}))
    for number in range(6):
        await door.ask(bearer(number))
    for number in range(20):
        await door.ask(bearer(f"wrong-{number}"))
    asked = len(door.reviews.asked)
    await door.ask(bearer(1))
    assert len(door.reviews.asked) == asked
    await door.ask(bearer(0), peer="10.0.0.2")
    assert len(door.reviews.asked) == asked + 1


async def test_only_so_many_questions_at_a_time_and_who_gives_up_leaves_its_place() -> None:
    closed = asyncio.Event()
    door = Door(asked_max=2, waiting_max=4, reviews=FakeReviews(owners=OWNERS, closed=closed))
    calls = [asyncio.create_task(door.ask(bearer(number))) for number in range(4)]
    while len(door.reviews.asked) < 2:  # noqa: ASYNC110 - the fake reports nothing
        await asyncio.sleep(0)
    answer = await door.ask(ANN)
    assert (answer.status_code, "come again" in answer.json()["detail"]) == (503, True)
    assert len(door.reviews.asked) == 2
    for given_up in (calls.pop(0), calls.pop()):  # one that is asked about, and one that waits for its turn
        given_up.cancel()
        with pytest.raises(asyncio.CancelledError):
            await given_up
    calls += [asyncio.create_task(door.ask(ANN)) for _ in range(2)]
    await asyncio.sleep(0)
    closed.set()
    assert [answer.status_code for answer in await asyncio.gather(*calls)] == [401, 401, 200, 200]


async def test_unknown_tokens_cost_each_peer_a_bounded_number_of_questions() -> None:
    door = Door()

    async def flood(count: int, first: int = 0) -> list[int]:
        headers = [bearer(f"wrong-{first + number}") for number in range(count)]
        return [answer.status_code for answer in await asyncio.gather(*map(door.ask, headers))]

    statuses = await flood(64)
    assert (sorted(set(statuses)), len(door.reviews.asked)) == ([401, 429], 10)
    again = await door.ask(bearer("another"))
    assert (again.status_code, again.headers["retry-after"]) == (429, "5")
    assert (await door.ask(ANN)).status_code == 429
    assert (await door.ask(ANN, peer="10.0.0.2")).status_code == 200
    assert (await door.ask(ANN)).status_code == 200
    door.clock.advance(100.0)
    asked = len(door.reviews.asked)
    await flood(64, first=64)
    assert len(door.reviews.asked) == asked + 10
    assert (await door.ask(ANN)).status_code == 200, "what was answered yes once is asked all the same"


async def test_questions_answered_yes_or_not_at_all_cost_nothing() -> None:
    """Many pods at one address are no flood, and an API server that is away locks no caller out."""
    door = Door(reviews=FakeReviews(owners={str(number): f"{ACCOUNT}n" for number in range(30)}))
    assert {(await door.ask(bearer(number))).status_code for number in range(30)} == {200}
    away = Door(reviews=FakeReviews(error=ApiUnavailableError("no answer")))
    assert {(await away.ask(ANN)).status_code for _ in range(30)} == {503}


def test_peers_are_bounded() -> None:
    questions = Questions(FakeClock().monotonic_s, peers_max=3)
    for number in range(10):
        assert questions.take(f"10.0.0.{number}")
    assert len(questions._all_at_s.kept) == 3
