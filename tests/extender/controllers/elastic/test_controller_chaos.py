"""Random days in a small cluster: jobs come and go, users scale, patches fail, netgang dies; and it always settles."""

import json
import random
from dataclasses import replace
from typing import Any

import pytest

from extender.controllers.elastic.intent import LAST_CHANGE, intent_of
from extender.controllers.elastic.kinds import KINDS
from extender.controllers.elastic.kinds.indexed import JOB
from extender.errors import ApiError, ApiUnavailableError, ConflictError
from tests.example_counts import times
from tests.extender.controllers.elastic.cluster import JOBS, Site, site
from tests.fakes.cluster_api import FakeClusterApi
from tests.fakes.notes import bearer_of, notes_of_a_former_process

pytestmark = [pytest.mark.looptime, pytest.mark.slow]

NAMES = ("a", "b", "c", "d")


def jobs_of(api: FakeClusterApi) -> dict[str, dict[str, Any]]:
    return {name: json.loads(body) for (_, name), body in api.store.bodies(JOBS).items()}


def least_of(job: dict[str, Any]) -> int:
    labels = job["spec"]["template"]["metadata"]["labels"]
    return int(labels["pod-group.scheduling.sigs.k8s.io/min-available"])


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
