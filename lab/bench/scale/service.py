"""The service's side of `lab.bench.scale`: netgang as it is served, with a probe of its event loop beside it.

Why in the same process: a stall of the loop (docs/safety.md S15) is only seen from the loop. Rule: the service is the
product's own, from `bootstrap.live` to uvicorn's settings; the probe only looks on. Commands come as JSON lines on
standard input:

    {"do": "synced"}    answers when the first plan was made
    {"do": "mark"}      start to count again; answers with what was counted since the last mark
    {"do": "full"}      times of full plans of the cluster as it is now
"""

import argparse
import asyncio
import gc
import json
import logging
import socket
import statistics
import sys
import time
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import uvicorn
import uvloop

from extender import bootstrap
from extender.bootstrap.serve import configs, favour_the_loop, running
from extender.ports import SystemClock
from extender.runtime.log_lines import LogFormat, configure_logging
from extender.scheduling import planner_loop
from extender.settings.settings import Settings
from lab.bench.child import say
from lab.bench.scale.objects import STARVE_LIMIT_S
from scoring.plan import Plan, PlannerCache, plan

_BEAT_S = 0.002


class Stall(msgspec.Struct):
    """The longest since the last report, how many were above 20 ms, and how many of all beats came 5 ms late.

    Why not all of them: a list as long as the run would be in the very process whose memory is watched.
    """

    wall_s: float = 0.0
    loop_s: float = 0.0
    above_20_ms: int = 0
    beats: int = 0
    late: int = 0
    collection_s: float = 0.0


class Probe:
    """How late the loop is. Lateness counts from when the beat was due."""

    def __init__(self) -> None:
        """Begin to beat on the running loop."""
        self._stall = Stall()
        self._collecting_s = 0.0
        self._loop = asyncio.get_running_loop()
        self._beat_s, self._own_s = time.perf_counter(), time.thread_time()
        self._loop.call_later(_BEAT_S, self._beat)
        gc.callbacks.append(self._collection)

    def _beat(self) -> None:
        now_s, own_s = time.perf_counter(), time.thread_time()
        late_s = now_s - self._beat_s - _BEAT_S
        longest, loop_s = self._stall, min(own_s - self._own_s, late_s)
        longest.beats += 1
        if late_s > 0.005:
            longest.late += 1
            longest.wall_s = max(longest.wall_s, late_s)
            longest.loop_s = max(longest.loop_s, loop_s)
            longest.above_20_ms += loop_s > 0.02
        self._beat_s, self._own_s = now_s, own_s
        self._loop.call_later(_BEAT_S, self._beat)

    def _collection(self, phase: str, _: dict[str, int]) -> None:
        if phase == "start":
            self._collecting_s = time.thread_time()
        else:
            self._stall.collection_s = max(self._stall.collection_s, time.thread_time() - self._collecting_s)

    def report(self) -> dict[str, float]:
        """Longest stalls: by the CPU of the loop's thread (docs/safety.md S15), and by the clock."""
        found, self._stall = self._stall, Stall()
        return {
            "stall_wall_ms": found.wall_s * 1e3,
            "stall_ms": found.loop_s * 1e3,
            "stalls_above_20_ms": found.above_20_ms,
            "late_5_ms_share": found.late / max(found.beats, 1),
            "gc_ms": found.collection_s * 1e3,
        }


class Runs:
    """CPU time of planner runs."""

    def __init__(self) -> None:
        self.made = asyncio.Event()
        self._seconds = array("d")
        self._loop = asyncio.get_running_loop()

    def timed(self, plan: Callable[..., Plan]) -> Callable[..., Plan]:
        """The same, with the length of each run noted."""

        def run(*arguments: Any, **named: Any) -> Plan:
            begun_s = time.thread_time()
            made = plan(*arguments, **named)
            self._seconds.append(time.thread_time() - begun_s)
            self._loop.call_soon_threadsafe(self.made.set)
            return made

        return run

    def report(self) -> dict[str, float]:
        """Number, percentiles and sum since the last report."""
        ordered = sorted(self._seconds) or [0.0]
        result = {
            "plans": len(self._seconds),
            "plan_p50_ms": statistics.median(ordered) * 1e3,
            "plan_p99_ms": ordered[int(0.99 * (len(ordered) - 1))] * 1e3,
            "plan_max_ms": ordered[-1] * 1e3,
            "plan_total_s": sum(ordered),
        }
        del self._seconds[:]
        return result


def status_mib(field: str) -> float:
    """A line of /proc/self/status, in MiB."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"/proc/self/status has no {field}")


class Commands:
    """Answers to what the benchmark asks."""

    def __init__(self, service: bootstrap.Service, probe: Probe, runs: Runs) -> None:
        self._service = service
        self._probe = probe
        self._runs = runs
        self._begun_s, self._cpu_s = time.perf_counter(), time.process_time()

    async def serve(self) -> None:
        """Until standard input closes."""
        while line := await asyncio.to_thread(sys.stdin.readline):
            match json.loads(line)["do"]:
                case "synced":
                    await self._runs.made.wait()
                    answer = self._mark()
                case "mark":
                    answer = self._mark()
                case "full":
                    answer = self._full()
                case other:
                    raise ValueError(f"unknown command {other}")
            say({"ok": answer})

    def _mark(self) -> dict[str, Any]:
        now_s, cpu_s = time.perf_counter(), time.process_time()
        current = self._service.planner.current
        answer = {
            "seconds": now_s - self._begun_s,
            "cpu_s": cpu_s - self._cpu_s,
            "rss_mib": status_mib("VmRSS"),
            "peak_mib": status_mib("VmHWM"),
            "admitted": len(current.admitted),
            "waiting": len(current.waiting),
            **self._probe.report(),
            **self._runs.report(),
        }
        self._begun_s, self._cpu_s = now_s, cpu_s
        return answer

    def _full(self) -> dict[str, Any]:
        """Plans from nothing: with pair scores of this network data, as after a change of leader, and without."""
        planner = self._service.planner
        snapshot = self._service.cache.snapshot()
        gc.collect()
        now_s = SystemClock().now_s()
        times: dict[str, float] = {}
        for name, cache in (("plan_full_cold", PlannerCache()), ("plan_full", PlannerCache())):
            if name == "plan_full":
                cache.network = planner.cache.borrowed().network
            runs = Runs()
            runs.timed(plan)(snapshot, planner.policy, now_s=now_s, cache=cache)
            times[f"{name}_ms"] = runs.report()["plan_max_ms"]
        self._probe.report()
        return times


async def _main(kubeconfig: Path, mesh: Path | None) -> None:
    sources = () if mesh is None else ({"kind": "file", "path": str(mesh)},)
    more = {"network": {"sources": sources}, "queue": {"starve_limit_s": STARVE_LIMIT_S}}
    settings = Settings().changed({"kubeconfig": kubeconfig, "scheduler_names": ("netgang",), **more})
    favour_the_loop()
    runs = Runs()
    listener = socket.create_server(("127.0.0.1", 0))
    async with running(bootstrap.live(settings)) as service:
        vars(planner_loop)["plan"] = runs.timed(plan)
        _, config = next(configs(settings, service))
        serving = asyncio.create_task(uvicorn.Server(config).serve(sockets=[listener]))
        say({"ok": {"port": listener.getsockname()[1]}})
        await Commands(service, Probe(), runs).serve()
        serving.cancel()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="netgang with a probe of its event loop.")
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument("--mesh", type=Path)
    given = parser.parse_args()
    with Path("/dev/null").open("w") as nowhere:
        configure_logging(level=logging.getLevelName(logging.INFO), log_format=LogFormat.JSON, stream=nowhere)
        uvloop.run(_main(given.kubeconfig, given.mesh))
