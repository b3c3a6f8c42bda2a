"""Loopback API servers and clients of them."""

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from extender.errors import Backoff
from extender.kube.client import KubeClient
from extender.kube.credentials import ApiServer, Authorization, Token
from extender.kube.transport import Transport
from extender.ports import SystemClock
from lab.testbed.apiserver.server import LoopbackApi, serve
from lab.testbed.apiserver.store import ApiStore

QUICK = {"deadline_s": 20.0, "attempt_s": 10.0, "attempts": 3, "backoff": Backoff(first_s=0.001, limit_s=0.01)}


def server_of(url: str, *, token: str = "Bearer abc", **fields: Any) -> ApiServer:
    return ApiServer(url=url, authorization=Authorization(lambda: Token(token), clock=SystemClock()), **fields)


@asynccontextmanager
async def client_of(url: str, **limits: Any) -> AsyncIterator[KubeClient]:
    async with Transport(server_of(url)) as transport:
        yield KubeClient(transport, SystemClock(), random.Random(0), **{**QUICK, **limits})


@pytest.fixture
async def loopback() -> AsyncIterator[LoopbackApi]:
    async with serve(LoopbackApi(ApiStore(), remember=1000)) as api:
        yield api


@pytest.fixture
async def client(loopback: LoopbackApi) -> AsyncIterator[KubeClient]:
    async with client_of(loopback.url) as api:
        yield api
