"""The C library keeps what comes and goes, in one heap, and gives back the rest."""

import json
import platform
import subprocess
import sys

import pytest

from extender.heap import keep_one_heap

BEGIN = """
import json, resource, sys, threading
import numpy as np
from extender.collecting import resident_bytes
from extender.heap import keep_one_heap

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

only_glibc = pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc",
    reason="another C library is left as it is, which the last test shows; there is nothing to measure",
)


def measured(program: str, how: str) -> float:
    """What the program prints in a process of its own: tight, or left as it is."""
    command = [sys.executable, "-c", BEGIN + program, how]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
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
    """Of 62 MiB in each of four threads, all but the 3 MiB that may stay, and a little for the threads."""
    assert measured(MANY, "tight") < 8.0


def test_another_c_library_is_left_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has no such setting, and netgang runs all the same."""
    monkeypatch.setattr(sys, "platform", "darwin")
    assert not keep_one_heap()
