"""How long one /filter and one /prioritize take, beside the least that a Go extender can do.

Why beside Go: absolute times say more about the machine than about us. Both servers run on this machine, are asked the
same bytes over one kept-alive connection as kube-scheduler has, in turns, and the ratio of their medians is reported as
the median of several rounds with its spread.

    python -m lab.bench.http [--names 100,500,1000,5000] [--rounds 5] [--calls 200]
"""

import argparse
import asyncio
import hashlib
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

import uvicorn
from msgspec.structs import replace
from starlette.types import ASGIApp

from extender import bootstrap
from extender.convert import pod_from_json
from extender.convert.clusterfile import ClusterFile
from extender.settings.settings import Settings
from lab.bench import bed
from lab.testbed.programs.build import find_go, user_cache
from scoring.model import GangSource, GroupRef
from scoring.model.gang import gang_key

VERBS = ("filter", "prioritize")
GOALS = {("filter", 5000): 0.5, ("prioritize", 5000): 0.6}
"""(verb, names) → the largest ratio of medians, netgang to Go, that we accept."""
_SOURCES = Path(__file__).parent / "goecho"
_WARM_UP_CALLS = 20
_CONTAINER = {
    "name": "pytorch",
    "image": "registry.example.com/team-a/resnet:2026-09-01",
    "command": ["torchrun", "--nnodes=4", "/app/train.py", "--epochs=90"],
    "env": [{"name": f"NCCL_SETTING_{i}", "value": f"value-{i}"} for i in range(20)],
    "resources": {"limits": {"nvidia.com/gpu": "8"}, "requests": {"cpu": "32", "memory": "256Gi"}},
    "volumeMounts": [{"name": f"data-{i}", "mountPath": f"/data/{i}"} for i in range(4)],
    "terminationMessagePath": "/dev/termination-log",
    "imagePullPolicy": "IfNotPresent",
}
POD: dict[str, Any] = {
    "metadata": {
        "name": "resnet-worker-3",
        "namespace": "team-a",
        "uid": "0f6f0f2e-58a4-4d0c-9d0e-6f2a4b1c9d11",
        "resourceVersion": "1234567",
        "creationTimestamp": "2026-09-01T12:00:00Z",
        "labels": {f"training.example.com/label-{i}": f"value-{i}" for i in range(12)},
        "annotations": {"example.com/notes": "as written by a controller, " * 30},
        "ownerReferences": [{"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "name": "resnet", "uid": "1"}],
    },
    "spec": {
        "containers": [_CONTAINER],
        "restartPolicy": "OnFailure",
        "schedulerName": "netgang",
        "volumes": [{"name": f"data-{i}", "persistentVolumeClaim": {"claimName": f"data-{i}"}} for i in range(4)],
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
    },
    "status": {"phase": "Pending", "qosClass": "Burstable"},
}
"""A worker of a training job as kube-scheduler holds it: about 4 kB of JSON."""


class Connection:
    """One kept-alive HTTP/1.1 connection that sends prepared requests; replies must carry Content-Length."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=30)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = bytearray(4 << 20)

    def call(self, request: bytes) -> bytes:
        """Send `request` and return the body of its reply. Errors: RuntimeError for any status but 200."""
        self._socket.sendall(request)
        view, filled, head = memoryview(self._buffer), 0, -1
        while head < 0:
            filled += self._receive(view[filled:])
            head = self._buffer.find(b"\r\n\r\n", 0, filled)
        headers = bytes(view[:head]).lower()
        if not headers.startswith(b"http/1.1 200"):
            raise RuntimeError(headers.decode())
        end = head + 4 + int(headers.partition(b"content-length:")[2].split(b"\r\n", 1)[0])
        while filled < end:
            filled += self._receive(view[filled:])
        return bytes(view[head + 4 : end])

    def close(self) -> None:
        """Hang up."""
        self._socket.close()

    def _receive(self, into: memoryview) -> int:
        count = self._socket.recv_into(into)
        if not count:
            raise RuntimeError("the server closed the connection")
        return count


def request(verb: str, names: int) -> bytes:
    """The bytes of one call about a pod of 4 kB and so many nodes, as Go's encoding/json writes them."""
    args = {"Pod": POD, "Nodes": None, "NodeNames": [bed.node_name(i) for i in range(names)]}
    return post(verb, json.dumps(args, separators=(",", ":")).encode())


def post(verb: str, body: bytes) -> bytes:
    """The bytes of a call as Go's client sends them."""
    head = (
        f"POST /{verb} HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: Go-http-client/1.1\r\n"
        f"Content-Length: {len(body)}\r\nContent-Type: application/json\r\nAccept-Encoding: gzip\r\n\r\n"
    )
    return head.encode() + body


def measure(ports: Sequence[int], *, verb: str, names: int, rounds: int, calls: int) -> dict[str, Any]:
    """Ask both servers (netgang first, Go second) in turns; the order changes with each round.

    One line of the report: medians over the rounds, in milliseconds; `ratio_spread` is lowest and highest.
    """
    message = request(verb, names)
    medians: tuple[list[float], list[float]] = ([], [])
    tails: tuple[list[float], list[float]] = ([], [])
    connections = [Connection(port) for port in ports]
    for connection in connections:
        _times_ms(connection, message, calls=_WARM_UP_CALLS)
    for turn in range(rounds):
        for which in (0, 1) if turn % 2 == 0 else (1, 0):
            times_ms = _times_ms(connections[which], message, calls=calls)
            medians[which].append(statistics.median(times_ms))
            tails[which].append(times_ms[int(0.99 * (calls - 1))])
    for connection in connections:
        connection.close()
    ratios = [ours / theirs for ours, theirs in zip(*medians, strict=True)]
    times = {"netgang_p50_ms": medians[0], "netgang_p99_ms": tails[0], "go_p50_ms": medians[1], "go_p99_ms": tails[1]}
    found = {name: round(statistics.median(of), 3) for name, of in (times | {"ratio": ratios}).items()}
    spread = (round(min(ratios), 3), round(max(ratios), 3))
    return {"verb": verb, "names": names, **found, "ratio_spread": spread, "goal": GOALS.get((verb, names))}


def build_go_echo() -> Path:
    """The Go echo's program, built into the cache if its sources are new; needs `go` in PATH."""
    sources = {name: (_SOURCES / name).read_bytes() for name in ("go.mod", "go.sum", "main.go")}
    digest = hashlib.sha256(b"\0".join(sources.values())).hexdigest()[:16]
    base = user_cache() / "bench"
    program = base / f"goecho-{digest}"
    if program.exists():
        return program
    base.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=base) as place:
        for name, content in sources.items():
            (Path(place) / name).write_bytes(content)
        built = Path(place) / "program"
        environment = {**os.environ, "CGO_ENABLED": "0", "GOWORK": "off", "GOFLAGS": "-buildvcs=false"}
        subprocess.run([find_go(), "build", "-trimpath", "-o", str(built), "."], cwd=place, env=environment, check=True)
        built.rename(program)
    return program


@contextmanager
def running(command: Sequence[str]) -> Iterator[int]:
    """The port of a server, which it prints as its first line; ends it afterwards."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.terminate()


def serve() -> None:
    """Serve as netgang itself is served, on a free port of the loopback; prints the port."""
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    config = uvicorn.Config(
        create_app(), loop="uvloop", http="httptools", access_log=False, log_level="warning", timeout_keep_alive=120
    )
    uvicorn.Server(config).run(sockets=[listener])


def create_app() -> ASGIApp:
    """The app of a service that has planned: the asked pod's gang of four, and a hundred others on 5,000 nodes.

    Nothing is a stand-in but the API server, which is not asked here: the verbs find the pod's gang in the plan, and
    its siblings and their links in the network matrix.
    """
    listed = bed.nodes(5000, zones=40, cpu=64)
    asked = pod_from_json(json.dumps(POD).encode())
    key = gang_key(asked.namespace, "resnet")
    group = GroupRef(key, GangSource.LABELS, 4)
    first = replace(asked, group=group, scheduler_name="netgang", node=None, options=(("zones", "zone-00"),))
    siblings = [replace(first, uid=f"sibling-{i}", name=f"resnet-worker-{i}") for i in range(3)]
    others = [member for i in range(100) for member in bed.gang(f"w{i:03d}", 10, cpu=8).members]
    file = ClusterFile([*listed], [first, *siblings, *others])
    service = bootstrap.in_memory(Settings(scheduler_names=("netgang",)), file)
    service.cache.set_network(bed.mesh(listed, measured_per_zone=30))
    asyncio.run(service.planner.run_once())
    assert len(service.planner.current.admitted[key].members) == 4
    return service.app


def main() -> None:
    """Measure and print one JSON line per verb and number of names; a missed goal ends with status 1."""
    parser = argparse.ArgumentParser(
        prog="python -m lab.bench.http", description="Latency of the verbs beside a Go echo"
    )
    parser.add_argument("--names", default="100,500,1000,5000", help="numbers of nodes, by comma")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--calls", type=int, default=200, help="calls per server and round")
    parser.add_argument("--serve", action="store_true", help="serve instead of measuring")
    chosen = parser.parse_args()
    if chosen.serve:
        return serve()
    missed = False
    with ExitStack() as stack:
        netgang = [sys.executable, "-m", "lab.bench.http", "--serve"]
        ports = [stack.enter_context(running(command)) for command in (netgang, [str(build_go_echo())])]
        for names in map(int, chosen.names.split(",")):
            for verb in VERBS:
                result = measure(ports, verb=verb, names=names, rounds=chosen.rounds, calls=chosen.calls)
                print(json.dumps(result), flush=True)
                missed |= result["goal"] is not None and result["ratio"] > result["goal"]
    sys.exit(missed)


def _times_ms(connection: Connection, message: bytes, *, calls: int) -> list[float]:
    """Durations of so many calls, shortest first."""
    times_ms = []
    for _ in range(calls):
        began_s = perf_counter()
        connection.call(message)
        times_ms.append((perf_counter() - began_s) * 1e3)
    return sorted(times_ms)


if __name__ == "__main__":
    main()
