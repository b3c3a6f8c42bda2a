"""Long works share the loop's turns, one slice each; memory is given back each minute; the clocks behind Clock."""

import asyncio
import gc
import mmap
import sys
import time
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from weakref import ref

import pytest

from extender.ports import SystemClock
from extender.runtime import memory
from extender.runtime.slices import Steps, in_slices, next_slice
from tests.extender.beside import counting_turns, playing


async def shared(**works: int) -> list[tuple[str, int]]:
    """(work, turn of the loop) of each slice of works with so many slices; one of 0 is cancelled while it waits."""
    seen: list[tuple[str, int]] = []

    async def work(name: str, slices: int) -> None:
        for _ in range(max(slices, 1)):
            await next_slice()
            seen.append((name, turns()))

    async with counting_turns() as turns:
        tasks = [asyncio.create_task(work(name, slices)) for name, slices in works.items()]
        await asyncio.sleep(0)  # all wait by now
        for task, slices in zip(tasks, works.values(), strict=True):
            if not slices:
                task.cancel()
        await asyncio.wait(tasks)
    return seen


async def test_one_slice_in_a_turn_of_the_loop() -> None:
    seen = await shared(a=5, b=3, c=7)
    assert Counter(name for name, _ in seen) == {"a": 5, "b": 3, "c": 7}
    assert max(Counter(turn for _, turn in seen).values()) == 1


@pytest.mark.parametrize(("order", "a", "rest"), [("abcabcabc", 3, 3), ("bcbc", 0, 2)], ids=["round", "one given up"])
async def test_first_come_first_served(order: str, a: int, rest: int) -> None:
    assert "".join(name for name, _ in await shared(a=a, b=rest, c=rest)) == order


async def test_alone_a_work_goes_on_without_delay() -> None:
    for _ in range(2):
        seen = await asyncio.wait_for(shared(a=4), 1.0)
        assert max(later - sooner for (_, sooner), (_, later) in pairwise(seen)) <= 2
        await asyncio.sleep(0)


async def test_errors_of_a_work_are_its_own() -> None:
    def steps(error: Exception | None) -> Steps[str]:
        yield
        if error is not None:
            raise error
        return "made"

    with pytest.raises(ValueError, match="broken"):
        await in_slices(steps(ValueError("broken")))
    assert await in_slices(steps(None)) == "made"


def test_a_loop_that_ended_is_forgotten() -> None:
    async def leave_two_waiting() -> None:
        works = [asyncio.create_task(next_slice()) for _ in range(3)]
        await works[0]

    loop = asyncio.new_event_loop()
    loop.run_until_complete(leave_two_waiting())
    loop.close()
    gone = ref(loop)
    del loop
    gc.collect()
    assert gone() is None


async def test_times_are_the_machines() -> None:
    """Unix seconds, so that timestamps of other machines can be compared; durations as the loop's timers count them."""
    assert SystemClock().now_s() == pytest.approx(time.time(), abs=5.0)  # noqa: TID251 - what it must agree with
    assert SystemClock().monotonic_s() == pytest.approx(asyncio.get_running_loop().time(), abs=5.0)


@pytest.mark.looptime
async def test_asks_once_a_minute() -> None:
    loop, asked_s = asyncio.get_running_loop(), list[float]()
    began_s = loop.time()

    def ask() -> bool:
        asked_s.append(loop.time() - began_s)
        return False

    async with playing(memory.give_back_each_minute(ask)):
        await asyncio.sleep(3.5 * memory.GIVE_EVERY_S)
    assert asked_s == pytest.approx([60.0, 120.0, 180.0])


def test_another_c_library_is_left_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert not memory.keep_one_heap()
    assert not memory.give_back()


class _Knot:
    def __init__(self) -> None:
        self.me: object = self


@pytest.fixture
def by_hand() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()  # as tests/conftest.py left it: what is frozen stays so
        gc.enable()


COURSES: dict[str, tuple[list[int], list[int]]] = {  # memory at each look, and at which looks everything is collected
    "as it was": ([100, 100, 100, 100], []),
    "a little more": ([100, 120, 149, 149], []),
    "half as much again": ([100, 149, 150, 150], [2]),
    "from where it was collected last": ([100, 150, 200, 225, 230], [1, 3]),
    "from the lowest": ([100, 60, 89, 90], [3]),
    "little by little": ([100, 120, 140, 160, 180, 200], [3]),
}


@pytest.mark.looptime
@pytest.mark.usefixtures("by_hand")
@pytest.mark.parametrize(("course", "collected"), COURSES.values(), ids=COURSES)
async def test_collects_once_memory_has_grown_by_half(course: list[int], collected: list[int]) -> None:
    at, seen, before = 0, [], _Knot()
    known = ref(before)
    task = asyncio.create_task(memory.collect_when_grown(lambda: course[at]))
    await asyncio.sleep(memory.LOOK_EVERY_S / 2)
    del before
    for at in range(1, len(course)):
        lost = ref(_Knot())
        await asyncio.sleep(memory.LOOK_EVERY_S)
        if lost() is None:
            seen.append(at)
    task.cancel()
    assert seen == collected
    assert known() is not None


@pytest.mark.skipif(not memory.can_watch_memory(), reason="no /proc/self/statm here: nothing of this runs")
def test_memory_is_what_the_kernel_counts() -> None:
    """Touched pages count. They come from the kernel: the C library may have as much that it kept."""
    before = memory.resident_bytes()
    with mmap.mmap(-1, 64 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as block:
        block.write(b"x" * len(block))
        assert memory.resident_bytes() - before > 48 << 20
