"""One real control plane for all tests of this folder.

Why: a control plane starts in seconds, but building it takes minutes when the cache is cold, and two at once would
fight for the two cores of a small machine.
Rule: all tests here share one cluster and run one after the other; `testbed.pytest_plugin` decides which of them run
(options `--e2e` and `--versions`). Every test gets a namespace, nodes and schedulers of its own, and all of that is
gone afterwards. A failure leaves logs, events and netgang's plan in tests/e2e/artifacts.
"""

from __future__ import annotations

import asyncio
import re
import shutil
import subprocess
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Mapping
from contextlib import ExitStack, nullcontext
from functools import partial
from typing import Any
from uuid import uuid4

import httpx
import pytest
from rich.console import Console

from testbed import objects, pytest_plugin
from testbed.api import Api, Object
from testbed.cluster import CONTROLLERS, Cluster
from testbed.parts.service import Netgang, install_rights, start_netgang, start_second_scheduler
from testbed.programs.build import ensure_program
from testbed.programs.catalogue import CORE, Version
from testbed.programs.progress import ShownProgress
from testbed.pytest_plugin import ARTIFACTS, E2E, scheduler_versions
from tests.e2e import AddNodes, StartNetgang, StartScheduler, StartSecondScheduler
from tests.e2e.replayed import Replayed
from tests.e2e.stage import Stage

_NETGANGS = pytest.StashKey[list[Netgang]]()
REPLAYED = pytest.StashKey[Replayed]()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say how many decisions of the tests' netgangs were run again."""
    tally = config.stash.get(REPLAYED, None)
    if tally is not None:
        terminalreporter.line(str(tally))


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    """Load the plugin with the options, unless `-p` did."""
    if not pluginmanager.has_plugin(pytest_plugin.__name__):
        pluginmanager.register(pytest_plugin, pytest_plugin.__name__)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """While everything still runs: keep the evidence of a failed test."""
    report = yield
    if report.when == "call" and report.failed and item.path.is_relative_to(E2E):
        funcargs: Mapping[str, object] = getattr(item, "funcargs", {})
        clusters = [value for value in funcargs.values() if isinstance(value, Cluster)]
        if clusters:
            _keep_evidence(item, clusters[0])
    return report


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """etcd, kube-apiserver and kwok, with PodGroups and the rights of manifests/; no scheduler and no nodes."""
    yield from _running(request.config, Cluster)


@pytest.fixture(scope="session")
def controlled_cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A second cluster with kube-controller-manager: Jobs, DaemonSets, disruption budgets, garbage collection."""
    yield from _running(request.config, lambda **more: Cluster(controllers=CONTROLLERS, **more))


@pytest.fixture
async def api(cluster: Cluster) -> AsyncIterator[Api]:
    """The administrator's client; afterwards no pods, groups or nodes are left in the cluster."""
    async with cluster.api() as client:
        yield client
        await sweep(client)
    cluster.check_alive()


@pytest.fixture
async def controlled_api(controlled_cluster: Cluster) -> AsyncIterator[Api]:
    """As `api`, of the cluster with controllers."""
    async with controlled_cluster.api() as client:
        yield client
        await sweep(client)
    controlled_cluster.check_alive()


@pytest.fixture
async def namespace(api: Api, request: pytest.FixtureRequest) -> str:
    """A fresh namespace named after the test."""
    stem = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower()).strip("-")[:40]
    name = f"{stem}-{uuid4().hex[:6]}"
    await api.create(objects.namespace(name))
    return name


@pytest.fixture
def add_nodes(cluster: Cluster, api: Api) -> AddNodes:
    """Call it with nodes (`objects.node`): they are Ready when it returns and gone after the test."""

    async def add(*nodes: Object) -> None:
        await cluster.add_nodes(nodes)

    return add


@pytest.fixture
async def start_scheduler(cluster: Cluster) -> AsyncIterator[StartScheduler]:
    """Call it as `Cluster.start_scheduler`: each one is ready when it returns and stopped after the test."""
    before = set(cluster.parts)
    yield cluster.start_scheduler
    await _remove_new(cluster, before)


@pytest.fixture
async def netgang(cluster: Cluster, request: pytest.FixtureRequest) -> AsyncIterator[StartNetgang]:
    """Call it with settings, and more as `start_netgang`: ready when it returns, stopped after the test."""
    before = set(cluster.parts)
    started = request.node.stash.setdefault(_NETGANGS, [])

    async def start(settings: Mapping[str, Any] | None = None, **how: Any) -> Netgang:
        one = await start_netgang(cluster, {"record": {"enabled": True}} | dict(settings or {}), **how)
        started.append(one)
        return one

    yield start
    await _remove_new(cluster, before)


@pytest.fixture
async def second_scheduler(cluster: Cluster) -> AsyncIterator[StartSecondScheduler]:
    """Call it with a started netgang: the installed scheduler for `schedulerName: netgang`, stopped after the test."""
    before = set(cluster.parts)
    yield partial(start_second_scheduler, cluster)
    await _remove_new(cluster, before)


async def sweep(api: Api) -> None:
    """Delete all pods, groups and nodes at once, and wait until they are gone."""
    namespaces = {one["metadata"]["namespace"] for one in await api.list_all("Pod")}
    namespaces |= {one["metadata"]["namespace"] for one in await api.list_all("PodGroup")}
    for name in sorted(namespaces):
        await api.delete_all("Pod", namespace=name, grace_s=0)
        await api.delete_all("PodGroup", namespace=name)
    await api.delete_all("Node")
    for kind in ("Pod", "PodGroup", "Node"):
        await api.until(partial(api.list_all, kind), lambda found: not found, what=f"no {kind} left")


def _running(config: pytest.Config, make: Callable[..., Cluster]) -> Iterator[Cluster]:
    """A started cluster; builds are shown on the terminal unless this is an xdist worker."""
    with ExitStack() as stack:
        capture = config.pluginmanager.getplugin("capturemanager")
        uncaptured = capture.global_and_fixture_disabled() if capture else nullcontext()
        with uncaptured, ShownProgress(Console()) as progress:
            for name in CORE:
                ensure_program(name, reporter=progress)
            for version in scheduler_versions(config):
                ensure_program("kube-scheduler", version, reporter=progress)
            running = stack.enter_context(make(reporter=progress))
        with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
            runner.run(running.install("podgroup-crd"))
            runner.run(install_rights(running))
        yield running


async def _remove_new(cluster: Cluster, before: set[str]) -> None:
    for name in [one for one in cluster.parts if one not in before]:
        await cluster.remove(name)


def _keep_evidence(item: pytest.Item, cluster: Cluster) -> None:
    """Logs of all parts, pods and events as text, and what each netgang of the test says about its plan."""
    ARTIFACTS.mkdir(exist_ok=True)
    (ARTIFACTS / ".gitignore").write_text("*\n")
    target = ARTIFACTS / re.sub(r"[^\w.-]+", "_", item.nodeid.rpartition("/")[2])
    shutil.rmtree(target, ignore_errors=True)
    cluster.dump_logs(target)
    kubectl = [str(ensure_program("kubectl")), f"--kubeconfig={cluster.kubeconfig()}", "get", "-A"]
    for name, what in {
        "pods": ["pods", "-o", "yaml"],
        "nodes": ["nodes", "-o", "wide"],
        "events": ["events", "--sort-by=.metadata.creationTimestamp"],
    }.items():
        done = subprocess.run([*kubectl, *what], capture_output=True, text=True, timeout=20, check=False)
        (target / f"{name}.txt").write_text(done.stdout + done.stderr)
    for one in item.stash.get(_NETGANGS, []):
        for page in ("v1/plan", "readyz", "metrics"):
            try:
                text = httpx.get(f"{one.url}/{page}", timeout=5.0).text
            except httpx.HTTPError as unreachable:
                text = f"not reachable: {unreachable}"
            (target / f"{one.part.name}-{page.replace('/', '-')}.txt").write_text(text)


@pytest.fixture
async def stage(
    request: pytest.FixtureRequest,
    cluster: Cluster,
    api: Api,
    namespace: str,
    add_nodes: AddNodes,
    netgang: StartNetgang,
    second_scheduler: StartSecondScheduler,
    start_scheduler: StartScheduler,
    scheduler_version: Version,
) -> AsyncIterator[Stage]:
    """Everything a scenario needs, in one object.

    What the netgangs that still run afterwards have decided is run again, and must come out as it was.
    """
    yield Stage(cluster, api, namespace, add_nodes, netgang, second_scheduler, start_scheduler, scheduler_version)
    tally = request.config.stash.setdefault(REPLAYED, Replayed())
    for one in request.node.stash.get(_NETGANGS, []):
        await tally.check(one)
