"""A port as `netgang serve` has it, inside this process."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvicorn

from extender.bootstrap.serve import PortServer
from tests.liveness import LIVENESS_S


@asynccontextmanager
async def listening(config: uvicorn.Config, *, setting: str = "port") -> AsyncIterator[PortServer]:
    """A server that has started to listen; it ends with the block."""
    server = PortServer(setting, config)
    serving = asyncio.create_task(server.serve(), name=setting)
    try:
        async with asyncio.timeout(LIVENESS_S):
            while not server.started:  # noqa: ASYNC110 - uvicorn has no event for it
                await asyncio.sleep(0.001)
        yield server
    finally:
        server.should_exit = True
        await serving


def url_of(server: PortServer) -> str:
    """Its base address."""
    host, port = server.servers[0].sockets[0].getsockname()[:2]
    return f"{'https' if server.config.is_ssl else 'http'}://{host}:{port}"
