"""One heap that gives back what is free, and garbage collected when memory has grown by half and not before."""

import asyncio
import gc
import json
import mmap
import platform
import subprocess
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
from tests.liveness import LIVENESS_S

BEGIN = """
import json, os, resource, sys, threading, time
import numpy as np
from extender.runtime.memory import give_back, keep_one_heap, resident_bytes

def in_four_threads(work):
    for _ in range(4):
        others, thread = set(os.listdir("/proc/self/task")), threading.Thread(target=work)
        thread.start()
        thread.join()
        while set(os.listdir("/proc/self/task")) - others:  # the C library has the thread's own cache when it is gone
            time.sleep(0.001)

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

def some(count, size):
    arrays = [np.ones(size) for _ in range(count)]
    arrays.clear()

if sys.argv[1] == "tight":
    assert keep_one_heap()
some(1, 24_000)
before, faults_before = resident_bytes(), faults()
"""
GROWN = """
print(json.dumps((resident_bytes() - before) / 2**20))
"""
LARGE = """
def fill():
    for size in range(300, 3000, 100):  # each size larger than the one before: KiB
        for _ in range(4):
            kept.append(np.ones(size << 7))
        small.append(np.ones(1 << 12))
    kept.clear()

kept, small = [], []
in_four_threads(fill)
"""
ROUNDS = """
for _ in range(200):  # as a plan does: a MiB in some arrays at a time
    some(6, 24_000)
print(json.dumps(faults() - faults_before))
"""
MANY = """
in_four_threads(lambda: some(340, 24_000))
"""
PINNED = """
keep_one_heap()
free = [np.ones(12_000) for _ in range(340)]
last = np.ones(12_000)  # stays, and all that is free below it with it
free.clear()
if sys.argv[1] == "given back":
    assert give_back()
"""
ASKED = """
import gc
give_back()
gc.collect()
gc.disable()
for _ in range(100):
    give_back()
print(json.dumps(gc.collect()))
"""

only_glibc = pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc",
    reason="another C library is left as it is, which a test of its own shows; there is nothing to measure",
)


def measured(program: str, how: str) -> float:
    command = [sys.executable, "-c", BEGIN + program, how]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=LIVENESS_S)
    return float(json.loads(done.stdout))


@only_glibc
def test_what_comes_and_goes_stays_and_what_is_free_goes_back() -> None:
    """Six arrays of 188 KiB are 282 pages: touched once, and not in each of 200 rounds."""
    assert measured(LARGE + GROWN, "tight") < measured(LARGE + GROWN, "loose")
    assert measured(ROUNDS, "tight") < 2_000
    assert measured(MANY + GROWN, "tight") < 8.0


@only_glibc
def test_what_is_free_below_something_that_stays_goes_back_when_asked() -> None:
    assert measured(PINNED + GROWN, "as it is") > 24.0  # some of it was free before
    assert measured(PINNED + GROWN, "given back") < 4.0


@only_glibc
def test_asking_leaves_no_garbage() -> None:
    """In a process of its own: what other tests left behind may become garbage at any time."""
    assert measured(ASKED, "as it is") < 100


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
