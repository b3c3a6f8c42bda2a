"""Twenty minutes beside a busy cluster with a thousand waiting gangs: what planning takes, stalls, and memory.

Why: what grows or stalls shows after minutes, not in a unit test. Rule: the service is netgang's own process as it is
served (`lab.bench.scale.service` adds a probe of its event loop); API server, users, kubelets and kube-scheduler are
played by `bench.cluster` in a process of its own, because a real control plane would take both cores of a small
machine and be what is measured. 1,000 gangs of five wait: 5,000 pods; beside them run 200 gangs and 1,000 pods of
others on 1,000 nodes. People look at /v1/queue, /v1/plan, /v1/explain and /metrics meanwhile.

    python -m lab.bench.soak [--minutes 20] [--gangs 1000] [--nodes 1000] [--rate 20] [--strict]

Prints a table and one JSON line. Goals: a planner run takes at most 30 ms (99 of 100 runs), no stall of the event loop
above 20 ms, memory flat, no pod at a gate is asked about, every gang starts in the queue's order. With `--strict` a
missed goal ends with status 1. Planner and stalls are CPU of the loop's thread: other users of the machine do not
count.

Memory is flat when a straight line through the samples of the second half rises by less than one in a hundred in that
half, and the end is at most a twentieth above what it was when warm. By then every bounded table and log has filled to
where it stays; what still grows would grow without end. The second half of a run below ten minutes says nothing about
that and is not judged.
"""

import argparse
import json
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from lab.bench.scale.run import Child, kubeconfig
from lab.bench.soak.memory import Memory, each_minute, growth

PLAN_MS = 30.0
STALL_MS = 20.0
GROWTH_RATIO = 1.05
"""Resident memory at the end, at most so many times that of minute 2."""
FLAT_RATIO = 1.01
"""What a straight line through the second half may rise by in that half."""
JUDGED_FROM_MIN = 10.0
"""Shorter runs are judged by what they counted alone: their times and memory are those of a start."""
_WARM_S = 120.0
_LOOKS = ("/v1/queue", "/v1/plan", "/metrics", "/readyz")
_LOOK_EVERY_S = 5.0


class People(threading.Thread):
    """A user that looks at netgang's documents every few seconds, one after the other."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self.times_ms: dict[str, list[float]] = {path: [] for path in (*_LOOKS, "/v1/explain")}
        self._url = f"http://127.0.0.1:{port}"
        self._over = threading.Event()

    def run(self) -> None:
        """Until `end`."""
        with httpx.Client(base_url=self._url, timeout=30.0) as client:
            while not self._over.wait(_LOOK_EVERY_S):
                for path in _LOOKS:
                    text = self._look(client, path, path)
                    if path == "/v1/queue":
                        waiting = [one["gang"] for one in json.loads(text)["gangs"] if one["queue"] == "WQ"]
                        self._look(client, "/v1/explain", f"/v1/explain/{waiting[len(waiting) // 2]}")

    def end(self) -> None:
        """Look no more."""
        self._over.set()
        self.join()

    def _look(self, client: httpx.Client, name: str, path: str) -> str:
        begun_s = time.perf_counter()
        answer = client.get(path)
        self.times_ms[name].append((time.perf_counter() - begun_s) * 1e3)
        return answer.text


def missed(found: Mapping[str, Any]) -> list[str]:
    """Which goals are missed, in words."""
    slope, ratio = found["rss_half_slope_mib_per_h"], found["rss_half_ratio"]
    rising = f"memory rises by {slope:.1f} MiB/h in the second half, {ratio:.3f}-fold"
    long = found["minutes"] >= JUDGED_FROM_MIN
    goals = {
        f"a planner run takes {found['plan_p99_ms']:.1f} ms (p99), goal {PLAN_MS:g}": (
            found["plan_p99_ms"] <= PLAN_MS or not long
        ),
        f"the event loop stalled for {found['stall_ms']:.1f} ms, goal {STALL_MS:g}": (
            found["stall_ms"] <= STALL_MS or not long
        ),
        f"memory grew {found['rss_ratio']:.2f}-fold, goal {GROWTH_RATIO:g}": (
            found["rss_ratio"] <= GROWTH_RATIO or not long
        ),
        f"{rising}, goal {FLAT_RATIO:g}": found["rss_half_ratio"] <= FLAT_RATIO or not long,
        f"{found['asked_at_the_gate']} calls for pods at a gate": found["asked_at_the_gate"] == 0,
        f"{found['overtakings']} gangs started before their turn: {found['overtaken']}": found["overtakings"] == 0,
        "no gang started": found["started"] > 0,
    }
    return [what for what, holds in goals.items() if not holds]


def measure(console: Console, *, minutes: float, nodes: int, gangs: int, rate: float, stacks: bool) -> dict[str, Any]:
    """One run."""
    seconds = 60.0 * minutes
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        given = {"nodes": nodes, "gangs": gangs, "rate": rate, "seconds": seconds}
        load = Child("lab.bench.soak.cluster", *(f"--{name}={value}" for name, value in given.items()))
        stack.callback(load.end)
        (place / "config").write_text(kubeconfig(load.hello["url"]))
        service = Child(
            "lab.bench.scale.service", "--kubeconfig", str(place / "config"), *(["--stacks"] if stacks else [])
        )
        stack.callback(service.end)
        synced = service.ask("synced")
        memory, people = Memory(service.pid), People(service.hello["port"])
        memory.start()
        people.start()
        load.tell("churn", port=service.hello["port"], seconds=seconds)
        service.ask("mark")
        happened = _followed(console, load, seconds)
        found = service.ask("mark")
        people.end()
        memory.end()
    pages = {f"page_{path.rpartition('/')[2]}_max_ms": max(ms, default=0.0) for path, ms in people.times_ms.items()}
    return {
        "minutes": minutes,
        "gangs": gangs,
        "nodes": nodes,
        "rate": rate,
        "first_plan_ms": synced["plan_max_ms"],
        "plans": found["plans"],
        "plan_p50_ms": found["plan_p50_ms"],
        "plan_p99_ms": found["plan_p99_ms"],
        "plan_max_ms": found["plan_max_ms"],
        "plan_step_ms": found["plan_step_max_ms"],
        "plan_cpu_share": found["plan_total_s"] / found["seconds"],
        "cpu_share": found["cpu_s"] / found["seconds"],
        "stall_ms": found["longest_stall_ms"],
        "stalls_above_20_ms": found["stalls_above_20_ms"],
        "stall_wall_ms": found["longest_stall_wall_ms"],
        "gc_ms": found["longest_gc_ms"],
        **growth(memory.samples, warm_s=min(_WARM_S, 0.2 * seconds)),
        "rss_each_minute_mib": each_minute(memory.samples),
        **happened,
        **pages,
    }


def _followed(console: Console, load: Child, seconds: float) -> dict[str, Any]:
    """Show how far the run is, until it is over; what happened in it."""
    columns = (TextColumn("soak"), BarColumn(), TextColumn("{task.fields[what]}"), TimeRemainingColumn())
    begun_s = time.monotonic()
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("soak", total=seconds, what="")
        while not (told := load.read()).pop("done", False):
            what = f"{told['started']} gangs started, {told['waiting']} wait"
            progress.update(task, completed=time.monotonic() - begun_s, what=what)
    return told


def table(found: Mapping[str, Any]) -> Table:
    """The figures for people."""
    shown = Table(title=f"{found['gangs']} gangs waited for {found['minutes']:g} min", title_justify="left")
    for heading in ("what", "p50", "p99", "max", "goal"):
        shown.add_column(heading, justify="left" if heading == "what" else "right")
    plan = [f"{found[f'plan_{which}_ms']:.1f} ms" for which in ("p50", "p99", "max")]
    shown.add_row("planner run (CPU)", *plan, f"{PLAN_MS:g} ms (p99)")
    wait = [f"{found[f'room_to_bound_{which}_s']:.2f} s" for which in ("p50", "p99", "max")]
    shown.add_row("room free to gang bound", *wait, "")
    shown.add_row("stall of the loop (CPU)", "", "", f"{found['stall_ms']:.1f} ms", f"{STALL_MS:g} ms")
    memory = f"{found['rss_warm_mib']:.0f} → {found['rss_end_mib']:.0f} MiB"
    shown.add_row("memory, warm → end", "", "", memory, f"× {GROWTH_RATIO:g}")
    slopes = f"{found['rss_slope_mib_per_h']:+.1f} / {found['rss_half_slope_mib_per_h']:+.1f} MiB/h"
    shown.add_row("memory, slope when warm / second half", "", "", slopes, "")
    shown.add_row("memory, rise in the second half", "", "", f"× {found['rss_half_ratio']:.3f}", f"× {FLAT_RATIO:g}")
    shown.add_row(
        "CPU, planner / whole process", "", "", f"{found['plan_cpu_share']:.0%} / {found['cpu_share']:.0%}", ""
    )
    shown.add_row("calls at a gate / refused", "", "", f"{found['asked_at_the_gate']} / {found['refused']}", "0 / –")
    shown.add_row("gangs started / out of turn", "", "", f"{found['started']} / {found['overtakings']}", "– / 0")
    return shown


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        prog="python -m lab.bench.soak", description="netgang beside a busy cluster for long"
    )
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--gangs", type=int, default=1000, help="gangs of five that wait")
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--rate", type=float, default=20.0, help="pods of others that come, and go, per second")
    parser.add_argument("--strict", action="store_true", help="end with status 1 when a goal is missed")
    parser.add_argument("--stacks", action="store_true", help="say on standard error where the loop stalls")
    chosen = parser.parse_args(arguments)
    console = Console(stderr=True)
    found = measure(
        console,
        minutes=chosen.minutes,
        nodes=chosen.nodes,
        gangs=chosen.gangs,
        rate=chosen.rate,
        stacks=chosen.stacks,
    )
    late = missed(found)
    console.print(table(found))
    for what in late:
        console.print(f"missed: {what}")
    rounded = {name: round(value, 3) if isinstance(value, float) else value for name, value in found.items()}
    print(json.dumps({"bench": "soak", **rounded, "missed": late}), flush=True)
    sys.exit(bool(late and chosen.strict))
