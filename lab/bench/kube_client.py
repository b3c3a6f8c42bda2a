"""What the Kubernetes client costs: a list of many pods, a reflector's first sync, CPU of one Binding.

Why: the client's CPU is the first limit of the binding rate on a small machine, and of the time until the first
sync. Goals: 0.12 ms of CPU for a Binding over TLS; no stall of the event loop above 50 ms while the first list is taken
over. A Binding with a cold start is one of a gang's burst to which connections have to be opened first.
Rule: the server (`bench.apiserver`) is another process; figures are CPU and time of this one. TLS as with a real API
server, by a certificate that openssl makes; the token is as long as one of a service account. One JSON line each.

    python -m lab.bench.kube_client --pods 50000 --binds 5000 [--uvloop] [--plain]
"""

import argparse
import asyncio
import json
import random
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from extender.kube.calls import PODS
from extender.kube.client import ClientLimits, KubeClient
from extender.kube.credentials import ApiServer, Authorization, Token
from extender.kube.http.transport import TransportLimits
from extender.kube.watch.reflector import Reflector
from extender.ports import Binding
from extender.runtime.clock import SystemClock
from scoring.ids import NodeName, PodUid

_BURST = 64  # members of a gang that start together
_WARM_UP_BURSTS = 4
_TOKEN = "Bearer " + "x" * 900


class _Metadata(msgspec.Struct):
    name: str
    uid: str


class _Pod(msgspec.Struct):
    metadata: _Metadata


class _Keep:
    """A sink that only keeps."""

    def __init__(self) -> None:
        self.items: dict[str, _Metadata] = {}

    def replace_in_steps(self, items: Sequence[_Metadata]) -> Iterator[None]:
        self.items = {item.name: item for item in items}
        yield

    def upsert(self, item: _Metadata) -> None:
        self.items[item.name] = item

    def delete(self, key: str) -> None:
        self.items.pop(key.rpartition("/")[2], None)

    def key(self, item: _Metadata) -> str:
        return item.name


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


def make_certificate(place: Path) -> Path:
    """A file with a key and a self-signed certificate for 127.0.0.1, made by openssl."""
    made = place / "server.pem"
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    subject = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    files = ["-keyout", str(made), "-out", str(place / "certificate.pem")]
    subprocess.run(["openssl", "req", "-x509", *curve, *subject, *files], check=True, capture_output=True)
    made.write_text(made.read_text() + (place / "certificate.pem").read_text())
    return made


@asynccontextmanager
async def server(*, pods: int, pod_bytes: int, certificate: Path | None) -> AsyncGenerator[str, None]:
    """A loopback server in another process, for the time of an `async with`; gives its URL."""
    command = [sys.executable, "-m", "lab.bench.apiserver", "--pods", str(pods), "--pod-bytes", str(pod_bytes)]
    if certificate is not None:
        command += ["--certificate", str(certificate)]
    process = await asyncio.create_subprocess_exec(*command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdin is not None
    try:
        yield json.loads(await process.stdout.readline())["url"]
    finally:
        process.stdin.close()
        await process.wait()


async def _bind(client: KubeClient, bindings: Sequence[Binding]) -> None:
    """All of them, a gang's burst at a time."""
    for begin in range(0, len(bindings), _BURST):
        await asyncio.gather(*(client.bind(one) for one in bindings[begin : begin + _BURST]))


async def measure(
    *, pods: int, pod_bytes: int, binds: int, concurrency: int, certificate: Path | None
) -> AsyncGenerator[dict[str, Any], None]:
    """Figures one after the other: the list of all pods, then `binds` Bindings, `concurrency` at a time."""
    clock = SystemClock()
    limits = ClientLimits(transport=TransportLimits(concurrency=concurrency))
    tls = ssl.create_default_context(cafile=str(certificate)) if certificate is not None else None
    async with server(pods=pods, pod_bytes=pod_bytes, certificate=certificate) as url:
        target = ApiServer(url=url, authorization=Authorization(lambda: Token(_TOKEN), clock=clock), tls=tls)
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
            cold, warm = bindings[:_BURST], bindings[_BURST : _BURST * _WARM_UP_BURSTS]
            measured = bindings[_BURST * _WARM_UP_BURSTS :][:binds]
            cpu_s = time.process_time()
            await _bind(client, cold)
            cold_s = time.process_time() - cpu_s
            await _bind(client, warm)
            begun_s, cpu_s = time.perf_counter(), time.process_time()
            await _bind(client, measured)
            wall_s, cpu_s = time.perf_counter() - begun_s, time.process_time() - cpu_s
            yield {
                "figure": "bind",
                "binds": len(measured),
                "concurrency": concurrency,
                "tls": tls is not None,
                "cpu_ms_per_bind": round(cpu_s / len(measured) * 1e3, 4),
                "cpu_ms_per_bind_from_cold": round(cold_s / len(cold) * 1e3, 4),
                "binds_per_s": round(len(measured) / wall_s),
            }


async def _main(given: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as place:
        figures = measure(
            pods=given.pods,
            pod_bytes=given.pod_bytes,
            binds=given.binds,
            concurrency=given.concurrency,
            certificate=None if given.plain else make_certificate(Path(place)),
        )
        async for figure in figures:
            print(json.dumps(figure | {"uvloop": given.uvloop}), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="CPU of a Binding, time of a list.")
    parser.add_argument("--pods", type=int, default=50_000)
    parser.add_argument("--pod-bytes", type=int, default=4000)
    parser.add_argument("--binds", type=int, default=5000)
    parser.add_argument("--concurrency", type=int, default=TransportLimits().concurrency)
    parser.add_argument("--plain", action="store_true", help="without TLS")
    parser.add_argument("--uvloop", action="store_true", help="run on uvloop, as the service does")
    arguments = parser.parse_args()
    if arguments.uvloop:
        import uvloop

        uvloop.run(_main(arguments))
    else:
        asyncio.run(_main(arguments))
