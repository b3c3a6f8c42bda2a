"""What one Binding costs over netgang's own HTTP/1.1 client and over httpx, in turns: the figures of ADR 2.

Why: six hundred lines of HTTP of our own must earn their keep. Rule: both clients send the same POST to the same server
(`bench.apiserver`, another process) over TLS, a gang's burst at a time, in rounds that follow one another; figures are
the medians of the rounds, with CPU of this process. httpx is set up as it is cheapest: connections kept, no redirects,
nothing of the environment, no time limit.

    python -m lab.bench.kube_http --uvloop [--rounds 7] [--binds 640] [--burst 64]
"""

import argparse
import asyncio
import json
import logging
import random
import ssl
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TypeAlias

import httpx
import msgspec

from extender.kube.calls import POD_BIND, PODS
from extender.kube.client import KubeClient
from extender.kube.credentials import ApiServer, Authorization, Token
from extender.kube.http.transport import TransportLimits
from extender.ports import Binding
from extender.runtime.clock import SystemClock
from lab.bench.kube_client import make_certificate, server
from scoring.ids import NodeName, PodUid

_TOKEN = "Bearer " + "x" * 900

Bind: TypeAlias = Callable[[Binding], Awaitable[None]]


def _over_httpx(client: httpx.AsyncClient) -> Bind:
    async def bind(binding: Binding) -> None:
        body = msgspec.json.encode(
            {
                "apiVersion": "v1",
                "kind": "Binding",
                "metadata": {"name": binding.name, "namespace": binding.namespace, "uid": binding.uid},
                "target": {"apiVersion": "v1", "kind": "Node", "name": binding.node},
            }
        )
        path = POD_BIND.path(binding.namespace, binding.name)
        (await client.post(path, content=body, headers={"Content-Type": "application/json"})).raise_for_status()

    return bind


async def _round(bind: Bind, bindings: Sequence[Binding], *, burst: int) -> dict[str, float]:
    """One client's turn: CPU and time of a Binding, and the 50th and 99th percentile of the calls."""
    calls_ms: list[float] = []

    async def timed(binding: Binding) -> None:
        begun_s = time.perf_counter()
        await bind(binding)
        calls_ms.append((time.perf_counter() - begun_s) * 1e3)

    begun_s, cpu_s = time.perf_counter(), time.process_time()
    for begin in range(0, len(bindings), burst):
        await asyncio.gather(*map(timed, bindings[begin : begin + burst]))
    cpu_s, wall_s = time.process_time() - cpu_s, time.perf_counter() - begun_s
    cuts = statistics.quantiles(calls_ms, n=100)
    return {
        "cpu_ms_per_bind": cpu_s / len(bindings) * 1e3,
        "binds_per_s": len(bindings) / wall_s,
        "p50_ms": cuts[49],
        "p99_ms": cuts[98],
    }


async def measure(*, rounds: int, binds: int, burst: int, certificate: Path) -> dict[str, object]:
    """Both clients in turns, after a round of each that does not count."""
    clock, tls = SystemClock(), ssl.create_default_context(cafile=str(certificate))
    most = TransportLimits().concurrency
    pods = 2 * (rounds + 1) * binds
    async with server(pods=pods, pod_bytes=400, certificate=certificate) as url:
        target = ApiServer(url=url, authorization=Authorization(lambda: Token(_TOKEN), clock=clock), tls=tls)
        headers = {"Authorization": _TOKEN, "Accept": "application/json", "Accept-Encoding": "identity"}
        async with (
            KubeClient(target, clock=clock, rng=random.Random(0)) as own,
            httpx.AsyncClient(
                base_url=url,
                verify=tls,
                headers=headers,
                trust_env=False,
                timeout=None,
                limits=httpx.Limits(max_connections=most, max_keepalive_connections=most),
            ) as other,
        ):
            bindings: list[Binding] = []
            token = ""
            while not bindings or token:
                page = await own.list_page(PODS.collection(), limit=500, continue_token=token)
                token = page.continue_token
                for item in page.items:
                    meta = msgspec.json.decode(item)["metadata"]
                    bindings.append(Binding("default", meta["name"], PodUid(meta["uid"]), NodeName("n1")))
            clients: dict[str, Bind] = {"own": own.bind, "httpx": _over_httpx(other)}
            found: dict[str, list[dict[str, float]]] = {name: [] for name in clients}
            turns = [name for _ in range(rounds + 1) for name in clients]
            for number, name in enumerate(turns):
                some = bindings[number * binds : (number + 1) * binds]
                found[name].append(await _round(clients[name], some, burst=burst))
    medians = {
        name: {key: round(statistics.median(one[key] for one in measured[1:]), 3) for key in measured[0]}
        for name, measured in found.items()
    }
    ratios = sorted(
        b["cpu_ms_per_bind"] / a["cpu_ms_per_bind"] for a, b in zip(found["own"][1:], found["httpx"][1:], strict=True)
    )
    spread = {"median": statistics.median(ratios), "least": ratios[0], "most": ratios[-1]}
    return {**medians, "cpu_of_httpx_to_own": {key: round(value, 2) for key, value in spread.items()}}


def _main() -> None:
    parser = argparse.ArgumentParser(description="A Binding over our own HTTP client and over httpx.")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--binds", type=int, default=640, help="in each round")
    parser.add_argument("--burst", type=int, default=64, help="members of a gang that start together")
    parser.add_argument("--uvloop", action="store_true", help="run on uvloop, as the service does")
    given = parser.parse_args()
    logging.getLogger("httpx").setLevel(logging.WARNING)
    with tempfile.TemporaryDirectory() as place:
        certificate = make_certificate(Path(place))
        task = measure(rounds=given.rounds, binds=given.binds, burst=given.burst, certificate=certificate)
        if given.uvloop:
            import uvloop

            found = uvloop.run(task)
        else:
            found = asyncio.run(task)
    print(json.dumps({**found, "uvloop": given.uvloop}))


if __name__ == "__main__":
    _main()
