"""Control planes whose API server knows Kubernetes' own gangs, one of each version."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager
from functools import cache

import pytest

from lab.testbed.cluster import CONTROLLERS, Cluster
from lab.testbed.parts.native import SERVED, switch_on
from lab.testbed.parts.service import install_rights
from lab.testbed.programs.catalogue import Version
from tests.e2e.conftest import sweep
from tests.e2e.site import fresh_namespace
from tests.e2e.stage import Stage

Clusters = Callable[[Version, tuple[str, ...]], Cluster]


@pytest.fixture(scope="session")
def native_clusters() -> Iterator[Clusters]:
    with ExitStack() as stack:

        @cache
        def running(version: Version, controllers: tuple[str, ...]) -> Cluster:
            if version.rpartition(".")[0] not in SERVED:
                pytest.skip(f"pods of {version} have no spec.schedulingGroup")
            cluster = stack.enter_context(Cluster(version=version, controllers=controllers))
            with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
                for step in (switch_on(cluster), cluster.install("podgroup-crd"), install_rights(cluster)):
                    runner.run(step)
            return cluster

        yield running


@pytest.fixture  # not in `native`: a cluster starts where no event loop runs
def native_cluster(kubernetes_version: Version, native_clusters: Clusters) -> Cluster:
    return native_clusters(kubernetes_version, ())


@pytest.fixture
def controlled_native_cluster(kubernetes_version: Version, native_clusters: Clusters) -> Cluster:
    return native_clusters(kubernetes_version, CONTROLLERS)


@pytest.fixture
async def native(native_cluster: Cluster) -> AsyncIterator[Stage]:
    async with staged(native_cluster) as made:
        yield made


@pytest.fixture
async def native_jobs(controlled_native_cluster: Cluster) -> AsyncIterator[Stage]:
    async with staged(controlled_native_cluster) as made:
        yield made


@asynccontextmanager
async def staged(cluster: Cluster) -> AsyncIterator[Stage]:
    before = set(cluster.parts)
    async with cluster.api() as api:
        stage = Stage(cluster, api, await fresh_namespace(api, "native"))
        yield stage
        for name in cluster.parts.keys() - before:
            await cluster.remove(name)
        await api.delete_all("Job", namespace=stage.namespace)
        await sweep(api, kinds=("Pod", "Node"))  # no controller runs here that takes the PodGroups' finalizer away
