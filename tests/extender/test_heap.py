"""The C library keeps what comes and goes, in one heap, and gives back the rest."""

import json
import platform
import subprocess
import sys

import pytest

PROGRAM = """
import json, resource, sys, threading
import numpy as np
from extender.collecting import resident_bytes
from extender.heap import keep_one_heap

if sys.argv[1] == "one heap":
    assert keep_one_heap()
np.ones(24_000).sum()

def plan():
    for _ in range(200):  # as a plan does: a MiB in some arrays at a time
        arrays = [np.ones(24_000) for _ in range(6)]
        arrays.clear()

def many():
    kept = [np.ones(24_000) for _ in range(340)]
    kept.clear()

before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
plan()
faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
resident = resident_bytes()
for _ in range(4):
    thread = threading.Thread(target=many)
    thread.start()
    thread.join()
print(json.dumps({"faults": faults, "grown_mib": (resident_bytes() - resident) / 2**20}))
"""

only_glibc = pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc", reason="only glibc keeps such heaps, and has mallopt to change it"
)


def measured(how: str) -> dict[str, float]:
    """Page faults of 200 rounds of six arrays of 188 KiB; what is left of 62 MiB of such in each of four threads."""
    done = subprocess.run([sys.executable, "-c", PROGRAM, how], capture_output=True, text=True, check=True, timeout=60)
    found: dict[str, float] = json.loads(done.stdout)
    return found


@only_glibc
def test_arrays_that_come_and_go_cost_few_page_faults() -> None:
    """Six are 282 pages: once, and not for each of the 200 rounds."""
    assert measured("one heap")["faults"] < 2_000


@only_glibc
def test_what_many_arrays_leave_behind_goes_back() -> None:
    """All but the 3 MiB that may stay, whichever thread made them; and a little for the threads."""
    assert measured("one heap")["grown_mib"] < 8.0
