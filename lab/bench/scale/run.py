"""The real service beside a very large cluster: 5,000 and 15,000 nodes with 50,000 pods, as lists and watches.

Why: what grows faster than the cluster is found only at its size, and no test bed of ours runs 15,000 kubelets. Rule:
the service is the product's own process, the API server is `lab.bench.scale.replay`, and neither knows of the other but
through HTTP. Phases: first sync; a storm of pod and node events with kube-scheduler's questions beside it; single
events in quiet; full plans.

    python -m lab.bench.scale [--nodes 5000,15000] [--pods 50000] [--rate 1000] [--seconds 20]

One JSON line per size, then one with the ratios of the last size to the first. Goals (docs/safety.md S15): no stall of
the event loop above 50 ms in the first sync and above 20 ms in the storm, and no cost that grows faster than the number
of nodes. A stall counts by the CPU that the loop's thread used in it, because another user of the machine can stop it
for longer; planner times are CPU too. Latencies and `…_wall_ms` are by the clock.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from lab.bench.http import Connection
from lab.bench.scale import objects
from lab.bench.scale.objects import Shape

SYNC_STALL_MS = 50.0
STEADY_STALL_MS = 20.0
_SETTLE_S = 2.0
_BETWEEN_S = 0.01
_SINGLES = 20
_SINGLE_EVERY_S = 0.25
_FEW_NAMES = 12
"""Names in a question about a pod whose affinity lists its nodes (admission by `nodes`)."""
COSTS = (
    "sync_s", "sync_cpu_s", "sync_stall_ms", "rss_mib", "peak_mib", "storm_cpu_share", "storm_stall_ms",
    "storm_plan_p50_ms", "storm_plan_max_ms", "plan_ms_per_event", "plan_after_pod_event_ms",
    "plan_after_node_event_ms", "plan_full_ms", "plan_full_cold_ms", "filter_all_p50_ms", "filter_all_p99_ms",
    "filter_few_p50_ms", "filter_few_p99_ms", "prioritize_all_p50_ms", "prioritize_all_p99_ms",
    "prioritize_few_p50_ms", "prioritize_few_p99_ms",
)  # fmt: skip
"""Figures that grow with the cluster, and may not grow faster than it."""


class Child:
    """A process that answers commands by JSON lines."""

    def __init__(self, module: str, *arguments: str) -> None:
        command = [sys.executable, "-m", module, *arguments]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.hello: dict[str, Any] = self.read()

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def ask(self, do: str, **arguments: object) -> dict[str, Any]:
        """Send a command and wait for its answer."""
        self.tell(do, **arguments)
        return self.read()

    def tell(self, do: str, **arguments: object) -> None:
        """Send a command; `read` gets its answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
        self._process.stdin.flush()

    def read(self) -> dict[str, Any]:
        """The next line. Errors: RuntimeError when the process ended."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self._process.args!r} ended")
        return dict(json.loads(line))

    def end(self) -> None:
        """Let it end by itself; a process that does not is ended."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()


def question(verb: str, pod: Mapping[str, Any], names: bytes) -> bytes:
    """The bytes of one call as Go's client writes them; `names` is a JSON list."""
    body = b'{"Pod":%b,"Nodes":null,"NodeNames":%b}' % (json.dumps(pod).encode(), names)
    head = (
        f"POST /{verb} HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: Go-http-client/1.1\r\n"
        f"Content-Length: {len(body)}\r\nContent-Type: application/json\r\nAccept-Encoding: gzip\r\n\r\n"
    )
    return head.encode() + body


def questions(shape: Shape) -> Iterator[tuple[str, bytes]]:
    """What kube-scheduler asks, again and again: (kind of question, bytes), over the gangs without a gate."""
    every = json.dumps([objects.node_name(i) for i in range(shape.nodes)]).encode()
    few = json.dumps([objects.node_name(i * objects.ZONES) for i in range(_FEW_NAMES)]).encode()
    while True:
        for number in range(shape.waiting):
            gang = number * 7 % shape.waiting
            if objects.is_gated(gang):
                continue
            pod = objects.waiting(shape, gang, number % shape.size)
            for verb in ("filter", "prioritize"):
                yield f"{verb}_all", question(verb, pod, every)
                yield f"{verb}_few", question(verb, pod, few)


def percentiles(name: str, times_ms: Sequence[float]) -> dict[str, float]:
    """The median and the 99th percentile.

    >>> percentiles("x", [3.0, 1.0, 2.0])
    {'x_p50_ms': 2.0, 'x_p99_ms': 2.0}
    """
    ordered = sorted(times_ms) or [0.0]
    last = len(ordered) - 1
    return {f"{name}_p50_ms": ordered[last // 2], f"{name}_p99_ms": ordered[int(0.99 * last)]}


def ratios(small: Mapping[str, float], large: Mapping[str, float]) -> dict[str, float]:
    """How many times as much each cost is.

    >>> ratios({"sync_s": 2.0, "rss_mib": 0.0}, {"sync_s": 5.0, "rss_mib": 7.0})
    {'sync_s': 2.5}
    """
    return {name: round(large[name] / small[name], 2) for name in COSTS if small.get(name) and name in large}


def faster_than_linear(found: Mapping[str, float], growth: float) -> list[str]:
    """Costs that grow faster than the number of nodes.

    >>> faster_than_linear({"sync_s": 3.2, "rss_mib": 2.9}, 3.0)
    ['sync_s']
    """
    return sorted(name for name, ratio in found.items() if ratio > growth)


def measure(shape: Shape, *, rate: float, seconds: float) -> dict[str, float]:
    """All phases at one size."""
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        api = Child(
            "lab.bench.scale.replay", "--nodes", str(shape.nodes), "--pods", str(shape.pods),
            "--waiting", str(shape.waiting), "--preferred", str(shape.preferred),
        )  # fmt: skip
        stack.callback(api.end)
        (place / "config").write_text(kubeconfig(api.hello["url"]))
        mesh = place / "mesh.json"
        mesh.write_bytes(objects.mesh(shape))
        arguments = ["--kubeconfig", str(place / "config"), "--mesh", str(mesh)]
        service = Child("lab.bench.scale.service", *arguments)
        stack.callback(service.end)
        result: dict[str, float] = {"nodes": shape.nodes, "pods": shape.pods, "waiting_gangs": shape.waiting}
        result |= _synced(service)
        connection = Connection(service.hello["port"])
        stack.callback(connection.close)
        result |= _storm(service, api, connection, mesh, shape, rate=rate, seconds=seconds)
        for what in ("pod", "node"):
            result[f"plan_after_{what}_event_ms"] = _singles(service, api, what)
        result |= service.ask("full")
        return {name: round(value, 3) for name, value in result.items()}


def kubeconfig(url: str) -> str:
    """A kubeconfig for a loopback API server that accepts every client."""
    named = {"name": "bench"}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "bench",
        "clusters": [named | {"cluster": {"server": url}}],
        "users": [named | {"user": {}}],
        "contexts": [named | {"context": {"cluster": "bench", "user": "bench"}}],
    }
    return json.dumps(config)


def _synced(service: Child) -> dict[str, float]:
    found = service.ask("synced")
    return {
        "sync_s": found["seconds"],
        "sync_cpu_s": found["cpu_s"],
        "sync_stall_ms": found["longest_stall_ms"],
        "sync_stall_wall_ms": found["longest_stall_wall_ms"],
        "sync_gc_ms": found["longest_gc_ms"],
        "sync_plan_ms": found["plan_max_ms"],
        "sync_stalls_above_20_ms": found["stalls_above_20_ms"],
        "rss_mib": found["rss_mib"],
        "admitted": found["admitted"],
        "waiting": found["waiting"],
    }


def _storm(
    service: Child, api: Child, connection: Connection, mesh: Path, shape: Shape, *, rate: float, seconds: float
) -> dict[str, float]:
    """Events through the watches, questions beside them, and new network data half way through."""
    _pause(_SETTLE_S)
    service.ask("mark")
    api.tell("churn", rate=rate, seconds=seconds)
    begun_s = time.perf_counter()
    times_ms: dict[str, list[float]] = {}
    asked = questions(shape)
    measured_anew = False
    while time.perf_counter() - begun_s < seconds:
        if not measured_anew and time.perf_counter() - begun_s > seconds / 2:
            fresh = mesh.with_suffix(".new")
            fresh.write_bytes(objects.mesh(shape, round_number=1))
            fresh.rename(mesh)
            measured_anew = True
        kind, message = next(asked)
        asked_s = time.perf_counter()
        connection.call(message)
        times_ms.setdefault(kind, []).append((time.perf_counter() - asked_s) * 1e3)
        _pause(_BETWEEN_S)
    happened = api.read()
    found = service.ask("mark")
    result = {
        "storm_pod_events": happened["pod_events"],
        "storm_deciding_events": happened["deciding_events"],
        "storm_cpu_share": found["cpu_s"] / found["seconds"],
        "storm_stall_ms": found["longest_stall_ms"],
        "storm_stall_wall_ms": found["longest_stall_wall_ms"],
        "storm_gc_ms": found["longest_gc_ms"],
        "storm_stalls_above_20_ms": found["stalls_above_20_ms"],
        "storm_plans": found["plans"],
        "storm_plan_p50_ms": found["plan_p50_ms"],
        "storm_plan_p99_ms": found["plan_p99_ms"],
        "storm_plan_max_ms": found["plan_max_ms"],
        "plan_ms_per_event": found["plan_total_s"] * 1e3 / max(happened["deciding_events"], 1),
        "peak_mib": found["peak_mib"],
        "storm_rss_mib": found["rss_mib"],
        "questions": sum(len(times) for times in times_ms.values()),
    }
    for kind, times in sorted(times_ms.items()):
        result |= percentiles(kind, times)
    return result


def _singles(service: Child, api: Child, what: str) -> float:
    """Median length of the plans after single events."""
    _pause(_SETTLE_S)
    service.ask("mark")
    for _ in range(_SINGLES):
        api.ask("one", what=what)
        _pause(_SINGLE_EVERY_S)
    return float(service.ask("mark")["plan_p50_ms"])


def _pause(seconds: float) -> None:
    """Let so much time pass: a benchmark waits for load to act, not for an event."""
    threading.Event().wait(seconds)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print; a missed goal ends with status 1."""
    parser = argparse.ArgumentParser(prog="python -m lab.bench.scale", description="Costs beside a very large cluster")
    parser.add_argument("--nodes", default="5000,15000", help="numbers of nodes, by comma")
    parser.add_argument("--pods", type=int, default=50_000)
    parser.add_argument("--waiting", type=int, default=300, help="gangs of eight that wait")
    parser.add_argument("--preferred", type=int, default=20, help="every so many-th of them may be spread; 0: none")
    parser.add_argument("--rate", type=float, default=1000.0, help="pod events per second")
    parser.add_argument("--seconds", type=float, default=20.0, help="length of the storm")
    chosen = parser.parse_args(arguments)
    results = []
    for number in map(int, chosen.nodes.split(",")):
        shape = Shape(number, chosen.pods, chosen.waiting, preferred=chosen.preferred)
        results.append(measure(shape, rate=chosen.rate, seconds=chosen.seconds))
        print(json.dumps({"bench": "scale", **results[-1]}), flush=True)
    late = [r for r in results if r["sync_stall_ms"] > SYNC_STALL_MS or r["storm_stall_ms"] > STEADY_STALL_MS]
    grown: list[str] = []
    if len(results) > 1:
        found = ratios(results[0], results[-1])
        grown = faster_than_linear(found, results[-1]["nodes"] / results[0]["nodes"])
        print(json.dumps({"bench": "scale ratios", **found, "faster_than_linear": grown}), flush=True)
    sys.exit(bool(late or grown))
