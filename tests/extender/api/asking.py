"""A client of a running service's documents."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx

from tests.extender.scheduling.world import World


@asynccontextmanager
async def asking(world: World) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(world.service.debug_app)
    async with httpx.AsyncClient(transport=transport, base_url="http://netgang") as client:
        yield client
