"""What people are shown: documents of one moment, honest about what is held, and what is not read yet or cannot be.

An object that cannot be read is left out, counted, and shown with its reason (docs/safety.md S21).
"""

import random
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest
from msgspec import UNSET

from extender.api.network import link_document, network_document
from extender.api.views import STALE_S, Views
from extender.bootstrap import following
from extender.controllers.recorder import MOST_QUEUED
from extender.convert.pod import POD_GROUP_LABEL
from extender.errors import ApiUnavailableError
from extender.network.refresh import NetworkRefresh, Polled
from extender.schemas import KnownPairs
from extender.settings.settings import Settings
from scoring import EndpointId, NodeName, ZoneName
from scoring.model.policy import ScorePolicy, Ttl
from scoring.network.matrix import METRICS, Measurement, MeasurementTable, Metric, NetworkMatrix, PairReading, Zones
from scoring.score.pairs import among
from tests.builders import mesh, node, snapshot
from tests.extender.beside import at_once, playing
from tests.extender.scheduling.world import Object, World, node_json, pod_json, running, unfinished
from tests.fakes.clock import LoopClock
from tests.fakes.cluster_api import FakeClusterApi
from tests.fakes.network_source import FakeNetworkSource
from tests.fakes.notes import notes_of_a_former_process

pytestmark = pytest.mark.looptime

N1, N2 = node_json("n1"), node_json("n2")
NODES = [node_json(f"n{i}") for i in range(3)]
DIGITS = "1" * 2**20


def members(world: World) -> dict[str, str]:
    return {one.pod: one.state for one in world.explained("g").members}


async def test_explain_follows_a_gang_through_its_life() -> None:
    async with running(N1) as world:
        world.occupy("n1")
        first, second = world.gang("g", 2)
        await world.settle()
        document = world.explained("g")
        assert (document.state, document.code) == ("waiting", "NO_ROOM")
        assert document.zones[0].room == 0
        world.delete("stranger")
        await world.settle()
        assert members(world) == {first: "planned", second: "planned"}
        calls = world.bind_offered(first)
        await world.settle()
        assert members(world) == {first: "held", second: "planned"}
        plan = world.service.views.plan()
        assert (plan.held_binds, plan.admitted[0].committed) == (1, True)
        assert plan.admitted[0].members == {first: "n1", second: "n1"}
        calls += world.bind_offered(second)
        await world.settle()
        assert members(world) == {first: "bound", second: "bound"}


ODD = "netgang plans no gang of default/{}: 1 pod with schedulerName netgnag instead of netgang"
SAYS = {  # name: what is said where netgang plans nothing of it
    **{name: ODD.format(name) for name in ("h", "b", "odd")},
    "plain": "netgang plans no gang of default/plain: 1 pod with no label or annotation of a gang",
    "alone": "PodGroup default/alone exists, and no pod names it",
    "joob": "no gang, job or pod default/joob is known; gangs of default: g, h, nosuchgroup",
}


async def test_explain_knows_gangs_pods_and_jobs() -> None:
    """A member's or a job's name gives its gang, too; a mistyped annotation is reported, never silent."""
    async with running(N1, group("alone")) as world:
        world.set_network(mesh(["n1"]))
        [name] = world.gang("g", 1, annotations={"netgang.io/selection": "best"})
        world.pod("a", group="nosuchgroup", owner=world.owner("job"))
        world.pod("b", gang="h", scheduler="netgnag", owner=world.owner("odd"))
        world.pod("plain")
        await world.settle()
        by_pod, by_job = world.explained(name), world.explained("job")
        assert (by_pod.gang, [(one.pod, one.node) for one in by_pod.members]) == ("default/g", [(name, "n1")])
        assert "PodGroup default/nosuchgroup does not exist" in str(by_job.cause)
        assert {said: await world.service.views.explain("default", said) for said in SAYS} == SAYS
        assert await world.service.views.link("n1", "n11") == "no node n11 is known; did you mean n1?"
        assert await world.service.views.link("A", "n1") == "no node A is known; nodes of the cluster: n1"
    [problem] = by_pod.problems
    assert problem == "netgang.io/selection: 'best' is not one of subset, paper, pack; subset is used"


async def test_ready_once_everything_is_read_and_planned() -> None:
    api = FakeClusterApi(N1)
    service = following(Settings(), api, LoopClock(), random.Random(0), notes_of_a_former_process())
    before = service.views.readiness()
    assert (before.ready, len(before.reasons), before.reasons[0]) == (False, 5, "nodes are not read yet")
    async with running(api=api) as world:
        found = world.service.views.readiness()
        unplanned = replace(world.service.views, planner=service.planner).readiness()
        assert (world.counted("leader"), found.detail.leadership) == (1.0, UNSET), "it acts from the start"
    assert (found.ready, found.reasons, found.detail.cache.nodes) == (True, (), 1)
    assert found.detail.sync["pods"].relists == 1
    assert unplanned.reasons == ("the first plan is not made yet",)


@asynccontextmanager
async def reading(world: World, source: FakeNetworkSource) -> AsyncIterator[Views]:
    refresh = NetworkRefresh(
        [Polled(source, 60.0)],
        clock=world.clock,
        nodes=lambda: world.service.cache.snapshot().table.nodes,
        publish=world.set_network,
        jitter=lambda: 0.5,
    )
    async with playing(refresh.run()):
        await world.settle()
        yield replace(world.service.views, refresh=refresh)


async def test_the_network_shows_its_coverage_and_its_sources() -> None:
    """Nodes without an endpoint are counted, with the first names of each list, and leave the service ready."""
    source = FakeNetworkSource()
    source.set(Measurement(EndpointId("n1"), EndpointId("x"), Metric.LOSS, 0.0, 0.0))
    async with running(N1, N2) as world:
        world.set_network(NetworkMatrix(version=3))
        document = world.service.views.network()
        assert (document.version, document.status) == (3, UNSET)
        world.set_network(mesh(["n1", "x"]))
        delay = world.service.views.network().metrics["delay"]
        assert delay == KnownPairs(known_pairs=2, mapped_nodes=1, nodes=2)
        world.set_network(mesh(["n1", "n2"], delay_ms=3.0, now_s=7.0))
        pairs = world.service.views.network().pairs
        assert (pairs.delay_ms, pairs.delay_age_s) == ([[None, 3.0], [3.0, None]], [[None, 7.0], [7.0, None]])
        async with reading(world, source) as views:
            status, found = views.network().status, views.readiness()
    assert status
    assert [one.name for one in status.sources] == ["fake"]
    assert status.mapping
    assert status.mapping.nodes["loss"] == {"mapped": 1, "unmapped": 1, "ambiguous": 0}
    assert (status.mapping.unmapped["loss"], status.mapping.unused) == (("n2",), ("x",))
    assert found.ready
    assert found.detail.network
    assert (found.detail.network.sources, found.detail.network.mapping) == (status.sources, status.mapping)


@pytest.mark.parametrize(("error", "reasons"), [(None, 0), (RuntimeError("a defect"), 1)], ids=["away", "a defect"])
async def test_a_source_makes_the_service_unready_by_a_defect_alone(error: Exception | None, reasons: int) -> None:
    source = FakeNetworkSource()
    source.fail(error)
    async with running(N1) as world, reading(world, source) as views:
        found = views.readiness()
    assert (found.ready, ["a defect" in reason for reason in found.reasons]) == (not reasons, [True] * reasons)


PARTS: dict[str, tuple[dict[str, Any], int, int]] = {  # case: (what is asked for, how many nodes, of how many)
    "usual": ({}, 40, 150),
    "all": ({"limit": 10_000}, 100, 150),
    "the first": ({"limit": 1}, 1, 150),
    "a zone": ({"zone": "A"}, 2, 2),
    "no such zone": ({"zone": "X"}, 0, 0),
}


@pytest.mark.parametrize(("asked", "names", "of"), PARTS.values(), ids=PARTS)
def test_parts_of_a_large_network(asked: dict[str, Any], names: int, of: int) -> None:
    nodes = [node(f"n{number:03}", zone="A" if number < 2 else "B") for number in range(150)]
    pairs = network_document(snapshot(nodes), None, **asked).pairs
    assert (pairs.nodes, pairs.of) == (tuple(one.name for one in nodes[:names]), of)
    assert len(pairs.delay_ms) == names


async def test_the_description_needs_no_internet() -> None:
    async with running() as world, world.client() as client:
        page = (await client.get("/docs")).text
        loaded = re.findall(r'(?:src|href)="([^"]+)"', page)
        assert len(loaded) == 3
        for address in loaded:
            assert (await client.get(address)).status_code == 200, address


async def test_the_queue_of_a_running_service() -> None:
    patient = {"starve_limit_s": 1e12}  # the pods say nothing of their age
    async with running(*NODES, queue=patient) as world, world.client() as client:
        names = world.gang("runs", 3, cpu="4")
        await world.settle()
        world.bind_offered(*names)
        await world.settle()
        world.gang("light", 1)
        world.gang("heavy", 3)
        await world.settle(0.75)  # no look, which is once a second, between the two answers
        document = msgspec.json.decode(msgspec.json.encode(at_once(world.service.views.queue())))
        assert document == (await client.get("/v1/queue")).json()
    assert [(one["gang"], one["queue"], one["rank"]) for one in document["gangs"]] == [
        ("default/heavy", "WQ", 1),
        ("default/light", "WQ", 2),
        ("default/runs", "RQ", None),
    ]
    assert document["counts"] == {"WAITING": 2, "STARVING": 0, "RUNNING": 1, "COMPLETED": 0}


A, B = NodeName("a"), NodeName("b")
LINKED = [node("a", zone="one"), node("b", zone="two"), node("c", zone="two")]
POLICY = ScorePolicy(soft_ttl_s=Ttl(100.0, 100.0, 100.0), hard_ttl_s=Ttl(200.0, 200.0, 200.0))


Part = tuple[PairReading | None, PairReading | None, float | None, str, float | None]
"""There, back, what counts, from, and what the link is no better than."""

CASES: dict[str, tuple[Part, list[tuple[str, str, str, float, float]], bool]] = {
    # case: (the delay part; source, from, to, delay in ms and age in s of each measurement; with zones)
    "both": ((PairReading(3.0, 5.0, "maddash"), PairReading(4.0, 6.0, "file"), 4.0, "both directions", None),
             [("maddash", "a", "b", 3.0, 5.0), ("file", "b", "a", 4.0, 6.0)], False),
    "the newer source": ((PairReading(3.0, 5.0, "maddash"), None, 3.0, "one direction", None),
                         [("maddash", "a", "b", 3.0, 5.0), ("file", "a", "b", 9.0, 6.0)], False),
    "the newer of two old sources": ((PairReading(3.0, 250.0, "maddash"), None, None, "nothing", 3.0),
                                     [("maddash", "a", "b", 3.0, 250.0), ("file", "a", "b", 9.0, 260.0)], False),
    "one has expired": ((PairReading(9.0, 200.0, "file"), PairReading(4.0, 6.0, "file"), 4.0, "one direction", 9.0),
                        [("file", "a", "b", 9.0, 200.0), ("file", "b", "a", 4.0, 6.0)], False),
    "like others between the zones": ((None, None, 7.07, "zones", None), [("file", "a", "c", 7.0, 5.0)], True),
    "expired, and worse than others between the zones": (
        (PairReading(9.0, 300.0, "file"), None, 9.0, "zones", 9.0),
        [("file", "a", "b", 9.0, 300.0), ("file", "a", "c", 7.0, 5.0)], True),
    "nothing": ((None, None, None, "nothing", None), [("file", "a", "c", 7.0, 5.0)], False),
}  # fmt: skip


@pytest.mark.parametrize(("part", "measured", "zones"), CASES.values(), ids=CASES)
def test_one_link(part: Part, measured: list[tuple[str, str, str, float, float]], *, zones: bool) -> None:
    tables: dict[str, list[Measurement]] = {}
    for source, one, other, value, age_s in measured:
        sample = Measurement(EndpointId(one), EndpointId(other), Metric.DELAY, value, 1000.0 - age_s)
        tables.setdefault(source, []).append(sample)
    ends = {metric: {n.name: EndpointId(n.name) for n in LINKED} for metric in METRICS}
    matrix = NetworkMatrix.merged(
        {source: MeasurementTable.from_measurements(samples) for source, samples in tables.items()},
        endpoint_of=ends,
        now_s=1000.0,
        zones=Zones({n.name: ZoneName(n.zone) for n in LINKED}, dict.fromkeys(METRICS, 200.0)) if zones else None,
    )
    document = link_document(snapshot(LINKED, network=matrix), A, B, POLICY)
    found = document.metrics["delay"]
    assert (found.there, found.back, found.counts, found.basis, found.no_better_than) == part


SLOW_B = mesh(["a", "b", "c", "d"], bad={"b": {"delay_ms": 30.0, "throughput_bps": 25e6}})
POINTS = {  # case: (points of loss, delay and throughput; the network)
    "measured": ([20.0, 10.0, 10.0], SLOW_B),
    "nothing: the zone's median, less the penalty": ([19.0, 30.0, 38.0], mesh(["b", "c", "d"], delay_ms=8.0)),
}


@pytest.mark.parametrize(("points", "network"), POINTS.values(), ids=POINTS)
def test_points_are_those_of_the_plan(points: list[float], network: NetworkMatrix) -> None:
    names = [NodeName(name) for name in ("a", "b", "c", "d")]
    cluster = snapshot([node(name, zone="one") for name in names], network=network)
    document = link_document(cluster, A, B, POLICY)
    assert [part.points for part in document.metrics.values()] == pytest.approx(points)
    assert document.points == pytest.approx(among(network, names, POLICY).points_among(np.array([0, 1]))[0, 1])
    assert (document.reference_bps, document.compared_with) == (100e6, 4)


@pytest.mark.parametrize(("zones", "compared"), [(1, 100), (2, 100), (5, 100), (500, 2)])
def test_a_link_in_a_large_cluster_costs_no_more(zones: int, compared: int) -> None:
    nodes = [node(f"n{i:03}", zone=f"z{i % zones}") for i in range(500)]
    one, other = NodeName("n498"), NodeName("n499")
    document = link_document(snapshot(nodes, network=mesh([one, other])), one, other, POLICY)
    assert (document.compared_with, document.metrics["delay"].counts) == (compared, 1.0)


def group(name: str, **least: Any) -> Object:
    return {"kind": "PodGroup", "metadata": {"name": name}, "spec": {"minMember": 2, "minResources": least}}


def notes(world: World) -> list[str]:
    document = world.explained("bad")
    return [one for one in document.notes if "cannot be read and is left out" in one]


async def test_a_pod_group_stops_no_other_and_people_are_told_which_and_why() -> None:
    async with running(*NODES, group("bad", cpu=DIGITS), group("good", cpu="1")) as world:
        views = world.service.views
        assert views.readiness().ready
        for name, of in (("a", "good"), ("b", "good"), ("c", "bad"), ("d", "bad")):
            pod = pod_json(name)
            pod["metadata"]["labels"] = {POD_GROUP_LABEL: of}
            world.api.add(pod)
        await world.settle(2.0)
        assert {world.offered("a"), world.offered("b")} <= {"n0", "n1", "n2"}
        await world.settle(28.0)
        [note] = world.told("Unreadable")
        [event] = [one for one in world.api.events if one["reason"] == "Unreadable"]
        bad = "PodGroup default/bad"
        assert note.startswith(f"netgang cannot read it and leaves it out: {bad}: spec.minResources: cpu: ")
        assert (event["regarding"]["kind"], event["regarding"]["name"], event["type"]) == ("PodGroup", "bad", "Warning")
        [said] = notes(world)
        assert said.startswith(f"{bad} cannot be read and is left out: ")
        assert views.unreadable_objects.named("default", "bad") == said
        assert views.unreadable_objects.named("default", "good") is None
        world.api.add(group("worse", cpu=DIGITS + "Ki", memory="1"))
        await world.settle(10.0)
        sync = views.readiness().detail.sync["podgroups"]
        assert (sync.relists, sync.errors, sync.unreadable_now) == (1, 0, 2)
        assert world.counted("unreadable_objects", kind="podgroups") == 2.0
        for name in ("bad", "worse"):
            world.api.add(group(name, cpu="1"))
        await world.settle(10.0)
        assert notes(world) == []
        assert world.counted("unreadable_objects", kind="podgroups") == 0.0


async def test_a_thousand_bad_objects_keep_no_event_waiting() -> None:
    many = [group(f"bad-{number}", cpu=DIGITS[:100]) for number in range(MOST_QUEUED)]
    async with running(*NODES, *many) as world:
        await world.settle(20.0)
        assert 10 <= len(world.told("Unreadable")) <= 25
        world.gang("odd", 1, annotations={"netgang.io/selection": "best"})
        await world.settle(10.0)
        assert len(world.told("ProbableMistake")) == 1


@pytest.mark.slow
async def test_a_watch_that_is_out_of_step_is_not_ready() -> None:
    """Synced once is not enough: a kind of which nothing is heard for `STALE_S` makes the process not ready."""
    async with unfinished(*NODES) as world:
        views = world.service.views
        await world.settle(3.0 * STALE_S)
        assert views.readiness().ready, "an idle cluster is in step: bookmarks come"
        world.api.store.silence()
        await world.settle(60.0)
        assert views.readiness().ready
        for verb in ("list", "watch"):
            world.api.fail_next(verb, ApiUnavailableError("connection refused"), times=1000)
        await world.settle(STALE_S)
        reasons = views.readiness().reasons
        assert [reason.partition(" for ")[0] for reason in reasons] == [
            f"{kind} are out of step: nothing heard" for kind in views.sync()
        ]
        assert world.counted("watch_contact_age_seconds", kind="podgroups") >= STALE_S
        world.api.heal()
        world.api.store.speak()
        await world.settle(60.0)
        assert views.readiness().ready
