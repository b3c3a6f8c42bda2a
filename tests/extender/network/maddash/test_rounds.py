"""How the MaddashSource spends its requests, and what it keeps when a whole grid falls silent."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import httpx
import pytest

from extender.errors import NetworkSourceError
from extender.network.maddash.client import MaddashServer, grid_path, grid_path_decoded_once
from extender.network.maddash.grid import read_grid, read_grid_in_slices
from extender.network.maddash.source import MAX_GRIDS, REST_RATIO, MaddashOptions, MaddashSource
from extender.network.maddash.values import choose_in_slices
from extender.network.maddash.wanted import Listed, Wanted
from extender.ports import Batch
from scoring.network.matrix import Metric
from tests.liveness import every_pause_is_taken

NOW_S = 1_800_000_000.0
LOSS = "Average packet loss is 1%"


def cell(row: str, column: str, message: str = LOSS, **fields: Any) -> dict[str, Any]:
    """A check as a grid has it."""
    uri = f"/maddash/grids/g/{row}/{column}/c"
    return {"uri": uri, "status": 0, "prevCheckTime": int(NOW_S), "message": message} | fields


def grid(*cells: Any) -> bytes:
    """A grid with one row, one check a cell."""
    return json.dumps({"rows": [], "grid": [[[one] for one in cells]]}).encode()


class Server(httpx.AsyncBaseTransport):
    """Answers 200 with a body by path, after a pause if there is one; counts."""

    def __init__(self, bodies: Mapping[str, bytes]) -> None:
        self.bodies = {f"/maddash/{path}": body for path, body in bodies.items()}
        self.pauses_s: dict[str, float] = {}
        self.unknown = httpx.Response(500, text="Index 6 out of bounds for length 6")
        self.asked: list[str] = []
        self.headers: dict[str, str] = {}
        self.seen: list[httpx.Request] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Answer."""
        path = request.url.raw_path.decode()
        self.asked.append(path.rpartition("/")[2])
        self.seen.append(request)
        await asyncio.sleep(self.pauses_s.get(path, 0.0))
        if self.headers and request.headers.get("if-none-match") == self.headers.get("ETag"):
            return httpx.Response(304)
        if path not in self.bodies:
            return httpx.Response(self.unknown.status_code, content=self.unknown.content)
        return httpx.Response(200, content=self.bodies[path], headers=self.headers)


def listed(*names: str) -> bytes:
    """A list of grids."""
    return json.dumps({"grids": [{"name": name} for name in names]}).encode()


def source(server: Server, **options: Any) -> MaddashSource:
    """A source that speaks to it."""
    return MaddashSource(MaddashServer("http://h/maddash", timeout_s=60.0), MaddashOptions(**options), transport=server)


async def read(one: MaddashSource, now_s: float = NOW_S) -> Batch:
    """A fetch that must give something."""
    batch = await one.fetch(now_s=now_s)
    assert batch is not None
    return batch


def losses(batch: Batch) -> dict[tuple[str, str], float]:
    """(source, target) → loss."""
    return {(m.source, m.target): m.value for m in batch.measurements if m.metric is Metric.LOSS}


BAD_CELLS = {  # case: a cell that makes no sense
    "status that is a text": cell("a", "x", status="0"),
    "status that is missing": {"uri": "/maddash/grids/g/a/x/c", "message": LOSS},
    "message that is a number": cell("a", "x", 5),  # type: ignore[arg-type]
    "message that is a list": cell("a", "x", [LOSS]),  # type: ignore[arg-type]
    "time that is a text": cell("a", "x", prevCheckTime="now"),
    "uri that is null": cell("a", "x", uri=None),
    "uri without parts": cell("a", "x", uri="x"),
    "a number": 5,
    "a text": "a",
    "a list": [],
    "over-long message": cell("a", "x", LOSS + " " * 5000),
    "infinite time": cell("a", "x", "Average packet loss is inf%"),
}


@pytest.mark.parametrize("bad", BAD_CELLS.values(), ids=BAD_CELLS)
async def test_one_bad_cell_never_spoils_a_grid(bad: Any) -> None:
    """Whatever one cell is, the other cells of its row and grid are read, and the bad one is counted."""
    body = json.dumps(
        {"rows": [], "grid": [[[cell("a", "b")], [bad], None], [None, [cell("b", "a"), cell("b", "c"), None]]]}
    ).encode()
    batch = await read(source(Server({"grids": listed("g"), "grids/g": body})))
    assert losses(batch) == {("a", "b"): 0.01, ("b", "a"): 0.01, ("b", "c"): 0.01}
    assert sum(batch.rejected.values()) == 1


BAD_PLACES = {  # case: a grid document with one wrong place that is no cell
    "row that is a number": {"rows": [], "grid": [5, [[cell("a", "b")]]]},
    "cell that is an object": {"rows": [], "grid": [[{}, [cell("a", "b")]]]},
    "rows of anything": {"rows": [5, None, {"uri": 7}, {"name": []}], "grid": [[[cell("a", "b")]]]},
    "names of anything": {"rows": [], "columnNames": {"a": 1}, "columnProps": [[]], "grid": [[[cell("a", "b")]]]},
    "properties of anything": {"rows": [{"uri": "/g/a", "props": {"map": [1]}}], "grid": [[[cell("a", "b")]]]},
}


@pytest.mark.parametrize("document", BAD_PLACES.values(), ids=BAD_PLACES)
async def test_one_bad_place_never_spoils_a_grid(document: dict[str, Any]) -> None:
    """A wrong row, label or property costs itself only."""
    body = json.dumps(document).encode()
    batch = await read(source(Server({"grids": listed("g"), "grids/g": body})))
    assert losses(batch) == {("a", "b"): 0.01}


async def test_bytes_that_are_no_text_in_one_cell() -> None:
    """A cell in another encoding is a bad cell; the mark some editors put first is no harm."""
    body = grid(cell("a", "b"), cell("a", "c", "XX")).replace(b"XX", b"\xfc")
    batch = await read(source(Server({"grids": listed("g"), "grids/g": b"\xef\xbb\xbf" + body})))
    assert losses(batch) == {("a", "b"): 0.01}
    assert batch.rejected == {"bad_cell": 1}


async def test_a_grid_that_loses_all_values_at_once_keeps_them() -> None:
    """When the archive behind MaDDash is away every cell turns UNKNOWN: the values stay, old; single cells do not."""
    server = Server({"grids": listed("g"), "grids/g": grid(cell("a", "b"), cell("b", "a"))})
    one = source(server)
    await read(one)
    gone = {"status": 3, "message": "Error with underlying check", "prevCheckTime": int(NOW_S) + 60}
    server.bodies["/maddash/grids/g"] = grid(cell("a", "b") | gone, cell("b", "a") | gone)
    batch = await read(one, NOW_S + 60.0)
    assert losses(batch) == {("a", "b"): 0.01, ("b", "a"): 0.01}
    assert {m.measured_at_s for m in batch.measurements} == {NOW_S}
    said = "grid 'g' has lost all its values at once: its last good values stay"
    assert said in batch.problems
    assert await one.fetch(now_s=NOW_S + 120.0) is None
    server.bodies["/maddash/grids/g"] = grid(cell("a", "b", "Average packet loss is 2%"), cell("b", "a") | gone)
    batch = await read(one, NOW_S + 180.0)
    assert losses(batch) == {("a", "b"): 0.02}
    assert said not in batch.problems


async def test_grids_of_a_dashboard() -> None:
    """With a dashboard named, only its grids are asked for; one that it names and nobody has is no request."""
    boards = {
        "dashboards": [{"name": "Lab", "grids": [{"name": "g"}, {"name": "nowhere"}]}, {"name": "B", "grids": []}]
    }
    server = Server(
        {
            "grids": listed("g", "other"),
            "dashboards": json.dumps(boards).encode(),
            "grids/g": grid(cell("a", "b")),
            "grids/other": grid(cell("a", "b", "Average packet loss is 9%")),
        }
    )
    one = source(server, wanted=Wanted(dashboards=dict.fromkeys(Metric, ("La*",))))
    assert losses(await read(one)) == {("a", "b"): 0.01}
    assert server.asked == ["grids", "dashboards", "g"]
    server.bodies["/maddash/dashboards"] = b'{"dashboards":[]}'  # as in a reload
    server.bodies["/maddash/grids/g"] = grid(cell("a", "b", "Average packet loss is 3%"))
    assert losses(await read(one, NOW_S + 60.0)) == {("a", "b"): 0.03}
    del server.bodies["/maddash/dashboards"]
    batch = await read(one, NOW_S + 120.0)
    assert losses(batch) == {("a", "b"): 0.03}
    assert any("/dashboards: status 500" in problem for problem in batch.problems)


async def test_a_pattern_outlives_an_empty_list() -> None:
    """Grids found by a pattern keep their values while the list is empty; a pattern that meets nothing is said."""
    server = Server({"grids": listed("Lab 1", "WAN"), "grids/Lab%2B1": grid(cell("a", "b"))})
    one = source(server, wanted=Wanted(dict.fromkeys(Metric, ("Lab*", "Sea*"))))
    batch = await read(one)
    assert "no grid is called 'Sea*'" in batch.problems
    assert "WAN" not in server.asked
    server.bodies["/maddash/grids"] = listed()
    server.bodies["/maddash/grids/Lab%2B1"] = grid(cell("a", "b", "Average packet loss is 4%"))
    assert losses(await read(one, NOW_S + 60.0)) == {("a", "b"): 0.04}


async def test_conditional_requests() -> None:
    """A proxy that gives ETags is asked with them, and a 304 is a grid as good as read."""
    server = Server({"grids/g": grid(cell("a", "b"))})
    server.headers = {"ETag": '"v1"'}
    one = source(server, wanted=Wanted(dict.fromkeys(Metric, ("g",))))
    await read(one)
    assert await one.fetch(now_s=NOW_S + 60.0) is None
    assert [request.headers.get("if-none-match") for request in server.seen] == [None, '"v1"']
    server.headers = {"ETag": '"v2"'}
    server.bodies["/maddash/grids/g"] = grid(cell("a", "b", "Average packet loss is 5%"))
    assert losses(await read(one, NOW_S + 120.0)) == {("a", "b"): 0.05}


@pytest.mark.looptime
async def test_values_from_the_future_age_all_the_same() -> None:
    """A time in the future counts from when it was first seen, though other cells of its grid go on changing."""
    ahead = {"prevCheckTime": int(NOW_S) + 86_400}
    server = Server({"grids": listed("g"), "grids/g": grid(cell("a", "b") | ahead, cell("b", "a") | ahead)})
    one = source(server)
    assert {m.measured_at_s for m in (await read(one)).measurements} == {NOW_S}
    await asyncio.sleep(500.0)
    newer = {"prevCheckTime": int(NOW_S) + 86_900}
    server.bodies["/maddash/grids/g"] = grid(cell("a", "b") | ahead, cell("b", "a") | newer)
    batch = await read(one, NOW_S + 500.0)
    assert {m.source: NOW_S + 500.0 - m.measured_at_s for m in batch.measurements} == {"a": 500.0, "b": 0.0}
    assert batch.rejected == {"future_time": 2}


@pytest.mark.looptime
async def test_our_own_clock_is_set() -> None:
    """Times that were in the future because our clock was behind are what they say once it is right."""
    server = Server({"grids": listed("g"), "grids/g": grid(cell("a", "b"))})
    one = source(server)
    assert [m.measured_at_s for m in (await read(one, NOW_S - 7200.0)).measurements] == [NOW_S - 7200.0]
    await asyncio.sleep(60.0)
    batch = await read(one, NOW_S + 60.0)
    assert [m.measured_at_s for m in batch.measurements] == [NOW_S]
    assert "future_time" not in batch.rejected


@pytest.mark.looptime
async def test_slow_grids_are_asked_less_often() -> None:
    """A grid that takes ten seconds rests forty; the quick one is read in each round."""
    server = Server({"grids": listed("quick", "slow"), "grids/quick": grid(cell("a", "b")), "grids/slow": grid()})
    server.bodies["/maddash/grids/slow"] = grid(cell("c", "d"))
    server.pauses_s["/maddash/grids/slow"] = 10.0
    one = source(server)
    for number in range(5):
        await one.fetch(now_s=NOW_S + 15.0 * number)
    assert server.asked.count("quick") == 5
    assert server.asked.count("slow") == 2  # at 0 s and, after REST_RATIO · 10 s, at 45 s
    assert REST_RATIO == 4.0


@pytest.mark.looptime
async def test_hanging_grids_cannot_use_up_a_round() -> None:
    """Grids that hang end with the round; each gets its turn, and one that answers is read in every later round."""
    names = [f"hang{number}" for number in range(10)]
    server = Server({"grids": listed(*names, "quick"), "grids/quick": grid(cell("a", "b"))})
    server.pauses_s = {f"/maddash/grids/{name}": 1e9 for name in names}
    one = source(server, round_s=120.0)
    loop = asyncio.get_running_loop()
    for _ in range(2):
        with pytest.raises(NetworkSourceError, match="within"):
            await one.fetch(now_s=NOW_S + loop.time())
    assert loop.time() == pytest.approx(240.0, abs=0.1)
    batch = await read(one, NOW_S + loop.time())
    assert losses(batch) == {("a", "b"): 0.01}
    server.asked.clear()
    for number in range(1, 4):
        server.bodies["/maddash/grids/quick"] = grid(cell("a", "b", f"Average packet loss is {number}0%"))
        batch = await read(one, NOW_S + loop.time())
        assert losses(batch) == {("a", "b"): number / 10.0}
    assert server.asked.count("quick") == 3
    assert len(batch.problems) <= 20


async def test_a_server_with_endless_grids() -> None:
    """However many grids are listed, a bounded number is kept and read, and it is said."""
    server = Server(
        {"grids": listed(*(f"g{number}" for number in range(MAX_GRIDS + 100))), "grids/g0": grid(cell("a", "b"))}
    )
    batch = await read(source(server))
    assert len(server.asked) == MAX_GRIDS + 1
    assert batch.problems[0] == f"{MAX_GRIDS + 100} grids are listed: name those that count, only {MAX_GRIDS} are read"


@pytest.mark.parametrize("shape", [(100, 100), (1, 2000)], ids=["100 ends", "one long row"])
def test_large_grids_are_worked_on_in_small_slices(shape: tuple[int, int]) -> None:
    """Between two slices lie at most 200 cells of parsing and 100 values of choosing, however long a row is."""
    rows, columns = shape
    cells = [[[cell(f"r{row}", f"c{column}")] for column in range(columns)] for row in range(rows)]
    body = json.dumps({"rows": [], "grid": cells}).encode()
    slices = sum(1 for _ in read_grid_in_slices(body, name="g"))
    assert slices >= max(rows, rows * columns // 200)
    reading = read_grid(body, name="g")
    assert len(reading.values) == rows * columns
    places = Wanted().among(Listed(("g",), {}))
    assert sum(1 for _ in choose_in_slices([reading], places)) >= rows * columns // 100


async def test_the_loop_turns_while_a_large_mesh_is_read() -> None:
    """Other tasks get their turn after each row at the latest during a fetch of 100 ends."""
    ends = [f"ps{number}.zone-a.example.org" for number in range(100)]
    body = json.dumps({"rows": [], "grid": [[None if a == b else [cell(a, b)] for b in ends] for a in ends]}).encode()
    one = source(Server({"grids": listed("g"), "grids/g": body}))
    fetch = asyncio.create_task(one.fetch(now_s=NOW_S))
    turns = 0
    with every_pause_is_taken():
        while not fetch.done():
            await asyncio.sleep(0)
            turns += 1
    batch = fetch.result()
    assert batch is not None
    assert len(batch.measurements) == 9900
    assert turns >= 100, "at least once in each row"


WEB_ADDRESSES = {  # what people copy: the list that is asked for
    "https://h/maddash-webui/": "https://h/maddash/grids",
    "https://h/maddash-webui/index.cgi": "https://h/maddash/grids",
    "https://h/maddash-webui/index.cgi?dashboard=Lab": None,
    "https://h/maddash/grids": "https://h/maddash/grids",
    "https://h/site/maddash/dashboards/": "https://h/site/maddash/grids",
    "https://h:8443/a%20b": "https://h:8443/a%20b/grids",
}


@pytest.mark.parametrize("address", [one for one, wanted in WEB_ADDRESSES.items() if wanted is not None])
async def test_addresses_of_pages(address: str) -> None:
    """The address of the web page, or of a list, leads to the REST API beside it."""
    server = Server({})
    one = MaddashSource(MaddashServer(address), transport=server)
    with pytest.raises(NetworkSourceError):
        await one.fetch(now_s=NOW_S)
    assert [WEB_ADDRESSES[address]] == [str(request.url) for request in server.seen]


@pytest.mark.parametrize("name", ["WAN/Edge - Loss", "Lab 100% A+B", "대역폭"])
@pytest.mark.parametrize("unknown", [httpx.Response(404), httpx.Response(500, text="Unable to find grid with name")])
async def test_a_proxy_that_decodes_addresses(name: str, unknown: httpx.Response) -> None:
    """A grid that is unknown is asked for in the other encoding, and found there directly from then on."""
    once = grid_path_decoded_once(name).removeprefix("/")
    server = Server({"grids": listed(name), once: grid(cell("a", "b"))})
    server.unknown = unknown
    one = source(server)
    batch = await one.fetch(now_s=NOW_S)
    assert batch is not None
    assert len(batch.measurements) == 1
    await one.fetch(now_s=NOW_S + 60.0)
    paths = [request.url.raw_path.decode().removeprefix("/maddash") for request in server.seen]
    found = grid_path_decoded_once(name)
    assert paths == ["/grids", grid_path(name), found, "/grids", found]


async def test_a_grid_that_is_nowhere() -> None:
    """What is said answers the address as MaDDash wants it; a name that needs no encoding is asked for once."""
    server = Server({"grids": listed("A b", "plain")})
    server.unknown = httpx.Response(404, text="Row resource not found")
    with pytest.raises(NetworkSourceError, match="grid 'A b' failed: http://h/maddash/grids/A%2Bb: status") as said:
        await source(server).fetch(now_s=NOW_S)
    assert "A%20b" not in str(said.value)
    assert sorted(server.asked) == ["A%20b", "A%2Bb", "grids", "plain"]
