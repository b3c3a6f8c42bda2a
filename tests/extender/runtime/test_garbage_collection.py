"""Garbage is collected when memory has grown by half, and not before."""

import asyncio
import gc
import weakref
from collections.abc import Iterator

import pytest

from extender.runtime.garbage_collection import LOOK_EVERY_S, can_watch_memory, collect_when_grown, resident_bytes


class _Knot:
    """Something in a cycle."""

    def __init__(self) -> None:
        self.me = self


@pytest.fixture(autouse=True)
def by_hand() -> Iterator[None]:
    """The interpreter collects nothing by itself, as in the service."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.unfreeze()
        gc.enable()


def lost() -> weakref.ref[_Knot]:
    """A cycle that nobody holds."""
    return weakref.ref(_Knot())


# what memory is at each look, and at which looks everything is collected
COURSES: dict[str, tuple[list[int], list[int]]] = {
    "as it was": ([100, 100, 100, 100], []),
    "a little more": ([100, 120, 149, 149], []),
    "half as much again": ([100, 149, 150, 150], [2]),
    "from where it was collected last": ([100, 150, 200, 225, 230], [1, 3]),
    "from the lowest": ([100, 60, 89, 90], [3]),
    "little by little": ([100, 120, 140, 160, 180, 200], [3]),
}


@pytest.mark.looptime
@pytest.mark.parametrize(("course", "collected"), COURSES.values(), ids=COURSES)
async def test_collects_once_memory_has_grown_by_half(course: list[int], collected: list[int]) -> None:
    """In virtual time; collecting gives nothing back here."""
    at = 0
    task = asyncio.create_task(collect_when_grown(lambda: course[at]))
    await asyncio.sleep(LOOK_EVERY_S / 2)
    seen = []
    for look in range(1, len(course)):
        at = look
        knot = lost()
        await asyncio.sleep(LOOK_EVERY_S)
        if knot() is None:
            seen.append(look)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert seen == collected


@pytest.mark.looptime
async def test_what_was_there_at_the_start_is_set_aside() -> None:
    """It is not looked at, and goes as ever when nobody needs it."""
    memory, kept, tied = [100], [_Knot()], _Knot()
    vars(kept[0]).clear()  # no cycle any more
    task = asyncio.create_task(collect_when_grown(lambda: memory[0]))
    await asyncio.sleep(LOOK_EVERY_S / 2)
    free, knot = weakref.ref(kept[0]), weakref.ref(tied)
    kept.clear()
    assert free() is None
    del tied
    memory[0] = 200
    await asyncio.sleep(LOOK_EVERY_S)
    assert knot() is not None
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@pytest.mark.skipif(
    not can_watch_memory(),
    reason="no /proc/self/statm here: the interpreter then collects by itself, and nothing of this runs",
)
def test_memory_is_what_the_kernel_counts() -> None:
    """Touched pages count."""
    before = resident_bytes()
    block = bytearray(64 << 20)
    assert resident_bytes() - before > 48 << 20
    assert len(block) == 64 << 20
