"""What every NetworkSource promises, asserted of the fake, the file and MaDDash alike."""

import contextlib
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TypeAlias

import pytest

from extender.errors import NetworkSourceError
from extender.network.maddash import MaddashSource
from extender.network.meshfile import MeshFileSource
from extender.settings.network import MaddashSettings
from scoring import EndpointId
from scoring.network.matrix import Metric
from tests.extender.network.world import read
from tests.fakes.maddash_server import MaddashServer
from tests.fakes.mesh import Mesh, full_mesh, mesh_file, paper_mesh
from tests.fakes.network_source import FakeNetworkSource, measurements

NOW_S = 1_800_000_000.0


class FakeWorld:
    def __init__(self) -> None:
        self.source = FakeNetworkSource()

    def show(self, mesh: Mesh, *, measured_at_s: float) -> None:
        self.source.set(*measurements(mesh, measured_at_s=measured_at_s))

    def break_down(self) -> None:
        self.source.fail()


class FileWorld:
    def __init__(self, folder: Path) -> None:
        self.path = folder / "mesh.json"
        self.source = MeshFileSource(self.path)

    def show(self, mesh: Mesh, *, measured_at_s: float) -> None:
        fresh = self.path.with_suffix(".new")
        fresh.write_text(mesh_file(mesh))
        os.utime(fresh, (measured_at_s, measured_at_s))
        fresh.replace(self.path)

    def break_down(self) -> None:
        self.path.write_text('[{"source": "a"')


class MaddashWorld:
    def __init__(self, server: MaddashServer) -> None:
        self.server = server
        self.checked_at_s = 0.0
        self.source = MaddashSource(MaddashSettings(server.url, timeout_s=10.0))

    def show(self, mesh: Mesh, *, measured_at_s: float) -> None:
        self.server.broken = False
        self.server.mesh, self.checked_at_s = mesh, measured_at_s

    def break_down(self) -> None:
        self.server.broken = True


World: TypeAlias = FakeWorld | FileWorld | MaddashWorld  # with `show` and `break_down` of what the source finds


@pytest.fixture(params=["fake", "file", "maddash"])
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[World]:
    async with AsyncExitStack() as stack:
        if request.param == "fake":
            yield FakeWorld()
        elif request.param == "file":
            yield FileWorld(tmp_path)
        else:
            maddash: MaddashWorld
            server = stack.enter_context(MaddashServer(Mesh(), checked_at_s=lambda: maddash.checked_at_s))
            maddash = MaddashWorld(server)
            stack.push_async_callback(maddash.source.aclose)
            yield maddash


async def test_all_values_of_the_paper_mesh(world: World) -> None:
    world.show(paper_mesh(), measured_at_s=NOW_S - 90.0)
    batch = await read(world.source)
    wanted = measurements(paper_mesh(), measured_at_s=NOW_S - 90.0)
    assert (set(batch.measurements), len(batch.measurements)) == (set(wanted), len(wanted))
    assert batch.fetched_at_s == NOW_S


async def test_every_end_is_an_endpoint(world: World) -> None:
    world.show(full_mesh("a", "b", "node 1", "2001:db8::1", "ü%+/"), measured_at_s=NOW_S)
    batch = await read(world.source)
    assert sorted(one.id for one in batch.endpoints) == sorted(["a", "b", "node 1", "2001:db8::1", "ü%+/"])
    assert {end for m in batch.measurements for end in (m.source, m.target)} <= {one.id for one in batch.endpoints}


async def test_no_news_then_news(world: World) -> None:
    world.show(full_mesh("a", "b"), measured_at_s=NOW_S)
    await read(world.source)
    assert await world.source.fetch(now_s=NOW_S + 20.0) is None
    changed = full_mesh("a", "b")
    changed.change("a", "b", delay_ms=25.0)
    world.show(changed, measured_at_s=NOW_S + 30.0)
    batch = await read(world.source, NOW_S + 60.0)
    delays = {(m.source, m.target): m.value for m in batch.measurements if m.metric is Metric.DELAY}
    assert delays == {("a", "b"): 25.0, ("b", "a"): 0.3}


async def test_unmeasured_values_are_absent(world: World) -> None:
    mesh = full_mesh("a", "b")
    mesh.change("a", "b", loss_ratio=None, throughput_bps=None)
    world.show(mesh, measured_at_s=NOW_S)
    found = {(m.source, m.metric) for m in (await read(world.source)).measurements}
    a, b = EndpointId("a"), EndpointId("b")
    assert found == {(a, Metric.DELAY), (b, Metric.LOSS), (b, Metric.DELAY), (b, Metric.THROUGHPUT)}


async def test_no_measurement_is_from_the_future(world: World) -> None:
    """A time ahead of ours counts as now: a wrong clock must not keep values young."""
    world.show(full_mesh("a", "b"), measured_at_s=NOW_S + 3600.0)
    assert {m.measured_at_s for m in (await read(world.source)).measurements} == {NOW_S}


async def test_failing_at_first(world: World) -> None:
    world.break_down()
    for _ in range(2):
        with pytest.raises(NetworkSourceError):
            await world.source.fetch(now_s=NOW_S)
    world.show(full_mesh("a", "b"), measured_at_s=NOW_S)
    assert len((await read(world.source)).measurements) == 6


async def test_failing_later(world: World) -> None:
    """A source that stops working raises, or gives its last data and says that they are old; then it heals."""
    world.show(full_mesh("a", "b"), measured_at_s=NOW_S)
    before = await read(world.source)
    world.break_down()
    with contextlib.suppress(NetworkSourceError):
        batch = await read(world.source, NOW_S + 60.0)
        assert (set(batch.measurements), batch.fetched_at_s) == (set(before.measurements), NOW_S)
        assert batch.problems
    world.show(full_mesh("a", "b", "c"), measured_at_s=NOW_S + 90.0)
    assert len((await read(world.source, NOW_S + 120.0)).measurements) == 18
