"""The real service beside a very large cluster: 5,000 and 15,000 nodes with 50,000 pods, as lists and watches.

Why: what grows faster than the cluster is found only at its size, and no test bed of ours runs 15,000 kubelets; what
grows or stalls with time shows after minutes (`make soak`). Rule: the service is the product's own process, the API
server is `lab.bench.scale.replay`, and neither knows of the other but through HTTP. Phases: first sync; a storm of pod
and node events with kube-scheduler's questions beside it; single events in quiet; full plans.

    python -m lab.bench.scale [--nodes 5000,15000] [--pods 50000] [--waiting 300] [--rate 1000] [--seconds 20]

One JSON line per size, then one with the ratios of the last size to the first. Goals (docs/safety.md S15): no stall of
the event loop above 50 ms in the first sync and above 20 ms in the storm, no cost that grows faster than the number of
nodes, and in a storm of ten minutes or more memory at its end at most a twentieth above that after two. A stall counts
by the CPU that the loop's thread used in it, because another user of the machine can stop it for longer; planner times
are CPU too. Latencies and `…_wall_ms` are by the clock.
"""

import argparse
import json
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

from lab.bench.child import Child
from lab.bench.http import Connection, post
from lab.bench.scale import objects
from lab.bench.scale.objects import Shape

SYNC_STALL_MS = 50.0
STORM_STALL_MS = 20.0
GROWTH_RATIO = 1.05
"""Resident memory at the end of a long storm, at most so many times that after `_WARM_S`."""
_JUDGED_FROM_S = 600.0
_WARM_S = 120.0
_LIMIT_S = 300.0
"""Of one answer: a first sync of 15,000 nodes on a slow machine."""
_SETTLE_S = 2.0
_BETWEEN_S = 0.01
_SINGLES = 20
_SINGLE_EVERY_S = 0.25
_FEW_NAMES = 12
"""Names in a question about a pod whose affinity lists its nodes (admission by `nodes`)."""
COSTS = (
    "sync_seconds", "sync_cpu_s", "sync_stall_ms", "sync_rss_mib", "storm_peak_mib", "storm_cpu_share",
    "storm_stall_ms", "storm_plan_p50_ms", "storm_plan_max_ms", "plan_ms_per_event", "plan_after_pod_event_ms",
    "plan_after_node_event_ms", "plan_full_ms", "plan_full_cold_ms",
    *(f"{verb}_{names}_{part}_ms" for verb in ("filter", "prioritize") for names in ("all", "few")
      for part in ("p50", "p99")),
)  # fmt: skip
"""Figures that grow with the cluster, and may not grow faster than it."""


def questions(shape: Shape) -> Iterator[tuple[str, bytes]]:
    """What kube-scheduler asks, again and again: (kind of question, bytes), over the gangs without a gate."""
    every = json.dumps([objects.node_name(i) for i in range(shape.nodes)]).encode()
    few = json.dumps([objects.node_name(i * objects.ZONES) for i in range(_FEW_NAMES)]).encode()
    while True:
        for number in range(shape.waiting):
            gang = number * 7 % shape.waiting
            if objects.is_gated(gang):
                continue
            pod = json.dumps(objects.waiting(shape, gang, number % shape.size)).encode()
            for verb in ("filter", "prioritize"):
                for kind, names in (("all", every), ("few", few)):
                    yield f"{verb}_{kind}", post(verb, b'{"Pod":%b,"Nodes":null,"NodeNames":%b}' % (pod, names))


def measure(shape: Shape, *, rate: float, seconds: float) -> dict[str, float]:
    """All phases at one size."""
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        given = {"nodes": shape.nodes, "pods": shape.pods, "waiting": shape.waiting}
        api = Child("the API server", "lab.bench.scale.replay", *(f"--{name}={value}" for name, value in given.items()))
        stack.callback(api.close)
        (place / "config").write_text(kubeconfig(api.hello()["url"]))
        mesh = place / "mesh.json"
        mesh.write_bytes(objects.mesh(shape))
        service = Child("netgang", "lab.bench.scale.service", f"--kubeconfig={place / 'config'}", f"--mesh={mesh}")
        stack.callback(service.close)
        port = service.hello()["port"]
        result: dict[str, float] = {**given, **_named("sync", service.ask("synced", limit_s=_LIMIT_S))}
        connection = Connection(port)
        stack.callback(connection.close)
        result |= _storm(service, api, connection, mesh, shape, rate=rate, seconds=seconds)
        for what in ("pod", "node"):
            result[f"plan_after_{what}_event_ms"] = _singles(service, api, what)
        result |= service.ask("full", limit_s=_LIMIT_S)
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


def _named(phase: str, figures: Mapping[str, float]) -> dict[str, float]:
    return {f"{phase}_{name}": value for name, value in figures.items()}


def _storm(
    service: Child, api: Child, connection: Connection, mesh: Path, shape: Shape, *, rate: float, seconds: float
) -> dict[str, float]:
    """Events through the watches, questions beside them, and new network data half way through."""
    _pause(_SETTLE_S)
    service.ask("mark", limit_s=_LIMIT_S)
    api.tell("churn", rate=rate, seconds=seconds)
    begun_s = time.perf_counter()
    times_ms: dict[str, list[float]] = {}
    asked = questions(shape)
    measured_anew, warm_mib = False, 0.0
    while (age_s := time.perf_counter() - begun_s) < seconds:
        if not measured_anew and age_s > seconds / 2:
            fresh = mesh.with_suffix(".new")
            fresh.write_bytes(objects.mesh(shape, round_number=1))
            fresh.rename(mesh)
            measured_anew = True
        if not warm_mib and age_s > min(_WARM_S, seconds / 2):
            warm_mib = service.rss_mib()
        kind, message = next(asked)
        asked_s = time.perf_counter()
        connection.call(message)
        times_ms.setdefault(kind, []).append((time.perf_counter() - asked_s) * 1e3)
        _pause(_BETWEEN_S)
    happened, found = api.answer(limit_s=_LIMIT_S), service.ask("mark", limit_s=_LIMIT_S)
    result = {
        **_named("storm", happened | found),
        "storm_cpu_share": found["cpu_s"] / found["seconds"],
        "storm_rss_ratio": found["rss_mib"] / warm_mib,
        "plan_ms_per_event": found["plan_total_s"] * 1e3 / max(happened["deciding_events"], 1),
    }
    for kind, times in sorted(times_ms.items()):
        ordered, last = sorted(times), len(times) - 1
        result |= {f"{kind}_p50_ms": ordered[last // 2], f"{kind}_p99_ms": ordered[int(0.99 * last)]}
    return result


def _singles(service: Child, api: Child, what: str) -> float:
    """Median length of the plans after single events."""
    _pause(_SETTLE_S)
    service.ask("mark", limit_s=_LIMIT_S)
    for _ in range(_SINGLES):
        api.ask("one", what=what, limit_s=_LIMIT_S)
        _pause(_SINGLE_EVERY_S)
    return float(service.ask("mark", limit_s=_LIMIT_S)["plan_p50_ms"])


def _pause(seconds: float) -> None:
    """Let so much time pass: a benchmark waits for load to act, not for an event."""
    threading.Event().wait(seconds)


def missed(result: Mapping[str, float], *, seconds: float) -> bool:
    """Whether a goal of one size is missed."""
    grown = seconds >= _JUDGED_FROM_S and result["storm_rss_ratio"] > GROWTH_RATIO
    return result["sync_stall_ms"] > SYNC_STALL_MS or result["storm_stall_ms"] > STORM_STALL_MS or grown


def main() -> None:
    """Measure and print; a missed goal ends with status 1."""
    parser = argparse.ArgumentParser(prog="python -m lab.bench.scale", description="Costs beside a very large cluster")
    parser.add_argument("--nodes", default="5000,15000", help="numbers of nodes, by comma")
    parser.add_argument("--pods", type=int, default=50_000)
    parser.add_argument("--waiting", type=int, default=300, help="gangs of eight that wait")
    parser.add_argument("--rate", type=float, default=1000.0, help="pod events per second")
    parser.add_argument("--seconds", type=float, default=20.0, help="length of the storm")
    chosen = parser.parse_args()
    results = []
    for number in map(int, chosen.nodes.split(",")):
        shape = Shape(number, chosen.pods, chosen.waiting)
        results.append(measure(shape, rate=chosen.rate, seconds=chosen.seconds))
        print(json.dumps({"bench": "scale", **results[-1]}), flush=True)
    late = any(missed(one, seconds=chosen.seconds) for one in results)
    if len(results) > 1:
        first, last = results[0], results[-1]
        ratios = {name: round(last[name] / first[name], 2) for name in COSTS if first.get(name) and name in last}
        grown = sorted(name for name, ratio in ratios.items() if ratio > last["nodes"] / first["nodes"])
        print(json.dumps({"bench": "scale ratios", **ratios, "faster_than_linear": grown}), flush=True)
        late |= bool(grown)
    sys.exit(late)


if __name__ == "__main__":
    main()
