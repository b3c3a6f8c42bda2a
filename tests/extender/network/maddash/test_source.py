"""The MaddashSource against scripted answers: which grids it reads, and what stays when they fail."""

import httpx
import pytest

from extender.errors import NetworkSourceError
from extender.network.maddash.grid_choice import Wanted
from extender.network.maddash.last_good import SAME_FOR_S, SAME_POLLS
from scoring.network.matrix import Metric
from tests.extender.network import recorded
from tests.extender.network.maddash.scripted import NOW_S, Script, cell, failed, grid, grids, ok, read, server, values


def site() -> Script:
    return Script(
        {
            "grids": ok("grids.json"),
            "grids/Loss": ok("grid-loss.json"),
            "grids/Delay": ok("grid-delay.json"),
            "grids/Throughput": ok("grid-throughput.json"),
            "grids/Random": ok("grid-random.json"),
            "grids/Empty": failed("grid-empty-500.txt"),
            "grids/Lab%2Bmesh%2B-%2Bthroughput%2B-%2BThroughput": ok("grid-reverse.json"),
        }
    )


MAIN_GRIDS = Wanted({Metric.LOSS: ("Loss",), Metric.DELAY: ("Delay",), Metric.THROUGHPUT: ("Throughput",)})


async def test_configured_grids() -> None:
    """Three configured grids are three requests (`test_recordings`: what they give)."""
    script = site()
    batch = await read(script.source(MAIN_GRIDS))
    assert sorted(script.asked) == ["grids/Delay", "grids/Loss", "grids/Throughput"]
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
    script = site()
    one = script.source()
    batch = await read(one)
    assert "grids/WAN%252FEdge%2B-%2BLoss" in script.asked
    assert "grids/Lab%2B100%2525%2BA%252BB" in script.asked
    assert len(script.asked) == 12  # two of the ten are not there: these are asked for in both encodings
    # both throughput grids show the same pairs: the same value twice, and it is said
    assert values(batch, Metric.THROUGHPUT) == pytest.approx(recorded.THROUGHPUT)
    assert batch.rejected["duplicate"] == 16
    assert any("several checks" in problem for problem in batch.problems)
    assert any(p.startswith("grid 'Empty' failed: http://maddash.lab.example") for p in batch.problems)


async def test_useless_grids_are_left_alone() -> None:
    script = site()
    one = script.source()
    await one.fetch(now_s=NOW_S)
    script.seen.clear()
    await one.fetch(now_s=NOW_S + 60.0)
    assert "grids/Loss" in script.asked
    assert "grids/Random" not in script.asked
    script.seen.clear()
    await one.fetch(now_s=NOW_S + 600.0)
    assert "grids/Random" in script.asked


FORWARD = recorded.values(recorded.FORWARD_GBPS, factor=1e9)
REVERSE = {(b, a): value for (a, b), value in recorded.values(recorded.REVERSE_GBPS, factor=1e9).items()}


@pytest.mark.parametrize("checks", [(), ("Throughput",)], ids=["all checks", "one of its checks"])
async def test_one_configured_grid(checks: tuple[str, ...]) -> None:
    """No other grid counts for its metric, and with a check named no other check of it; other metrics are found."""
    grids = {Metric.THROUGHPUT: ("Lab mesh - throughput - Throughput",)}
    batch = await read(site().source(Wanted(grids, {Metric.THROUGHPUT: checks} if checks else {})))
    assert values(batch, Metric.THROUGHPUT) == pytest.approx(FORWARD if checks else FORWARD | REVERSE)
    assert values(batch, Metric.LOSS) == pytest.approx(recorded.LOSS, abs=1e-15)


async def test_a_round_without_any_answer_is_an_error() -> None:
    script = site()
    good = dict(script.answers)
    for path in script.answers:
        script.answers[path] = failed("grid-unknown-500.txt")
    one = script.source()
    with pytest.raises(NetworkSourceError, match=r"maddash: http://maddash.lab.example/maddash/grids: status 500: Un"):
        await one.fetch(now_s=NOW_S)
    script.answers = dict(good)
    before = await read(one, NOW_S + 60.0)
    for path in script.answers:
        script.answers[path] = httpx.ConnectError("connection refused")
    for later_s in (120.0, 180.0):
        with pytest.raises(NetworkSourceError, match="connection refused"):
            await one.fetch(now_s=NOW_S + later_s)
    script.answers = dict(good) | {"grids/Loss": httpx.ConnectError("connection refused")}
    batch = await read(one, NOW_S + 240.0)
    assert set(before.measurements) == set(batch.measurements)
    assert batch.fetched_at_s == NOW_S + 240.0


async def test_a_grid_that_is_gone_is_forgotten_after_an_hour() -> None:
    script = server(L=grid(cell("a", "b", "Average loss is 1%")), D=grid(cell("a", "b", "Average delay is 1ms")))
    one = script.source()
    await one.fetch(now_s=NOW_S)
    script.answers["grids"] = grids("L")
    script.answers["grids/D"] = failed("grid-unknown-500.txt")
    assert values(await read(one, NOW_S + 3600.0), Metric.DELAY)
    batch = await read(one, NOW_S + 3601.0)
    assert not values(batch, Metric.DELAY)
    assert values(batch, Metric.LOSS)


async def test_partial_grid_keeps_the_last_one() -> None:
    """Fewer than 80 % of the checks are a reload; the same number for three polls and half a minute: a smaller grid."""
    full = [cell("a", f"b{i}") for i in range(10)]
    script = server(L=grid(*full))
    one = script.source()
    await one.fetch(now_s=NOW_S)
    script.answers["grids/L"] = grid(*(one | {"message": "Average loss is 2%"} for one in full[:7]))
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
    full = [cell("a", f"b{i}") for i in range(10)]
    script = server(L=grid(*full))
    one = script.source()
    await one.fetch(now_s=NOW_S)
    script.answers["grids/L"] = grid(*full[:8])
    assert len((await read(one, NOW_S + 60.0)).measurements) == 8


async def test_checks_made_anew_keep_their_last_value() -> None:
    """A changed interval makes all checks new (status 4): their last values stay, with their old times."""
    script = server(L=grid(cell("a", "b", "Average loss is 1%"), cell("b", "a", "Average loss is 2%")))
    one = script.source()
    await one.fetch(now_s=NOW_S)
    later_s = NOW_S + 600.0
    script.answers["grids/L"] = grid(cell("a", "b", "-"), cell("b", "a", "-"))
    batch = await read(one, later_s)
    assert values(batch, Metric.LOSS) == {("a", "b"): 0.01, ("b", "a"): 0.02}
    assert {NOW_S} == {m.measured_at_s for m in batch.measurements}
    script.answers["grids/L"] = grid(
        cell("a", "b", "Average loss is 3%", prevCheckTime=int(later_s + 1.0)),
        cell("b", "a", "-", prevCheckTime=int(later_s + 1.0)),
    )
    batch = await read(one, later_s + 60.0)
    assert values(batch, Metric.LOSS) == {("a", "b"): 0.03, ("b", "a"): 0.02}


async def test_half_round_trip_only_without_one_way_delay() -> None:
    script = server(RTT=grid(cell("a", "b", "Average minimum rtt is 3ms")))
    script.answers["grids/OWD"] = grid(cell("b", "a", "Average minimum delay is 5ms"))
    one = script.source()
    batch = await read(one)
    assert values(batch, Metric.DELAY) == {("a", "b"): 1.5}
    assert "grid 'RTT' shows round-trip times: half of each is used as one-way delay" in batch.problems
    script.answers["grids"] = grids("OWD", "RTT")
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
    v4 = grid(cell("a", "b", "Average delay is 2ms", prevCheckTime=int(NOW_S - age_v4_s)))
    v6 = grid(cell("a", "b", "Average delay is 9ms", prevCheckTime=int(NOW_S - age_v6_s)))
    script = server(v4=v4, v6=v6)
    assert {("a", "b"): wanted} == values(await read(script.source()), Metric.DELAY)


async def test_missing_metrics_are_said_loudly() -> None:
    """MaDDash has no delay grid by default: that no grid shows a metric is a problem of its own."""
    script = server(L=grid(cell("a", "b", "Average loss is 1%")))
    batch = await read(script.source())
    assert {"no grid gives a value of delay", "no grid gives a value of throughput"} == set(batch.problems)
