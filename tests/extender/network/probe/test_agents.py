"""Reports of agents become values, an agent that is late or gone blames no link; what counts beside other sources."""

from http import HTTPStatus
from itertools import permutations
from typing import Any

import pytest
from msgspec.structs import replace

from extender.network.mapping import Given, build
from extender.network.probe_agents import ReportRefusal
from extender.ports import EndpointInfo
from extender.schemas import AgentsAmiss, ProbeOrders
from extender.settings.network import EndpointRule, NetworkSettings
from scoring import EndpointId, Metric, NodeName, ZoneName
from scoring.model.policy import Ttl
from scoring.network.matrix import NetworkMatrix, PairReading
from scoring.network.measurement import Measurement, MeasurementTable
from tests.builders import node
from tests.extender.network.probe.probing import DEAD, GOOD, Mesh, report

LOSSY = {**GOOD, "lost": 5, "lost_out": 5, "lost_back": 0}
FROM_N1 = {("n1", "n2"): LOSSY, ("n2", "n1"): {**LOSSY, "lost_out": 0, "lost_back": 5}}


async def mesh(*nodes: str) -> Mesh:
    found = Mesh(*(nodes or ("n1", "n2", "n3")))
    await found.rounds(10)
    return found


async def test_all_pairs_of_a_small_cluster_have_values_within_a_minute() -> None:
    found = Mesh("n1", "n2", "n3")
    await found.rounds(6)
    expected = {Metric.LOSS: 0.0, Metric.DELAY: 0.5}
    assert found.values == {(*pair, m): value for pair in permutations(found.zones, 2) for m, value in expected.items()}


async def test_a_peer_is_given_only_after_it_was_told_to_answer() -> None:
    found = Mesh("n1", "n2")
    for _ in range(3):
        await found.rounds(1)
        for name, orders in found.orders.items():
            for peer in orders.peers:
                assert f"10.0.0.{name[1:]}" in found.orders[peer.node].reflect_for
    assert [(peer.node, peer.address, peer.port) for peer in found.orders["n1"].peers] == [("n2", "10.0.0.2", 8862)]


async def test_an_agent_reports_oftener_until_it_has_its_peers() -> None:
    found = Mesh("n1", "n2")
    first: Any = found.send(report("n1"))
    await found.rounds(6)
    assert (first.interval_s, found.orders["n1"].interval_s, found.orders["n1"].packet_interval_s) == (2.0, 10.0, 0.1)


async def test_few_packets_are_sent_while_none_is_lost() -> None:
    found = Mesh(*(f"n{number}" for number in range(1, 12)))
    paces = []
    for pairs in ((), (("n1", "n2"),), ()):
        found.faults = dict.fromkeys(pairs, LOSSY)
        for rounds in (4, 30):
            await found.rounds(rounds)
            paces.append({orders.packet_interval_s for orders in found.orders.values()})
    assert paces == [{0.1}, {1.112}, {0.1}, {0.1}, {0.1}, {1.112}]


async def test_many_agents_report_less_often() -> None:
    found = Mesh(*(f"n{number}" for number in range(1, 451)))
    await found.rounds(1)
    assert (found.agents.interval_s, Mesh("n1").agents.interval_s) == (18.0, 10.0)


async def test_an_uplink_that_lost_packets_while_gateways_took_turns_is_whole_again_within_two_minutes() -> None:
    found = Mesh(*(f"n{number}" for number in range(1, 19)))
    found.zones = {node: ZoneName("a" if int(node[1:]) < 10 else "b") for node in found.zones}
    await found.rounds(10)
    between = [two for two in permutations(found.zones, 2) if found.zones[two[0]] != found.zones[two[1]]]
    found.faults = {pair: {**GOOD, "lost": 5, "lost_out": 5, "lost_back": 5} for pair in between}
    await found.rounds(60)  # twice the time after which others become gateways
    found.faults = {}
    await found.rounds(12)
    losses = [found.values[*pair, Metric.LOSS] for pair in between if (*pair, Metric.LOSS) in found.values]
    assert 4 <= len(losses) <= 8  # of the gateways of now and, for a while, of those before
    assert max(losses) < 0.03


OFTEN, SELDOM = (10.0, 0.15, 0.01), (40.0, 0.5, 0.05)  # seconds, how far off a loss may be, what may be left of it


@pytest.mark.parametrize(("interval_s", "off", "rest"), [OFTEN, SELDOM], ids=["often", "seldom"])
async def test_loss_of_one_direction_is_found_and_gone_in_three_minutes(
    interval_s: float, off: float, rest: float
) -> None:
    found = Mesh("n1", "n2", "n3", interval_s=interval_s)
    rounds, key = int(180.0 / interval_s), (NodeName("n1"), NodeName("n2"), Metric.LOSS)
    await found.rounds(10, seconds=interval_s)
    found.faults = dict(FROM_N1)
    await found.rounds(rounds, seconds=interval_s)
    assert found.values[key] == pytest.approx(0.1, rel=off)
    assert found.values["n2", "n1", Metric.LOSS] == 0.0
    found.faults = {}
    await found.rounds(rounds, seconds=interval_s)
    assert found.values[key] < rest


LATE: dict[str, Any] = {"killed": {"silent": {"n2"}}, "stopped, or held to 1 % of a core": {"suspect": {"n2": 40}}}


@pytest.mark.parametrize("how", LATE.values(), ids=LATE)
async def test_an_agent_that_answers_nothing_blames_no_link(how: dict[str, Any]) -> None:
    found = await mesh()
    before = dict(found.values)
    for name, value in how.items():
        setattr(found, name, value)
    found.faults = {("n1", "n2"): DEAD, ("n3", "n2"): DEAD}
    await found.rounds(12)
    now, then = ({key: value for key, value in values.items() if value} for values in (found.values, before))
    assert now == then
    assert found.table_s["n1", "n3", Metric.LOSS] > found.clock.now_s() - 60.0


async def test_a_link_that_is_dead_between_agents_that_report_is_dead() -> None:
    found = await mesh()
    found.faults = {("n1", "n2"): DEAD, ("n2", "n1"): DEAD}
    await found.rounds(18)
    assert found.values["n1", "n2", Metric.LOSS] > 0.9


async def test_a_port_that_is_blocked_from_the_start_blames_no_link() -> None:
    found = Mesh("n1", "n2", "n3")
    found.faults = {pair: DEAD for pair in permutations(found.zones, 2) if "n3" in pair}
    await found.rounds(20)
    seen: Any = found.source.seen
    assert ({end for key in found.values for end in key[:2]}, seen.unanswered.nodes) == ({"n1", "n2"}, ("n3",))


async def test_agents_in_trouble_are_told_apart_with_their_zone() -> None:
    found = Mesh("n1", "n2", "n3", "n4")
    found.zones |= {NodeName(name): ZoneName("b") for name in ("n3", "n4")}
    await found.rounds(10)
    seen: Any = found.source.seen
    assert (seen.reporting, seen.absent.count) == (4, 0)
    blocked_s = found.clock.now_s()
    found.faults = {pair: DEAD for one in found.zones for pair in (("n3", one), (one, "n3"))}
    found.silent = {"n4", "n5"}
    found.zones[NodeName("n5")] = ZoneName("c")
    await found.rounds(9)
    seen = found.source.seen
    silent, unanswered = (AgentsAmiss(1, blocked_s, (node,), "b") for node in ("n4", "n3"))
    assert (seen.reporting, seen.silent, seen.unanswered) == (2, silent, unanswered)
    assert seen.absent == AgentsAmiss(1, None, ("n5",), "c")


async def test_a_node_that_is_gone_leaves_at_once() -> None:
    found = await mesh()
    del found.zones[NodeName("n3")]
    await found.fetch()
    assert {end for key in found.values for end in key[:2]} == {"n1", "n2"}
    assert len(found.agents.names) == 2


async def test_agents_with_one_address_are_named_and_not_taken_for_each_other() -> None:
    found = await mesh("n1", "n2", "n3", "x1")
    assert {end for key in found.values for end in key[:2]} == {"n2", "n3"}
    assert await found.problems() == ("2 of 4 agents have the address of another one and are not measured: n1, x1",)
    found.silent = {"x1"}
    await found.rounds(24)
    assert {end for key in found.values for end in key[:2]} == {"n1", "n2", "n3"}


async def test_a_replica_that_does_not_lead_forgets() -> None:
    found = await mesh()
    found.leads = False
    assert await found.fetch() is None
    assert len(found.agents.names) == 0


async def test_a_new_leader_knows_after_two_reports_what_the_last_one_knew() -> None:
    """Its values and their ages are there again within a batch; agents go on, and what they measure counts."""
    found = await mesh()
    found.faults = dict(FROM_N1)
    await found.rounds(18)
    before, measured_s, peers = dict(found.values), dict(found.table_s), dict(found.orders)
    found.lead()
    await found.rounds(1)
    assert found.values == {}
    assert found.orders == peers, "they go on as before"
    await found.rounds(1, seconds=2.0)
    assert found.values == pytest.approx(before, abs=0.01)
    assert {key: found.table_s[key] for key in measured_s} == pytest.approx(measured_s, abs=20.1)
    await found.rounds(6)
    assert found.values["n1", "n2", Metric.LOSS] == pytest.approx(before["n1", "n2", Metric.LOSS], abs=0.02)
    assert min(found.table_s.values()) > found.clock.now_s() - 50.0


async def test_a_new_leader_blames_no_link_for_an_agent_that_died_with_the_last_one() -> None:
    found = await mesh()
    before = dict(found.values)
    found.silent, found.faults = {"n2"}, {("n1", "n2"): DEAD, ("n3", "n2"): DEAD}
    await found.rounds(2)
    found.lead()
    await found.rounds(12)
    assert found.values == before


async def test_links_that_were_not_assigned_are_left_out() -> None:
    found = await mesh("n1", "n2")
    found.clock.advance(10.0)
    assert isinstance(found.send(report("n1", 99, {"peer": "n9", **GOOD})), ProbeOrders)
    await found.rounds(0)
    found.clock.advance(60.0)
    await found.fetch()
    assert "n9" not in {end for key in found.values for end in key[:2]}


async def test_an_agent_whose_clock_was_set_back_is_heard() -> None:
    found = Mesh("n1", "n2")
    await found.rounds(1)
    found.clock.advance(10.0)
    assert isinstance(found.send(report("n1", since_s=EARLIER_S)), ProbeOrders)


FAR_S, EARLIER_S = 4e9, 900.0
REFUSED: dict[str, tuple[dict[str, Any], dict[str, str], HTTPStatus]] = {
    "the node of another pod": ({"node": "n1"}, {"node": "n2"}, HTTPStatus.FORBIDDEN),
    "the same once more": ({}, {}, HTTPStatus.CONFLICT),
    "an older one": ({"sequence": 1}, {}, HTTPStatus.CONFLICT),
    "of an earlier process": ({"since_s": EARLIER_S, "sequence": 99}, {}, HTTPStatus.CONFLICT),
    "begun in the future": ({"since_s": FAR_S}, {}, HTTPStatus.BAD_REQUEST),
    "a peer twice": ({"sequence": 99, "links": [{"peer": "n2", **GOOD}] * 2}, {}, HTTPStatus.BAD_REQUEST),
    "itself": ({"sequence": 99, "links": [{"peer": "n1", **GOOD}]}, {}, HTTPStatus.BAD_REQUEST),
    "more lost": ({"sequence": 99, "links": [{"peer": "n2", **DEAD, "lost": 51}]}, {}, HTTPStatus.BAD_REQUEST),
    "a pod without an address": ({"sequence": 99}, {"address": ""}, HTTPStatus.SERVICE_UNAVAILABLE),
    "at once again": ({"sequence": 99}, {}, HTTPStatus.TOO_MANY_REQUESTS),
}


@pytest.mark.parametrize(("fields", "pod", "status"), REFUSED.values(), ids=REFUSED)
async def test_a_wrong_report_is_refused_and_changes_nothing(
    fields: dict[str, Any], pod: dict[str, str], status: HTTPStatus
) -> None:
    found = Mesh("n1", "n2", "n3")
    assert isinstance(found.send(report("n1", since_s=EARLIER_S)), ProbeOrders)
    await found.rounds(10)
    before = dict(found.values)
    answer = found.send({**report("n1", 10), **fields}, **pod)
    assert isinstance(answer, ReportRefusal)
    assert answer.status is status
    await found.rounds(4)
    assert found.values == before


NOW_S = 1_800_000_000.0
SOFT = Ttl(loss=600.0, delay=600.0, throughput=600.0)


def table(*rows: tuple[str, str, float, float], metric: Metric = Metric.DELAY) -> MeasurementTable:
    """Rows: from, to, value, age in seconds."""
    found = (Measurement(EndpointId(a), EndpointId(b), metric, value, NOW_S - age_s) for a, b, value, age_s in rows)
    return MeasurementTable.from_measurements(found)


def matrix(
    probe: MeasurementTable, other: MeasurementTable, config: NetworkSettings = NetworkSettings()
) -> NetworkMatrix:
    """perfSONAR's hosts ps1 and ps2 have the addresses of n1 and n2; n3 has none."""
    ends = (EndpointInfo(EndpointId("ps1"), ("10.0.0.1",)), EndpointInfo(EndpointId("ps2"), ("10.0.0.2",)))
    nodes = tuple(node(f"n{i}", addresses=(f"10.0.0.{i}",)) for i in (1, 2, 3))
    given = Given({"maddash": other, "probe": probe}, (ends, ()), nodes)
    return build(given, None, replace(config, soft_ttl_s=SOFT), zone_fallback=False, now_s=NOW_S).matrix


def read(found: NetworkMatrix, one: str = "n1", other: str = "n2", metric: Metric = Metric.DELAY) -> PairReading | None:
    return found.known(NodeName(one), NodeName(other), metric)


AGES = {  # case: (age of perfSONAR's value, of the probe's; which counts)
    "both fresh": (500.0, 10.0, "maddash"),
    "perfSONAR's past the soft TTL": (700.0, 10.0, "probe"),
    "the probe's past it too, and newer": (900.0, 700.0, "probe"),
    "both past it, the probe's older": (700.0, 900.0, "maddash"),
}


@pytest.mark.parametrize(("theirs_s", "ours_s", "counts"), AGES.values(), ids=AGES)
def test_which_value_of_a_pair_counts(theirs_s: float, ours_s: float, counts: str) -> None:
    found = matrix(table(("n1", "n2", 2.0, ours_s)), table(("ps1", "ps2", 1.0, theirs_s)))
    value, age_s = {"maddash": (1.0, theirs_s), "probe": (2.0, ours_s)}[counts]
    one: Any = read(found)
    assert (one.value, one.age_s, one.origin) == (value, pytest.approx(age_s), counts)


def test_pairs_that_no_other_source_has_are_the_probe_s() -> None:
    rows = (("n1", "n3", 3.0, 10.0), ("n3", "n1", 4.0, 10.0), ("n2", "n1", 5.0, 10.0))
    found = matrix(table(*rows), table(("ps1", "ps2", 1.0, 10.0)))
    assert [read(found, *row[:2]) for row in rows] == [PairReading(row[2], 10.0, "probe") for row in rows]
    assert read(found) == PairReading(1.0, 10.0, "maddash")


@pytest.mark.parametrize("metric", [Metric.LOSS, Metric.THROUGHPUT])
def test_a_metric_that_perfsonar_does_not_measure_is_the_probe_s(metric: Metric) -> None:
    found = matrix(table(("n1", "n2", 0.01, 10.0), metric=metric), table(("ps1", "ps2", 1.0, 10.0)))
    assert read(found, metric=metric) == PairReading(0.01, 10.0, "probe")
    assert (found.endpoint(NodeName("n1"), Metric.THROUGHPUT) is None) == (metric is Metric.LOSS)


def test_nodes_that_share_a_site_s_endpoint_are_measured_there() -> None:
    """What the probe measured counts inside the site, where nobody else measures."""
    config = NetworkSettings(mapping=(EndpointRule("ps1", node="n[13]"),))
    rows = (("n1", "n2", 2.0, 10.0), ("n2", "n3", 2.0, 10.0), ("n1", "n3", 3.0, 10.0))
    found = matrix(table(*rows), table(("ps1", "ps2", 1.0, 700.0)), config)
    assert read(found) == PairReading(1.0, 700.0, "maddash")
    assert read(found, "n2", "n3") is None
    assert read(found, "n1", "n3") == PairReading(3.0, 10.0, "probe")
    inside = found.block([NodeName("n3"), NodeName("n1")], [NodeName("n1"), NodeName("n3"), NodeName("n2")])
    want = [[float("nan"), float("nan"), 1.0], [float("nan"), 3.0, 1.0]]
    assert inside.values[Metric.DELAY].tolist() == [pytest.approx(row, nan_ok=True) for row in want]
    assert inside.same.tolist() == [[False, True, False], [True, False, False]]


def test_a_node_of_no_cluster_is_left_out() -> None:
    found = matrix(table(("n1", "n9", 2.0, 10.0), ("n1", "n3", 2.0, 10.0)), table(("ps1", "ps2", 1.0, 10.0)))
    assert EndpointId("n9") not in found.endpoints
