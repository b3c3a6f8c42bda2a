"""The MaddashSource against scripted answers: which grids it reads, and what stays when they fail."""

import asyncio
import gzip
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from extender.errors import ConfigError, NetworkSourceError
from extender.network.maddash import SAME_FOR_S, SAME_POLLS, MaddashOptions, MaddashSource
from extender.network.maddash_client import MaddashServer
from extender.network.maddash_wanted import Wanted
from extender.ports import Batch
from scoring.network import Metric
from tests.extender.network import recorded

NOW_S = recorded.RUN_2_S + 10.0
Answer = httpx.Response | Exception | Callable[[httpx.Request], httpx.Response]


class Script:
    """A transport that answers from a table of raw paths, which a test changes between fetches."""

    def __init__(self, answers: Mapping[str, Answer]) -> None:
        self.answers = dict(answers)
        self.asked: list[str] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        """Answer as the table says."""
        path = request.url.raw_path.decode()
        self.asked.append(path)
        answer = self.answers.get(path, httpx.Response(404, text="Row resource not found"))
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, httpx.Response):
            return httpx.Response(answer.status_code, headers=answer.headers, content=answer.content)
        return answer(request)


def source(script: Script, wanted: Wanted | None = None, **server: Any) -> MaddashSource:
    """A source that speaks to the script."""
    options = MaddashOptions(wanted or Wanted())
    return MaddashSource(
        MaddashServer("http://maddash.lab.example/maddash", **server), options, transport=httpx.MockTransport(script)
    )


def ok(name: str) -> httpx.Response:
    """200 with a recorded body."""
    return httpx.Response(200, content=recorded.body(name), headers={"Content-Type": "application/json"})


def failed(name: str) -> httpx.Response:
    """500 with a recorded text, labelled as JSON, as the server does."""
    return httpx.Response(500, content=recorded.body(name), headers={"Content-Type": "application/json"})


def grids(*names: str) -> httpx.Response:
    """A list of grids."""
    return httpx.Response(200, json={"grids": [{"name": n, "uri": "/ignored"} for n in names]})


def grid(values: Mapping[tuple[str, str], str], *, check: str = "c", checked_at_s: float = NOW_S) -> httpx.Response:
    """A grid with one message per (row, column); a message `-` is a check that has not run."""
    cells = [
        [
            {
                "uri": f"/maddash/grids/g/{row}/{column}/{check}",
                "status": 4 if message == "-" else 0,
                "prevCheckTime": 0 if message == "-" else int(checked_at_s),
                "message": message,
            }
        ]
        for (row, column), message in values.items()
    ]
    return httpx.Response(200, json={"rows": [], "grid": [cells]})


async def read(one: MaddashSource, now_s: float = NOW_S) -> Batch:
    """A fetch that must give something."""
    batch = await one.fetch(now_s=now_s)
    assert batch is not None
    return batch


def values(batch: Batch, metric: Metric) -> dict[tuple[str, str], float]:
    """(source, target) → value."""
    return {(m.source, m.target): m.value for m in batch.measurements if m.metric is metric}


def site() -> Script:
    """The recorded server."""
    return Script(
        {
            "/maddash/grids": ok("grids.json"),
            "/maddash/grids/Loss": ok("grid-loss.json"),
            "/maddash/grids/Delay": ok("grid-delay.json"),
            "/maddash/grids/Throughput": ok("grid-throughput.json"),
            "/maddash/grids/Random": ok("grid-random.json"),
            "/maddash/grids/Empty": failed("grid-empty-500.txt"),
            "/maddash/grids/Lab%2Bmesh%2B-%2Bthroughput%2B-%2BThroughput": ok("grid-reverse.json"),
        }
    )


MAIN_GRIDS = Wanted({Metric.LOSS: ("Loss",), Metric.DELAY: ("Delay",), Metric.THROUGHPUT: ("Throughput",)})


async def test_configured_grids_pair_by_pair() -> None:
    """Three configured grids are three requests, and every pair has its recorded value; negative delay becomes 0."""
    script = site()
    batch = await read(source(script, MAIN_GRIDS))
    assert sorted(script.asked) == ["/maddash/grids/Delay", "/maddash/grids/Loss", "/maddash/grids/Throughput"]
    delay = {pair: max(ms, 0.0) for pair, ms in recorded.values(recorded.DELAY_MS, factor=1.0).items()}
    assert values(batch, Metric.LOSS) == pytest.approx(recorded.values(recorded.LOSS_PERCENT, factor=0.01), abs=1e-15)
    assert values(batch, Metric.DELAY) == pytest.approx(delay)
    assert values(batch, Metric.THROUGHPUT) == pytest.approx(recorded.values(recorded.THROUGHPUT_GBPS, factor=1e9))
    assert {recorded.RUN_2_S} == {m.measured_at_s for m in batch.measurements if m.metric is Metric.LOSS}
    assert {recorded.RUN_1_S} == {m.measured_at_s for m in batch.measurements if m.metric is not Metric.LOSS}
    assert set(recorded.ENDS.values()) == {one.id for one in batch.endpoints}
    assert batch.fetched_at_s == NOW_S
    assert batch.rejected == {
        "negative_delay": 1,
        "not_run": 1,
        "maintenance": 1,
        "custom_status": 1,
        "unknown_status": 2 + 1 + 2,
    }


async def test_discovery_by_messages() -> None:
    """Without configuration every grid counts by what its messages show, whatever it is called."""
    script = site()
    one = source(script)
    batch = await read(one)
    assert "/maddash/grids/WAN%252FEdge%2B-%2BLoss" in script.asked
    assert "/maddash/grids/Lab%2B100%2525%2BA%252BB" in script.asked
    assert len(script.asked) == 10
    # both throughput grids show the same pairs: the same value twice, and it is said
    assert values(batch, Metric.THROUGHPUT) == pytest.approx(recorded.values(recorded.THROUGHPUT_GBPS, factor=1e9))
    assert batch.rejected["duplicate"] == 16
    assert any("several checks" in problem for problem in batch.problems)
    assert any(p.startswith("grid 'Empty' failed: http://maddash.lab.example") for p in batch.problems)


async def test_useless_grids_are_left_alone() -> None:
    """A grid that shows no metric is read once, then again only after `rediscover_s`."""
    script = site()
    one = source(script)
    await one.fetch(now_s=NOW_S)
    script.asked.clear()
    await one.fetch(now_s=NOW_S + 60.0)
    assert "/maddash/grids/Loss" in script.asked
    assert "/maddash/grids/Random" not in script.asked
    script.asked.clear()
    await one.fetch(now_s=NOW_S + 600.0)
    assert "/maddash/grids/Random" in script.asked


async def test_grids_of_configured_metrics_are_not_discovered() -> None:
    """A metric with configured grids uses only these; the others are discovered."""
    script = site()
    batch = await read(source(script, Wanted({Metric.THROUGHPUT: ("Lab mesh - throughput - Throughput",)})))
    forward = recorded.values(recorded.FORWARD_GBPS, factor=1e9)
    reverse = {(b, a): value for (a, b), value in recorded.values(recorded.REVERSE_GBPS, factor=1e9).items()}
    assert values(batch, Metric.THROUGHPUT) == pytest.approx(forward | reverse)
    assert values(batch, Metric.LOSS) == pytest.approx(recorded.values(recorded.LOSS_PERCENT, factor=0.01), abs=1e-15)


async def test_configured_checks() -> None:
    """With a check named, the other check of the same grid does not count."""
    script = site()
    wanted = Wanted({Metric.THROUGHPUT: ("Lab mesh - throughput - Throughput",)}, {Metric.THROUGHPUT: ("Throughput",)})
    batch = await read(source(script, wanted))
    assert values(batch, Metric.THROUGHPUT) == pytest.approx(recorded.values(recorded.FORWARD_GBPS, factor=1e9))


async def test_nothing_changed() -> None:
    """Byte for byte the same bodies are no news."""
    one = source(site())
    assert await one.fetch(now_s=NOW_S) is not None
    assert await one.fetch(now_s=NOW_S + 60.0) is None


async def test_a_failing_grid_keeps_its_last_values() -> None:
    """One grid fails: its values stay with their times, the others are new, and the problem is named."""
    script = site()
    one = source(script, MAIN_GRIDS)
    before = await read(one)
    script.answers["/maddash/grids/Loss"] = failed("grid-loss-exit255-500.txt")
    script.answers["/maddash/grids/Delay"] = ok("grid-delay-unconfirmed.json")
    batch = await read(one, NOW_S + 60.0)
    assert values(before, Metric.LOSS) == values(batch, Metric.LOSS)
    assert {recorded.RUN_2_S} == {m.measured_at_s for m in batch.measurements if m.metric is Metric.LOSS}
    assert values(batch, Metric.DELAY)[recorded.ENDS["s4"], recorded.ENDS["s1"]] == pytest.approx(12.862)
    [problem] = [p for p in batch.problems if "Loss" in p]
    assert problem == (
        "grid 'Loss' failed, its last good values stay: http://maddash.lab.example/maddash/grids/Loss: "
        "status 500: Index 255 out of bounds for length 6"
    )
    script.answers["/maddash/grids/Loss"] = ok("grid-loss.json")
    again = await read(one, NOW_S + 120.0)
    assert not [p for p in again.problems if "Loss" in p]


async def test_a_round_without_any_answer_is_an_error() -> None:
    """A server that answers nothing is an error each time; what it gave before is there again with its first answer."""
    script = site()
    good = dict(script.answers)
    for path in script.answers:
        script.answers[path] = failed("grid-unknown-500.txt")
    one = source(script)
    with pytest.raises(NetworkSourceError, match=r"maddash: http://maddash.lab.example/maddash/grids: status 500: Un"):
        await one.fetch(now_s=NOW_S)
    script.answers = dict(good)
    before = await read(one, NOW_S + 60.0)
    for path in script.answers:
        script.answers[path] = httpx.ConnectError("connection refused")
    for later_s in (120.0, 180.0):
        with pytest.raises(NetworkSourceError, match="connection refused"):
            await one.fetch(now_s=NOW_S + later_s)
    script.answers = dict(good) | {"/maddash/grids/Loss": httpx.ConnectError("connection refused")}
    batch = await read(one, NOW_S + 240.0)
    assert set(before.measurements) == set(batch.measurements)
    assert batch.fetched_at_s == NOW_S + 240.0


async def test_empty_list_of_grids_in_a_reload() -> None:
    """An empty list of grids, as in a reload, forgets nothing."""
    script = site()
    one = source(script)
    before = await read(one)
    script.answers["/maddash/grids"] = grids()
    script.answers["/maddash/grids/Loss"] = ok("grid-loss-startup.json")
    batch = await read(one, NOW_S + 60.0)
    assert set(before.measurements) == set(batch.measurements)


async def test_a_grid_that_is_gone_is_forgotten_after_an_hour() -> None:
    """A grid that is no longer listed keeps its data for `forget_s`, not for ever."""
    script = Script(
        {
            "/maddash/grids": grids("L", "D"),
            "/maddash/grids/L": grid({("a", "b"): "Average loss is 1%"}),
            "/maddash/grids/D": grid({("a", "b"): "Average delay is 1ms"}),
        }
    )
    one = source(script)
    await one.fetch(now_s=NOW_S)
    script.answers["/maddash/grids"] = grids("L")
    script.answers["/maddash/grids/D"] = failed("grid-unknown-500.txt")
    assert values(await read(one, NOW_S + 3600.0), Metric.DELAY)
    batch = await read(one, NOW_S + 3601.0)
    assert not values(batch, Metric.DELAY)
    assert values(batch, Metric.LOSS)


async def test_partial_grid_keeps_the_last_one() -> None:
    """Fewer than 80 % of the checks are a reload; the same number for three polls and half a minute: a smaller grid."""
    full = {("a", f"b{i}"): "Average loss is 1%" for i in range(10)}
    part = dict.fromkeys(list(full)[:7], "Average loss is 2%")
    script = Script({"/maddash/grids/L": grid(full), "/maddash/grids": grids("L")})
    one = source(script)
    await one.fetch(now_s=NOW_S)
    script.answers["/maddash/grids/L"] = grid(part)
    for poll in range(1, SAME_POLLS + 3):
        batch = await one.fetch(now_s=NOW_S + poll)
        if poll == 1:
            assert batch is not None
            assert len(batch.measurements) == 10
            assert "grid 'L' has only 7 of 10 checks, perhaps a reload, its last good values stay" in batch.problems
            assert batch.fetched_at_s == NOW_S
        else:
            assert batch is None
    batch = await read(one, NOW_S + 1.0 + SAME_FOR_S)
    assert {0.02} == set(values(batch, Metric.LOSS).values())
    assert len(batch.measurements) == 7


async def test_eighty_percent_are_enough() -> None:
    """A grid with exactly 80 % of its last checks is taken as it is."""
    full = {("a", f"b{i}"): "Average loss is 1%" for i in range(10)}
    script = Script({"/maddash/grids/L": grid(full), "/maddash/grids": grids("L")})
    one = source(script)
    await one.fetch(now_s=NOW_S)
    script.answers["/maddash/grids/L"] = grid(dict(list(full.items())[:8]))
    assert len((await read(one, NOW_S + 60.0)).measurements) == 8


async def test_checks_made_anew_keep_their_last_value() -> None:
    """A changed interval makes all checks new (status 4): their last values stay, with their old times."""
    script = Script(
        {
            "/maddash/grids": grids("L"),
            "/maddash/grids/L": grid({("a", "b"): "Average loss is 1%", ("b", "a"): "Average loss is 2%"}),
        }
    )
    one = source(script)
    await one.fetch(now_s=NOW_S)
    later_s = NOW_S + 600.0
    script.answers["/maddash/grids/L"] = grid({("a", "b"): "-", ("b", "a"): "-"})
    batch = await read(one, later_s)
    assert values(batch, Metric.LOSS) == {("a", "b"): 0.01, ("b", "a"): 0.02}
    assert {NOW_S} == {m.measured_at_s for m in batch.measurements}
    script.answers["/maddash/grids/L"] = grid(
        {("a", "b"): "Average loss is 3%", ("b", "a"): "-"}, checked_at_s=later_s + 1.0
    )
    batch = await read(one, later_s + 60.0)
    assert values(batch, Metric.LOSS) == {("a", "b"): 0.03, ("b", "a"): 0.02}


async def test_half_round_trip_only_without_one_way_delay() -> None:
    """Half the round-trip time is delay where nothing better exists, and this is said; the two never mix."""
    script = Script(
        {
            "/maddash/grids": grids("RTT"),
            "/maddash/grids/RTT": grid({("a", "b"): "Average minimum rtt is 3ms"}),
            "/maddash/grids/OWD": grid({("b", "a"): "Average minimum delay is 5ms"}),
        }
    )
    one = source(script)
    batch = await read(one)
    assert values(batch, Metric.DELAY) == {("a", "b"): 1.5}
    assert "grid 'RTT' shows round-trip times: half of each is used as one-way delay" in batch.problems
    script.answers["/maddash/grids"] = grids("OWD", "RTT")
    batch = await read(one, NOW_S + 60.0)
    assert values(batch, Metric.DELAY) == {("b", "a"): 5.0}
    assert batch.rejected["round_trip"] == 1
    assert not [problem for problem in batch.problems if "round-trip" in problem]


TWINS = {  # case: (expected delay, age of v4's value, age of v6's)
    "equally new: the worse": (9.0, 0.0, 0.0),
    "within half an hour: the worse": (9.0, 0.0, 1800.0),
    "older than that: the newer": (2.0, 0.0, 1801.0),
    "older than that, the other way": (9.0, 1801.0, 0.0),
}


@pytest.mark.parametrize(("wanted", "age_v4_s", "age_v6_s"), TWINS.values(), ids=TWINS)
async def test_several_checks_of_one_link(wanted: float, age_v4_s: float, age_v6_s: float) -> None:
    """Of two recent values of a link the worse counts, else the newer."""
    script = Script(
        {
            "/maddash/grids": grids("v4", "v6"),
            "/maddash/grids/v4": grid({("a", "b"): "Average delay is 2ms"}, checked_at_s=NOW_S - age_v4_s),
            "/maddash/grids/v6": grid({("a", "b"): "Average delay is 9ms"}, checked_at_s=NOW_S - age_v6_s),
        }
    )
    assert {("a", "b"): wanted} == values(await read(source(script)), Metric.DELAY)


async def test_missing_metrics_are_said_loudly() -> None:
    """MaDDash has no delay grid by default: that no grid shows a metric is a problem of its own."""
    script = Script({"/maddash/grids": grids("L"), "/maddash/grids/L": grid({("a", "b"): "Average loss is 1%"})})
    batch = await read(source(script))
    assert {"no grid gives a value of delay", "no grid gives a value of throughput"} == set(batch.problems)


async def test_a_clock_ahead_of_ours() -> None:
    """A check time in the future counts as now, or the value would stay young for as long."""
    script = Script(
        {
            "/maddash/grids": grids("L"),
            "/maddash/grids/L": grid({("a", "b"): "Average loss is 1%"}, checked_at_s=NOW_S + 3600.0),
        }
    )
    batch = await read(source(script))
    assert [m.measured_at_s for m in batch.measurements] == [NOW_S]
    assert batch.rejected["future_time"] == 1
    assert any("are in the future" in problem for problem in batch.problems)


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
    while not fetch.done():
        turns += 1
        await asyncio.sleep(0)
    batch = fetch.result()
    assert batch is not None
    assert len(batch.measurements) == 40_000
    assert turns > 50


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
