"""Bursts of throughput: one at a time, never beside a gang, and only the assigned client's figure counts."""

from collections import Counter
from itertools import permutations
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.network.probe_bursts import PORTS, BurstOptions, Bursts
from extender.schemas import BurstResult, ProbeBurst
from scoring import Metric, NodeName, ZoneName
from scoring.probing.bursts import DAY_S, FAILED_REST_S
from tests.extender.network.probe.probing import GOOD, Mesh
from tests.fakes.clock import FakeClock

THROUGHPUT = Metric.THROUGHPUT
LOSSY = {**GOOD, "lost": 40, "lost_out": 20, "lost_back": 20}
PAIR = NodeName("n1"), NodeName("n2")


def mesh(*nodes: str, **options: Any) -> Mesh:
    return Mesh(*(nodes or ("n1", "n2", "n3")), bursts=BurstOptions(**options))


def throughputs(found: Mesh) -> dict[tuple[str, str], float]:
    return {(one, other): value for (one, other, metric), value in found.values.items() if metric is THROUGHPUT}


async def test_all_pairs_are_measured_one_after_the_other() -> None:
    found = mesh()
    await found.rounds(40)
    assert throughputs(found) == {pair: 1e9 if pair[0] < pair[1] else 2e9 for pair in permutations(found.zones, 2)}
    assert found.outcomes == {"measured": 3}
    assert [server for _, server, _ in found.started] == [True, False] * 3
    assert all(at_s < then_s for (_, _, at_s), (_, _, then_s) in zip(found.started, found.started[1:], strict=False))


async def test_a_burst_names_the_other_end_and_its_limits() -> None:
    found = mesh("n1", "n2", seconds=2.0, size_bytes=10_000_000)
    await found.until_started(2)
    client: Any = found.orders["n2"].burst
    assert (client.server, client.address, client.seconds, client.size_bytes) == (False, "10.0.0.1", 2.0, 10_000_000)
    assert client.port in PORTS
    assert msgspec.to_builtins(found.orders["n1"])["throughput"] is True


async def test_off_nothing_is_asked_or_given() -> None:
    found = Mesh("n1", "n2")
    await found.rounds(30)
    assert not throughputs(found)
    assert {"throughput", "burst"}.isdisjoint(msgspec.to_builtins(found.orders["n1"]))


async def test_agents_without_iperf3_are_left_out() -> None:
    found = mesh()
    found.without_iperf3 = {"n3"}
    await found.rounds(30)
    assert {*throughputs(found)} == {("n1", "n2"), ("n2", "n1")}


@pytest.mark.slow
@pytest.mark.parametrize("bursts", [BurstOptions(), None], ids=["in a burst", "in none"])
async def test_what_a_burst_does_to_other_packets_blames_no_link(bursts: BurstOptions | None) -> None:
    found = Mesh("n1", "n2", "n3", bursts=bursts)
    await found.rounds(11)
    if bursts is not None:
        await found.until_started(len(found.started) // 2 * 2 + 2)
    ended = found.outcomes.total()
    found.faults = dict.fromkeys(permutations(("n1", "n2", "n3"), 2), LOSSY)
    await found.rounds(1, until=lambda: found.outcomes.total() > ended)
    found.faults = {}
    await found.rounds(3)
    losses = {value > 0.0 for (_, _, metric), value in found.values.items() if metric is Metric.LOSS}
    assert losses == {bursts is None}


BAD: dict[str, tuple[dict[str, Any], str]] = {  # case: (what the client says, outcome)
    "failed": ({"error": "unable to connect to server"}, "failed"),
    "nothing measured": ({"sent_bps": None, "received_bps": 0.0}, "failed"),
    "faster than any link": ({"sent_bps": 5e11, "received_bps": 1e9}, "impossible"),
    "another burst": ({"id": "guessed", "sent_bps": 1e9}, "not expected"),
}


@pytest.mark.parametrize(("said", "outcome"), BAD.values(), ids=BAD)
async def test_a_result_that_does_not_count(said: dict[str, Any], outcome: str) -> None:
    found = mesh("n1", "n2")
    found.rates = said
    await found.rounds(25)
    assert found.outcomes[outcome] >= 1
    assert not throughputs(found)


async def test_a_result_of_another_node_or_of_none_changes_nothing() -> None:
    found = mesh()
    await found.rounds(40)
    before, counted = throughputs(found), found.outcomes["measured"]
    assert found.bursts is not None
    found.bursts.take(NodeName("n3"), BurstResult("x", 1.0))
    assert found.outcomes["not expected"] == 1
    await found.rounds(5)
    assert (throughputs(found), found.outcomes["measured"]) == (before, counted)


async def test_a_gang_that_comes_withdraws_the_burst() -> None:
    found = mesh("n1", "n2")
    await found.until_started(1)
    found.with_gangs = frozenset({NodeName("n2")})
    await found.rounds(10)
    assert (len(found.started), found.outcomes) == (1, {"withdrawn": 1})
    found.with_gangs = frozenset()
    await found.rounds(65)
    assert {*throughputs(found)} == {PAIR, PAIR[::-1]}


async def test_an_agent_that_is_gone_lets_the_burst_lapse_and_the_next_follows() -> None:
    found = mesh()
    await found.until_started(1)
    found.silent = {"n2"}
    await found.rounds(30)
    assert found.outcomes == {"lapsed": 1, "measured": 1}
    assert {*throughputs(found)} == {("n1", "n3"), ("n3", "n1")}


@pytest.mark.slow
async def test_a_new_leader_waits_until_the_last_burst_has_ended() -> None:
    found = mesh("n1", "n2")
    await found.rounds(25)
    found.leads = False
    await found.fetch()
    found.leads, began_s = True, found.clock.now_s()
    await found.until_started(len(found.started) + 1)
    latest_s = 15.0 + 2.0  # until a client has its order, and is connected
    assert found.started[-1][2] - began_s >= latest_s + BurstOptions().seconds


async def test_a_new_leader_has_what_was_measured_and_measures_no_pair_again() -> None:
    """Every value, as old as the beginning of its burst, and the bursts of the day: here all that are allowed."""
    found = mesh(a_day=2)
    await found.rounds(40)
    before, at_s, started = throughputs(found), dict(found.table_s), len(found.started)
    assert len(before) == 6
    found.lead()
    await found.rounds(3)
    assert throughputs(found) == before
    now, then = ({ends: times_s[*ends, THROUGHPUT] for ends in before} for times_s in (found.table_s, at_s))
    assert now == pytest.approx(then, abs=10.0)
    await found.rounds(int(FAILED_REST_S / 10.0))
    assert len(found.started) == started
    found.clock.advance(DAY_S)
    await found.rounds(20)
    assert len(found.started) > started


async def test_of_what_an_agent_says_of_bursts_only_what_a_leader_signed_for_its_node_counts() -> None:
    """One agent's memory is enough; that of another node, or a changed one, is none."""
    found = mesh("n1", "n2")
    await found.rounds(25)
    before, kept = throughputs(found), dict(found.memories)
    assert len(before) == 2
    told = {kept["n1"]: before, kept["n2"]: {}, kept["n1"].replace("0000", "1000"): {}}
    for memory, expected in told.items():
        found.lead()
        found.memories = {"n1": memory}
        await found.rounds(3, until=lambda: bool(found.bursts and found.bursts.values()))
        await found.fetch()
        assert throughputs(found) == expected


async def test_a_slow_node_of_36_is_found_in_three_minutes_with_reports_every_ten_seconds() -> None:
    """By agents that do what they are asked, from the first report on: two slow bursts of the node, none of others."""
    found = mesh(*(f"n{i}" for i in range(1, 37)))
    found.zones = {node: ZoneName("abcd"[(int(node[1:]) - 1) // 9]) for node in found.zones}
    found.rates_of = lambda node, peer: 1e7 if "n8" in (node, peer) else 1e9
    await found.rounds(18)
    assert found.bursts is not None
    slow, fast = ([one for one in found.bursts.values() if one.value == rate] for rate in (1e7, 1e9))
    assert len(slow) >= 4
    assert {NodeName(node) for one in fast for node in (one.source, one.target)} == found.zones.keys() - {"n8"}
    assert found.outcomes.keys() == {"measured"}


NODES = [NodeName(f"n{i}") for i in range(5)]
STEP = st.tuples(
    st.sampled_from([1.0, 2.0, 3.0, 10.0, 40.0, 700.0]),  # seconds until then
    st.sampled_from([frozenset[NodeName](), frozenset(NODES[:1]), frozenset(NODES[1:3])]),  # where gangs are
    st.permutations(NODES),  # in which order agents report
    st.sampled_from(["done", "failed", "lost"]),  # what becomes of a client's order
)


@given(st.lists(STEP, min_size=10, max_size=60))
def test_never_two_at_once_never_beside_a_gang_and_within_the_day(steps: list[Any]) -> None:
    clock, gangs, options = FakeClock(), frozenset[NodeName](), BurstOptions(a_day=2)
    bursts = Bursts(clock, options, with_gangs=lambda: gangs)
    zone_of = dict.fromkeys(NODES, ZoneName("a"))
    free_s = float("-inf")  # until then a client may send
    today: list[tuple[float, NodeName]] = []
    waiting: tuple[NodeName, ProbeBurst] | None = None

    def look() -> None:
        bursts.assign(bursts.question(zone_of, set(NODES), interval_s=10.0)[1]())

    look()
    clock.advance(600.0)
    for seconds, gangs, order, fate in steps:
        clock.advance(seconds)
        look()
        for node in order:
            if waiting is not None and waiting[0] == node:
                bursts.take(node, BurstResult(waiting[1].id, 1e9, 1e9, error="no" if fate == "failed" else ""))
                waiting, free_s = None, clock.now_s()
            given_now = bursts.order(node, lambda peer: f"of {peer}")
            bursts.due_in_s(node)
            if given_now is None or given_now.server:
                continue
            now_s, peer = clock.now_s(), NodeName(given_now.address.removeprefix("of "))
            assert now_s >= free_s, "two at once"
            assert gangs.isdisjoint((node, peer))
            today += [(now_s, node), (now_s, peer)]
            free_s = now_s + 15.0 + 2.0 + options.seconds + 1.0
            waiting = (node, given_now) if fate in ("done", "failed") else None
    now_s = clock.now_s()
    assert max(Counter(node for at_s, node in today if at_s > now_s - DAY_S).values(), default=0) <= 2
