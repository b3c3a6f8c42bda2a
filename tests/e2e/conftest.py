"""One real control plane of each version: the tests of one process share it and run one after the other.

Every test gets a namespace, nodes and schedulers of its own, and all of that is gone afterwards. A failure leaves logs,
events and netgang's plan in tests/e2e/artifacts.
"""

import asyncio
import re
import shutil
import subprocess
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from functools import cache, partial
from typing import Any

import httpx
import pytest

from lab.testbed import pytest_plugin
from lab.testbed.api import Api
from lab.testbed.cluster import CONTROLLERS, Cluster
from lab.testbed.parts.service import Netgang, install_rights
from lab.testbed.programs.build import ensure_program
from lab.testbed.programs.catalogue import Version
from lab.testbed.pytest_plugin import ARTIFACTS, E2E, kubernetes_versions
from tests.e2e.site import fresh_namespace
from tests.e2e.stage import Stage, assert_decides_again


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    if not pluginmanager.has_plugin(pytest_plugin.__name__):
        pluginmanager.register(pytest_plugin, pytest_plugin.__name__)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.when == "call" and report.failed and item.path.is_relative_to(E2E):
        funcargs: Mapping[str, object] = getattr(item, "funcargs", {})
        stages = [value for value in funcargs.values() if isinstance(value, Stage)]
        clusters = [value for value in funcargs.values() if isinstance(value, Cluster)]
        for cluster in [*clusters, *(one.cluster for one in stages)][:1]:
            _keep_evidence(item, cluster, [one for made in stages for one in made.started])
    return report


@pytest.fixture(scope="session")
def clusters(request: pytest.FixtureRequest) -> Iterator[Callable[[Version], Cluster]]:
    with ExitStack() as stack:
        yield cache(lambda version: stack.enter_context(_running(request.config, version=version)))


@pytest.fixture
def cluster(request: pytest.FixtureRequest, clusters: Callable[[Version], Cluster]) -> Cluster:
    """etcd, kube-apiserver and kwok, with PodGroups and the rights of manifests/; no scheduler and no nodes."""
    in_core = "kubernetes_version" in request.fixturenames
    return clusters(request.getfixturevalue("kubernetes_version") if in_core else _first(request.config))


@pytest.fixture(scope="session")
def controlled_cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    with _running(request.config, version=_first(request.config), controllers=CONTROLLERS) as running:
        yield running


@pytest.fixture
async def api(cluster: Cluster) -> AsyncIterator[Api]:
    """The administrator's client; afterwards nothing that the test started or created is left."""
    async for client in _client(cluster):
        yield client


@pytest.fixture
async def controlled_api(controlled_cluster: Cluster) -> AsyncIterator[Api]:
    async for client in _client(controlled_cluster):
        yield client


async def _client(cluster: Cluster) -> AsyncIterator[Api]:
    before = set(cluster.parts)
    async with cluster.api() as client:
        yield client
        await asyncio.gather(*(cluster.remove(name) for name in cluster.parts.keys() - before))
        await sweep(client)
    cluster.check_alive()


@pytest.fixture
async def namespace(api: Api, request: pytest.FixtureRequest) -> str:
    return await fresh_namespace(api, request.node.name)


@pytest.fixture
async def stage(kubernetes_version: Version, cluster: Cluster, api: Api, namespace: str) -> AsyncIterator[Stage]:
    made = Stage(cluster, api, namespace)
    yield made
    for one in made.started:
        await assert_decides_again(one)


async def sweep(api: Api, *, kinds: Sequence[str] = ("Pod", "PodGroup", "Node")) -> None:
    for kind in kinds:
        for namespace in {one["metadata"].get("namespace") for one in await api.list_all(kind)}:
            await api.delete_all(kind, namespace=namespace, grace_s=0 if kind == "Pod" else None)
    for kind in kinds:
        await api.until(partial(api.list_all, kind), lambda found: not found, what=f"no {kind} left")


def _first(config: pytest.Config) -> Version:
    return kubernetes_versions(config)[0]


@contextmanager
def _running(config: pytest.Config, **how: Any) -> Iterator[Cluster]:
    """A started cluster; builds are shown on the terminal unless this is an xdist worker."""
    with ExitStack() as stack:
        capture = config.pluginmanager.getplugin("capturemanager")
        with capture.global_and_fixture_disabled() if capture else nullcontext():
            ensure_program("kubectl")
            ensure_program("kube-scheduler", how["version"])
            running = stack.enter_context(Cluster(**how))
        with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
            runner.run(running.install("podgroup-crd"))
            runner.run(install_rights(running))
        yield running


def _keep_evidence(item: pytest.Item, cluster: Cluster, netgangs: list[Netgang]) -> None:
    ARTIFACTS.mkdir(exist_ok=True)
    (ARTIFACTS / ".gitignore").write_text("*\n")
    target = ARTIFACTS / re.sub(r"[^\w.-]+", "_", item.nodeid.rpartition("/")[2])
    shutil.rmtree(target, ignore_errors=True)
    cluster.dump_logs(target)
    kubectl = [str(ensure_program("kubectl")), f"--kubeconfig={cluster.kubeconfig()}", "get", "-A"]
    for name, how in {"pods": "-oyaml", "nodes": "-owide", "events": "--sort-by=.metadata.creationTimestamp"}.items():
        done = subprocess.run([*kubectl, name, how], capture_output=True, text=True, timeout=20, check=False)
        (target / f"{name}.txt").write_text(done.stdout + done.stderr)
    for one in netgangs:
        for page in ("v1/plan", "readyz", "metrics"):
            try:
                text = httpx.get(f"{one.url}/{page}", timeout=5.0).text
            except httpx.HTTPError as unreachable:
                text = f"not reachable: {unreachable}"
            (target / f"{one.part.name}-{page.replace('/', '-')}.txt").write_text(text)
