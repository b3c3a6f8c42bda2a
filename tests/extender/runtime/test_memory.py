"""Free memory is given back each minute, and garbage collected when memory has grown by half and not before."""

import asyncio
import gc
import mmap
import sys
import weakref
from collections.abc import Iterator

import pytest

from extender.runtime.memory import (
    GIVE_EVERY_S,
    LOOK_EVERY_S,
    can_watch_memory,
    collect_when_grown,
    give_back,
    give_back_each_minute,
    keep_one_heap,
    resident_bytes,
)


@pytest.mark.looptime
async def test_asks_once_a_minute() -> None:
    asked_s: list[float] = []
    loop = asyncio.get_running_loop()

    def ask() -> bool:
        asked_s.append(loop.time())
        return False

    task = asyncio.create_task(give_back_each_minute(ask))
    began_s = loop.time()
    await asyncio.sleep(3.5 * GIVE_EVERY_S)
    task.cancel()
    assert [at_s - began_s for at_s in asked_s] == pytest.approx([60.0, 120.0, 180.0])


def test_another_c_library_is_left_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert not keep_one_heap()
    assert not give_back()


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
    known = weakref.ref(before)
    task = asyncio.create_task(collect_when_grown(lambda: course[at]))
    await asyncio.sleep(LOOK_EVERY_S / 2)
    del before
    for at in range(1, len(course)):
        lost = weakref.ref(_Knot())
        await asyncio.sleep(LOOK_EVERY_S)
        if lost() is None:
            seen.append(at)
    task.cancel()
    assert seen == collected
    assert known() is not None


@pytest.mark.skipif(
    not can_watch_memory(),
    reason="no /proc/self/statm here: the interpreter then collects by itself, and nothing of this runs",
)
def test_memory_is_what_the_kernel_counts() -> None:
    """Touched pages count. They come from the kernel: the C library may have as much that it kept."""
    before = resident_bytes()
    with mmap.mmap(-1, 64 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as block:
        block.write(b"x" * len(block))
        assert resident_bytes() - before > 48 << 20
