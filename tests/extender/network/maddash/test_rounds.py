"""How the MaddashSource spends its requests, and what it keeps when a whole grid falls silent."""

import asyncio
from typing import Any

import httpx
import pytest

from extender.errors import NetworkSourceError
from extender.network.maddash.client import grid_path, grid_path_decoded_once
from extender.network.maddash.grid import read_grid_in_slices
from extender.network.maddash.grid_choice import Wanted
from extender.network.maddash.last_good import REST_RATIO
from extender.network.maddash.source import MAX_GRIDS
from extender.network.maddash.values import choose_in_slices
from scoring.network.matrix import Metric
from tests.extender.network.maddash.scripted import (
    LOSS,
    NOW_S,
    Script,
    cell,
    grid,
    grids,
    read,
    rows,
    server,
    source,
    values,
)
from tests.extender.network.recorded import read_grid
from tests.liveness import every_pause_is_taken

BAD_CELLS = {  # case: a cell that makes no sense
    "status that is a text": cell("a", "x", status="0"),
    "status that is missing": {"uri": "grids/g/a/x/c", "message": LOSS},
    "message that is a number": cell("a", "x", 5),
    "message that is a list": cell("a", "x", [LOSS]),
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
    whole = rows([[cell("a", "b")], [bad], None], [None, [cell("b", "a"), cell("b", "c"), None]])
    batch = await read(source(server(g=whole)))
    assert values(batch) == {("a", "b"): 0.01, ("b", "a"): 0.01, ("b", "c"): 0.01}
    assert sum(batch.rejected.values()) == 1


async def test_bytes_that_are_no_text_in_one_cell() -> None:
    body = b"\xef\xbb\xbf" + grid(cell("a", "b"), cell("a", "c", "XX")).content.replace(b"XX", b"\xfc")
    batch = await read(source(server(g=httpx.Response(200, content=body))))
    assert values(batch) == {("a", "b"): 0.01}
    assert batch.rejected == {"bad_cell": 1}


async def test_a_grid_that_loses_all_values_at_once_keeps_them() -> None:
    """When the archive behind MaDDash is away every cell turns UNKNOWN: the values stay, old; single cells do not."""
    script = server(g=grid(cell("a", "b"), cell("b", "a")))
    one = source(script)
    await read(one)
    gone = {"status": 3, "message": "Error with underlying check", "prevCheckTime": int(NOW_S) + 60}
    script.answers["grids/g"] = grid(cell("a", "b") | gone, cell("b", "a") | gone)
    batch = await read(one, NOW_S + 60.0)
    assert values(batch) == {("a", "b"): 0.01, ("b", "a"): 0.01}
    assert {m.measured_at_s for m in batch.measurements} == {NOW_S}
    said = "grid 'g' has lost all its values at once: its last good values stay"
    assert said in batch.problems
    assert await one.fetch(now_s=NOW_S + 120.0) is None
    script.answers["grids/g"] = grid(cell("a", "b", "Average packet loss is 2%"), cell("b", "a") | gone)
    batch = await read(one, NOW_S + 180.0)
    assert values(batch) == {("a", "b"): 0.02}
    assert said not in batch.problems


async def test_a_pattern_outlives_an_empty_list() -> None:
    script = Script({"grids": grids("Lab 1", "WAN"), "grids/Lab%2B1": grid(cell("a", "b"))})
    one = source(script, Wanted(dict.fromkeys(Metric, ("Lab*", "Sea*"))))
    batch = await read(one)
    assert "no grid is called 'Sea*'" in batch.problems
    assert "grids/WAN" not in script.asked
    script.answers["grids"] = grids()
    script.answers["grids/Lab%2B1"] = grid(cell("a", "b", "Average packet loss is 4%"))
    assert values(await read(one, NOW_S + 60.0)) == {("a", "b"): 0.04}


async def test_conditional_requests() -> None:
    """A proxy that gives ETags is asked with them, and a 304 is a grid as good as read."""
    script = Script({"grids/g": grid(cell("a", "b"))})
    script.etag = '"v1"'
    one = source(script, Wanted(dict.fromkeys(Metric, ("g",))))
    await read(one)
    assert await one.fetch(now_s=NOW_S + 60.0) is None
    assert [request.headers.get("if-none-match") for request in script.seen] == [None, '"v1"']
    script.etag = '"v2"'
    script.answers["grids/g"] = grid(cell("a", "b", "Average packet loss is 5%"))
    assert values(await read(one, NOW_S + 120.0)) == {("a", "b"): 0.05}


@pytest.mark.looptime
async def test_values_from_the_future_age_all_the_same() -> None:
    """A time in the future counts from when it was first seen, though other cells of its grid go on changing."""
    ahead = {"prevCheckTime": int(NOW_S) + 86_400}
    script = server(g=grid(cell("a", "b") | ahead, cell("b", "a") | ahead))
    one = source(script)
    assert {m.measured_at_s for m in (await read(one)).measurements} == {NOW_S}
    await asyncio.sleep(500.0)
    newer = {"prevCheckTime": int(NOW_S) + 86_900}
    script.answers["grids/g"] = grid(cell("a", "b") | ahead, cell("b", "a") | newer)
    batch = await read(one, NOW_S + 500.0)
    assert {m.source: NOW_S + 500.0 - m.measured_at_s for m in batch.measurements} == {"a": 500.0, "b": 0.0}
    assert batch.rejected == {"future_time": 2}


@pytest.mark.looptime
async def test_our_own_clock_is_set() -> None:
    script = server(g=grid(cell("a", "b")))
    one = source(script)
    assert [m.measured_at_s for m in (await read(one, NOW_S - 7200.0)).measurements] == [NOW_S - 7200.0]
    await asyncio.sleep(60.0)
    batch = await read(one, NOW_S + 60.0)
    assert [m.measured_at_s for m in batch.measurements] == [NOW_S]
    assert "future_time" not in batch.rejected


@pytest.mark.looptime
async def test_slow_grids_are_asked_less_often() -> None:
    bodies = {"grids/quick": grid(cell("a", "b")), "grids/slow": grid(cell("c", "d"))}
    script = Script({"grids": grids("quick", "slow"), **bodies})
    script.pauses_s["grids/slow"] = 10.0
    one = source(script)
    for number in range(5):
        await one.fetch(now_s=NOW_S + 15.0 * number)
    assert script.asked.count("grids/quick") == 5
    assert script.asked.count("grids/slow") == 2  # at 0 s and, after REST_RATIO · 10 s, at 45 s
    assert REST_RATIO == 4.0


@pytest.mark.looptime
async def test_hanging_grids_cannot_use_up_a_round() -> None:
    names = [f"hang{number}" for number in range(10)]
    script = Script({"grids": grids(*names, "quick"), "grids/quick": grid(cell("a", "b"))})
    script.pauses_s = {f"grids/{name}": 1e9 for name in names}
    one = source(script)
    loop = asyncio.get_running_loop()
    for _ in range(2):
        with pytest.raises(NetworkSourceError, match="within"):
            await one.fetch(now_s=NOW_S + loop.time())
    assert loop.time() == pytest.approx(240.0, abs=0.1)
    batch = await read(one, NOW_S + loop.time())
    assert values(batch) == {("a", "b"): 0.01}
    script.seen.clear()
    for number in range(1, 4):
        script.answers["grids/quick"] = grid(cell("a", "b", f"Average packet loss is {number}0%"))
        batch = await read(one, NOW_S + loop.time())
        assert values(batch) == {("a", "b"): number / 10.0}
    assert script.asked.count("grids/quick") == 3
    assert len(batch.problems) <= 20


async def test_a_server_with_endless_grids() -> None:
    script = Script(
        {"grids": grids(*(f"g{number}" for number in range(MAX_GRIDS + 100))), "grids/g0": grid(cell("a", "b"))}
    )
    batch = await read(source(script))
    assert len(script.asked) == MAX_GRIDS + 1
    assert batch.problems[0] == f"{MAX_GRIDS + 100} grids are listed: name those that count, only {MAX_GRIDS} are read"


@pytest.mark.parametrize("shape", [(100, 100), (1, 2000)], ids=["100 ends", "one long row"])
def test_large_grids_are_worked_on_in_small_slices(shape: tuple[int, int]) -> None:
    lines, columns = shape
    cells = [[[cell(f"r{row}", f"c{column}")] for column in range(columns)] for row in range(lines)]
    body = rows(*cells).content
    assert sum(1 for _ in read_grid_in_slices(body, name="g")) >= max(lines, lines * columns // 200)
    reading = read_grid(body, name="g")
    assert len(reading.values) == lines * columns
    places = Wanted().among(("g",))
    assert sum(1 for _ in choose_in_slices([reading], places)) >= lines * columns // 100


async def test_the_loop_turns_while_a_large_mesh_is_read() -> None:
    ends = [f"ps{number}.zone-a.example.org" for number in range(100)]
    mesh = rows(*([None if a == b else [cell(a, b)] for b in ends] for a in ends))
    fetch = asyncio.create_task(read(source(server(g=mesh))))
    turns = 0
    with every_pause_is_taken():
        while not fetch.done():
            await asyncio.sleep(0)
            turns += 1
    assert len(fetch.result().measurements) == 9900
    assert turns >= 100, "at least once in each row"


@pytest.mark.parametrize("name", ["WAN/Edge - Loss", "Lab 100% A+B", "대역폭"])
@pytest.mark.parametrize("unknown", [httpx.Response(404), httpx.Response(500, text="Unable to find grid with name")])
async def test_a_proxy_that_decodes_addresses(name: str, unknown: httpx.Response) -> None:
    """A grid that is unknown is asked for in the other encoding, and found there directly from then on."""
    once, twice = (path(name).removeprefix("/") for path in (grid_path_decoded_once, grid_path))
    script = Script({"grids": grids(name), once: grid(cell("a", "b"))})
    script.unknown = unknown
    one = source(script)
    assert len((await read(one)).measurements) == 1
    await one.fetch(now_s=NOW_S + 60.0)
    assert script.asked == ["grids", twice, once, "grids", once]


async def test_a_grid_that_is_nowhere() -> None:
    script = Script({"grids": grids("A b", "plain")})
    with pytest.raises(NetworkSourceError, match=r"grid 'A b' failed: http://\S+/maddash/grids/A%2Bb: status") as said:
        await source(script).fetch(now_s=NOW_S)
    assert "A%20b" not in str(said.value)
    assert sorted(script.asked) == ["grids", "grids/A%20b", "grids/A%2Bb", "grids/plain"]
