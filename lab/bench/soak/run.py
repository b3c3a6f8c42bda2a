"""Twenty minutes beside a busy cluster with a thousand waiting gangs: what planning takes, stalls, and memory.

Why: what grows or stalls shows after minutes, not in a unit test. Rule: the service is netgang's own process as it is
served (`lab.bench.scale.service` adds a probe of its event loop); API server, users, kubelets and kube-scheduler are
played by `lab.bench.soak.load` in a process of its own, because a real control plane would take both cores of a small
machine and be what is measured. 1,000 gangs of five wait: 5,000 pods; beside them run 200 gangs and 1,000 pods of
others on 1,000 nodes. Somebody reads /v1/queue, /v1/plan and /metrics every five seconds.

    python -m lab.bench.soak [--minutes 20] [--gangs 1000] [--nodes 1000] [--rate 20] [--strict]

Prints one JSON line. Goals: a planner run takes at most 100 ms in the median (after an event) and 400 ms in 99 of 100
(nodes changed), the loop is 5 ms late in at most one of 100 beats and never stalls for more than 20 ms, memory at the
end is at most a twentieth above that after two minutes, no pod at a gate is asked about. With `--strict` a missed goal
ends with status 1. Stalls are CPU of the loop's thread: other users of the machine do not count. Times and memory of a
run below ten minutes are those of a start and are not judged.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx

from lab.bench.child import Child
from lab.bench.scale.__main__ import kubeconfig

EVENT_PLAN_MS, FULL_PLAN_MS = 100.0, 400.0
LATE_SHARE = 0.01
"""The loop is at most 5 ms late in 99 of 100 beats, by the clock."""
STALL_MS = 20.0
GROWTH_RATIO = 1.05
"""Resident memory at the end, at most so many times that of minute 2."""
JUDGED_FROM_MIN = 10.0
_WARM_S = 120.0
_LIMIT_S = 120.0
_READ = ("/v1/queue", "/v1/plan", "/metrics")


def missed(found: Mapping[str, Any]) -> list[str]:
    """Which goals are missed, in words."""
    long = found["minutes"] >= JUDGED_FROM_MIN
    stall_ms, ratio, late = (found[name] for name in ("stall_ms", "rss_ratio", "late_5_ms_share"))
    event_ms, full_ms, asked = found["plan_p50_ms"], found["plan_p99_ms"], found["asked_at_the_gate"]
    misses = {
        f"a planner run takes {event_ms:.1f} ms (p50), goal {EVENT_PLAN_MS:g}": long and event_ms > EVENT_PLAN_MS,
        f"a planner run takes {full_ms:.1f} ms (p99), goal {FULL_PLAN_MS:g}": long and full_ms > FULL_PLAN_MS,
        f"{late:.2%} of beats are 5 ms late, goal {LATE_SHARE:.0%}": long and late > LATE_SHARE,
        f"the event loop stalled for {stall_ms:.1f} ms, goal {STALL_MS:g}": long and stall_ms > STALL_MS,
        f"memory grew {ratio:.2f}-fold, goal {GROWTH_RATIO:g}": long and ratio > GROWTH_RATIO,
        f"{asked} calls for pods at a gate": asked > 0,
        "no gang started": found["started"] == 0,
    }
    return [what for what, missed in misses.items() if missed]


def measure(*, minutes: float, nodes: int, gangs: int, rate: float) -> dict[str, Any]:
    """One run; what is counted begins when netgang is warm."""
    seconds = 60.0 * minutes
    warm_s = min(_WARM_S, 0.2 * seconds)
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        given = {"nodes": nodes, "gangs": gangs, "rate": rate, "seconds": seconds}
        load = Child("the load", "lab.bench.soak.load", *(f"--{name}={value}" for name, value in given.items()))
        stack.callback(load.close)
        (place / "config").write_text(kubeconfig(load.hello()["url"]))
        service = Child("netgang", "lab.bench.scale.service", f"--kubeconfig={place / 'config'}")
        stack.callback(service.close)
        port = service.hello()["port"]
        reader = stack.enter_context(httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30.0))
        synced = service.ask("synced", limit_s=_LIMIT_S)
        load.tell("churn", port=port, seconds=seconds)
        begun_s, warm = time.monotonic(), synced
        while not (happened := load.answer(limit_s=_LIMIT_S)).pop("done", False):
            for path in _READ:
                reader.get(path)
            if warm is synced and time.monotonic() - begun_s >= warm_s:
                warm = service.ask("mark", limit_s=_LIMIT_S)
        found = service.ask("mark", limit_s=_LIMIT_S)
    return {
        **given,
        "minutes": minutes,
        "first_plan_ms": synced["plan_max_ms"],
        **{name: found[name] for name in ("plans", "plan_p50_ms", "plan_p99_ms", "plan_max_ms")},
        "plan_cpu_share": found["plan_total_s"] / found["seconds"],
        "cpu_share": found["cpu_s"] / found["seconds"],
        **{name: found[name] for name in ("stall_ms", "stall_wall_ms", "stalls_above_20_ms", "late_5_ms_share")},
        "rss_warm_mib": warm["rss_mib"],
        "rss_end_mib": found["rss_mib"],
        "rss_ratio": found["rss_mib"] / warm["rss_mib"],
        **happened,
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m lab.bench.soak", description="netgang beside a busy cluster")
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--gangs", type=int, default=1000, help="gangs of five that wait")
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--rate", type=float, default=20.0, help="pods of others that come, and go, per second")
    parser.add_argument("--strict", action="store_true", help="end with status 1 when a goal is missed")
    chosen = parser.parse_args(arguments)
    found = measure(minutes=chosen.minutes, nodes=chosen.nodes, gangs=chosen.gangs, rate=chosen.rate)
    late = missed(found)
    rounded = {name: round(value, 3) if isinstance(value, float) else value for name, value in found.items()}
    print(json.dumps({"bench": "soak", **rounded, "missed": late}), flush=True)
    sys.exit(bool(late and chosen.strict))
