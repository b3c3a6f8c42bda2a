"""A running service's decisions, written down and made again: the same comes out, bit for bit."""

import gzip

import pytest
from msgspec.structs import replace

from extender.decision_log import BadLogError, Recorder, decisions
from scoring import NodeName
from scoring.model import Policy
from scoring.model.policy import Order, QueuePolicy
from scoring.plan import Plan, plan
from tests.builders import gang, mesh, node, snapshot
from tests.extender.scheduling.world import World, node_json, running

pytestmark = pytest.mark.looptime

NODES = [node_json(f"n{i}", zone="ab"[i % 2]) for i in range(6)]
EMPTY, BEFORE = snapshot([node("n1")], []), Plan(version=-1)


async def a_busy_minute(world: World) -> None:
    world.set_network(mesh([f"n{i}" for i in range(6)], bad={"n2": {"delay_ms": 20.0}}))
    first = await world.planned_gang("first", 3, cpu="3")
    await world.bind_and_settle(*first)
    world.gang("heavy", 3, cpu="2", minimum=2)
    half = await world.planned_gang("half", 2, cpu="1")
    [call] = world.bind_offered(half[0])
    world.node("n6", zone="a", cpu="8")
    await world.settle()
    call.hang_up()
    world.occupy("n6", cpu="7")
    await world.settle()
    world.delete(*first)
    world.set_network(mesh([f"n{i}" for i in range(7)], throughput_bps=5e7))
    await world.settle()
    world.node("n5", zone="b", ready=False)
    await world.settle(30.0)


async def test_every_decision_is_made_again_bit_for_bit_if_that_is_asked_for() -> None:
    async with running(*NODES) as world:
        answer = await world.get("/v1/record")
    assert (answer.status_code, "record.enabled" in answer.json()["detail"]) == (404, True)
    async with running(*NODES, record={"enabled": True}) as world:
        await a_busy_minute(world)
        log = (await world.get("/v1/record")).raise_for_status().content
    made = list(decisions(log))
    assert len(made) >= 8
    assert [one.at_s for one in made if not one.same] == []
    assert [one.made for one in made] == [one.again() for one in made]


async def test_a_decision_that_cannot_be_written_is_counted_and_the_next_is_in_the_log() -> None:
    failed: list[str] = []
    recorder = Recorder(Policy(), failed=failed.append)
    for at_s, claims in ((1.0, object()), (2.0, {})):
        recorder.record(at_s, replace(EMPTY, claims=claims), BEFORE, BEFORE)
    assert ([one.at_s for one in decisions(await recorder.log())], failed) == ([2.0], ["decision log"])


async def test_another_decision_is_noticed() -> None:
    older, heavy = gang("older", 1, cpu="8", created_s=1.0), gang("heavy", 2, cpu="4", created_s=2.0)
    state, rules = snapshot([node("n1")], [older, heavy]), Policy(queue=QueuePolicy(order=Order.WEIGHT))
    recorder = Recorder(rules, most_bytes=1)
    recorder.record(10.0, state, BEFORE, BEFORE)
    [one] = decisions(await recorder.log())
    assert not one.same
    right = replace(one, made=one.again())
    assert right.same
    assert not replace(right, policy=replace(rules, queue=QueuePolicy(order=Order.FIFO))).same


async def test_what_nodes_refused_is_written_down() -> None:
    wanted = gang("g", 2, cpu="4")
    refused = {wanted.members[0].member_class.anywhere: frozenset({NodeName("n1")})}
    state = replace(snapshot([node("n1"), node("n2")], [wanted]), exclusions=refused)
    recorder = Recorder(Policy())
    recorder.record(10.0, state, BEFORE, plan(state, Policy(), now_s=10.0, previous=BEFORE))
    [one] = decisions(await recorder.log())
    assert (one.snapshot.exclusions, one.same) == (refused, True)


async def test_what_is_kept_is_bounded_and_the_newest_stays() -> None:
    for most_bytes, rounds, kept in ((2**20, 1, list(range(36, 100))), (1, 3, [99])):
        recorder = Recorder(Policy(), most_bytes=most_bytes)
        for _ in range(rounds):
            for number in range(100):
                recorder.record(float(number), EMPTY, BEFORE, BEFORE)
            log = await recorder.log()
        assert [one.at_s for one in decisions(log)] == kept


FAULTS = {  # case: (what is no log, what is said)
    "another file": (b"hello", "no whole gzip file"),
    "not copied to its end": (gzip.compress(b"\x00\x00\x00\x02\x91\x01")[:15], "no whole gzip file"),
    "not ours": (gzip.compress(b"some words that are no log at all"), "ends too early"),
    "no decision": (gzip.compress(b"\x00\x00\x00\x02\x91\x01"), "decision 0 is none of this netgang"),
    "half of one": (gzip.compress(b"\x00\x00\x00\x09\x91\x01"), "ends too early"),
}


@pytest.mark.parametrize(("log", "said"), FAULTS.values(), ids=FAULTS)
def test_what_is_no_log_is_refused(log: bytes, said: str) -> None:
    with pytest.raises(BadLogError, match=said):
        list(decisions(log))
