"""MaddashSource and servers that misbehave: bad answers, bombs, silence, wrong settings."""

import asyncio
import gzip
import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from extender.errors import ConfigError, NetworkSourceError
from extender.network.maddash.client import MaddashServer
from extender.network.maddash.source import MaddashOptions, MaddashSource
from scoring.network.matrix import Metric
from tests.extender.network import recorded
from tests.extender.network.maddash.test_source import (
    MAIN_GRIDS,
    NOW_S,
    Answer,
    Script,
    failed,
    grid,
    grids,
    ok,
    read,
    source,
    values,
)
from tests.liveness import every_pause_is_taken

BAD_ANSWERS = {  # case: (answer, what the problem says)
    "unknown grid": (failed("grid-unknown-500.txt"), "status 500: Unable to find grid with name No such grid"),
    "empty grid": (failed("grid-empty-500.txt"), "status 500: Cannot invoke"),
    "not found": (
        httpx.Response(404, content=recorded.body("row-of-unknown-grid-404.txt")),
        "status 404: Row resource not found",
    ),
    "500 without a body": (httpx.Response(500), "status 500: no text"),
    "500 with control characters": (httpx.Response(500, content=b"a\x00\x1b[2Jb"), "status 500: a  [2Jb"),
    "moved": (
        httpx.Response(301, headers={"Location": "https://maddash.lab.example/"}),
        "status 301: moved to https://maddash.lab.example/: configure that address",
    ),
    "page": (httpx.Response(200, html="<html>log in</html>"), "the answer is not a grid document"),
    "no body": (httpx.Response(200), "the answer is not a grid document"),
    "cut off": (httpx.Response(200, content=recorded.body("grid-loss.json")[:999]), "not a grid document"),
    "not gzip": (httpx.Response(200, headers={"Content-Encoding": "gzip"}, stream=httpx.ByteStream(b"no")), "Error"),
    "too big": (httpx.Response(200, content=b" " * 20_001), "the answer has more than 20000 bytes"),
    "refused": (httpx.ConnectError("connection refused"), "connection refused"),
    "timed out": (httpx.ReadTimeout(""), "ReadTimeout"),
    "broken off": (httpx.RemoteProtocolError("peer closed connection"), "peer closed connection"),
}


@pytest.mark.parametrize(("answer", "text"), BAD_ANSWERS.values(), ids=BAD_ANSWERS)
async def test_bad_answers(answer: Answer, text: str) -> None:
    """Whatever a grid's address answers, the grid alone fails, and its problem says what was answered."""

    def same(request: httpx.Request) -> httpx.Response:
        assert isinstance(answer, httpx.Response)
        return answer

    script = Script(
        {
            "/maddash/grids/Loss": answer if isinstance(answer, Exception) else same,
            "/maddash/grids/Delay": ok("grid-delay.json"),
            "/maddash/grids/Throughput": ok("grid-throughput.json"),
        }
    )
    batch = await read(source(script, MAIN_GRIDS, body_limit_bytes=20_000))
    assert len(values(batch, Metric.DELAY)) == 28
    assert not values(batch, Metric.LOSS)
    assert any(p.startswith("grid 'Loss' failed: ") and text in p for p in batch.problems), batch.problems


async def test_a_bomb_is_stopped_at_the_limit() -> None:
    """The limit counts decompressed bytes, and reading ends there."""
    packed = gzip.compress(b"[" * 50_000_000)
    script = Script(
        {
            "/maddash/grids/Loss": lambda _: httpx.Response(
                200, headers={"Content-Encoding": "gzip"}, stream=httpx.ByteStream(packed)
            )
        }
    )
    with pytest.raises(NetworkSourceError, match="the answer has more than 1000000 bytes"):
        await source(script, MAIN_GRIDS, body_limit_bytes=1_000_000).fetch(now_s=NOW_S)


@pytest.mark.looptime
async def test_a_silent_server_ends_at_the_timeout() -> None:
    """An address that never answers costs `timeout_s`, and the others are read meanwhile."""

    class Silent(httpx.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            if request.url.path.endswith("Loss"):
                await asyncio.sleep(1e9)
            return ok("grid-delay.json")

    one = MaddashSource(
        MaddashServer("http://maddash.lab.example", timeout_s=30.0),
        MaddashOptions(MAIN_GRIDS),
        transport=Silent(),
    )
    batch = await read(one)
    assert any("no complete answer within 30 s" in problem for problem in batch.problems)
    assert pytest.approx(asyncio.get_running_loop().time(), abs=0.1) == 30.0


@pytest.mark.looptime
async def test_two_requests_at_a_time() -> None:
    """However many grids there are, two requests are in flight at most: the server shares its pool with the checks."""
    flying = 0
    most = 0

    class Counting(httpx.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            nonlocal flying, most
            if request.url.path == "/maddash/grids":
                return grids(*(f"g{i}" for i in range(12)))
            flying += 1
            most = max(most, flying)
            await asyncio.sleep(1.0)
            flying -= 1
            return grid({("a", "b"): "Average loss is 1%"})

    one = MaddashSource(MaddashServer("http://maddash.lab.example"), transport=Counting())
    await one.fetch(now_s=NOW_S)
    assert most == 2


async def test_big_grids_do_not_hold_the_loop() -> None:
    """While a grid of 40,000 checks is parsed, other tasks run again and again."""
    big = {(f"r{i}", f"c{j}"): "Average loss is 1%" for i in range(200) for j in range(200)}
    rows: list[Any] = [[] for _ in range(200)]
    for n, ((row, column), message) in enumerate(big.items()):
        uri = f"/maddash/grids/g/{row}/{column}/c"
        rows[n // 200].append([{"uri": uri, "status": 0, "prevCheckTime": 5, "message": message}])
    body = json.dumps({"rows": [], "grid": rows}).encode()
    script = Script({"/maddash/grids": grids("g"), "/maddash/grids/g": httpx.Response(200, content=body)})
    fetch = asyncio.create_task(source(script).fetch(now_s=NOW_S))
    turns = 0
    with every_pause_is_taken():
        while not fetch.done():
            turns += 1
            await asyncio.sleep(0)
    batch = fetch.result()
    assert batch is not None
    assert len(batch.measurements) == 40_000
    assert turns >= 200, "at least once in each row"


BAD_SERVERS = {  # case: (server, what the error says)
    "no scheme": (MaddashServer("maddash.lab.example"), "accepted is http:// or https://"),
    "file": (MaddashServer("file:///etc/passwd"), "accepted is http:// or https://"),
    "query": (MaddashServer("http://maddash.lab.example/?a=b"), "accepted is http:// or https://"),
    "bad port": (MaddashServer("http://maddash.lab.example:http/"), "accepted: https://HOST/maddash"),
    "no such CA file": (MaddashServer("https://h", ca_file=Path("/does/not/exist.pem")), "ca_file /does/not/exist.pem"),
    "not a CA file": (MaddashServer("https://h", ca_file=Path(__file__)), "accepted: a PEM file"),
}


@pytest.mark.parametrize(("server", "text"), BAD_SERVERS.values(), ids=BAD_SERVERS)
def test_bad_settings(server: MaddashServer, text: str) -> None:
    """An address or CA file that cannot work is refused at start, with what is accepted."""
    with pytest.raises(ConfigError, match=text):
        MaddashSource(server)


ADDRESSES = {  # configured: requested
    "http://h": "http://h/maddash/grids",
    "http://h/": "http://h/maddash/grids",
    "http://h/maddash/": "http://h/maddash/grids",
    "http://h:8881/maddash": "http://h:8881/maddash/grids",
    "http://h/perfsonar/maddash": "http://h/perfsonar/maddash/grids",
}


@pytest.mark.parametrize("configured", ADDRESSES)
async def test_addresses(configured: str) -> None:
    """The path `/maddash` may be left out; another one is kept."""
    seen: list[str] = []

    def record(request: httpx.Request) -> httpx.Response:
        seen.append(str(request.url))
        return grids()

    one = MaddashSource(MaddashServer(configured), transport=httpx.MockTransport(record))
    with pytest.raises(NetworkSourceError, match="has no grids"):
        await one.fetch(now_s=NOW_S)
    assert [ADDRESSES[configured]] == seen


async def test_passwords_stay_out_of_texts() -> None:
    """User and password of the address are sent, and never shown."""
    sent: list[str | None] = []

    def record(request: httpx.Request) -> httpx.Response:
        sent.append(request.headers.get("authorization"))
        return httpx.Response(401, text="who are you?")

    one = MaddashSource(MaddashServer("http://me:secret@h/maddash"), transport=httpx.MockTransport(record))
    with pytest.raises(NetworkSourceError) as caught:
        await one.fetch(now_s=NOW_S)
    assert "Basic bWU6c2VjcmV0" in sent
    assert "secret" not in str(caught.value)
    assert "http://h/maddash/grids: status 401: who are you?" in str(caught.value)


def test_insecure_and_ca_file_build(tmp_path: Path) -> None:
    """`insecure` needs no CA file."""
    assert MaddashSource(MaddashServer("https://h", insecure=True)).name == "maddash"
