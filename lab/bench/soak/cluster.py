"""The process beside netgang in the soak: an API server, and everything that happens in its cluster.

Why a process of its own: what netgang costs must not be mixed with what its cluster costs. Rule: commands come as JSON
lines on standard input; it ends when standard input closes.

    {"do": "churn", "port": 8888, "seconds": 1200}      answers with a line every few seconds, the last has "done"
"""

import argparse
import asyncio
import json
import sys
from typing import Any

from lab.bench.soak.load import Load
from lab.bench.soak.scheduler import Scheduler
from lab.testbed.apiserver.server import serve
from lab.testbed.apiserver.store import ApiStore


def _percentiles(name: str, found: list[float]) -> dict[str, float]:
    ordered = sorted(found) or [0.0]
    last = len(ordered) - 1
    return {
        f"{name}_p50_s": ordered[last // 2],
        f"{name}_p99_s": ordered[int(0.99 * last)],
        f"{name}_max_s": ordered[-1],
    }


async def _churn(load: Load, *, port: int, seconds: float) -> None:
    scheduler = Scheduler(load.store, port, let_in=load.let_in, bound=load.bound)

    def answer() -> dict[str, Any]:
        return {**load.counts, **scheduler.counts, "waiting": len(load.waiting), "overtakings": len(load.overtakings)}

    playing = asyncio.create_task(scheduler.run())
    try:
        await load.run(seconds, lambda: print(json.dumps(answer()), flush=True))
    finally:
        playing.cancel()
    final = answer() | _percentiles("room_to_bound", load.waits_s) | {"overtaken": load.overtakings[:5], "done": True}
    print(json.dumps(final), flush=True)


async def _main(*, nodes: int, gangs: int, rate: float, seconds: float) -> None:
    load = Load(ApiStore(), nodes=nodes, gangs=gangs, rate=rate, seconds=seconds)
    async with serve(load.store) as api:
        print(json.dumps({"url": api.url}), flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            command = json.loads(line)
            await _churn(load, port=command["port"], seconds=command["seconds"])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="A loopback API server with a queue of gangs and a busy cluster.")
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--gangs", type=int, default=1000)
    parser.add_argument("--rate", type=float, default=20.0)
    parser.add_argument("--seconds", type=float, default=1200.0)
    given = parser.parse_args()
    asyncio.run(_main(nodes=given.nodes, gangs=given.gangs, rate=given.rate, seconds=given.seconds))
