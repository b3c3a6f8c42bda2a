"""A loopback API server and a client of it."""

import random
from collections.abc import AsyncIterator

import pytest

from bench.apiserver import LoopbackApi, serve
from extender.kube.binding import BindLimits
from extender.kube.client import ClientLimits, KubeClient
from extender.kube.credentials import ApiServer, Authorization, Token
from extender.kube.http.transport import TransportLimits
from extender.runtime.backoff import Backoff
from extender.runtime.clock import SystemClock
from simulator.apiserver.store import ApiStore

QUICK = ClientLimits(
    request_s=10.0,
    transport=TransportLimits(object_bytes=100_000, line_bytes=100_000),
    bind=BindLimits(deadline_s=20.0, attempt_s=10.0, attempts=3, backoff=Backoff(first_s=0.001, limit_s=0.01)),
)


def client_of(url: str, *, limits: ClientLimits = QUICK, token: str = "Bearer abc") -> KubeClient:
    """A client with a fixed token and short limits."""
    clock = SystemClock()
    server = ApiServer(url=url, authorization=Authorization(lambda: Token(token), clock=clock))
    return KubeClient(server, clock=clock, rng=random.Random(0), limits=limits)


@pytest.fixture
async def loopback() -> AsyncIterator[LoopbackApi]:
    """An empty API server on a loopback port that remembers its last requests."""
    async with serve(ApiStore(), remember=1000) as api:
        yield api


@pytest.fixture
async def client(loopback: LoopbackApi) -> AsyncIterator[KubeClient]:
    """A client of `loopback`."""
    async with client_of(loopback.url) as api:
        yield api
