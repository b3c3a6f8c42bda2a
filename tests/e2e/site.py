"""Stages for tests of what happens to whole jobs: in the cluster with controllers, on nodes of their own."""

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any
from uuid import uuid4

import pytest
import yaml

from lab.testbed.api import Api, Object
from lab.testbed.cluster import Cluster
from lab.testbed.objects import namespace
from lab.testbed.parts.operator import condition
from lab.testbed.parts.service import Netgang
from lab.testbed.programs.build import ensure_asset
from tests.e2e.objects import name_of
from tests.e2e.stage import Stage


async def fresh_namespace(api: Api, purpose: str) -> str:
    stem = re.sub(r"[^a-z0-9]+", "-", purpose.lower()).strip("-")[:40]
    name = f"{stem}-{uuid4().hex[:6]}"
    await api.create(namespace(name))
    return name


async def define(cluster: Cluster, api: Api, asset: str) -> None:
    place = ensure_asset(asset)
    await cluster.kubectl("apply", "--server-side", "--force-conflicts", "--filename", str(place))
    wanted = {name_of(one) for path in place.iterdir() for one in yaml.safe_load_all(path.read_text()) if one}

    def served(found: list[Object]) -> bool:
        return wanted <= {name_of(one) for one in found if condition(one, "Established")}

    await api.until(partial(api.list_all, "CustomResourceDefinition"), served, what=f"{asset} are served")


@asynccontextmanager
async def controlled_site(
    cluster: Cluster,
    api: Api,
    purpose: str,
    *,
    nodes: Sequence[Object],
    settings: Mapping[str, Any] | None,
    kinds: Sequence[str] = ("Job",),
) -> AsyncGenerator[Stage, None]:
    """A stage on these nodes with netgang (none without `settings`) and its scheduler."""
    made = Stage(cluster, api, await fresh_namespace(api, purpose))
    await made.add_nodes(*nodes)
    if settings is not None:
        await made.netgang(settings)
    yield made
    for kind in kinds:
        if await api.serves(kind):  # of one that the test did not install there is nothing
            await api.delete_all(kind, namespace=made.namespace)
    await api.delete("Namespace", made.namespace)


def site_on(nodes: Sequence[Object], settings: Mapping[str, Any], **how: Any) -> Callable[..., AsyncIterator[Stage]]:
    @pytest.fixture
    async def site(
        controlled_cluster: Cluster, controlled_api: Api, request: pytest.FixtureRequest
    ) -> AsyncIterator[Stage]:
        cluster, api, purpose = controlled_cluster, controlled_api, request.node.name
        async with controlled_site(cluster, api, purpose, nodes=nodes, settings=settings, **how) as made:
            yield made

    return site


def lasting_site_on(
    nodes: Sequence[Object], settings: Mapping[str, Any], *, kinds: Sequence[str] = ("Job",)
) -> tuple[Callable[..., Iterator[Netgang]], Callable[..., AsyncIterator[Stage]]]:
    """Fixtures `lasting` and `site`: as `site_on`, but all tests of a file have the same netgang, one after the other.

    It removes nothing in the half minute after its start (docs/safety.md S11), which each test waited for.
    """

    @pytest.fixture(scope="module")
    def lasting(controlled_cluster: Cluster) -> Iterator[Netgang]:
        before = set(controlled_cluster.parts)

        async def start() -> Netgang:
            async with controlled_cluster.api() as api:
                return await Stage(controlled_cluster, api, "").netgang(settings)

        async def stop() -> None:
            await asyncio.gather(*(controlled_cluster.remove(one) for one in controlled_cluster.parts.keys() - before))

        with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
            started = runner.run(start())
        yield started
        with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
            runner.run(stop())

    @pytest.fixture
    async def site(
        controlled_cluster: Cluster, lasting: Netgang, controlled_api: Api, request: pytest.FixtureRequest
    ) -> AsyncIterator[Stage]:
        cluster, api, purpose = controlled_cluster, controlled_api, request.node.name
        async with controlled_site(cluster, api, purpose, nodes=nodes, settings=None, kinds=kinds) as made:
            made.started.append(lasting)
            yield made

    return lasting, site
