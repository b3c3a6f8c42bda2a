"""TrainJobs: never resized, and what their status tells of the training is shown as reports are."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from extender.controllers.elastic.kinds import TRAIN_JOB, State, Unsafe, read
from extender.controllers.elastic.reports.reports import find_jobs
from extender.kube.calls import TRAIN_JOBS
from tests.extender.controllers.elastic.cluster import Site, site
from tests.extender.controllers.elastic.reporting import view, views
from tests.fakes.cluster_api import FakeClusterApi


def train_job(spec: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": "llama", "namespace": "default", **more.pop("metadata", {})},
        "spec": {"trainer": {"numNodes": 3}, **(spec or {})},
        **more,
    }


def status(step: int, loss: float, now_s: float) -> dict[str, Any]:
    metrics = [{"name": "global_step", "value": str(step)}, {"name": "train_loss", "value": str(loss)}]
    return {"metrics": metrics, "lastUpdatedTime": datetime.fromtimestamp(now_s, UTC).isoformat()}


READ = {  # case: (state, why it is left alone, workers, job)
    "running": (State.ACTIVE, Unsafe.FIXED_TRAINER, 3, train_job()),
    "without a count": (State.ACTIVE, Unsafe.FIXED_TRAINER, 1, train_job({"trainer": None})),
    "suspended": (State.SUSPENDED, Unsafe.FIXED_TRAINER, 3, train_job({"suspend": True})),
    "complete": (
        State.ENDED,
        Unsafe.FIXED_TRAINER,
        3,
        train_job(status={"conditions": [{"type": "Complete", "status": "True"}]}),
    ),
    "in a queue of Kueue's": (
        State.ACTIVE,
        Unsafe.QUEUED,
        3,
        train_job(metadata={"labels": {"kueue.x-k8s.io/queue-name": "q"}}),
    ),
    "managed by another": (State.ACTIVE, Unsafe.MANAGED, 3, train_job({"managedBy": "example.com/mine"})),
}


@pytest.mark.parametrize(("state", "unsafe", "workers", "job"), READ.values(), ids=READ)
def test_it_is_read_and_left_alone(state: State, unsafe: Unsafe, workers: int, job: dict[str, Any]) -> None:
    seen = read(TRAIN_JOB, json.dumps(job).encode())
    assert (seen.state, seen.unsafe, seen.workers, seen.trainer_status) == (state, unsafe, workers, None)


def test_a_train_job_stands_for_its_job_set() -> None:
    """Both have one name: who asks for it, or reports for it, means the TrainJob; by kind the other is found, too."""
    ours, its = (
        view("llama", kind="TrainJob.trainer.kubeflow.org"),
        view("llama", kind="JobSet.jobset.x-k8s.io", owned=True),
    )
    both = views(ours, its)
    assert find_jobs(both, "team", "llama") == [ours]
    assert find_jobs(both, "team", "llama", kind="jobset") == [its]
    assert find_jobs(views(its), "team", "llama") == [its], "nobody stands for it that is known"


async def reported(here: Site) -> Any:
    return (await here.world.get("/v1/jobs/default/llama")).json()["reported"]


@pytest.mark.looptime
async def test_what_the_status_tells_is_shown() -> None:
    api = FakeClusterApi()
    api.store.install(TRAIN_JOBS)
    api.store.put(TRAIN_JOBS, train_job(metadata={"annotations": {"netgang.io/min-workers": "1"}}))
    async with site(api=api) as here:

        async def after(said: dict[str, Any]) -> Any:
            api.store.merge_patch(TRAIN_JOBS, "default", "llama", {"status": {"trainerStatus": said}})
            await here.world.settle(2.5)
            shown = await reported(here)
            return shown and (shown["step"], shown["loss"], shown["workers"])

        await here.world.settle(3.0)
        assert await reported(here) is None
        began_s = here.world.clock.now_s()
        assert await after(status(100, 2.0, began_s)) == (100, 2.0, 3)
        assert await after(status(200, 1.5, began_s + 1.0)) == (200, 1.5, 3)
        assert await after(status(150, 1.7, began_s)) == (200, 1.5, 3), "an older one"
        assert await after(status(300, float("nan"), began_s + 2.0)) == (200, 1.5, 3)
        assert await after(status(-1, 1.0, began_s + 3.0)) == (200, 1.5, 3)
        assert await after({**status(300, 1.0, 0.0), "lastUpdatedTime": None}) == (200, 1.5, 3), "without its moment"
        assert await after(status(120, 1.9, began_s + 5.0)) == (120, 1.9, 3)
        document = (await here.world.get("/v1/jobs/default/llama")).json()
        assert [one["step"] for one in document["points"]["last"]] == [100, 120]
        assert document["refusal"] == Unsafe.FIXED_TRAINER
        assert document["kind"] == "TrainJob.trainer.kubeflow.org"
        assert here.world.told("JobNotResized") == [f"It is not resized, because {Unsafe.FIXED_TRAINER}"]
        assert api.calls["patch_object"] == 0
