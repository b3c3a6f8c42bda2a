"""The process: it answers what it holds when it is stopped, and does not outlive a part or a port that failed."""

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from extender import bootstrap
from extender.bootstrap import Service
from extender.bootstrap.serve import running
from extender.server.app import DEBUG_BINDS_NOTHING
from extender.settings.settings import Settings
from scoring.model.reasons import Reason
from tests.liveness import LIVENESS_S

pytestmark = pytest.mark.slow  # seconds each: processes, simulations or many plans

ROOT = Path(__file__).parents[3]
CLUSTER = ROOT / "examples/snapshot/paper-testbed.json"
FILTER = (ROOT / "examples/requests/filter-case1.json").read_bytes()
BIND = json.loads((ROOT / "examples/requests/bind-case1.json").read_text())


@asynccontextmanager
async def started(*options: str, ports: int = 1) -> AsyncIterator[tuple[Process, str]]:
    """`netgang serve` over the example cluster, and its log until it serves all ports or ends; killed at the end."""
    arguments = ("-m", "cli.main", "serve", "--snapshot", str(CLUSTER), *options)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("NETGANG_")}
    process = await asyncio.create_subprocess_exec(sys.executable, *arguments, cwd=ROOT, env=environment, stderr=PIPE)
    assert process.stderr is not None
    log = ""
    while log.count("netgang.server: ") < ports and (line := (await process.stderr.readline()).decode()):
        log += line
    try:
        yield process, log
    finally:
        if process.returncode is None:
            process.kill()
            await ended(process)


def client_of(setting: str, log: str) -> httpx.AsyncClient:
    [url] = re.findall(rf" {setting}: (https?://127\.0\.0\.1:\d+)$", log, re.MULTILINE)
    return httpx.AsyncClient(base_url=str(url))


async def ended(process: Process) -> tuple[int, str]:
    assert process.stderr is not None
    rest = (await process.stderr.read()).decode()
    return await process.wait(), rest


async def offered(client: httpx.AsyncClient) -> str:
    while not (names := (await client.post("/filter", content=FILTER)).json()["NodeNames"]):
        pass  # the first plan may still be made on a busy machine
    return str(names[0])


async def held(client: httpx.AsyncClient) -> "asyncio.Task[dict[str, Any]]":
    node = await offered(client)

    async def bind() -> dict[str, Any]:
        return dict((await client.post("/bind", json=BIND | {"Node": node}, timeout=60.0)).json())

    call = asyncio.create_task(bind())
    while (await client.get("/v1/plan")).json()["held_binds"] < 1:  # noqa: ASYNC110 - it is in another process
        await asyncio.sleep(0.01)
    return call


@pytest.mark.parametrize(("setting", "other"), [("port", "--debug-port"), ("debug_port", "--port")])
async def test_a_port_that_is_taken_is_said_and_ends_all(setting: str, other: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        number = taken.getsockname()[1]
        async with started(f"--{setting.replace('_', '-')}", str(number), other, "0", ports=9) as (process, said):
            async with asyncio.timeout(LIVENESS_S):
                code = await process.wait()
    assert "address already in use" in said
    assert f"{setting}: cannot listen on 127.0.0.1:{number}" in said
    assert ("Traceback" in said, code) == (False, 3)


@asynccontextmanager
async def two_ports() -> AsyncIterator[tuple[Process, httpx.AsyncClient, httpx.AsyncClient]]:
    """The process, a client of the verbs' port and one of the port for people; the process ends with the block."""
    async with (
        started("--port", "0", "--debug-port", "0", ports=2) as (process, log),
        client_of("port", log) as verbs,
        client_of("debug_port", log) as people,
    ):
        yield process, verbs, people


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_both_ports_show_one_service_and_end_together(number: signal.Signals) -> None:
    """One signal ends both; a node that was offered at the port for people opens no /bind (docs/safety.md S2)."""
    async with two_ports() as (process, verbs, people):
        for path in ("/healthz", "/readyz", "/v1/network", "/metrics", "/docs"):
            assert [(await one.get(path)).status_code for one in (verbs, people)] == [200, 200], path
        node = await offered(people)
        assert (await verbs.post("/bind", json=BIND | {"Node": node})).json() == {"Error": Reason.NEVER_OFFERED}
        call = await held(verbs)
        assert (await people.get("/v1/plan")).json() == (await verbs.get("/v1/plan")).json()
        assert (await people.get("/v1/plan")).json()["held_binds"] == 1
        assert (await people.post("/bind", json=BIND)).json() == {"Error": DEBUG_BINDS_NOTHING}
        process.send_signal(number)
        async with asyncio.timeout(LIVENESS_S):
            code, rest = await ended(process)
        assert (code, "Traceback" in rest) == (0, False)
        assert await call == {"Error": "netgang: this replica is not the leader"}


async def test_stuck_callers_at_either_port_do_not_keep_the_process() -> None:
    async with two_ports() as (process, verbs, people):
        ports = [one.base_url.port for one in (verbs, people)] * 2
        writers = [(await asyncio.open_connection("127.0.0.1", port))[1] for port in ports]
        for writer in writers[:2]:
            writer.write(b"POST /filter HTTP/1.1\r\nHost: netgang\r\nContent-Length: 100\r\n\r\n{")
            await writer.drain()
        assert (await verbs.get("/healthz")).status_code == 200
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(LIVENESS_S):
            assert (await ended(process))[0] == 0  # uvicorn logs the call that it breaks off
        for writer in writers:
            writer.close()


def test_open_files_are_allowed_up_to_the_systems_limit() -> None:
    lines = """
import resource
from extender.bootstrap.serve import allow_open_files
resource.setrlimit(resource.RLIMIT_NOFILE, (256, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
allow_open_files()
print(*resource.getrlimit(resource.RLIMIT_NOFILE))
"""
    done = subprocess.run([sys.executable, "-c", lines], cwd=ROOT, capture_output=True, text=True, check=True)
    soft, hard = map(int, done.stdout.split())
    assert soft == 65536 if hard < 0 else soft == min(65536, hard)


@asynccontextmanager
async def embedded(**tasks: Callable[[], Any]) -> AsyncIterator[Service]:
    async with bootstrap.embedded(Settings(snapshot=CLUSTER)) as service:
        service.tasks.update(tasks)
        yield service


async def test_a_task_that_fails_ends_the_process() -> None:
    """Half a service would look alive: its error comes out, whatever the main task was doing."""

    async def fail() -> None:
        raise RuntimeError("the planner broke")

    with pytest.raises(ExceptionGroup) as caught:
        async with running(embedded(plan=fail)):
            await asyncio.Event().wait()
    assert caught.group_contains(RuntimeError, match="the planner broke")


async def test_the_caller_s_own_cancellation_stays_one() -> None:
    inside = asyncio.Event()

    async def serve(*, until: asyncio.Event) -> None:
        async with running(embedded()):
            inside.set()
            await until.wait()

    task = asyncio.create_task(serve(until=asyncio.Event()))
    await inside.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert asyncio.all_tasks() == {asyncio.current_task()}
    await serve(until=inside)
    assert asyncio.all_tasks() == {asyncio.current_task()}
