"""What the Kubernetes client costs: a list of many pods, a reflector's first sync, CPU of one Binding.

Why: the client's CPU is the first limit of the binding rate on a small machine, and of the time until the first
sync. Goals: 0.3 ms of CPU for a Binding; no stall of the event loop above 50 ms while the first list is taken over.
Rule: the server (`bench.apiserver`) is another process; figures are CPU and time of this one. One JSON line each.

    python -m bench.kube_client --pods 50000 --binds 5000 [--uvloop]
"""

import argparse
import asyncio
import json
import random
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from extender.clock import SystemClock
from extender.kube.calls import PODS
from extender.kube.client import ClientLimits, KubeClient
from extender.kube.credentials import ApiServer, Authorization, Token
from extender.kube.reflector import Reflector
from extender.kube.transport import TransportLimits
from extender.ports import Binding
from scoring.ids import NodeName, PodUid

_WARM_UP = 200


class _Metadata(msgspec.Struct):
    name: str
    uid: str


class _Pod(msgspec.Struct):
    metadata: _Metadata


class _Keep:
    """A sink that only keeps."""

    def __init__(self) -> None:
        self.items: dict[str, _Metadata] = {}

    def replace(self, items: Sequence[_Metadata]) -> None:
        self.items = {item.name: item for item in items}

    def upsert(self, item: _Metadata) -> None:
        self.items[item.name] = item

    def delete(self, key: str) -> None:
        self.items.pop(key.rpartition("/")[2], None)


def _reduce(raw: bytes) -> _Metadata:
    return msgspec.json.decode(raw, type=_Pod).metadata


async def _longest_stall(until: asyncio.Event) -> float:
    """The longest time, seconds, for which the event loop did not give this task its turn."""
    longest_s, last_s = 0.0, time.perf_counter()
    while not until.is_set():
        await asyncio.sleep(0)
        now_s = time.perf_counter()
        longest_s, last_s = max(longest_s, now_s - last_s), now_s
    return longest_s


@asynccontextmanager
async def server(*, pods: int, pod_bytes: int) -> AsyncGenerator[str, None]:
    """A loopback server in another process, for the time of an `async with`; gives its URL."""
    command = [sys.executable, "-m", "bench.apiserver", "--pods", str(pods), "--pod-bytes", str(pod_bytes)]
    process = await asyncio.create_subprocess_exec(*command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdin is not None
    try:
        yield json.loads(await process.stdout.readline())["url"]
    finally:
        process.stdin.close()
        await process.wait()


async def measure(*, pods: int, pod_bytes: int, binds: int, concurrency: int) -> AsyncGenerator[dict[str, Any], None]:
    """Figures one after the other: the list of all pods, then `binds` Bindings, `concurrency` at a time."""
    clock = SystemClock()
    limits = ClientLimits(transport=TransportLimits(concurrency=concurrency))
    async with server(pods=pods, pod_bytes=pod_bytes) as url:
        target = ApiServer(url=url, authorization=Authorization(lambda: Token("Bearer bench"), clock=clock))
        async with KubeClient(target, clock=clock, rng=random.Random(0), limits=limits) as client:
            begun_s, cpu_s = time.perf_counter(), time.process_time()
            listed: list[_Metadata] = []
            total_bytes, token = 0, ""
            while True:
                page = await client.list_page(PODS.collection(), limit=500, continue_token=token)
                for item in page.items:
                    total_bytes += len(item)
                    listed.append(_reduce(item))
                token = page.continue_token
                if not token:
                    break
            yield {
                "figure": "list",
                "pods": len(listed),
                "megabytes": round(total_bytes / 1e6, 1),
                "seconds": round(time.perf_counter() - begun_s, 3),
                "cpu_s": round(time.process_time() - cpu_s, 3),
            }

            begun_s = time.perf_counter()
            reflector = Reflector(
                client, path=PODS.collection(), reduce=_reduce, sink=_Keep(), clock=clock, rng=random.Random(0)
            )
            following = asyncio.create_task(reflector.run())
            stall_s = await _longest_stall(reflector.synced)
            seconds = time.perf_counter() - begun_s
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
            yield {
                "figure": "first sync",
                "pods": len(listed),
                "seconds": round(seconds, 3),
                "longest_stall_ms": round(stall_s * 1e3, 1),
            }

            bindings = [Binding("default", one.name, PodUid(one.uid), NodeName("n1")) for one in listed]
            await asyncio.gather(*(client.bind(one) for one in bindings[:_WARM_UP]))
            measured = bindings[_WARM_UP : _WARM_UP + binds]
            begun_s, cpu_s = time.perf_counter(), time.process_time()
            await asyncio.gather(*(client.bind(one) for one in measured))
            wall_s, cpu_s = time.perf_counter() - begun_s, time.process_time() - cpu_s
            yield {
                "figure": "bind",
                "binds": len(measured),
                "concurrency": concurrency,
                "cpu_ms_per_bind": round(cpu_s / len(measured) * 1e3, 4),
                "binds_per_s": round(len(measured) / wall_s),
            }


async def _main(given: argparse.Namespace) -> None:
    figures = measure(pods=given.pods, pod_bytes=given.pod_bytes, binds=given.binds, concurrency=given.concurrency)
    async for figure in figures:
        print(json.dumps(figure | {"uvloop": given.uvloop}), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="CPU of a Binding, time of a list.")
    parser.add_argument("--pods", type=int, default=50_000)
    parser.add_argument("--pod-bytes", type=int, default=4000)
    parser.add_argument("--binds", type=int, default=5000)
    parser.add_argument("--concurrency", type=int, default=16)
    parser.add_argument("--uvloop", action="store_true", help="run on uvloop, as the service does")
    arguments = parser.parse_args()
    if arguments.uvloop:
        import uvloop

        uvloop.run(_main(arguments))
    else:
        asyncio.run(_main(arguments))
