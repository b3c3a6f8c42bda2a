"""MaddashSource and servers that misbehave: bad answers, bombs, silence, wrong settings."""

import asyncio
import gzip
from pathlib import Path

import httpx
import pytest

from extender.errors import ConfigError, NetworkSourceError
from extender.network.maddash.client import MaddashServer
from extender.network.maddash.source import MaddashSource
from scoring.network.matrix import Metric
from tests.extender.network import recorded
from tests.extender.network.maddash.scripted import NOW_S, Answer, Script, failed, grid, grids, read, source, values
from tests.extender.network.maddash.test_source import MAIN_GRIDS, site

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
    "not gzip": (httpx.Response(200, headers={"Content-Encoding": "gzip"}, stream=httpx.ByteStream(b"no")), "Error"),
    "too big": (httpx.Response(200, content=b" " * 20_001), "the answer has more than 20000 bytes"),
    "refused": (httpx.ConnectError("connection refused"), "connection refused"),
    "timed out": (httpx.ReadTimeout(""), "ReadTimeout"),
    "broken off": (httpx.RemoteProtocolError("peer closed connection"), "peer closed connection"),
}


@pytest.mark.parametrize(("answer", "text"), BAD_ANSWERS.values(), ids=BAD_ANSWERS)
async def test_bad_answers(answer: Answer, text: str) -> None:
    """Whatever a grid's address answers, the grid alone fails, and its problem says what was answered."""
    script = site()
    script.answers["grids/Loss"] = answer
    batch = await read(source(script, MAIN_GRIDS, body_limit_bytes=20_000))
    assert len(values(batch, Metric.DELAY)) == 28
    assert not values(batch)
    assert any(p.startswith("grid 'Loss' failed: ") and text in p for p in batch.problems), batch.problems


async def test_a_bomb_is_stopped_at_the_limit() -> None:
    """The limit counts decompressed bytes, and reading ends there."""
    packed = httpx.ByteStream(gzip.compress(b"[" * 50_000_000))
    script = Script({"grids/Loss": httpx.Response(200, headers={"Content-Encoding": "gzip"}, stream=packed)})
    with pytest.raises(NetworkSourceError, match="the answer has more than 1000000 bytes"):
        await source(script, MAIN_GRIDS, body_limit_bytes=1_000_000).fetch(now_s=NOW_S)


@pytest.mark.looptime
async def test_a_silent_server_ends_at_the_timeout() -> None:
    """An address that never answers costs `timeout_s`, and the others are read meanwhile."""
    script = site()
    script.pauses_s["grids/Loss"] = 1e9
    batch = await read(source(script, MAIN_GRIDS, timeout_s=30.0))
    assert any("no complete answer within 30 s" in problem for problem in batch.problems)
    assert pytest.approx(asyncio.get_running_loop().time(), abs=0.1) == 30.0


@pytest.mark.looptime
async def test_two_requests_at_a_time() -> None:
    """However many grids there are, two requests are in flight at most: the server shares its pool with the checks."""
    names = [f"g{i}" for i in range(12)]
    script = Script({"grids": grids(*names), **{f"grids/{name}": grid() for name in names}})
    script.pauses_s = dict.fromkeys((f"grids/{name}" for name in names), 1.0)
    fetch = asyncio.create_task(source(script).fetch(now_s=NOW_S))
    await asyncio.sleep(0.5)
    for second in range(6):
        assert len(script.seen) == 1 + 2 * (second + 1)
        await asyncio.sleep(1.0)
    await fetch


BAD_SERVERS = {  # case: (server, what the error says)
    "no scheme": (MaddashServer("maddash.lab.example"), "accepted is http:// or https://"),
    "file": (MaddashServer("file:///etc/passwd"), "accepted is http:// or https://"),
    "query": (MaddashServer("http://maddash.lab.example/?a=b"), "accepted is http:// or https://"),
    "bad port": (MaddashServer("http://maddash.lab.example:http/"), "accepted: https://HOST/PATH"),
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
    "https://h/maddash-webui/": "https://h/maddash/grids",
    "https://h/maddash-webui/index.cgi": "https://h/maddash/grids",
    "https://h/maddash/grids": "https://h/maddash/grids",
    "https://h/site/maddash/dashboards/": "https://h/site/maddash/grids",
    "https://h:8443/a%20b": "https://h:8443/a%20b/grids",
    "http://maddash": "http://maddash/maddash/grids",
    "http://maddash-webui/x": "http://maddash-webui/x/grids",
    "http://h/": "http://h/maddash/grids",
    "http://h/maddash/": "http://h/maddash/grids",
    "http://h:8881/maddash": "http://h:8881/maddash/grids",
    "http://h/perfsonar/maddash": "http://h/perfsonar/maddash/grids",
}


@pytest.mark.parametrize("configured", ADDRESSES)
async def test_addresses(configured: str) -> None:
    """The path `/maddash` may be left out; a web page leads to the REST API beside it; another path is kept."""
    script = Script({})
    with pytest.raises(NetworkSourceError, match="status 404"):
        await MaddashSource(MaddashServer(configured), transport=script).fetch(now_s=NOW_S)
    assert [ADDRESSES[configured]] == [str(request.url) for request in script.seen]


async def test_passwords_stay_out_of_texts() -> None:
    """User and password of the address are sent, and never shown."""
    script = Script({})
    script.unknown = httpx.Response(401, text="who are you?")
    with pytest.raises(NetworkSourceError) as caught:
        await MaddashSource(MaddashServer("http://me:secret@h/maddash"), transport=script).fetch(now_s=NOW_S)
    assert [one.headers["authorization"] for one in script.seen] == ["Basic bWU6c2VjcmV0"]
    assert "secret" not in str(caught.value)
    assert "http://h/maddash/grids: status 401: who are you?" in str(caught.value)
