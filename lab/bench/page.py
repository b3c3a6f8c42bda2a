"""What the page costs: twenty viewers beside a busy cluster, /filter with and without them, and what is sent.

Why: a page on a wall must never delay kube-scheduler. Rule: the bed is the soak's (`lab.bench.soak.cluster` plays API
server and cluster, `bench.service` is netgang's process with a probe); phases without and with viewers alternate
in one run, so that what else the machine does falls on both alike. The cluster changes all the time: every look finds
something new, which is the dearest case.

    python -m lab.bench.page [--viewers 20] [--nodes 5000] [--gangs 200] [--pairs 3] [--seconds 15]

At the end a real Chromium, where there is one, opens the page a few times (`lab.bench.paint`) beside the same cluster.

Goals: at most 5 % of a core for all viewers, /filter's p99 at most twice that without them, first payload ≤ 500 KiB,
the first picture painted within a second. Prints a table and one JSON line; with `--strict` a missed goal ends with
status 1.
"""

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
from rich.console import Console
from rich.progress import track
from rich.table import Table

from lab.bench.paint import Paint, paints, why_not
from lab.bench.scale.run import Child, kubeconfig

CPU_RATIO = 0.05
PAYLOAD_BYTES = 500 * 1024
FILTER_RATIO = 2.0
PAINT_MS = 1000.0
_LOOKS = 5
_ASK_EVERY_S = 0.02


class Asking(threading.Thread):
    """kube-scheduler's question for a plain pod, fifty times a second; how long each answer took."""

    def __init__(self, port: int, nodes: int) -> None:
        super().__init__(daemon=True)
        self.times_ms: list[float] = []
        names = [f"node-{number:05d}" for number in range(min(nodes, 500))]
        pod = {"metadata": {"name": "asked", "namespace": "default", "uid": "asked"}, "spec": {}}
        self._body = json.dumps({"Pod": pod, "NodeNames": names}).encode()
        self._url = f"http://127.0.0.1:{port}/filter"
        self._over = threading.Event()

    def run(self) -> None:
        """Until `end`."""
        with httpx.Client(timeout=30.0) as client:
            while not self._over.wait(_ASK_EVERY_S):
                begun_s = time.perf_counter()
                client.post(self._url, content=self._body).raise_for_status()
                self.times_ms.append((time.perf_counter() - begun_s) * 1e3)

    def end(self) -> None:
        """Ask no more."""
        self._over.set()
        self.join()


async def _watch(port: int, count: int) -> None:
    """So many pages, open until standard input closes; then the bytes that came, and the most of a first picture."""
    first: list[int] = []
    total = 0

    async def page(client: httpx.AsyncClient) -> None:
        nonlocal total
        seen, size = set[bytes](), 0
        async with client.stream("GET", f"http://127.0.0.1:{port}/v1/page/stream") as answer:
            answer.raise_for_status()
            async for chunk in answer.aiter_bytes():
                total += len(chunk)
                if b"queue" not in seen:
                    size += len(chunk)
                    if b"event: queue" in chunk:
                        seen.add(b"queue")
                        first.append(size)

    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(timeout=None, limits=limits) as client, asyncio.TaskGroup() as group:
        pages = [group.create_task(page(client)) for _ in range(count)]
        print(json.dumps({"port": port}), flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        print(json.dumps({"bytes": total, "first_bytes": max(first, default=0), "pages": len(first)}), flush=True)
        for one in pages:
            one.cancel()


def measure(console: Console, *, viewers: int, nodes: int, gangs: int, pairs: int, seconds: float) -> dict[str, Any]:
    """Alternating phases of `seconds`, `pairs` times."""
    phases: dict[bool, list[dict[str, float]]] = {False: [], True: []}
    sent: list[dict[str, Any]] = []
    whole_s = 2.5 * pairs * seconds + 60.0
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        load = Child("lab.bench.soak.cluster", f"--nodes={nodes}", f"--gangs={gangs}", f"--seconds={whole_s}")
        stack.callback(load.end)
        (place / "config").write_text(kubeconfig(load.hello["url"]))
        service = Child("lab.bench.scale.service", "--kubeconfig", str(place / "config"))
        stack.callback(service.end)
        service.ask("synced")
        load.tell("churn", port=service.hello["port"], seconds=whole_s)
        plan = [watched for _ in range(pairs) for watched in (False, True)]
        for watched in track(plan, "page", console=console, transient=True):
            with ExitStack() as phase:
                pages = None
                if watched:
                    pages = Child("lab.bench.page", f"--watch={service.hello['port']}", f"--viewers={viewers}")
                    phase.callback(pages.end)
                asking = Asking(service.hello["port"], nodes)
                service.ask("mark")
                asking.start()
                threading.Event().wait(seconds)
                asking.end()
                found = service.ask("mark")
                if pages is not None:
                    sent.append(pages.ask("over"))
            ordered = sorted(asking.times_ms)
            phases[watched].append(
                {"cpu": found["cpu_s"] / found["seconds"], "p99": ordered[int(0.99 * (len(ordered) - 1))],
                 "p50": statistics.median(ordered), "stall": found["longest_stall_ms"]}
            )  # fmt: skip
        reason = why_not()
        looks = [] if reason else paints(f"http://127.0.0.1:{service.hello['port']}/", times=_LOOKS)
        load.end()  # first: or its last questions would find no server
    found = figures(phases, sent, viewers=viewers, nodes=nodes, gangs=gangs, seconds=seconds)
    return found | (painted(looks) if looks else {"not_painted": reason})


def painted(looks: Sequence[Paint]) -> dict[str, Any]:
    """Medians and spreads of what a browser showed when.

    >>> painted([Paint(50.0, 200.0), Paint(40.0, 100.0), Paint(90.0, 400.0)])["picture_ms"]
    200.0
    """
    first_ms, picture_ms = [one.first_ms for one in looks], [one.picture_ms for one in looks]
    return {
        "first_paint_ms": round(statistics.median(first_ms), 1),
        "picture_ms": round(statistics.median(picture_ms), 1),
        "picture_spread_ms": [round(min(picture_ms), 1), round(max(picture_ms), 1)],
    }


def figures(phases: dict[bool, list[dict[str, float]]], sent: list[dict[str, Any]], **given: float) -> dict[str, Any]:
    """Medians over the phases; differences and ratios are of each pair of phases."""
    without, beside = phases[False], phases[True]
    pairs = list(zip(without, beside, strict=True))
    cpu, p99 = [b["cpu"] - a["cpu"] for a, b in pairs], [b["p99"] / a["p99"] for a, b in pairs]
    return {
        **given,
        "pairs": len(pairs),
        "cpu_without": statistics.median(one["cpu"] for one in without),
        "cpu_for_viewers": statistics.median(cpu),
        "cpu_for_viewers_spread": [min(cpu), max(cpu)],
        "filter_p99_without_ms": statistics.median(one["p99"] for one in without),
        "filter_p99_with_ms": statistics.median(one["p99"] for one in beside),
        "filter_p99_ratio": statistics.median(p99),
        "filter_p99_ratio_spread": [min(p99), max(p99)],
        "filter_p50_ratio": statistics.median(b["p50"] / a["p50"] for a, b in pairs),
        "stall_with_ms": max(one["stall"] for one in beside),
        "first_bytes": max(one["first_bytes"] for one in sent),
        "bytes_per_viewer_s": statistics.median(one["bytes"] for one in sent) / given["viewers"] / given["seconds"],
        "pages_served": min(one["pages"] for one in sent),
    }


def missed(found: dict[str, Any]) -> list[str]:
    """Which goals are missed, in words."""
    goals = {
        f"viewers cost {found['cpu_for_viewers']:.1%} of a core, goal {CPU_RATIO:.0%}": found["cpu_for_viewers"]
        <= CPU_RATIO,
        f"/filter p99 is {found['filter_p99_ratio']:.2f} times that without, goal {FILTER_RATIO:g}": found[
            "filter_p99_ratio"
        ]
        <= FILTER_RATIO,
        f"the first picture is {found['first_bytes']} bytes, goal {PAYLOAD_BYTES}": found["first_bytes"]
        <= PAYLOAD_BYTES,
        f"the picture is painted after {found.get('picture_ms', 0.0):.0f} ms, goal {PAINT_MS:.0f}": found.get(
            "picture_ms", 0.0
        )
        <= PAINT_MS,
        f"only {found['pages_served']} pages were drawn": found["pages_served"] == found["viewers"],
    }
    return [what for what, holds in goals.items() if not holds]


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print; with --watch be the viewers."""
    parser = argparse.ArgumentParser(prog="python -m lab.bench.page", description="what the page costs the scheduler")
    parser.add_argument("--viewers", type=int, default=20)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--gangs", type=int, default=200, help="gangs of five that wait")
    parser.add_argument("--pairs", type=int, default=3, help="phases without and with viewers")
    parser.add_argument("--seconds", type=float, default=15.0, help="length of a phase")
    parser.add_argument("--strict", action="store_true", help="end with status 1 when a goal is missed")
    parser.add_argument("--watch", type=int, help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    if chosen.watch is not None:
        asyncio.run(_watch(chosen.watch, chosen.viewers))
        return
    console = Console(stderr=True)
    given = {name: getattr(chosen, name) for name in ("viewers", "nodes", "gangs", "pairs", "seconds")}
    found = measure(console, **given)
    table = Table("what", "value", title=f"{chosen.viewers} viewers, {chosen.nodes} nodes", title_justify="left")
    for name, value in found.items():
        table.add_row(name, f"{value:.3f}" if isinstance(value, float) else str(value))
    console.print(table)
    late = missed(found)
    for what in late:
        console.print(f"missed: {what}")
    print(json.dumps({"bench": "page", **found, "missed": late}))
    if late and chosen.strict:
        sys.exit(1)


if __name__ == "__main__":
    main()
