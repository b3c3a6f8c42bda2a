"""Simulated jobs: their pods come, go and train as their owner and their nodes say."""

import asyncio
import random
from typing import Any

import pytest

from extender.convert import pod_from_json
from extender.kube.calls import PODS
from extender.ports import Binding
from lab.simulator.model import Fate, SimJob
from lab.simulator.pods.cluster import Kubelets, simulated_api
from lab.simulator.pods.jobs import TF_JOBS, Habits, Jobs
from lab.simulator.pods.objects import Dialect
from lab.simulator.pods.record import Meter
from lab.simulator.pods.training import Placed, Rate, Story, Training, constant
from lab.simulator.pods.virtual_time import Latencies, Latency
from scoring.ids import NodeName
from scoring.model import Role
from scoring.model.resources import Resources
from tests.simulator.pods_world import job

pytestmark = pytest.mark.looptime
QUICK = Latencies(pod_start=Latency(1.0), pod_stop=Latency(2.0), pod_create=Latency(0.0), watch_s=0.001)


class Site:
    """Jobs without a scheduler: the test binds their pods itself."""

    def __init__(self, *, training: Training | None = None, dialect: Dialect = Dialect.LABELS) -> None:
        rng = random.Random(0)
        self.api = api = simulated_api(QUICK, rng)
        self.over: list[Story] = []
        self.meter = Meter()
        habits = Habits("netgang", dialect, elastic=True)
        self.jobs = Jobs(api.store, QUICK, rng, habits, training or constant(), self.meter, ended=self.over.append)
        Kubelets(api.store, QUICK, rng).start()
        self.jobs.start()

    def pods(self) -> list[str]:
        return [one.new["metadata"]["name"] for one in self.api.store.all(PODS)]

    async def bind(self, *names: str, node: str = "n1") -> None:
        for name in names:
            made = self.api.store.get(PODS, "default", name)
            await self.api.bind(Binding("default", name, made["metadata"]["uid"], NodeName(node)))

    async def run(self, one: SimJob) -> None:
        self.jobs.submit(one)
        await asyncio.sleep(0.1)
        await self.bind(*self.pods())

    def patch(self, name: str, spec: dict[str, Any]) -> None:
        self.api.store.merge_patch(TF_JOBS, "default", name, {"spec": spec})


def workers(count: int) -> dict[str, Any]:
    return {"tfReplicaSpecs": {"Worker": {"replicas": count}}}


@pytest.mark.parametrize("dialect", list(Dialect))
async def test_pods_are_members_of_their_gang(dialect: Dialect) -> None:
    """Servers first, then workers by index, with role, owner and minimum as the service reads them."""
    site = Site(dialect=dialect)
    one: SimJob = job("j", 2, ps=1, least=1, zones=("b", "a"))
    site.jobs.submit(one)
    await asyncio.sleep(0.1)
    read = [pod_from_json(found.body) for found in site.api.store.all(PODS)]
    assert [(str(p.name), p.role, p.index) for p in read] == [
        ("j-ps-0", Role.PS, 0),
        ("j-worker-0", Role.WORKER, 0),
        ("j-worker-1", Role.WORKER, 1),
    ]
    assert {dict(p.options).get("zones") for p in read} == {"b,a"}
    owners = {p.owner.kind for p in read if p.owner is not None}  # of members of gangs alone it is read
    assert owners == (set() if dialect is Dialect.NONE else {"TFJob"})
    minimum = read[0].group.min_available if read[0].group is not None else 0
    assert minimum == {Dialect.LABELS: 2, Dialect.POD_GROUP: None, Dialect.NONE: 0}[dialect]


async def test_a_job_trains_while_its_minimum_runs_and_then_is_gone() -> None:
    """100 samples at two workers' rate: 50 s from the start of the second; then neither pods nor job are left."""
    site = Site()
    site.jobs.submit(job("j", 2))
    await asyncio.sleep(0.1)
    await site.bind("j-worker-0")
    await asyncio.sleep(9.0)
    await site.bind("j-worker-1")
    await asyncio.sleep(60.0)
    assert site.pods() == []
    assert site.api.store.all(TF_JOBS) == []
    story = site.over[0]
    assert story.started_s == pytest.approx(9.11, abs=0.01)
    assert story.first_pod_s == pytest.approx(0.1, abs=0.01)
    assert story.ended_s == pytest.approx(9.11 + 1.0 + 50.0, abs=0.01)
    assert (story.resizes, story.stalled_s) == (0, 0.0)
    assert story.outcome(Fate.COMPLETED, zero_s=0.1).worker_s == pytest.approx(9.0 + 2 * 51.0, abs=0.05)


async def test_growing_and_shrinking() -> None:
    """New members get the next indexes, the highest leave first and late; each change stalls training once."""
    site = Site()
    seen = []
    await site.run(job("j", 2, least=1, samples=1000.0))
    await asyncio.sleep(30.0)
    site.patch("j", workers(4))
    await asyncio.sleep(0.1)
    seen.append(site.pods())
    await site.bind("j-worker-2", "j-worker-3")
    await asyncio.sleep(60.0)
    site.patch("j", workers(1))
    await asyncio.sleep(1.0)
    seen.append(site.pods())
    await asyncio.sleep(2.0)
    seen.append(site.pods())
    story = site.jobs.stories[0]
    await asyncio.sleep(50.0)
    site.jobs.close()

    four = [f"j-worker-{index}" for index in range(4)]
    assert seen == [four, four, four[:1]]
    assert story.resizes == 2
    assert story.stalled_s == pytest.approx(2 * 40.5, abs=0.1)
    assert story.trained == pytest.approx(2 * 30.1 + 4 * 18.5 + 1 * 12.5, abs=2.0)


async def test_a_lost_member_is_made_anew() -> None:
    """An evicted pod ends late, its successor has its name and another uid; a job below its minimum trains nothing."""
    site = Site()
    await site.run(job("j", 2))
    await asyncio.sleep(20.0)
    old = site.api.store.get(PODS, "default", "j-worker-1")["metadata"]["uid"]
    site.api.store.delete_pod("default", "j-worker-1")
    await asyncio.sleep(10.0)
    new = site.api.store.get(PODS, "default", "j-worker-1")["metadata"]["uid"]
    site.jobs.close()
    uids, trained = {old, new}, site.jobs.stories[0].trained
    assert len(uids) == 2
    assert trained == pytest.approx(2 * 19.0, abs=0.2)


async def test_suspended_and_resumed() -> None:
    site = Site()
    counts = []
    await site.run(job("j", 3))
    await asyncio.sleep(5.0)
    for suspend in (True, False):
        site.patch("j", {"runPolicy": {"suspend": suspend}})
        await asyncio.sleep(5.0)
        counts.append(len(site.pods()))
    site.jobs.close()
    assert counts == [0, 3]


async def test_what_was_trained_since_the_checkpoint_is_repeated() -> None:
    """A change in the middle of ten steps goes back to the last checkpoint, and says so in the stall."""

    def stepping(one: SimJob, where: Placed) -> Rate:
        return Rate(1.0 * len(where.workers), 1.0, 4.0)  # checkpoints every 40 samples

    site = Site(training=stepping)
    await site.run(job("j", 2, least=1, samples=1e6))
    await asyncio.sleep(31.0)  # 60 samples
    site.patch("j", workers(1))
    await asyncio.sleep(1.0)
    site.jobs.close()
    story = site.jobs.stories[0]
    assert story.trained == pytest.approx(40.0)
    assert story.stalled_s == pytest.approx(20.0 / 2.0 + 40.5, abs=0.1)


def test_the_meter_counts_requests_over_time() -> None:
    """Half of the cores for half of the time is a quarter; what nobody requests is there with 0."""
    meter = Meter()
    meter.take("a", Resources.parse({"cpu": "2"}), now_s=10.0)
    meter.give("a", now_s=15.0)
    meter.give("a", now_s=15.0)
    ratios = meter.ratios(Resources.parse({"cpu": "4", "memory": "1", "pods": "9"}), from_s=10.0, to_s=20.0)
    assert ratios == {"cpu": 0.25, "memory": 0.0}
