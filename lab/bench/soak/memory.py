"""How much memory a process has over time, and whether that grows.

Why straight lines: single samples jump by a page cache or a collection; what matters is where they go.
"""

import os
import threading
import time
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from statistics import median

_SAMPLE_S = 2.0


class Memory(threading.Thread):
    """Resident memory of a process, read from /proc every two seconds: what the kernel counts, without a tracer."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.samples: list[tuple[float, float]] = []
        """(seconds since the start, MiB)"""
        self._statm = Path(f"/proc/{pid}/statm")
        self._over = threading.Event()

    def run(self) -> None:
        """Until `end`."""
        begun_s = time.monotonic()
        while not self._over.wait(_SAMPLE_S):
            pages = int(self._statm.read_text().split()[1])
            self.samples.append((time.monotonic() - begun_s, pages * os.sysconf("SC_PAGE_SIZE") / 2**20))

    def end(self) -> None:
        """Read no more."""
        self._over.set()
        self.join()


def growth(samples: Sequence[tuple[float, float]], *, warm_s: float) -> dict[str, float]:
    """Memory when warm and at the end (medians of a tenth of the time), and straight lines: from then on, second half.

    >>> found = growth([(float(t), 100.0 + t / 60.0) for t in range(0, 1200, 2)], warm_s=120.0)
    >>> {name: round(value, 2) for name, value in found.items() if "half" not in name}
    {'rss_warm_mib': 102.9, 'rss_end_mib': 119.1, 'rss_ratio': 1.16, 'rss_slope_mib_per_h': 60.0}
    >>> settled = growth([(float(t), 100.0 + min(t, 500.0) / 60.0) for t in range(0, 1200, 2)], warm_s=120.0)
    >>> [round(one[name], 2) for one in (found, settled) for name in ("rss_half_slope_mib_per_h", "rss_half_ratio")]
    [60.0, 1.09, 0.0, 1.0]
    """
    kept = [(at_s, size) for at_s, size in samples if at_s >= warm_s] or list(samples)
    tenth = max(len(kept) // 10, 1)
    first, last = (sorted(size for _, size in some)[len(some) // 2] for some in (kept[:tenth], kept[-tenth:]))
    half = samples[len(samples) // 2 :]
    half_begin, half_slope = _line(half)
    return {
        "rss_warm_mib": first,
        "rss_end_mib": last,
        "rss_ratio": last / first,
        "rss_slope_mib_per_h": _line(kept)[1] * 3600.0,
        "rss_half_slope_mib_per_h": half_slope * 3600.0,
        "rss_half_ratio": 1.0 + half_slope * (half[-1][0] - half[0][0]) / half_begin,
    }


def each_minute(samples: Sequence[tuple[float, float]]) -> list[float]:
    """Median of each minute, MiB: in which one it grew.

    >>> each_minute([(10.0, 100.0), (20.0, 130.0), (30.0, 101.0), (70.0, 102.04)])
    [101.0, 102.0]
    """
    minutes = groupby(samples, key=lambda sample: int(sample[0] // 60.0))
    return [round(median(size for _, size in some), 1) for _, some in minutes]


def _line(samples: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """The straight line with the least squares: its value at the first sample, and its rise per second."""
    mean_s, mean = (sum(one[i] for one in samples) / len(samples) for i in (0, 1))
    spread = sum((at_s - mean_s) ** 2 for at_s, _ in samples)
    slope = sum((at_s - mean_s) * (size - mean) for at_s, size in samples) / spread if spread else 0.0
    return mean + slope * (samples[0][0] - mean_s), slope
