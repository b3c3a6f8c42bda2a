"""A running service's decisions, written down and run again: the same comes out, and other rules show."""

import gzip
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import httpx
import msgspec
import pytest

from extender.bootstrap import service as recording
from extender.decision_log.entries import BadLogError, Began, Entry, Lost, Ran, digest_of, encoded, read
from extender.decision_log.recorder import Recorder
from extender.decision_log.replay import Again, Gap, RunAgain, StepAgain, replay
from scoring.ids import GangKey, NodeName, PodUid, ZoneName
from scoring.model.policy import Order, Policy, QueuePolicy
from scoring.model.reasons import Reason
from scoring.plan import Admission, Plan, Waiting
from scoring.plan.result import Reservation
from tests.builders import mesh
from tests.extender.scheduling.world import World, node_json, running

pytestmark = pytest.mark.looptime

NODES = [node_json(f"n{i}", zone="ab"[i % 2]) for i in range(6)]
ON = {"enabled": True}


async def answered(world: World) -> httpx.Response:
    transport = httpx.ASGITransport(world.service.app)
    async with httpx.AsyncClient(transport=transport, base_url="http://netgang") as client:
        return await client.get("/v1/record")


async def fetched(world: World) -> bytes:
    return (await answered(world)).raise_for_status().content


async def a_busy_minute(world: World) -> None:
    """Gangs that start, wait, end and are broken off; nodes that come and go; new measurements."""
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


def again(log: bytes, **how: Policy) -> list[Again]:
    return list(replay(read(log), **how))


def verdicts(found: Sequence[Again]) -> tuple[int, int, list[int]]:
    runs = [one for one in found if isinstance(one, RunAgain)]
    steps = [one for one in found if isinstance(one, StepAgain)]
    different = [one.number for one in runs if not one.same] + [one.number for one in steps if not one.same]
    return len(runs), len(steps), different


def test_the_names_in_a_log_stay() -> None:
    """The digest of a plan is the one that netgang 0.1 wrote: logs recorded with any version are run again."""
    gang, other, where, pod = GangKey("default/g"), GangKey("default/w"), NodeName("n1"), PodUid("u")
    made = Plan(
        version=3,
        network_version=2,
        admitted={gang: Admission(gang, 1, (ZoneName("a"),), {pod: where}, 12.5)},
        waiting={other: Waiting(other, 2, Reason.NO_ROOM, "x")},
        node_of={pod: where},
        partial=frozenset({gang}),
        reservations={gang: Reservation(gang, (ZoneName("a"),), (where,))},
    )
    assert digest_of(made) == "a1cbccb9e83552f8b486197352798250"
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(made), type=Plan) == made


async def test_everything_comes_out_as_it_was() -> None:
    async with running(*NODES, record=ON) as world:
        await a_busy_minute(world)
        log = await fetched(world)
    runs, steps, different = verdicts(again(log))
    assert runs >= 8
    assert steps >= 8
    assert different == []


async def test_other_rules_show_as_differences() -> None:
    """By age instead of weight another gang goes first; the recorded decisions are still reproduced beside it."""
    async with running(*NODES, record=ON, queue={"starve_limit_s": 1e12}) as world:
        for number in (1, 3, 4, 5):
            world.occupy(f"n{number}", name=f"stranger-{number}")
        world.gang("aold", 1, cpu="4")
        await world.planned_gang("heavy", 2, cpu="4")
        log = await fetched(world)
        rules = world.service.planner.policy
        world.delete("aold-0", "heavy-0", "heavy-1")
    fifo = Policy(queue=QueuePolicy(order=Order.FIFO))
    assert rules != fifo
    found = again(log, instead=fifo)
    assert verdicts(found)[2] == []
    told = {str(one.gang): one for run in found if isinstance(run, RunAgain) for one in run.differences}
    assert set(told) == {"default/aold", "default/heavy"}
    assert told["default/heavy"].was.startswith("admitted as number 1")
    assert told["default/heavy"].would_be.startswith("waits as number 2")


async def test_a_flipped_weight_shows() -> None:
    """Delay counted as throughput was, and the other way round: of three nodes the gang would have another two."""
    nodes = [node_json(f"n{i}", zone="a") for i in (1, 2, 3)]
    async with running(*nodes, record=ON, score={"ratios": "20:10:70"}) as world:
        world.set_network(mesh(["n1", "n2", "n3"], bad={"n2": {"throughput_bps": 1e6}, "n3": {"delay_ms": 60.0}}))
        await world.planned_gang("g", 2, cpu="3")
        assert {str(node) for node in world.plan.node_of.values()} == {"n1", "n3"}
        log = await fetched(world)
        rules = world.service.planner.policy
        world.delete("g-0", "g-1")
    ratios = rules.score.ratios
    flipped = replace(ratios, delay=ratios.bandwidth, bandwidth=ratios.delay)
    assert verdicts(again(log, instead=rules))[2] == []
    assert not [one for one in again(log, instead=rules) if isinstance(one, RunAgain) and one.differences]
    found = again(log, instead=replace(rules, score=replace(rules.score, ratios=flipped)))
    assert verdicts(found)[2] == [], "what was recorded still comes out"
    [told] = [one for run in found if isinstance(run, RunAgain) for one in run.differences]
    assert (str(told.gang), "n3" in told.was, "n2" in told.would_be) == ("default/g", True, True)


async def test_a_changed_log_is_noticed() -> None:
    async with running(*NODES, record=ON) as world:
        await a_busy_minute(world)
        entries = list(read(await fetched(world)))
    at = next(i for i, one in enumerate(entries) if isinstance(one, Ran))
    entries[at] = Ran(entries[at].at_s, entries[at].change, "0" * 32)  # type: ignore[union-attr]
    assert verdicts(list(replay(entries)))[2] == [at]


async def test_chapters_are_bounded_and_each_stands_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    small = partial(Recorder, chapter_bytes=20_000)
    monkeypatch.setattr(recording, "Recorder", lambda policy, **more: small(policy, **more | {"most_bytes": 6_000}))
    async with running(*NODES, record=ON) as world:
        for number in range(6):
            names = await world.planned_gang(f"g{number}", 2, cpu="2")
            await world.bind_and_settle(*names)
            world.delete(*names)
            await world.settle()
        log = await fetched(world)
    entries = list(read(log))
    assert isinstance(entries[0], Began)
    assert sum(isinstance(one, Began) for one in entries) > 1
    assert len(log) < 6_000 + 20_000
    assert verdicts(list(replay(entries)))[2] == []


async def test_what_could_not_be_written_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "Recorder", partial(Recorder, waiting_most=2))
    async with running(*NODES, record=ON) as world:
        for number in range(5):
            world.gang(f"g{number}", 1)
        await world.settle(0.2)
        world.bind_offered(*(f"g{number}-0" for number in range(5)))
        await world.settle(3.0)
        await world.planned_gang("later", 1)
        log = await fetched(world)
        lost = world.counted("record_lost_total")
    found = again(log)
    assert sum(one.entries for one in found if isinstance(one, Gap)) == lost > 0
    assert verdicts(found)[2] == []
    assert isinstance(found[-1], RunAgain)


async def test_nothing_is_kept_unless_it_is_asked_for() -> None:
    async with running(*NODES) as world:
        answer = await answered(world)
    assert answer.status_code == 404
    assert "record.enabled" in answer.json()["detail"]


FAULTS = {  # case: (what is no log, what is said)
    "another file": (b"hello", "no whole gzip file"),
    "not copied to its end": (gzip.compress(encoded(Lost(3)))[:20], "no whole gzip file"),
    "not ours": (gzip.compress(b"some words that are no log at all"), "no length that could be"),
    "no entry": (gzip.compress(b"\x00\x00\x00\x02\x91\x01"), "no entry of a decision log"),
    "half an entry": (gzip.compress(b"\x00\x00\x00\x09\x91\x01"), "ends too early"),
}


@pytest.mark.parametrize(("log", "said"), FAULTS.values(), ids=FAULTS)
def test_what_is_no_log_is_refused(log: bytes, said: str) -> None:
    with pytest.raises(BadLogError, match=said):
        again(log)


def test_entries_without_a_chapter_are_refused() -> None:
    entries: list[Entry] = [Lost(3)]
    assert list(replay(entries)) == [Gap(0, 3)]
