"""The service's side of `bench.scale`: netgang as it is served, with a probe of its event loop beside it.

Why in the same process: a stall of the loop (S15) is only seen from the loop. Rule: the service is the product's own,
from `bootstrap.live` to uvicorn's settings; the probe only looks on. Commands come as JSON lines on standard input:

    {"do": "synced"}    answers when the first plan was made
    {"do": "mark"}      begin to count anew; answers with what was counted since the last mark
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
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import uvicorn
import uvloop

from extender import bootstrap
from extender.clock import SystemClock
from extender.server import running
from extender.settings import Settings
from extender.telemetry import LogFormat, configure_logging
from scoring.plan import Memo, Plan, plan

_BEAT_S = 0.002
_LATE_S = 0.015
"""From which lateness on the watchdog looks where the loop is."""
_LOOK_S = 0.003


class Probe:
    """How late the loop is. Lateness counts from when the beat was due; CPU is this process's over that time."""

    def __init__(self) -> None:
        self.stalls: list[tuple[float, float]] = []
        """(seconds late, seconds of CPU used since the beat before) of beats later than 5 ms"""
        self.beat_s = time.perf_counter()
        self._cpu_s = time.process_time()
        self._own_s = time.thread_time()
        self.own_stalls: list[float] = []
        """Seconds of CPU of the loop's thread alone between beats, where it was more than 5 ms"""
        self._collections_s: list[float] = []
        self._collecting_s = 0.0

    def start(self) -> None:
        """Begin to beat on the running loop."""
        self._loop = asyncio.get_running_loop()
        self.beat_s, self._cpu_s = time.perf_counter(), time.process_time()
        self._loop.call_later(_BEAT_S, self._beat)
        gc.callbacks.append(self._collection)

    def _beat(self) -> None:
        now_s, cpu_s, own_s = time.perf_counter(), time.process_time(), time.thread_time()
        late_s = now_s - self.beat_s - _BEAT_S
        if late_s > 0.005:
            self.stalls.append((late_s, min(cpu_s - self._cpu_s, late_s)))
            self.own_stalls.append(min(own_s - self._own_s, late_s))
        self._own_s = own_s
        self.beat_s, self._cpu_s = now_s, cpu_s
        self._loop.call_later(_BEAT_S, self._beat)

    def _collection(self, phase: str, _: dict[str, int]) -> None:
        if phase == "start":
            self._collecting_s = time.thread_time()
        else:
            self._collections_s.append(time.thread_time() - self._collecting_s)

    def report(self) -> dict[str, float]:
        """Longest stalls: by the clock, by the CPU of this process (others use the machine), and of the loop's thread.

        The difference of the last two is what threads of ours took: only one of them runs at a time.
        """
        result = {
            "longest_stall_wall_ms": max((late for late, _ in self.stalls), default=0.0) * 1e3,
            "longest_stall_ms": max((cpu for _, cpu in self.stalls), default=0.0) * 1e3,
            "longest_own_stall_ms": max(self.own_stalls, default=0.0) * 1e3,
            "stalls_above_20_ms": sum(cpu > 0.02 for _, cpu in self.stalls),
            "longest_gc_ms": max(self._collections_s, default=0.0) * 1e3,
        }
        self.stalls.clear()
        self.own_stalls.clear()
        self._collections_s.clear()
        return result


class Watchdog(threading.Thread):
    """Says on standard error where the loop was when it was late: for whoever looks for the cause of a stall."""

    def __init__(self, probe: Probe) -> None:
        super().__init__(daemon=True)
        self._probe = probe
        self._loop_thread = threading.get_ident()
        self._seen: Counter[str] = Counter()
        self._pause = threading.Event()

    def run(self) -> None:
        """Look every few milliseconds, and count only where this process is at work."""
        used_s = time.process_time()
        while not self._pause.wait(_LOOK_S):
            late_s, before_s = time.perf_counter() - self._probe.beat_s, used_s
            used_s = time.process_time()
            if late_s > _LATE_S and used_s - before_s > _LOOK_S / 2:
                stack = traceback.extract_stack(sys._current_frames()[self._loop_thread])[-9:]
                where = " < ".join(f"{Path(f.filename).stem}:{f.lineno}:{f.name}" for f in reversed(stack))
                self._seen[where] += 1

    def report(self) -> None:
        """The places most often seen."""
        for where, times in self._seen.most_common(25):
            print(f"{times:5d} {where}", file=sys.stderr, flush=True)
        self._seen.clear()


class Runs:
    """CPU time of planner runs, and of what follows them (listeners of the plan)."""

    def __init__(self) -> None:
        self.made = asyncio.Event()
        self._seconds: list[float] = []
        self._last: Plan | None = None

    def timed(self, replan: Callable[[], Plan]) -> Callable[[], Plan]:
        """The planner's `replan`, with its length noted when it made a plan."""

        def run() -> Plan:
            begun_s = time.thread_time()
            found = replan()
            if found is not self._last:
                self._seconds.append(time.thread_time() - begun_s)
                self._last = found
                self.made.set()
            return found

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
        self._seconds.clear()
        return result


def status_mib(field: str) -> float:
    """A line of /proc/self/status, in MiB."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"/proc/self/status has no {field}")


class Commands:
    """Answers to what the benchmark asks."""

    def __init__(self, service: bootstrap.Service, probe: Probe, runs: Runs, watchdog: Watchdog | None) -> None:
        self._service = service
        self._probe = probe
        self._runs = runs
        self._watchdog = watchdog
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
            print(json.dumps(answer), flush=True)

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
            "version": self._service.cache.version,
            **self._probe.report(),
            **self._runs.report(),
        }
        if self._watchdog is not None:
            self._watchdog.report()
        self._begun_s, self._cpu_s = now_s, cpu_s
        return answer

    def _full(self) -> dict[str, Any]:
        """Plans from nothing: with pair scores of this network data, as after a change of leader, and without."""
        planner = self._service.planner
        snapshot = self._service.cache.snapshot()
        gc.collect()
        now_s = SystemClock().now_s()
        times: dict[str, float] = {}
        for name, memo in (("plan_full_cold_ms", Memo()), ("plan_full_ms", Memo())):
            if name == "plan_full_ms":
                memo.renew(snapshot.network.version)
                memo.scores, memo.pairs = dict(planner.memo.scores), planner.memo.pairs
            begun_s = time.thread_time()
            plan(snapshot, planner.policy, now_s=now_s, memo=memo)
            times[name] = (time.thread_time() - begun_s) * 1e3
        self._probe.stalls.clear()
        return times


async def _main(kubeconfig: Path, mesh: Path | None, *, stacks: bool) -> None:
    sources = () if mesh is None else ({"kind": "file", "path": str(mesh), "interval_s": 1.0},)
    settings = Settings.model_validate(
        {"kubeconfig": kubeconfig, "scheduler_names": ("netgang",), "network": {"sources": sources, "refresh_s": 10.0}}
    )
    probe, runs = Probe(), Runs()
    listener = socket.create_server(("127.0.0.1", 0))
    async with running(bootstrap.live(settings)) as service:
        service.planner.replan = runs.timed(service.planner.replan)  # type: ignore[method-assign]
        config = uvicorn.Config(
            service.app, http="httptools", lifespan="off", log_config=None, access_log=False, server_header=False
        )
        serving = asyncio.create_task(uvicorn.Server(config).serve(sockets=[listener]))
        watchdog = Watchdog(probe) if stacks else None
        if watchdog is not None:
            watchdog.start()
        probe.start()
        print(json.dumps({"port": listener.getsockname()[1]}), flush=True)
        await Commands(service, probe, runs, watchdog).serve()
        serving.cancel()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="netgang with a probe of its event loop.")
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument("--mesh", type=Path)
    parser.add_argument("--log", type=Path, default=Path("/dev/null"))
    parser.add_argument("--stacks", action="store_true", help="tell on standard error where the loop stalls")
    given = parser.parse_args()
    configure_logging(level=logging.getLevelName(logging.INFO), log_format=LogFormat.JSON, stream=given.log.open("w"))
    uvloop.run(_main(given.kubeconfig, given.mesh, stacks=given.stacks))
