"""The planning loop: one run for many changes, none for none, a question once per plan; docs/safety.md S15."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import TypeVar

import pytest

from extender.cache.cluster import ClusterCache
from extender.runtime.decision_lines import Decision, DecisionLog
from extender.runtime.slices import Worker
from extender.runtime.telemetry import Telemetry
from extender.scheduling.planner_loop import Planner, PlanReport, at_once
from extender.scheduling.verbs import is_worth_a_wait
from scoring import GangKey, NodeName, PodUid, ZoneName
from scoring.model import Gang
from scoring.model.gang import gang_key
from scoring.model.policy import Policy, ZonePolicy
from scoring.model.reasons import Reason
from scoring.plan import Admission, Plan, Waiting
from tests.builders import mesh, node, pod
from tests.extender.beside import counting_turns, playing
from tests.fakes.clock import LoopClock

pytestmark = pytest.mark.looptime

G = gang_key("default", "g")
T = TypeVar("T")


class SlowWorker:
    def __init__(self, work_s: float) -> None:
        self._work_s = work_s

    async def __call__(self, work: Callable[[], T]) -> T:
        made = work()
        await asyncio.sleep(self._work_s)
        return made


class Desk:
    def __init__(
        self, policy: Policy | None = None, *, clock: LoopClock | None = None, worker: Worker = at_once
    ) -> None:
        self.cache = ClusterCache()
        self.cache.nodes.put(node("n1"))
        more = (policy or Policy(), clock or LoopClock(), Telemetry(), DecisionLog())
        self.planner = Planner(self.cache, *more, worker=worker)
        self.cache.on_change = self.planner.mark_dirty
        self.plans: list[Plan] = []
        self.times_s: list[float] = []
        self.planner.subscribe(self._note)

    def gang(self, name: str = "g", size: int = 1, *, cpu: str = "1", exists: int | None = None) -> Gang:
        for number in range(size if exists is None else exists):
            self.cache.pods.put(pod(f"{name}-{number}", gang=name, min_available=size, cpu=cpu))
        return self.cache.snapshot().gangs[gang_key("default", name)]

    def _note(self, plan: Plan) -> None:
        self.plans.append(plan)
        self.times_s.append(asyncio.get_running_loop().time())


@asynccontextmanager
async def at_work(desk: Desk) -> AsyncIterator[Desk]:
    async with playing(desk.planner.run()):
        yield desk


async def test_many_changes_become_one_run() -> None:
    async with at_work(Desk()) as desk:
        desk.gang(size=50)
        await asyncio.sleep(0.01)
        desk.gang("h", size=50)
        await asyncio.sleep(1.0)
        assert desk.times_s == pytest.approx([0.0, 0.05])
        assert desk.planner.current.version == desk.cache.version


async def test_nothing_is_planned_without_a_change() -> None:
    async with at_work(Desk()) as desk:
        gang = desk.gang()
        await asyncio.sleep(1.0)
        for _ in range(3):
            desk.planner.mark_dirty()
            assert not is_worth_a_wait(desk.planner, gang)
            await desk.planner.replan()
            await asyncio.sleep(100.0)
        assert len(desk.plans) == 1


@pytest.mark.parametrize(("run_s", "pause_s"), [(0.1, 0.5), (3.0, 2.0)])
async def test_the_pause_stretches_with_the_length_of_a_run(run_s: float, pause_s: float) -> None:
    """Five times as long, a sixth of the loop at most, but never longer than two seconds (docs/safety.md S15)."""
    async with at_work(Desk(worker=SlowWorker(run_s))) as desk:
        for number in range(60):
            desk.gang(f"g{number}")
            await asyncio.sleep(max(0.05, run_s / 5))
        pauses = [later - earlier for earlier, later in pairwise(desk.times_s)]
        assert len(pauses) >= 3
        assert pauses == pytest.approx([run_s + pause_s] * len(pauses))


async def asked(desk: Desk, gang: Gang) -> Plan:
    if is_worth_a_wait(desk.planner, gang):
        await desk.planner.soon()
    return desk.planner.current


async def test_a_gang_that_is_new_or_changed_is_planned_on_the_spot() -> None:
    desk = Desk()
    assert (await asked(desk, desk.gang(size=2, exists=1))).waiting[G].reason is Reason.INCOMPLETE
    await asyncio.sleep(1.0)
    plan = await asked(desk, desk.gang(size=2))
    assert plan.admitted[G].members
    assert desk.plans[1:] == [plan]


async def test_a_waiting_gang_is_planned_on_the_spot_when_anything_changed() -> None:
    desk = Desk()
    desk.cache.pods.put(pod("stranger", node="n1", cpu="8"))
    gang = desk.gang()
    assert (await asked(desk, gang)).waiting[G].reason is Reason.NO_ROOM
    await asyncio.sleep(1.0)
    desk.cache.pods.remove("default/stranger")
    plan = await asked(desk, gang)
    assert G in plan.admitted
    desk.cache.nodes.put(node("n2"))
    assert await asked(desk, gang) is plan


async def test_the_spot_has_a_budget() -> None:
    async with at_work(Desk(worker=SlowWorker(0.1))) as desk:
        desk.gang()
        await asyncio.sleep(0.11)
        assert gang_key("default", "late") not in (await asked(desk, desk.gang("late"))).admitted
        await asyncio.sleep(0.7)
        assert gang_key("default", "late") in desk.planner.current.admitted


async def test_a_caller_waits_for_some_milliseconds_at_most() -> None:
    """A longer run goes on: until then the plan there is answers (docs/safety.md S15)."""
    desk = Desk(worker=SlowWorker(1.0))
    gang, began_s = desk.gang(), asyncio.get_running_loop().time()
    assert (await asked(desk, gang)).version == -1
    assert asyncio.get_running_loop().time() - began_s < 0.01
    await asyncio.sleep(1.0)
    assert G in desk.planner.current.admitted


async def test_a_long_question_holds_up_no_plan() -> None:
    async with at_work(Desk()) as desk:
        desk.planner.questions = SlowWorker(60.0)
        async with playing(desk.planner.ask(lambda *, cache: cache)):
            desk.gang()
            await asyncio.sleep(0.1)
            assert G in desk.planner.current.admitted


async def test_changes_during_a_run_are_the_next_one_s() -> None:
    async with at_work(Desk(worker=SlowWorker(1.0))) as desk:
        desk.gang()
        await asyncio.sleep(0.5)
        desk.gang("late")
        await asyncio.sleep(10.0)
        assert [len(made.admitted) for made in desk.plans] == [1, 2]


async def test_a_run_that_did_not_know_of_a_commitment_is_made_again() -> None:
    async with at_work(Desk(worker=SlowWorker(1.0))) as desk:
        desk.cache.nodes.put(node("n2"))
        gang = desk.gang(cpu="8")
        await asyncio.sleep(0.5)
        desk.cache.on_change = lambda _: None
        desk.cache.set_commitment(gang.key, {gang.members[0].uid: NodeName("n2")})
        await asyncio.sleep(10.0)
        assert [made.admitted[G].committed for made in desk.plans] == [False, True]


async def test_many_new_gangs_are_planned_in_several_runs() -> None:
    """And without another change; until then nothing is taken from others or given to them."""
    async with at_work(Desk()) as desk:
        for number in range(450):
            desk.gang(f"g{number}")
        await asyncio.sleep(60.0)
        assert [len(made.admitted) + len(made.waiting) for made in desk.plans] == [200, 400, 450]
        assert not desk.planner.unfinished


async def test_a_back_off_ends_without_any_event() -> None:
    async with at_work(Desk()) as desk:
        desk.gang()
        desk.cache.back_off(G, LoopClock().now_s() + 3.0)
        await asyncio.sleep(2.5)
        assert desk.planner.current.waiting[G].reason is Reason.BACKING_OFF
        await asyncio.sleep(2.0)
        assert G in desk.planner.current.admitted
        made = len(desk.plans)
        await asyncio.sleep(60.0)
        assert len(desk.plans) == made


async def test_a_gang_that_may_spread_does_so_when_its_wait_is_over() -> None:
    desk = Desk(Policy(zone_policy=ZonePolicy.PREFERRED, spill_wait_s=10.0), clock=LoopClock(0.0))
    desk.cache.nodes.put(node("n2", zone="b"))
    async with at_work(desk):
        desk.gang(size=2, cpu="8")
        await asyncio.sleep(8.0)
        assert desk.planner.current.waiting[G].reason is Reason.SPILL_WAIT
        await asyncio.sleep(4.0)
        assert desk.planner.current.admitted[G].zones == ("a", "b")


async def test_every_listener_hears_every_plan() -> None:
    desk = Desk()
    heard: list[int] = []

    def react(plan: Plan) -> None:
        heard.append(plan.version)
        if len(heard) == 1:
            desk.cache.nodes.put(node("n2"))

    desk.planner.subscribe(react)
    async with at_work(desk):
        desk.gang()
        await asyncio.sleep(1.0)
    assert (heard, len(heard), heard[-1]) == ([plan.version for plan in desk.plans], 2, desk.cache.version)


@pytest.mark.parametrize("in_a_thread", [True, False])
async def test_new_measurements_are_scored_before_a_plan(monkeypatch: pytest.MonkeyPatch, in_a_thread: bool) -> None:
    monkeypatch.setattr("extender.scheduling.planner_loop._INLINE_NODES", 0 if in_a_thread else 1000)
    desk = Desk()
    desk.cache.nodes.put(node("n2", cpu="1"))
    desk.gang(size=2, cpu="1")
    network = mesh(["n1", "n2"])
    await desk.planner.prepare(network)
    desk.cache.set_network(network)
    assert (await desk.planner.replan()).admitted[G].score == 100.0


def waiting(reason: Reason, *numbers: int) -> dict[GangKey, Waiting]:
    keys = [gang_key("team", f"w-{number}") for number in numbers]
    return {key: Waiting(key, rank, reason) for rank, key in enumerate(keys)}


def admitted(*numbers: int) -> dict[GangKey, Admission]:
    keys = [gang_key("team", f"a-{number}") for number in numbers]
    places = [{PodUid(f"u-{number}"): NodeName(f"n-{number}")} for number in numbers]
    return {
        key: Admission(key, rank, (ZoneName("a"),), members, None, committed=False)
        for rank, (key, members) in enumerate(zip(keys, places, strict=True))
    }


class Heard:
    def __init__(self) -> None:
        self.lines: list[tuple[str, str]] = []
        self.turns: list[int] = []
        self.turn: Callable[[], int] = int
        self.report = PlanReport(Telemetry(), DecisionLog(refusals_per_s_max=10_000, heard=self._note), LoopClock())

    def _note(self, decision: Decision) -> None:
        self.lines.append((decision.what, decision.gang.partition("/")[2]))
        self.turns.append(self.turn())


@asynccontextmanager
async def reporting(heard: Heard) -> AsyncIterator[None]:
    async with counting_turns() as heard.turn, playing(heard.report.run()):
        yield


async def _turns(number: int) -> None:
    for _ in range(number):
        await asyncio.sleep(0)


async def test_plans_are_told_in_order_and_a_few_lines_a_turn() -> None:
    heard, many = Heard(), range(300)
    first = Plan(version=2, admitted=admitted(*many), waiting=waiting(Reason.NO_ROOM, *many))
    second = Plan(version=3, admitted=admitted(*many), waiting=waiting(Reason.RESERVED, 1))
    async with reporting(heard):
        heard.report.made(Plan(version=1), first, took_s=0.01)
        assert heard.lines == []
        await _turns(2)
        heard.report.made(first, second, took_s=0.01)
        await _turns(200)
        told = [*[("admit", f"a-{n}") for n in many], *[("plan", f"w-{n}") for n in many], ("plan", "w-1")]
        assert heard.lines == told
    assert max(heard.turns.count(turn) for turn in set(heard.turns)) <= 8


async def test_only_what_is_new_is_told() -> None:
    heard = Heard()
    before = Plan(version=1, admitted=admitted(1), waiting=waiting(Reason.NO_ROOM, 1, 2))
    reasons = {**waiting(Reason.NO_ROOM, 1), **waiting(Reason.RESERVED, 2)}
    async with reporting(heard):
        heard.report.made(before, Plan(version=2, admitted=admitted(1, 2), waiting=reasons), took_s=0.01)
        await _turns(5)
    assert heard.lines == [("admit", "a-2"), ("plan", "w-2")]


async def test_plans_do_not_pile_up_and_what_is_left_is_told_at_the_end() -> None:
    heard = Heard()
    plans = [Plan(version=version, admitted=admitted(version)) for version in range(12)]
    for before, now in pairwise(plans):
        heard.report.made(before, now, took_s=0.01)
    assert heard.lines == [("admit", f"a-{version}") for version in (1, 2, 3)]
    async with reporting(heard):
        await _turns(2)
        assert len(heard.lines) < 11
    assert heard.lines == [("admit", f"a-{version}") for version in range(1, 12)]
