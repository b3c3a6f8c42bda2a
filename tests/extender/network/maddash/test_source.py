"""The MaddashSource against scripted answers: which grids it reads, what stays when they fail, what spoils nothing."""

import asyncio
from collections.abc import Mapping
from typing import Any

import httpx
import pytest

from extender.errors import ConfigError, NetworkSourceError
from extender.network.maddash import MAX_GRIDS, MaddashSource, read_grids
from extender.settings.network import MaddashSettings
from extender.settings.settings import Settings
from scoring.network.matrix import Metric
from tests.extender.beside import counting_turns
from tests.extender.network import recorded
from tests.extender.network.maddash import scripted
from tests.extender.network.maddash.scripted import NOW_S, Script, cell, good, grid, grids, read, server, values
from tests.extender.network.world import START_S

# -- which grids and checks count --------------------------------------------------------------------------------------

LISTED = ("Lab - Loss", "Lab - Delay", "Lab [v4] - Loss", "Lab v - Loss", "WAN/Edge - Loss", "100% A+B", "lab - loss")
NAMED = {  # case: (names, grids that count)
    "exact name": (("Lab - Loss",), {"Lab - Loss"}),
    "several names": (("Lab - Loss", "WAN/Edge - Loss"), {"Lab - Loss", "WAN/Edge - Loss"}),
    "star": (("* - Loss",), {"Lab - Loss", "Lab [v4] - Loss", "Lab v - Loss", "WAN/Edge - Loss"}),
    "question mark": (("Lab ? - Loss",), {"Lab v - Loss"}),
    "a name that looks like a pattern is that name": (("Lab [v4] - Loss",), {"Lab [v4] - Loss"}),
    "set of characters": (("Lab [vw] - Loss",), {"Lab v - Loss"}),
    "upper and lower case differ": (("lab - *",), {"lab - loss"}),
    "percent and plus are no signs": (("100% A+B",), {"100% A+B"}),
    "a plain name that is not listed": (("New",), {"New"}),
}


@pytest.mark.parametrize(("names", "wanted"), NAMED.values(), ids=NAMED)
async def test_grids_by_name_and_pattern(names: tuple[str, ...], wanted: set[str]) -> None:
    script = Script({"grids": grids(*LISTED)}, unknown=grid(cell("a", "b")))
    await read(script.source(grids=dict.fromkeys(Metric, names)))
    assert {path for path in script.asked if path != "grids"} == {scripted.path(name) for name in wanted}


ASKED = {  # case: (names by metric, whether the server is asked for its grids)
    "all grids by name": (dict.fromkeys(Metric, ("g",)), False),
    "a pattern": ({Metric.LOSS: ("g*",), Metric.DELAY: ("g",), Metric.THROUGHPUT: ("g",)}, True),
    "nothing said": ({}, True),
}


@pytest.mark.parametrize(("names", "asked"), ASKED.values(), ids=ASKED)
async def test_no_request_without_need(names: dict[Metric, tuple[str, ...]], asked: bool) -> None:
    script = server(g=grid(cell("a", "b")))
    await read(script.source(grids=names))
    assert asked == ("grids" in script.asked)


async def test_a_pattern_outlives_an_empty_list() -> None:
    script = Script({"grids": grids("Lab 1", "WAN"), "grids/Lab%2B1": grid(cell("a", "b"))})
    one = script.source(grids=dict.fromkeys(Metric, ("Lab*", "Sea*")))
    assert "no grid is called 'Sea*'" in (await read(one)).problems
    assert "grids/WAN" not in script.asked
    script.answers |= {"grids": grids(), "grids/Lab%2B1": grid(cell("a", "b", "Average packet loss is 4%"))}
    assert values(await read(one, NOW_S + 60.0)) == {("a", "b"): 0.04}


def test_lists_are_read_entry_by_entry() -> None:
    body = b'{"grids":[{"name":"b"},{"name":5},null,"c",{"uri":"/x"},{"name":""},{"name":"a"},{"name":"b"}]}'
    assert read_grids(b"\xef\xbb\xbf" + body, where="here") == ("a", "b")


NO_LISTS = [b"", b"<html>", b"[]", b"{}", b'{"grids":{}}', b'{"grids":null}', b"\xff", b"[" * 9999]


@pytest.mark.parametrize("body", NO_LISTS)
def test_no_list(body: bytes) -> None:
    with pytest.raises(NetworkSourceError, match="http://h/grids is not a list of grids"):
        read_grids(body, where="http://h/grids")


WRITTEN: dict[str, tuple[object, dict[Metric, tuple[str, ...]]]] = {  # case: (as written, by metric)
    "a text": ("Lab*", dict.fromkeys(Metric, ("Lab*",))),
    "a list": (["A", "B*"], dict.fromkeys(Metric, ("A", "B*"))),
    "by metric": ({"loss": "L, M", "delay": ["D", "E"]}, {Metric.LOSS: ("L, M",), Metric.DELAY: ("D", "E")}),
    "nothing": ({}, {}),
}


def settings(**fields: object) -> MaddashSettings:
    source = {"kind": "maddash", "url": "https://h/maddash", **fields}
    [made] = Settings.load(overrides={"network.sources": [source]}).network.sources
    assert isinstance(made, MaddashSettings)
    return made


@pytest.mark.parametrize(("written", "wanted"), WRITTEN.values(), ids=WRITTEN)
@pytest.mark.parametrize("place", ["grids", "checks"])
def test_names_as_they_are_written(place: str, written: object, wanted: dict[Metric, tuple[str, ...]]) -> None:
    assert wanted == getattr(settings(**{place: written}), place)


@pytest.mark.parametrize("written", [[], "", [""], {"speed": "x"}, 5, {"loss": []}])
def test_names_that_mean_nothing(written: object) -> None:
    with pytest.raises(ConfigError):
        settings(grids=written)


def site() -> Script:
    names = {"grids": "grids", **{f"grids/{name}": f"grid-{name.lower()}" for name in (*scripted.GRIDS, "Random")}}
    names["grids/Lab%2Bmesh%2B-%2Bthroughput%2B-%2BThroughput"] = "grid-reverse"
    empty = {"grids/Empty": scripted.recording("grid-empty-500.txt", status=500)}
    return Script({name: scripted.recording(f"{file}.json") for name, file in names.items()} | empty)


async def test_configured_grids() -> None:
    script = site()
    names = {Metric.LOSS: ("Loss",), Metric.DELAY: ("Delay",), Metric.THROUGHPUT: ("Throughput",)}
    batch = await read(script.source(grids=names))
    assert sorted(script.asked) == ["grids/Delay", "grids/Loss", "grids/Throughput"]
    assert ({*recorded.ENDS.values()}, batch.fetched_at_s) == ({one.id for one in batch.endpoints}, NOW_S)
    statuses = {"not_run": 1, "maintenance": 1, "custom_status": 1, "unknown_status": 2 + 1 + 2}
    assert batch.rejected == {"negative_delay": 1, **statuses}


async def test_discovery_by_messages() -> None:
    script = site()
    batch = await read(script.source())
    assert {"grids/WAN%252FEdge%2B-%2BLoss", "grids/Lab%2B100%2525%2BA%252BB"} <= {*script.asked}
    # both throughput grids show the same pairs: the same value twice, and it is said
    assert values(batch, Metric.THROUGHPUT) == pytest.approx(recorded.THROUGHPUT)
    assert batch.rejected["duplicate"] == 16
    assert any("several tests" in problem for problem in batch.problems)
    assert any(p.startswith("grid 'Empty' failed: http://maddash.lab.example") for p in batch.problems)


@pytest.mark.parametrize("checks", [(), ("Throughput",)], ids=["all checks", "one of its checks"])
async def test_one_configured_grid(checks: tuple[str, ...]) -> None:
    chosen = {Metric.THROUGHPUT: ("Lab mesh - throughput - Throughput",)}
    batch = await read(site().source(grids=chosen, checks={Metric.THROUGHPUT: checks} if checks else {}))
    assert values(batch, Metric.THROUGHPUT) == pytest.approx(recorded.FORWARD if checks else recorded.BOTH)
    assert values(batch, Metric.LOSS) == pytest.approx(recorded.LOSS, abs=1e-15)


async def test_missing_metrics_are_said_loudly() -> None:
    """MaDDash has no delay grid by default: that no grid shows a metric is a problem of its own."""
    batch = await read(server(L=grid(cell("a", "b", "Average loss is 1%"))).source())
    assert {"no grid gives a value of delay", "no grid gives a value of throughput"} == set(batch.problems)


# -- what a grid says --------------------------------------------------------------------------------------------------

BAD_CELLS = {  # case: a cell that makes no sense
    "status that is a text": cell("a", "x", status="0"),
    "status that is missing": {"uri": "grids/g/a/x/c", "message": scripted.LOSS},
    "message that is a number": cell("a", "x", 5),
    "message that is a list": cell("a", "x", [scripted.LOSS]),
    "time that is a text": cell("a", "x", prevCheckTime="now"),
    "time of never": cell("a", "x", prevCheckTime=0),
    "no time": cell("a", "x", prevCheckTime=None),
    "uri that is null": cell("a", "x", uri=None),
    "uri without parts": cell("a", "x", uri="x"),
    "uri without a column": cell("a", ""),
    "a link to itself": cell("a", "a"),
    "a number": 5,
    "a text": "a",
    "a list": [],
    "over-long message": cell("a", "x", scripted.LOSS + " " * 5000),
    "infinite value": cell("a", "x", "Average packet loss is inf%"),
    "bytes that are no text": cell("a", "x", "XX"),
}


@pytest.mark.parametrize("bad", BAD_CELLS.values(), ids=BAD_CELLS)
async def test_one_bad_cell_never_spoils_a_grid(bad: Any) -> None:
    whole = scripted.rows([[cell("a", "b")], [bad], None], [None, [cell("b", "a"), cell("b", "c"), None]])
    body = b"\xef\xbb\xbf" + whole.content.replace(b"XX", b"\xfc")
    batch = await read(server(g=httpx.Response(200, content=body)).source())
    assert values(batch) == {("a", "b"): 0.01, ("b", "a"): 0.01, ("b", "c"): 0.01}
    assert sum(batch.rejected.values()) == 1


NOT_GRIDS = {  # case: body
    "error text": recorded.body("grid-unknown-500.txt"),
    "another error text": recorded.body("grid-empty-500.txt"),
    "nothing": b"",
    "a page": b"<html><body>log in</body></html>",
    "cut off": recorded.body("grid-loss.json")[:3000],
    "a list": b"[]",
    "no rows": b'{"grid":[]}',
    "row that is a number": b'{"rows":[],"grid":[1]}',
    "status that is a text": b'{"rows":[],"grid":[[[{"uri":"/g/a/b/c","status":"0"}]]]}',
    "bytes that are no text": b'{"rows":[],"grid":[[[{"uri":"/g/a/b/\xff","status":0}]]]}',
    "deep": b'{"rows":[],"grid":[' + b"[" * 100_000,
}


@pytest.mark.parametrize("body", NOT_GRIDS.values(), ids=NOT_GRIDS)
def test_not_a_grid(body: bytes) -> None:
    with pytest.raises(NetworkSourceError, match="the answer is not a grid document"):
        scripted.reading(body)


def test_endpoints_have_labels_and_addresses_as_aliases() -> None:
    assert scripted.reading(recorded.body("grid-loss.json")).aliases == {
        "2001:db8:c::2": ("s6 (IPv6)",),
        "ps1.zone-a.example.org": ("s1 zone-a", "192.0.2.11"),
        "ps2.zone-a.example.org": ("s2 zone-a",),
        "ps1.zone-b.example.org": ("s3 zone-b",),
        "ps2.zone-b.example.org": (),
        "ps1.zone-c.example.org": ("s5 Zürich",),
    }
    columns = scripted.reading(recorded.body("grid-reverse.json")).aliases  # of disjoint groups
    assert (columns["ps1.zone-b.example.org"], len(columns)) == (("s3 zone-b",), 6)  # type: ignore[index]


async def test_half_round_trip_only_without_one_way_delay() -> None:
    """Beside one: `test_opensearch`."""
    batch = await read(server(RTT=grid(cell("a", "b", "Average minimum rtt is 3ms"))).source())
    assert values(batch, Metric.DELAY) == {("a", "b"): 1.5}
    assert any("round-trip times: half of each" in problem for problem in batch.problems)


TWINS = {  # case: (expected delay, age of v4's value, age of v6's)
    "equally new: the worse": (9.0, 0.0, 0.0),
    "within half an hour: the worse": (9.0, 0.0, 1800.0),
    "older than that: the newer": (2.0, 0.0, 1801.0),
    "older than that, the other way": (9.0, 1801.0, 0.0),
}


@pytest.mark.parametrize(("wanted", "age_v4_s", "age_v6_s"), TWINS.values(), ids=TWINS)
async def test_several_checks_of_one_link(wanted: float, age_v4_s: float, age_v6_s: float) -> None:
    v4 = grid(cell("a", "b", "Average delay is 2ms", prevCheckTime=int(NOW_S - age_v4_s)))
    v6 = grid(cell("a", "b", "Average delay is 9ms", prevCheckTime=int(NOW_S - age_v6_s)))
    assert {("a", "b"): wanted} == values(await read(server(v4=v4, v6=v6).source()), Metric.DELAY)


# -- what stays when something fails -----------------------------------------------------------------------------------

AWAY = "Error with underlying check"
BEFORE = {("a", "b"): 0.01, ("b", "a"): 0.01}
UNKNOWN = scripted.recording("grid-unknown-500.txt", status=500)
NEW, GONE = cell("a", "b", "Average packet loss is 2%"), cell("b", "a", "Unable to find any tests with data", status=3)
LATER: dict[str, tuple[httpx.Response, dict[tuple[str, str], float]]] = {  # case: (the grid's next answer, values then)
    "the server is in the middle of a reload": (grid(NEW), {("a", "b"): 0.02, ("b", "a"): 0.01}),
    "a single cell has no value: it is unknown at once": (grid(NEW, GONE), {("a", "b"): 0.02}),
    "checks that are new have not run": (grid(cell("a", "b", "-"), cell("b", "a", "-")), BEFORE),
    "the archive behind it is away": (grid(*(cell(a, b, AWAY, status=3) for a, b in ("ab", "ba"))), BEFORE),
    "an error": (UNKNOWN, BEFORE),
}


@pytest.mark.parametrize(("answer", "new"), LATER.values(), ids=LATER)
async def test_what_says_nothing_keeps_its_last_value_and_its_time(
    answer: httpx.Response, new: dict[tuple[str, str], float]
) -> None:
    script = server(g=grid(cell("a", "b"), cell("b", "a")), other=grid(cell("x", "y")))
    one = script.source()
    await read(one)
    script.answers |= {"grids/g": answer, "grids/other": grid(cell("x", "y", "Average packet loss is 5%"))}
    batch = await read(one, NOW_S + 60.0)
    assert values(batch) == {("x", "y"): 0.05} | new
    assert {m.measured_at_s for m in batch.measurements} == {NOW_S}


async def test_a_grid_that_is_gone_is_forgotten_with_its_last_value() -> None:
    script = server(L=grid(cell("a", "b", "Average loss is 1%")), D=grid(cell("a", "b", "Average delay is 1ms")))
    one = script.source()
    await one.fetch(now_s=NOW_S)
    script.answers["grids"] = grids("L")
    assert await one.fetch(now_s=NOW_S + 3600.0) is None
    batch = await read(one, NOW_S + 172_801.0)
    assert not values(batch, Metric.DELAY)


FAULTS: Mapping[str, tuple[scripted.Answer, str]] = {  # fault: (answer to everything, what the status says)
    "status 500": (httpx.Response(500, text="Index 255 out of bounds"), "status 500: Index 255 out of bounds"),
    "cut off": (httpx.Response(200, content=good()["grids/Loss"].content[:-30]), "is not "),
    "reset": (httpx.ReadError("connection reset"), "connection reset"),
    "garbage": (httpx.Response(200, content=b"\x00\xff\x13\x37"), "is not a list of grids"),
    "a page": (httpx.Response(200, html="<html>log in</html>"), "is not a list of grids"),
    "auth refused": (httpx.Response(401, text="who are you?"), "who are you?"),
    "control characters": (httpx.Response(500, content=b"a\x00\x1b[2Jb"), "status 500: a  [2Jb"),
}


@pytest.mark.parametrize("listed", [False, True], ids=["one grid", "the list of grids"])
@pytest.mark.parametrize(("answer", "said"), FAULTS.values(), ids=FAULTS)
async def test_one_bad_document(answer: scripted.Answer, said: str, listed: bool) -> None:
    place = "grids" if listed else "grids/Loss"
    new = {(Metric.DELAY, 2.0), (Metric.THROUGHPUT, 2e9)}
    script = Script(good())
    source = script.source()
    await read(source, START_S)
    healthy = good(number=2.0, checked_at_s=START_S + 60.0)
    script.answers = {**healthy, place: answer}
    batch = await read(source, START_S + 60.0)
    assert listed or {m.measured_at_s for m in batch.measurements if m.metric is Metric.LOSS} == {START_S}
    assert {(m.metric, m.value) for m in batch.measurements} == new | {(Metric.LOSS, 0.02 if listed else 0.01)}
    words = said if listed else said.replace("list of grids", "grid document")
    begun = "" if listed else "grid 'Loss' failed, its last values stay: "
    assert [p for p in batch.problems if p.startswith(begun) and words in p]
    script.answers = {**healthy}
    healed = await read(source, START_S + 120.0)
    assert ({(m.metric, m.value) for m in healed.measurements}, healed.problems) == (new | {(Metric.LOSS, 0.02)}, ())


async def test_a_round_without_any_answer_is_an_error() -> None:
    script = site()
    healthy = dict(script.answers)
    script.answers = dict.fromkeys(healthy, UNKNOWN)
    one = script.source()
    with pytest.raises(NetworkSourceError, match=r"maddash: http://maddash.lab.example/maddash/grids: status 500: Un"):
        await one.fetch(now_s=NOW_S)
    script.answers = dict(healthy)
    before = await read(one, NOW_S + 60.0)
    script.answers = dict.fromkeys(healthy, httpx.ConnectError("connection refused"))
    script.unknown = UNKNOWN
    with pytest.raises(NetworkSourceError, match="connection refused"):
        await one.fetch(now_s=NOW_S + 120.0)
    script.answers = dict(healthy) | {"grids/Loss": httpx.ConnectError("connection refused")}
    batch = await read(one, NOW_S + 240.0)
    assert ({*before.measurements}, batch.fetched_at_s) == ({*batch.measurements}, NOW_S + 240.0)


@pytest.mark.looptime
async def test_hanging_grids_cannot_use_up_a_round() -> None:
    script = server(**{f"hang{number}": grid() for number in range(10)}, quick=grid(cell("a", "b")))
    script.pauses_s = {f"grids/hang{number}": 1e9 for number in range(10)}
    one = script.source()
    loop = asyncio.get_running_loop()
    for _ in range(2):
        with pytest.raises(NetworkSourceError, match="within"):
            await one.fetch(now_s=NOW_S + loop.time())
    assert loop.time() == pytest.approx(240.0, abs=0.1)
    script.seen.clear()
    for number in range(1, 4):
        script.answers["grids/quick"] = grid(cell("a", "b", f"Average packet loss is {number}0%"))
        batch = await read(one, NOW_S + loop.time())
        assert values(batch) == {("a", "b"): number / 10.0}
    assert script.asked.count("grids/quick") == 3
    assert len(batch.problems) <= 22


async def test_a_server_with_endless_grids() -> None:
    listed = grids(*(f"g{number}" for number in range(MAX_GRIDS + 100)))
    script = Script({"grids": listed, "grids/g0": grid(cell("a", "b"))})
    batch = await read(script.source())
    assert len(script.asked) == MAX_GRIDS + 1
    assert batch.problems[0] == f"{MAX_GRIDS + 100} grids are listed: name those that count, only {MAX_GRIDS} are read"


async def test_the_loop_turns_while_a_large_mesh_is_read() -> None:
    ends = [f"ps{number}.zone-a.example.org" for number in range(100)]
    mesh = scripted.rows(*([None if a == b else [cell(a, b)] for b in ends] for a in ends))
    async with counting_turns() as turns:
        batch = await read(server(g=mesh).source())
    assert (len(batch.measurements), turns() >= 100) == (9900, True)


@pytest.mark.looptime
async def test_two_requests_at_a_time() -> None:
    """However many grids there are, two requests are in flight at most: the server shares its pool with the checks."""
    script = server(**{f"g{i}": grid() for i in range(12)})
    script.pauses_s = {f"grids/g{i}": 1.0 for i in range(12)}
    fetch = asyncio.create_task(script.source().fetch(now_s=START_S))
    await asyncio.sleep(0.5)
    for second in range(6):
        assert len(script.seen) == 1 + 2 * (second + 1)
        await asyncio.sleep(1.0)
    await fetch


# -- its clock and its address -----------------------------------------------------------------------------------------

SKEWS = {-86_400.0: 86_700.0, 0.0: 300.0, 59.0: 241.0, 3600.0: 0.0}  # s that its clock is ahead: age of a value


@pytest.mark.parametrize("ahead_s", SKEWS)
async def test_clock_skew(ahead_s: float) -> None:
    """A value of 300 s ago by the server's clock."""
    batch = await read(Script(good(checked_at_s=START_S + ahead_s - 300.0)).source(), START_S)
    assert [START_S - m.measured_at_s for m in batch.measurements] == pytest.approx([SKEWS[ahead_s]] * 6, abs=3.0)
    assert any("clocks differ" in problem for problem in batch.problems) == (ahead_s > 300.0)


ADDRESSES = {  # configured: requested
    "http://h": "http://h/maddash/grids",
    "https://h:8443/a%20b": "https://h:8443/a%20b/grids",
    "http://maddash": "http://maddash/maddash/grids",
    "http://h/": "http://h/maddash/grids",
    "http://h/maddash/": "http://h/maddash/grids",
    "http://h:8881/maddash": "http://h:8881/maddash/grids",
    "http://h/perfsonar/maddash": "http://h/perfsonar/maddash/grids",
}


@pytest.mark.parametrize("configured", ADDRESSES)
async def test_addresses(configured: str) -> None:
    """The path `/maddash` may be left out; another path is kept."""
    script = Script({})
    with pytest.raises(NetworkSourceError, match="status 404"):
        await MaddashSource(MaddashSettings(configured)).fetch(now_s=START_S)
    assert [ADDRESSES[configured]] == [str(request.url) for request in script.seen]
