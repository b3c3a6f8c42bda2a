"""A running job gives up workers for a heavier gang and gets them back, whatever happens meanwhile (PAPERS K4–K7)."""

import json
import logging
import random
from typing import Any

import pytest
from msgspec.structs import replace

from extender.controllers.elastic.kinds import JOB, KINDS, LAST_CHANGE, intent_of
from extender.controllers.removals import QUIET_S
from extender.errors import ApiError, ApiUnavailableError, ConflictError
from extender.kube.calls import AUTOSCALERS
from scoring.model.reasons import Reason
from scoring.scaling.job import No
from tests.example_counts import times
from tests.extender.beside import playing
from tests.extender.controllers.elastic.cluster import ELASTIC, ENDS_S, INDEX, JOBS, Site, full, site
from tests.extender.leadership.test_lease_loop import Replicas, cut_off, until_leads
from tests.extender.scheduling.world import key, node_json, pod_json, unfinished
from tests.fakes.cluster_api import FakeClusterApi
from tests.fakes.notes import bearer_of, notes_of_a_former_process

pytestmark = pytest.mark.looptime


@pytest.mark.parametrize("note", ["stays", "is taken off"])
async def test_a_job_gives_way_and_grows_back(note: str) -> None:
    async with full() as here:
        await here.gives_way(limit_s=5.0)
        assert set(here.claims) == {key("heavy")}
        await here.heavy_runs(limit_s=ENDS_S + 5.0)
        assert here.on_nodes("low") == [0, 1, 2]
        await here.nothing_is_kept()
        if note == "is taken off":
            here.api.store.merge_patch(JOBS, "default", "low", {"metadata": {"annotations": {LAST_CHANGE: None}}})
        here.end("heavy")
        await here.until("low has grown", lambda: here.on_nodes("low") == [0, 1, 2, 3, 4, 5], limit_s=ENDS_S + 15.0)


async def test_a_webhook_that_refuses_is_asked_less_and_less() -> None:
    async with full() as here:
        here.api.fail_next("patch_object", ApiError(500, "failed calling webhook"), times=1000)
        here.create("heavy", 5, least=5)
        await here.world.settle(60.0)
        assert 4 <= here.api.calls["patch_object"] <= 9
        assert (here.workers("low"), here.claims) == (6, {})
        assert any("failed calling webhook" in note for note in here.world.told("JobNotResized"))
        here.api.heal()
        await here.heavy_runs(limit_s=100.0)
        assert here.workers("low") == 3


FAULTS: dict[str, tuple[Exception, dict[str, Any], int]] = {  # case: (what patching ends with, how, patches in the end)
    "no answer, and it took effect": (ApiUnavailableError("no answer"), {"applied": True}, 1),
    "no answer, and it was lost": (ApiUnavailableError("no answer"), {}, 2),
    "somebody edits at the same moment": (ConflictError(409, "the object has been modified"), {"times": 2}, 3),
}


@pytest.mark.parametrize(("error", "how", "patches"), FAULTS.values(), ids=FAULTS)
async def test_a_patch_that_fails(error: Exception, how: dict[str, Any], patches: int) -> None:
    """Whether it took effect is seen, not guessed: it is sent again only if it did not."""
    async with full() as here:
        here.api.fail_next("patch_object", error, **how)
        await here.runs("heavy", 5, least=5)
        assert (here.workers("low"), here.api.calls["patch_object"]) == (3, patches)
        await here.nothing_is_kept()


@pytest.mark.parametrize("workers", [5, 6], ids=["some", "all"])
async def test_a_user_who_takes_the_workers_back_wins(workers: int) -> None:
    async with full() as here:
        here.stuck.update(here.names("low"))
        await here.gives_way()
        here.scale("low", workers)
        await here.nothing_is_kept()
        here.stuck.clear()
        await here.world.settle(30.0)
        assert (here.workers("low"), here.on_nodes("heavy")) == (workers, [])


async def test_nothing_is_patched_and_the_reason_is_visible() -> None:
    """Both the waiting gang's and the job's reason can be read, and one Event on the waiting job has both."""
    async with site() as here:
        await here.runs("low", 8, least=2)
        here.create("heavy", 2, least=2)  # as heavy, and later
        await here.until_quiet_is_over()
        await here.world.settle(10.0)
        assert (here.workers("low"), here.claims, here.api.calls["patch_object"]) == (8, {}, 0)
        first = (await here.world.get("/v1/jobs")).json()["first_waiting"]
        assert (first["gang"], first["reason"]) == ("default/heavy", No.NO_JOB)
        assert No.NOT_LIGHTER in (await here.world.get("/v1/jobs/default/low")).json()["wish"]
        [note] = [one for one in here.world.told("GangWaiting") if one.startswith("No running job gives up workers")]
        assert No.NO_JOB in note
        assert f"1 job: {No.NOT_LIGHTER}" in note


async def two_lows(here: Site) -> None:
    """Two jobs of three workers, one of which suffices each: both must give all for heavy, a gang of six."""
    for name in ("low-a", "low-b"):
        here.create(name, 3, least=1)
    await here.until("both run", lambda: len(here.on_nodes("low-a")) == len(here.on_nodes("low-b")) == 3)
    await here.until_quiet_is_over()
    here.api.latency_s["patch_object"] = here.api.latency_s["get_object"] = 0.5
    here.create("heavy", 6, least=6)


def sizes(here: Site) -> list[int]:
    return sorted(here.workers(name) for name in ("low-a", "low-b"))


async def test_nobody_gives_way_if_one_of_them_cannot_be_read() -> None:
    async with site() as here:
        await two_lows(here)
        await here.until("the first is read", lambda: here.api.calls["get_object"] == 1)
        here.api.fail_next("get_object", ApiError(500, "etcd is ill"), times=2)
        await here.world.settle(3.0)
        assert (sizes(here), here.claims) == ([3, 3], {})


async def test_a_plan_that_stops_in_the_middle_is_finished() -> None:
    async with site() as here:
        await two_lows(here)
        await here.until("the first is patched", lambda: sizes(here) == [1, 3])
        here.api.fail_next("patch_object", ApiError(500, "failed calling webhook"), times=3)
        await here.world.settle(ENDS_S + 1.0)
        here.create("small", 1, least=1)
        await here.until("heavy runs", lambda: len(here.on_nodes("heavy")) == 6)
        assert (sizes(here), here.on_nodes("small")) == ([1, 1], [])


async def test_killed_in_the_middle_of_a_plan() -> None:
    async with site() as first:
        await two_lows(first)
        await first.until("the first is patched", lambda: sizes(first) == [1, 3])
        api = first.api
    async with site(api=api) as second:
        await second.until("heavy runs", lambda: len(second.on_nodes("heavy")) == 6, limit_s=QUIET_S + 30.0)
        assert sizes(second) == [1, 1]
        await second.nothing_is_kept()
        second.end("heavy")
        await second.until("each has back what it gave up", lambda: sizes(second) == [3, 3])


async def test_a_job_with_an_autoscaler_is_the_autoscalers() -> None:
    async with site() as here:
        here.api.store.install(AUTOSCALERS)
        spec = {"scaleTargetRef": {"apiVersion": "batch/v1", "kind": "Job", "name": "low"}}
        here.api.store.put(AUTOSCALERS, {"metadata": {"name": "mine", "namespace": "default"}, "spec": spec})
        await here.world.settle(40.0)  # the kind is looked for now and then
        await here.low_runs()
        here.create("heavy", 5, least=5)
        await here.world.settle(10.0)
        assert here.workers("low") == 6
        assert any("HorizontalPodAutoscaler" in note for note in here.world.told("JobNotResized"))
        here.api.store.remove(AUTOSCALERS, "default", "mine")
        await here.heavy_runs()


async def test_pods_that_ask_in_vain_are_told() -> None:
    owner = {"apiVersion": "example.com/v1", "kind": "Robot", "name": "r", "uid": "u", "controller": True}
    made = pod_json("robot-0", gang="robot", size=1, annotations={"netgang.io/min-workers": "1"}, owner=owner)
    async with unfinished(node_json("n1"), made, pod_json("plain-0", gang="plain"), elastic=ELASTIC) as world:
        await world.settle(100.0)
        told = world.told("JobNotResized")
        assert told == ["It is not resized, because how jobs of kind Robot (example.com/v1) are resized is not known"]


async def test_a_minimum_below_that_of_the_pods_is_told() -> None:
    async with site() as here:
        here.create("low", 4, least=4, annotations={"netgang.io/min-workers": "2"})
        await here.world.settle(10.0)
        (told,) = here.world.told("ProbableMistake")
        assert "label min-available 4" in told
        assert "annotation netgang.io/min-workers=2 has no effect; lower the label" in told


@pytest.fixture
def one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs are a kind whose workers must leave one after the other, as a TFJob's."""
    monkeypatch.setitem(KINDS, "Job.batch", replace(JOB, one_by_one=True))


@pytest.mark.usefixtures("one_by_one")
async def test_workers_leave_one_by_one() -> None:
    async with full() as here:
        seen = [6]
        here.create("heavy", 5, least=5)
        await here.until("the first step", lambda: here.workers("low") == 5)
        here.create("small", 1, least=1)
        while here.workers("low") > 3 or not here.on_nodes("heavy"):
            assert len({one["metadata"]["labels"][INDEX] for one in here.pods("low")}) <= here.workers("low") + 1
            assert here.on_nodes("small") == []
            if here.workers("low") != seen[-1]:
                seen.append(here.workers("low"))
            assert here.world.now_s < 90.0
            await here.world.settle(0.2)
        assert seen == [6, 5, 4, 3]
        await here.heavy_runs()
        here.end("heavy")
        await here.until("low has grown", lambda: len(here.on_nodes("low")) == 6)


@pytest.mark.usefixtures("one_by_one")
async def test_killed_between_two_steps() -> None:
    async with full() as first:
        first.create("heavy", 5, least=5)
        await first.until("the second step", lambda: first.workers("low") == 4)
        api = first.api
    async with site(api=api) as second:
        await second.world.settle(3.0)
        assert (set(second.claims), second.workers("low")) == ({key("heavy")}, 4)
        await second.heavy_runs()
        assert second.workers("low") == 3


async def test_the_first_plan_of_a_process_knows_what_is_kept(caplog: pytest.LogCaptureFixture) -> None:
    """Killed between patch and start: a third gang that waits already gets nothing, and nothing more is taken."""
    async with full() as first:
        first.stuck.update(first.names("low"))
        await first.gives_way()
        first.create("small", 1, least=1)
        await first.world.settle(1.0)
        api = first.api
    caplog.clear()
    caplog.set_level(logging.INFO, "netgang.decisions")
    async with site(api=api) as second:  # settled for half a second
        assert not [one for one in caplog.messages if "admit" in one and "default/small" in one]
        assert second.world.waits_for("small") is Reason.RESERVED
        assert set(second.claims) == {key("heavy")}
        await second.heavy_runs()
        assert second.on_nodes("small") == []
        await second.until_quiet_is_over()
        assert (second.workers("low"), second.claims) == (3, {})
        assert api.calls["patch_object"] == 1


async def test_the_next_leader_keeps_the_room_and_takes_nothing_more() -> None:
    """The lease changes hands while the removed pods end, which takes them longer than the new leader's quiet time."""
    async with Replicas() as group:
        group.api.store.install(JOBS)
        a, b = await group.start("a", elastic=ELASTIC), await group.start("b", elastic=ELASTIC)
        here = Site(a.world)
        async with playing(here.act()):
            await here.low_runs()
            here.stuck.update(here.names("low"))
            await here.gives_way()
            cut_off(a)
            await until_leads(b)
            here.world = b.world
            await here.world.settle(3.0)
            assert set(here.claims) == {key("heavy")}
            assert a.world.service.cache.snapshot().claims == {}
            await here.until_quiet_is_over()
            await here.world.settle(10.0)
            assert (here.workers("low"), here.api.calls["patch_object"], set(here.claims)) == (3, 1, {key("heavy")})
            here.stuck.clear()
            await here.heavy_runs()
            await here.world.settle(10.0)
            assert (here.workers("low"), here.api.calls["patch_object"], here.claims) == (3, 1, {})


NAMES = ("a", "b", "c", "d")


def jobs_of(api: FakeClusterApi) -> dict[str, dict[str, Any]]:
    return {name: json.loads(body) for (_, name), body in api.store.bodies(JOBS).items()}


def least_of(job: dict[str, Any]) -> int:
    return int(job["spec"]["template"]["metadata"]["labels"]["pod-group.scheduling.sigs.k8s.io/min-available"])


def act(here: Site, rng: random.Random) -> None:
    there = jobs_of(here.api)
    absent = [name for name in NAMES if name not in there and not here.pods(name)]
    match rng.randrange(6):
        case 0 | 1 if absent:
            workers = rng.randint(1, 6)
            here.create(rng.choice(absent), workers, least=rng.randint(1, (workers + 1) // 2))
        case 2 if there:
            here.end(rng.choice(sorted(there)))
        case 3 if there:
            name = rng.choice(sorted(there))
            here.scale(name, max(least_of(there[name]), here.workers(name) + rng.choice((-1, 1))))
        case 4:
            error = rng.choice((ConflictError(409, "changed"), ApiError(500, "webhook"), ApiUnavailableError("lost")))
            here.api.fail_next("patch_object", error, applied=rng.random() < 0.5)
        case _:
            here.stuck = set() if here.stuck else {pod["metadata"]["name"] for pod in here.pods()[:2]}


def check(api: FakeClusterApi) -> None:
    for job in jobs_of(api).values():
        intent = intent_of(job["metadata"].get("annotations", {}), bearer_of(job), notes_of_a_former_process())
        assert LAST_CHANGE not in job["metadata"].get("annotations", {}) or intent is not None
        if intent is not None:
            assert intent.after >= least_of(job), job
            assert intent.after <= (intent.most or 0), job
            assert intent.after != intent.before


@pytest.mark.slow
@pytest.mark.parametrize("one_by_one", [False, True], ids=["at once", "one by one"])
@pytest.mark.parametrize("seed", range(times(3)))
async def test_it_always_settles(seed: int, one_by_one: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KINDS, "Job.batch", replace(JOB, one_by_one=one_by_one))
    rng = random.Random(seed)
    api: FakeClusterApi | None = None
    for _ in range(3):
        async with site(api=api) as here:
            api = here.api
            await here.world.settle(rng.choice((1.0, 31.0)))
            for _ in range(15):
                act(here, rng)
                await here.world.settle(rng.uniform(0.3, 10.0))
                check(api)
    assert api is not None
    api.heal()
    async with site(api=api) as here:
        await here.world.settle(120.0)
        check(api)
        sizes = {name: here.workers(name) for name in jobs_of(api)}
        await here.world.settle(20.0)
        assert sizes == {name: here.workers(name) for name in jobs_of(api)}, "it goes to and fro"
        assert here.claims == {}
        for name, job in jobs_of(api).items():
            indexes = here.on_nodes(name)
            assert indexes == list(range(len(indexes))), name
            assert not indexes or len(indexes) >= least_of(job), name
