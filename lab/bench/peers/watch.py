"""See from outside when pods appear, are admitted and are bound, and how much CPU netgang takes meanwhile.

Why a watch: the API server's own times have whole seconds. Rule: a pod's time is when the event that first shows its
node arrives here; a watch that the API server ends goes on from the last resourceVersion, so no event is missed, and
one whose version is too old is an error, because times would be wrong.
"""

import asyncio
import os
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from time import perf_counter

import msgspec

from lab.testbed.api import Api, Object
from lab.testbed.beside import beside
from lab.testbed.errors import ControlPlaneError

_SAMPLE_S = 0.02
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class WatchLost(ControlPlaneError):
    """The API server no longer has the events that would come next."""


class PodTimes(msgspec.Struct):
    """What the watch saw, in seconds of `perf_counter`."""

    bound_s: dict[str, float] = {}
    """pod → first event with a node"""
    let_in_s: dict[str, float] = {}
    """pod → first event without a scheduling gate, among those seen with one"""
    gated: set[str] = set()
    """Pods that wait at a gate."""
    bound_now: set[str] = set()
    """Pods that have a node and are still there."""
    moves: int = 0
    """How often a pod was bound, or a bound one went."""
    changed: asyncio.Event = msgspec.field(default_factory=asyncio.Event)

    def take(self, kind: str, pod: Object, *, now_s: float) -> None:
        """Note one event of a watch. WatchLost for an error event."""
        if kind == "ERROR":
            raise WatchLost(str(pod.get("message", pod)))
        name, spec = pod["metadata"]["name"], pod["spec"]
        if kind == "DELETED":
            if name in self.bound_now:
                self.bound_now.discard(name)
                self.moves += 1
            self.changed.set()
            return
        if spec.get("schedulingGates"):
            self.gated.add(name)
        elif name in self.gated:
            self.gated.discard(name)
            self.let_in_s[name] = now_s
        if spec.get("nodeName") and name not in self.bound_now:
            self.bound_now.add(name)
            self.moves += 1
            self.bound_s.setdefault(name, now_s)
            self.changed.set()

    async def until(self, done: Callable[[], bool], *, limit_s: float) -> bool:
        """Wait until `done`, which is asked after each change; `False`: not within `limit_s`."""
        with suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                while not done():
                    self.changed.clear()
                    await self.changed.wait()
                return True
        return False


@asynccontextmanager
async def pod_times(api: Api, namespace: str) -> AsyncGenerator[PodTimes, None]:
    """Follow the pods of a namespace for the time of an `async with`; existing ones are noted first.

    Raises WatchLost at the end if the watch broke in between.
    """
    times = PodTimes()
    listed = await api.request("GET", f"/api/v1/namespaces/{namespace}/pods")
    for pod in listed["items"]:
        times.take("ADDED", pod, now_s=perf_counter())
    async with beside(_follow(api, namespace, listed["metadata"]["resourceVersion"], times)):
        yield times


async def _follow(api: Api, namespace: str, version: str, times: PodTimes) -> None:
    async for kind, pod in api.watch("Pod", namespace=namespace, resource_version=version):
        times.take(kind, pod, now_s=perf_counter())


class CpuMeter(msgspec.Struct):
    """(moment of `perf_counter`, CPU seconds of user and system until then), oldest first."""

    readings: list[tuple[float, float]] = []

    def cpu_s(self, begin_s: float, end_s: float) -> float | None:
        """What was taken between two moments; `None`: it did not run."""
        until = [
            max((cpu_s for at_s, cpu_s in self.readings if at_s <= moment), default=0.0) for moment in (begin_s, end_s)
        ]
        return until[1] - until[0] if self.readings else None


@asynccontextmanager
async def cpu_meter(pid: Callable[[], int | None]) -> AsyncGenerator[CpuMeter, None]:
    """Read the process fifty times a second, as soon as there is one, until the block ends."""
    meter = CpuMeter()

    def read() -> None:
        with suppress(FileNotFoundError, ProcessLookupError):  # it has just ended
            if (number := pid()) is not None:
                meter.readings.append((perf_counter(), parsed_s(Path(f"/proc/{number}/stat").read_text())))

    async def run() -> None:
        while True:
            await asyncio.sleep(_SAMPLE_S)
            read()

    read()  # of a process that ran before, only what it takes from now on counts
    async with beside(run()):
        yield meter


def parsed_s(stat: str) -> float:
    """CPU seconds in the text of /proc/PID/stat; the name in it may hold blanks and brackets (see proc(5)).

    >>> parsed_s("7 (a b) c) " + " ".join(["S"] + ["0"] * 10 + ["150", "50"])) == 200 / _TICKS_PER_S
    True
    """
    fields = stat.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S
