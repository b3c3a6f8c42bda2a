"""What one call of a verb costs the server's CPU between socket and service, beside uvicorn's own protocol.

Why: when a backlog drains, one process answers all of kube-scheduler's calls, so its CPU bounds the pods per second.
kube-scheduler's client keeps two idle connections: with more calls at bind than that, nearly each one has a connection
of its own. The service behind is an echo whose /bind holds its calls until a quorum, as gangs do. Three servers are
asked the same bytes in turns: `least`, which answers constant bytes without a look at the request (socket and event
loop alone), `uvicorn`, and `netgang`. CPU is the process's, user and system, so that others on the machine matter less.

    python -m lab.bench.http_cpu [--rounds 7] [--calls 1000]

One JSON line per case: µs of CPU per call, and the share of uvicorn's cost above the least that netgang still has.
"""

import argparse
import asyncio
import json
import socket
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import cast

import uvicorn
import uvloop

from extender.convert.wire import BindArgs
from extender.runtime.telemetry import Telemetry
from extender.server.app import create_app
from extender.server.verb_protocol import VerbProtocol
from lab.bench.http import Connection, Server, request, running
from scoring.model.reasons import Reason
from tests.fakes.verbs import EchoVerbs, FakeViews

QUORUM = 10
GOAL = 0.5
"""Largest share of uvicorn's cost above the least that we accept."""
SERVERS = ("least", "uvicorn", "netgang")
CASES = (("filter", "kept"), ("filter", "new"), ("bind", "kept"), ("bind", "new"), ("bind", "held"))
"""(verb, how: one connection kept, one for each call, or one each for calls that are held until the last of a gang)"""
_NAMES = 10
_WARM_UP_CALLS = 200
_CONSTANT = b'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 12\r\n\r\n{"Error":""}'


def bind_request(*, held: bool) -> bytes:
    """Bytes of one /bind call as kube-scheduler's client sends it; the service behind knows by the name what to do."""
    args = {"PodName": "held" if held else "alone", "PodNamespace": "team-a", "PodUID": "u-1", "Node": "node-00001"}
    body = json.dumps(args, separators=(",", ":")).encode()
    head = (
        f"POST /bind HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: Go-http-client/1.1\r\n"
        f"Content-Length: {len(body)}\r\nContent-Type: application/json\r\nAccept-Encoding: gzip\r\n\r\n"
    )
    return head.encode() + body


class QuorumVerbs(EchoVerbs):
    """Holds binds of pods called `held` until there are ten."""

    def __init__(self) -> None:
        self._held: list[asyncio.Future[None]] = []

    async def bind(self, args: BindArgs, gone: asyncio.Future[None]) -> Reason | str | None:
        """Bind at once, or with the last of the gang."""
        if args.name == "held":
            answer = asyncio.get_running_loop().create_future()
            self._held.append(answer)
            if len(self._held) == QUORUM:
                for one in self._held:
                    one.set_result(None)
                self._held.clear()
            await answer
        return None


def calls_of(verb: str, how: str) -> Callable[[int], None]:
    """What makes one call, or one gang's calls, to a port."""
    message = request(verb, _NAMES) if verb != "bind" else bind_request(held=how == "held")
    many = QUORUM if how == "held" else 1

    def gang(port: int) -> None:
        connections = [socket.create_connection(("127.0.0.1", port), timeout=30) for _ in range(many)]
        for connection in connections:
            connection.sendall(message)
        for connection in connections:
            while not connection.recv(65536).endswith(b"}"):
                pass
            connection.close()

    kept: dict[int, Connection] = {}

    def keep(port: int) -> None:
        if port not in kept:
            kept[port] = Connection(port)
        kept[port].call(message)

    return keep if how == "kept" else gang


def cpu_us(process: int) -> float:
    """CPU that another process has used, in microseconds: its own clock, by the number Linux gives it."""
    return time.clock_gettime_ns((~process << 3) | 2) / 1e3


def measure(servers: Sequence[Server], verb: str, how: str, *, rounds: int, calls: int) -> list[float]:
    """Median CPU per call, µs, of each server (process, port), asked in turns."""
    call, each = calls_of(verb, how), QUORUM if how == "held" else 1
    found: list[list[float]] = [[] for _ in servers]
    for turn in range(-1, rounds):
        for (process, port), costs in zip(servers, found, strict=True):
            count = (_WARM_UP_CALLS if turn < 0 else calls) // each
            before_us = cpu_us(process)
            for _ in range(count):
                call(port)
            if turn >= 0:
                costs.append((cpu_us(process) - before_us) / (count * each))
    return [statistics.median(costs) for costs in found]


class _Least(asyncio.Protocol):
    """Answers whatever comes."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._write = cast("asyncio.Transport", transport).write

    def data_received(self, data: bytes) -> None:
        self._write(_CONSTANT)


async def _serve_least(listener: socket.socket) -> None:
    server = await asyncio.get_running_loop().create_server(_Least, sock=listener, backlog=2048)
    await server.serve_forever()


def serve(which: str) -> None:
    """Serve one of `SERVERS` on a free port of the loopback; prints the process and the port."""
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    if which == "least":
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(_serve_least(listener))
    app = create_app(QuorumVerbs(), FakeViews(), Telemetry())
    config = uvicorn.Config(
        app,
        loop="uvloop",
        http="httptools" if which == "uvicorn" else VerbProtocol,
        lifespan="off",
        access_log=False,
        log_level="warning",
        timeout_keep_alive=120,
        server_header=False,
        proxy_headers=False,
    )
    uvicorn.Server(config).run(sockets=[listener])


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print one JSON line per case; a missed goal ends with status 1."""
    parser = argparse.ArgumentParser(prog="python -m lab.bench.http_cpu", description="CPU of one call of a verb")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--calls", type=int, default=1000, help="calls per server and round")
    parser.add_argument("--serve", choices=SERVERS, help="be one of the servers instead of measuring them")
    chosen = parser.parse_args(arguments)
    if chosen.serve:
        return serve(chosen.serve)
    missed = False
    with ExitStack() as stack:
        commands = [[sys.executable, "-m", "lab.bench.http_cpu", "--serve", which] for which in SERVERS]
        servers = [stack.enter_context(running(command)) for command in commands]
        for verb, how in CASES:
            least, theirs, ours = measure(servers, verb, how, rounds=chosen.rounds, calls=chosen.calls)
            share = (ours - least) / (theirs - least)
            missed |= share > GOAL
            figures = dict(zip(SERVERS, (round(least, 1), round(theirs, 1), round(ours, 1)), strict=True))
            print(json.dumps({"verb": verb, "how": how, "cpu_us": figures, "share": round(share, 3)}), flush=True)
    sys.exit(missed)


if __name__ == "__main__":
    main()
