"""One exchange and one stream: limits of size, time and number, tokens, and lines however they are cut."""

from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, nullcontext
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.errors import ApiError, ApiUnavailableError
from extender.kube.calls import PODS
from extender.kube.credentials import ApiServer, Authorization, Token
from extender.kube.http.transport import Transport, TransportLimits, split_lines
from extender.runtime.clock import SystemClock
from lab.testbed.apiserver.server import Fault, LoopbackApi

POD = "/api/v1/namespaces/default/pods/p"


def transport(url: str, *, limits: TransportLimits | None = None, tokens: Sequence[str] = ("",)) -> Transport:
    """A transport whose token is the next of `tokens` at each renewal, the last without end."""
    left = list(tokens)

    def read() -> Token:
        return Token(left.pop(0) if len(left) > 1 else left[0])

    server = ApiServer(url=url, authorization=Authorization(read, clock=SystemClock()))
    return Transport(server, limits=limits or TransportLimits(), agent="test")


async def chunks(parts: Sequence[bytes]) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


async def lines_of(parts: Sequence[bytes], *, limit_bytes: int) -> list[bytes]:
    async with aclosing(split_lines(chunks(parts), limit_bytes=limit_bytes)) as lines:
        return [line async for line in lines]


@given(
    lines=st.lists(st.binary(min_size=1, max_size=20).filter(lambda line: b"\n" not in line), max_size=8),
    cuts=st.lists(st.integers(0, 200), max_size=12),
)
async def test_lines_do_not_depend_on_how_they_arrive(lines: list[bytes], cuts: list[int]) -> None:
    whole = b"".join(line + b"\n" for line in lines) + b"unfinished"
    ends = [0, *sorted(min(cut, len(whole)) for cut in cuts), len(whole)]
    parts = [whole[a:b] for a, b in pairwise(ends)]
    assert lines == await lines_of(parts, limit_bytes=20)


TOO_LONG = {"in one chunk": [b"123456\n"], "in many chunks": [b"12", b"34", b"56\n"]}


@pytest.mark.parametrize("parts", TOO_LONG.values(), ids=TOO_LONG)
async def test_a_line_that_is_too_long_ends_the_stream(parts: list[bytes]) -> None:
    with pytest.raises(ApiUnavailableError, match="longer than 5 bytes"):
        await lines_of(parts, limit_bytes=5)


async def test_a_watch_takes_no_place(loopback: LoopbackApi) -> None:
    """Watches are endless, so exchanges must not wait for them."""
    loopback.store.put(PODS, {"metadata": {"name": "p"}})
    async with transport(loopback.url, limits=TransportLimits(concurrency=1)) as one:
        path = "/api/v1/pods?watch=true&resourceVersion=1&timeoutSeconds=60"
        async with aclosing(one.lines(path, open_s=5.0)) as lines:
            assert b"ADDED" in await anext(lines)
            assert await one.send("GET", POD, timeout_s=5.0)


async def test_a_redirect_is_not_followed(loopback: LoopbackApi) -> None:
    loopback.fail_next("get", Fault(status=307, headers={"Location": "/api/v1/namespaces/default/pods/q"}))
    async with transport(loopback.url) as one:
        with pytest.raises(ApiError, match="307"):
            await one.send("GET", POD, timeout_s=5.0)
    assert len(loopback.seen) == 1


@pytest.mark.parametrize("renewed", [True, False])
async def test_a_refused_token_is_renewed(renewed: bool, loopback: LoopbackApi) -> None:
    loopback.store.put(PODS, {"metadata": {"name": "p"}})
    loopback.tokens = {"new"}
    tokens = ["Bearer old", *(["Bearer new"] if renewed else [])]
    async with transport(loopback.url, tokens=tokens) as one:
        with nullcontext() if renewed else pytest.raises(ApiError, match="401"):
            assert await one.send("GET", POD, timeout_s=5.0)
    assert [seen.headers["Authorization"] for seen in loopback.seen] == tokens


async def test_a_stream_that_is_refused_is_an_error(loopback: LoopbackApi) -> None:
    loopback.fail_next("watch", Fault(status=403, body=b'{"message":"pods is forbidden"}'))
    async with transport(loopback.url) as one:
        with pytest.raises(ApiError, match="pods is forbidden"):
            async with aclosing(one.lines("/api/v1/pods?watch=true", open_s=5.0)) as lines:
                await anext(lines)
