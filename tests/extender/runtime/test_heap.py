"""The C library keeps what comes and goes, in one heap, and gives back the rest."""

import asyncio
import gc
import json
import platform
import subprocess
import sys

import pytest

from extender.runtime.heap import GIVE_EVERY_S, give_back, give_back_each_minute, keep_one_heap
from tests.liveness import LIVENESS_S

BEGIN = """
import json, resource, sys, threading
import numpy as np
from extender.runtime.garbage_collection import resident_bytes
from extender.runtime.heap import keep_one_heap

if sys.argv[1] == "tight":
    assert keep_one_heap()

def in_four_threads(work):
    for _ in range(4):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
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
print(json.dumps(resident_bytes() / 2**20))
"""

ROUNDS = """
np.ones(24_000).sum()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(200):  # as a plan does: a MiB in some arrays at a time
    arrays = [np.ones(24_000) for _ in range(6)]
    arrays.clear()
print(json.dumps(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before))
"""

MANY = """
def many():
    kept = [np.ones(24_000) for _ in range(340)]
    kept.clear()

np.ones(24_000).sum()
before = resident_bytes()
in_four_threads(many)
print(json.dumps((resident_bytes() - before) / 2**20))
"""

PINNED = """
from extender.runtime.heap import give_back
keep_one_heap()
before = resident_bytes()
some = [np.ones(12_000) for _ in range(340)]
last = np.ones(12_000)  # stays, and all that is free below it with it
some.clear()
if sys.argv[1] == "given back":
    assert give_back()
print(json.dumps((resident_bytes() - before) / 2**20))
"""

only_glibc = pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc",
    reason="another C library is left as it is, which the last test shows; there is nothing to measure",
)


def measured(program: str, how: str) -> float:
    """What the program prints in a process of its own: tight, or left as it is."""
    command = [sys.executable, "-c", BEGIN + program, how]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=LIVENESS_S)
    return float(json.loads(done.stdout))


@only_glibc
def test_a_process_shrinks_after_large_arrays() -> None:
    """MiB that it has after four threads made and dropped such, beside one that was left as it is."""
    assert measured(LARGE, "tight") < measured(LARGE, "loose")


@only_glibc
def test_arrays_that_come_and_go_cost_few_page_faults() -> None:
    """Six of 188 KiB are 282 pages: once, and not for each of the 200 rounds."""
    assert measured(ROUNDS, "tight") < 2_000


@only_glibc
def test_what_many_arrays_leave_behind_goes_back() -> None:
    """Of 62 MiB in each of four threads, all but the 3 MiB that may stay, and a little for the threads.

    In one of three processes at least: one small thing at the heap's end holds what is free below it, here for good.
    """
    assert min(measured(MANY, "tight") for _ in range(3)) < 8.0


@only_glibc
def test_what_is_free_below_something_that_stays_goes_back_when_asked() -> None:
    """31 MiB in arrays of 94 KiB, below one that stays."""
    assert measured(PINNED, "as it is") > 24.0  # some of it was free before
    assert measured(PINNED, "given back") < 4.0


@only_glibc
def test_asking_leaves_no_garbage() -> None:
    """Which is collected seldom (`extender.runtime.garbage_collection`)."""
    give_back()
    gc.collect()
    gc.disable()
    try:
        for _ in range(100):
            give_back()
        assert gc.collect() < 100
    finally:
        gc.enable()


@pytest.mark.looptime
async def test_asks_once_a_minute() -> None:
    """In virtual time."""
    asked_s: list[float] = []
    loop = asyncio.get_running_loop()

    def give() -> bool:
        asked_s.append(loop.time())
        return False

    began_s = loop.time()
    task = asyncio.create_task(give_back_each_minute(give))
    await asyncio.sleep(3.5 * GIVE_EVERY_S)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert [at_s - began_s for at_s in asked_s] == pytest.approx([60.0, 120.0, 180.0])


def test_another_c_library_is_left_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has no such settings, and netgang runs all the same."""
    monkeypatch.setattr(sys, "platform", "darwin")
    assert not keep_one_heap()
    assert not give_back()
