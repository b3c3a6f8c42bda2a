"""The C library gives back what is not needed."""

import platform
import subprocess
import sys

import pytest

PROGRAM = """
import sys, threading
import numpy as np
from extender.collecting import resident_bytes
from extender.heap import keep_heap_tight

if sys.argv[1] == "tight":
    assert keep_heap_tight()

def fill():
    for size in range(300, 3000, 100):  # each size larger than the one before: KiB
        for _ in range(4):
            kept.append(np.ones(size << 7))
        small.append(np.ones(1 << 12))
    kept.clear()

kept, small = [], []
threads = [threading.Thread(target=fill) for _ in range(4)]
for thread in threads:
    thread.start()
    thread.join()
print(resident_bytes() >> 10)
"""


def resident_kib(how: str) -> int:
    """What a process has after four threads made and dropped large arrays."""
    done = subprocess.run([sys.executable, "-c", PROGRAM, how], capture_output=True, text=True, check=True, timeout=60)
    return int(done.stdout)


@pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc", reason="only glibc keeps such heaps, and has mallopt to change it"
)
def test_a_process_shrinks_after_large_arrays() -> None:
    """Beside one that was left as it is."""
    loose, tight = resident_kib("loose"), resident_kib("tight")
    assert tight < loose
