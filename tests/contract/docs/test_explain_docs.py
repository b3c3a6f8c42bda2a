"""docs/how-to/explain.md: its commands are run as they are printed, and print what it shows."""

import asyncio
import json
import shlex
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import uvicorn
from typer.testing import CliRunner, Result

from cli.commands.serve import demo_settings
from cli.main import app
from scoring.what_if import WhatIf
from tests.contract.docs.demonstration import measured
from tests.newcomer.document import fenced

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "docs/how-to/explain.md").read_text()
SHOWN = [block.splitlines() for block in fenced(TEXT, "text")]
OURS = [line for block in fenced(TEXT, "sh") for line in block.splitlines() if line.startswith("netgang ")]
[BODY] = map(json.loads, fenced(TEXT, "json"))


def run(command: str, *more: str) -> Result:
    words = [str(ROOT / word) if word.startswith("examples/") else word for word in shlex.split(command)[1:]]
    return CliRunner().invoke(app, [*words, *more], env={"COLUMNS": "200", "NO_COLOR": "1"})


def in_order(want: list[str], text: str) -> bool:
    """Whether the lines are there, one after the other, perhaps with others between them or longer ones."""
    lines = iter(text.splitlines())
    return all(any(line.strip().startswith(one.strip()) for line in lines) for one in want)


@asynccontextmanager
async def demonstration() -> AsyncIterator[str]:
    async with measured(demo_settings(0)) as service:
        listening = socket.create_server(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(service.app, log_level="error", lifespan="off"))
        serving = asyncio.create_task(server.serve([listening]))
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            await serving


async def test_commands_do_what_is_printed() -> None:
    printed: dict[str, str] = {}
    async with demonstration() as url:
        for command in OURS:
            result = await asyncio.to_thread(run, command, "--url", url)
            assert result.exit_code == 0, (command, result.output)
            printed[command] = result.stdout
        async with httpx.AsyncClient(base_url=url) as client:
            reply = await client.post("/v1/what-if", json=BODY)
    assert reply.status_code == 200, reply.text
    explained, supposed = SHOWN
    assert in_order(explained, printed[next(one for one in OURS if "tf-smoke-gpu" in one)])
    assert in_order(supposed, printed[next(one for one in OURS if "--remove-job" in one)])


def test_the_request_that_is_shown_has_every_field() -> None:
    assert set(BODY) == set(WhatIf.__struct_fields__)
