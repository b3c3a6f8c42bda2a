"""What is told of plans: all of it, in order, and a few lines at a time."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import pairwise

import pytest

from extender.runtime.decision_lines import Decision, DecisionLog
from extender.runtime.telemetry import Telemetry
from extender.scheduling.planner_loop import PlanReport
from scoring.ids import GangKey, NodeName, PodUid, ZoneName, gang_key
from scoring.model.reasons import Reason
from scoring.plan import Admission, Plan, Waiting
from tests.extender.beside import counting_turns, playing
from tests.fakes.clock import LoopClock

pytestmark = pytest.mark.looptime


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
    """A report whose lines are noted, with the turn of the loop in which each was written."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str]] = []
        self.turns: list[int] = []
        self.turn: Callable[[], int] = int
        telemetry = Telemetry()
        log = DecisionLog(refusals_per_s_max=10_000, heard=self._note)
        self.report = PlanReport(telemetry, log, LoopClock())

    def _note(self, decision: Decision) -> None:
        self.lines.append((decision.what, decision.gang.partition("/")[2]))
        self.turns.append(self.turn())


@asynccontextmanager
async def at_work(heard: Heard) -> AsyncIterator[None]:
    async with counting_turns() as heard.turn, playing(heard.report.run()):
        yield


async def _turns(number: int) -> None:
    for _ in range(number):
        await asyncio.sleep(0)


async def test_a_long_plan_is_told_a_few_lines_a_turn() -> None:
    heard, many = Heard(), range(300)
    async with at_work(heard):
        made = Plan(version=2, admitted=admitted(*many), waiting=waiting(Reason.NO_ROOM, *many))
        heard.report.made(Plan(version=1), made, took_s=0.01)
        assert heard.lines == []
        await _turns(200)
    assert heard.lines == [("admit", f"a-{n}") for n in many] + [("plan", f"w-{n}") for n in many]
    assert max(heard.turns.count(turn) for turn in set(heard.turns)) <= 8


async def test_a_plan_that_comes_meanwhile_is_told_after_the_one_before() -> None:
    heard, none = Heard(), Plan(version=1)
    first = Plan(version=2, admitted=admitted(*range(20)))
    second = Plan(version=3, waiting=waiting(Reason.NO_ROOM, 1))
    async with at_work(heard):
        heard.report.made(none, first, took_s=0.01)
        await _turns(2)
        heard.report.made(first, second, took_s=0.01)
        await _turns(20)
    assert heard.lines == [("admit", f"a-{n}") for n in range(20)] + [("plan", "w-1")]


async def test_only_what_is_new_is_told() -> None:
    heard = Heard()
    before = Plan(version=1, admitted=admitted(1), waiting=waiting(Reason.NO_ROOM, 1, 2))
    now = Plan(
        version=2, admitted=admitted(1, 2), waiting={**waiting(Reason.NO_ROOM, 1), **waiting(Reason.RESERVED, 2)}
    )
    heard.report.made(before, now, took_s=0.01)
    heard.report.finish()
    assert heard.lines == [("admit", "a-2"), ("plan", "w-2")]


async def test_plans_do_not_pile_up() -> None:
    heard = Heard()
    plans = [Plan(version=version, admitted=admitted(version)) for version in range(12)]
    for before, now in pairwise(plans):
        heard.report.made(before, now, took_s=0.01)
    assert heard.lines == [("admit", f"a-{version}") for version in (1, 2, 3)]
    heard.report.finish()
    assert heard.lines == [("admit", f"a-{version}") for version in range(1, 12)]


async def test_what_is_left_is_told_at_the_end() -> None:
    heard, many = Heard(), range(100)
    async with at_work(heard):
        heard.report.made(Plan(version=1), Plan(version=2, admitted=admitted(*many)), took_s=0.01)
        await _turns(3)
        assert 0 < len(heard.lines) < 100
    assert heard.lines == [("admit", f"a-{n}") for n in many]
