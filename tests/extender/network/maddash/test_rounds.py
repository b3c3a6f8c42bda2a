"""How the MaddashSource spends its requests, and what it keeps when a whole grid falls silent."""

import asyncio
from typing import Any

import httpx
import pytest

from extender.errors import NetworkSourceError
from extender.network.maddash.client import grid_path, grid_path_decoded_once
from extender.network.maddash.grid_choice import Wanted
from extender.network.maddash.source import MAX_GRIDS
from scoring.network.matrix import Metric
from tests.extender.beside import counting_turns
from tests.extender.network.maddash.scripted import LOSS, NOW_S, Script, cell, grid, grids, read, rows, server, values

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
    batch = await read(server(g=whole).source())
    assert values(batch) == {("a", "b"): 0.01, ("b", "a"): 0.01, ("b", "c"): 0.01}
    assert sum(batch.rejected.values()) == 1


async def test_bytes_that_are_no_text_in_one_cell() -> None:
    body = b"\xef\xbb\xbf" + grid(cell("a", "b"), cell("a", "c", "XX")).content.replace(b"XX", b"\xfc")
    batch = await read(server(g=httpx.Response(200, content=body)).source())
    assert values(batch) == {("a", "b"): 0.01}
    assert batch.rejected == {"bad_cell": 1}


async def test_a_grid_that_loses_all_values_at_once_keeps_them() -> None:
    """When the archive behind MaDDash is away every cell turns UNKNOWN: the values stay, old; single cells do not."""
    script = server(g=grid(cell("a", "b"), cell("b", "a")))
    one = script.source()
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
    one = script.source(Wanted(dict.fromkeys(Metric, ("Lab*", "Sea*"))))
    batch = await read(one)
    assert "no grid is called 'Sea*'" in batch.problems
    assert "grids/WAN" not in script.asked
    script.answers["grids"] = grids()
    script.answers["grids/Lab%2B1"] = grid(cell("a", "b", "Average packet loss is 4%"))
    assert values(await read(one, NOW_S + 60.0)) == {("a", "b"): 0.04}


@pytest.mark.looptime
async def test_values_from_the_future_age_all_the_same() -> None:
    """A time in the future counts from when it was first seen, though other cells of its grid go on changing."""
    ahead = {"prevCheckTime": int(NOW_S) + 86_400}
    script = server(g=grid(cell("a", "b") | ahead, cell("b", "a") | ahead))
    one = script.source()
    assert {m.measured_at_s for m in (await read(one)).measurements} == {NOW_S}
    await asyncio.sleep(500.0)
    newer = {"prevCheckTime": int(NOW_S) + 86_900}
    script.answers["grids/g"] = grid(cell("a", "b") | ahead, cell("b", "a") | newer)
    batch = await read(one, NOW_S + 500.0)
    assert {m.source: NOW_S + 500.0 - m.measured_at_s for m in batch.measurements} == {"a": 500.0, "b": 0.0}
    assert batch.rejected == {"future_time": 2}


@pytest.mark.looptime
async def test_hanging_grids_cannot_use_up_a_round() -> None:
    names = [f"hang{number}" for number in range(10)]
    script = Script({"grids": grids(*names, "quick"), "grids/quick": grid(cell("a", "b"))})
    script.pauses_s = {f"grids/{name}": 1e9 for name in names}
    one = script.source()
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
    batch = await read(script.source())
    assert len(script.asked) == MAX_GRIDS + 1
    assert batch.problems[0] == f"{MAX_GRIDS + 100} grids are listed: name those that count, only {MAX_GRIDS} are read"


async def test_the_loop_turns_while_a_large_mesh_is_read() -> None:
    ends = [f"ps{number}.zone-a.example.org" for number in range(100)]
    mesh = rows(*([None if a == b else [cell(a, b)] for b in ends] for a in ends))
    async with counting_turns() as turns:
        batch = await read(server(g=mesh).source())
    assert len(batch.measurements) == 9900
    assert turns() >= 100


@pytest.mark.parametrize("name", ["WAN/Edge - Loss", "Lab 100% A+B", "대역폭"])
@pytest.mark.parametrize("unknown", [httpx.Response(404), httpx.Response(500, text="Unable to find grid with name")])
async def test_a_proxy_that_decodes_addresses(name: str, unknown: httpx.Response) -> None:
    """A grid that is unknown is asked for in the other encoding, and found there directly from then on."""
    once, twice = (path(name).removeprefix("/") for path in (grid_path_decoded_once, grid_path))
    script = Script({"grids": grids(name), once: grid(cell("a", "b"))})
    script.unknown = unknown
    one = script.source()
    assert len((await read(one)).measurements) == 1
    await one.fetch(now_s=NOW_S + 60.0)
    assert script.asked == ["grids", twice, once, "grids", once]


async def test_a_grid_that_is_nowhere() -> None:
    script = Script({"grids": grids("A b", "plain")})
    with pytest.raises(NetworkSourceError, match=r"grid 'A b' failed: http://\S+/maddash/grids/A%2Bb: status") as said:
        await script.source().fetch(now_s=NOW_S)
    assert "A%20b" not in str(said.value)
    assert sorted(script.asked) == ["grids", "grids/A%20b", "grids/A%2Bb", "grids/plain"]
