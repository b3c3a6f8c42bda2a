"""Time in a simulated cluster: an event loop whose time jumps, and how long things take.

Why an own loop: the service under simulation is asyncio code with deadlines, and must run unchanged. Rule: nothing real
is waited for. There are no sockets, threads or signals here; when nothing is ready, the time becomes that of the next
timer, and without any timer the simulation is over, which is an error of its caller. Durations are constants, or drawn
within stated bounds under the run's seed; all are in one table, because what a simulation assumes must be readable in
one place. The defaults are those of one machine with two cores that runs everything (docs/research/simulator-pods.md
says where each number is from).
"""

import asyncio
import random
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

T = TypeVar("T")

START_S = 1_700_000_000.0
"""Wall clock at loop time 0: objects carry timestamps, and they must not depend on when the simulation runs."""


class NothingLeftError(RuntimeError):
    """All tasks wait and nothing will wake them."""


class VirtualLoop(asyncio.BaseEventLoop):
    """`asyncio.BaseEventLoop` on a clock that jumps to the next timer. Not for threads: no thread may call it."""

    def __init__(self) -> None:
        super().__init__()
        self._selector = self
        self._now_s = 0.0

    def time(self) -> float:
        """Seconds since the loop was made."""
        return self._now_s

    def select(self, timeout_s: float | None) -> list[object]:
        """What the loop calls to wait: time passes, and nothing has happened. NothingLeftError without a timer."""
        if timeout_s is None:
            raise NothingLeftError("every task waits for another one, and no timer is set")
        self._now_s += timeout_s
        return []

    def _process_events(self, event_list: list[object]) -> None:
        """There are none."""

    def _write_to_self(self) -> None:
        """Wake the loop from another thread or signal: there are none."""


class VirtualClock:
    """The Clock port over the running loop; the wall clock shows `START_S` when the loop began."""

    def now_s(self) -> float:
        """Wall clock, Unix seconds."""
        return START_S + asyncio.get_running_loop().time()

    def monotonic_s(self) -> float:
        """The loop's time."""
        return asyncio.get_running_loop().time()


def run_virtual(main: Coroutine[Any, Any, T]) -> T:
    """Run `main` to its end in virtual time, as `asyncio.run` does in real time.

    >>> async def hour() -> float:
    ...     await asyncio.sleep(3600.0)
    ...     return asyncio.get_running_loop().time()
    >>> run_virtual(hour())
    3600.0
    """
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)


@dataclass(frozen=True, slots=True)
class Latency:
    """A duration: `mean_s`, or uniform within `mean_s` × (1 ± `spread_ratio`)."""

    mean_s: float
    spread_ratio: float = 0.0

    def __post_init__(self) -> None:
        if self.mean_s < 0.0 or not 0.0 <= self.spread_ratio <= 1.0:
            raise ValueError("a latency is not negative, and varies by at most its own mean")

    def draw(self, rng: random.Random) -> float:
        """Seconds of one occasion.

        >>> Latency(2.0).draw(random.Random(1))
        2.0
        >>> 1.0 <= Latency(2.0, 0.5).draw(random.Random(1)) <= 3.0
        True
        """
        if not self.spread_ratio:
            return self.mean_s
        return self.mean_s * (1.0 + self.spread_ratio * (2.0 * rng.random() - 1.0))


@dataclass(frozen=True, slots=True)
class Latencies:
    """All durations that the cluster around the service has; what the service computes takes no time."""

    write: Latency = field(default_factory=lambda: Latency(0.003))
    """One POST, PATCH or GET, from the call to its effect and answer."""
    page: Latency = field(default_factory=lambda: Latency(0.02))
    """One page of a list."""
    watch_s: float = 0.002
    """From a change to the moment at which watchers know of it."""
    cycle: Latency = field(default_factory=lambda: Latency(0.0008))
    """kube-scheduler's cycle for one pod, without nodes and extender."""
    node_s: float = 4e-7
    """And for each node that its filters look at."""
    verb: Latency = field(default_factory=lambda: Latency(0.0004))
    """One call of /filter or /prioritize, there and back."""
    name_s: float = 4e-8
    """And for each node name in it."""
    pod_create: Latency = field(default_factory=lambda: Latency(0.004))
    """A job's controller makes its pods one after the other."""
    pod_start: Latency = field(default_factory=lambda: Latency(1.0))
    """From the Binding to the running container."""
    pod_stop: Latency = field(default_factory=lambda: Latency(1.0))
    """From the request to delete a running pod to its end."""
