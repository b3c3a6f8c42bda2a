"""The process: it answers what it holds when it is told to end, and does not outlive a part that failed."""

import asyncio
import json
import os
import re
import signal
import socket
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from extender import bootstrap
from extender.bootstrap import Service
from extender.server import running
from extender.settings import Settings

ROOT = Path(__file__).parents[2]
CLUSTER = ROOT / "examples/snapshot/paper-testbed.json"
REQUESTS = ROOT / "examples/requests"


async def started(*options: str) -> tuple[Process, list[str]]:
    """`netgang serve` over the example cluster, and the lines of its log until it serves or ends."""
    arguments = ("-m", "extender.cli", "serve", "--snapshot", str(CLUSTER), *options)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("NETGANG_")}
    process = await asyncio.create_subprocess_exec(sys.executable, *arguments, cwd=ROOT, env=environment, stderr=PIPE)
    assert process.stderr is not None
    lines: list[str] = []
    while line := (await process.stderr.readline()).decode():
        lines.append(line)
        if "running on" in line:
            break
    return process, lines


async def ended(process: Process) -> tuple[int, str]:
    """Exit code and the rest of the log."""
    assert process.stderr is not None
    rest = (await process.stderr.read()).decode()
    return await process.wait(), rest


async def held(client: httpx.AsyncClient) -> "asyncio.Task[dict[str, Any]]":
    """A bind call of one of six members, held."""
    answer = (await client.post("/filter", content=(REQUESTS / "filter-case1.json").read_bytes())).json()
    body = json.loads((REQUESTS / "bind-case1.json").read_text()) | {"Node": answer["NodeNames"][0]}

    async def bind() -> dict[str, Any]:
        return dict((await client.post("/bind", json=body, timeout=60.0)).json())

    call = asyncio.create_task(bind())
    while (await client.get("/v1/plan")).json()["held_binds"] < 1:  # noqa: ASYNC110 - it is in another process
        await asyncio.sleep(0.01)
    return call


@pytest.mark.timeout(60)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_answers_what_is_held_and_ends_with_0(number: signal.Signals) -> None:
    """The held call hears at once, long before its limit of 25 s; then the process ends by itself."""
    process, lines = await started("--port", "0")
    try:
        [url] = re.findall(r"http://127\.0\.0\.1:\d+", lines[-1])
        async with httpx.AsyncClient(base_url=url) as client:
            call = await held(client)
            process.send_signal(number)
            async with asyncio.timeout(2.0):
                assert await call == {"Error": "netgang: this replica is not the leader"}
        async with asyncio.timeout(5.0):
            code, rest = await ended(process)
        assert (code, "Traceback" in rest) == (0, False)
    finally:
        if process.returncode is None:
            process.kill()
            await ended(process)


@pytest.mark.timeout(60)
async def test_a_port_that_is_taken_is_said_in_one_line() -> None:
    """No traceback, and not the exit code of a good end."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        process, lines = await started("--port", str(taken.getsockname()[1]))
        code, rest = await ended(process)
    said = "".join(lines) + rest
    assert "address already in use" in said
    assert ("Traceback" in said, code == 0) == (False, False)


# -- parts that fail --------------------------------------------------------------------------------------------------


@asynccontextmanager
async def embedded(**tasks: Callable[[], Any]) -> AsyncIterator[Service]:
    """The service over the example cluster, with other tasks in place of its own."""
    async with bootstrap.embedded(Settings(snapshot=CLUSTER)) as service:
        yield replace(service, tasks={**service.tasks, **tasks})


async def test_a_task_that_fails_ends_the_process() -> None:
    """Half a service would look alive: its error comes out, whatever the main task was doing."""

    async def fail() -> None:
        raise RuntimeError("the planner broke")

    with pytest.raises(ExceptionGroup) as caught:
        async with running(embedded(plan=fail)):
            await asyncio.Event().wait()
    assert caught.group_contains(RuntimeError, match="the planner broke")


async def test_the_caller_s_own_cancellation_stays_one() -> None:
    """Somebody else ends the service: no error is invented, and its tasks end."""
    inside = asyncio.Event()
    services: list[Service] = []

    async def serve() -> None:
        async with running(embedded()) as service:
            services.append(service)
            inside.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(serve())
    await inside.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [one.get_name() for one in asyncio.all_tasks() if one is not asyncio.current_task()] == []


async def test_leaving_the_block_ends_the_tasks() -> None:
    """A clean end."""
    async with running(embedded()) as service:
        assert service.planner is not None
    assert [one for one in asyncio.all_tasks() if one is not asyncio.current_task()] == []


async def test_embedded_needs_a_snapshot() -> None:
    """Called without one it is a mistake of the program, not of its user."""
    with pytest.raises(ValueError, match="snapshot is not set"):
        async with bootstrap.embedded(Settings()):
            pass
