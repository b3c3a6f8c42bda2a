"""Gang labels on the Job instead of its pod template: half of it does not start, and it is said what to change."""

from typing import Any

import pytest

from extender.convert import NUDGE_ANNOTATION
from extender.convert.wire import Passed, Refused
from extender.errors import ApiError, ApiUnavailableError
from scoring.model.reasons import Reason
from scoring.verbs.plain_pods import SYSTEM_PRIORITY
from tests.extender.scheduling.world import World, group_json, node_json, running

pytestmark = pytest.mark.looptime

NAME, LEAST = (f"pod-group.scheduling.sigs.k8s.io/{one}" for one in ("name", "min-available"))
GROUP = "scheduling.x-k8s.io/pod-group"
MARKS = {NAME: "train", LEAST: "4"}
VOLCANO = {"scheduling.k8s.io/group-name": "train", "scheduling.k8s.io/group-min-member": "3"}
NODES = [node_json(f"n{i}", zone=zone) for i, zone in enumerate("abc")]


def job(labels: dict[str, str] | None = None, template: dict[str, str] | None = None, **metadata: Any) -> Any:
    about = {"name": "train", "uid": "u-train", "labels": labels or {}, **metadata}
    spec = {"parallelism": 4, "template": {"metadata": {"labels": template or {}}}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": about, "spec": spec}


OWNED = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "u-train", "controller": True}
SET: dict[str, Any] = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "train", "uid": "u-train"}}

ABOVE = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "set", "uid": "u-set", "controller": True}
JOB_SET = {**ABOVE, "metadata": {"name": "set", "uid": "u-set", "labels": MARKS}, "spec": {"replicatedJobs": []}}

CASES: dict[str, tuple[Any, dict[str, Any], Reason | None, str]] = {  # case: (owner, pod, answer, said)
    "labels": (job(MARKS), {}, Reason.INVALID_GROUP, "move the labels to spec.template.metadata.labels"),
    "Volcano's annotations": (
        job(annotations=VOLCANO), {}, Reason.INVALID_GROUP, "move the annotations to spec.template.metadata"),
    "a minimum without a name": (job({LEAST: "4"}), {}, Reason.INVALID_GROUP, LEAST),
    "a PodGroup of two": (job({GROUP: "two"}), {}, Reason.INVALID_GROUP, GROUP),
    "a PodGroup that does not exist": (job({GROUP: "no"}), {}, None, GROUP),
    "a minimum of one": (job(MARKS | {LEAST: "1"}), {}, None, "move the labels"),
    "no minimum": (job({NAME: "train"}), {}, None, NAME),
    "an annotation of pods": (job(annotations={"netgang.io/zones": "a"}), {}, None, "annotations netgang.io/zones"),
    "a system pod": (job(MARKS), {"priority": SYSTEM_PRIORITY}, None, NAME),
    "a role that is no member": (job(MARKS, MARKS), {}, None, ""),
    "nothing of ours": (job({"app": "x"}, annotations={"netgang.io/min-workers": "2"}), {}, None, ""),
    "another scheduler's": (job(MARKS), {"scheduler": "other"}, None, ""),
    "another object of that name": (job(MARKS, uid="u-other"), {}, None, ""),
    "of a kind that is not read": (job(MARKS), {"owner": {**OWNED, "kind": "Robot"}}, None, ""),
    "a ReplicaSet with its Deployment's annotations": (
        {**SET, "metadata": {**SET["metadata"], "annotations": VOLCANO}, "spec": {"template": {}}},
        {"owner": {**OWNED, **{name: SET[name] for name in ("apiVersion", "kind")}}},
        Reason.INVALID_GROUP, "ReplicaSet train has annotations"),
    "a JobSet above the Job": ((job(ownerReferences=[ABOVE]), JOB_SET), {}, Reason.INVALID_GROUP,
        "move the labels to spec.….template.metadata.labels, and create the JobSet again"),
    "labels a thousand times as long": (job(MARKS | {NAME: "x" * 90_000}), {}, Reason.INVALID_GROUP, NAME),
}  # fmt: skip


async def answered(world: World, pod: str = "train-0", node: str = "n0") -> Reason | None:
    """What /filter and /bind answer together, as kube-scheduler asks."""
    answer = await world.ask(pod)
    if not isinstance(answer, Passed):
        return getattr(answer, "reason", None)
    return await world.bind_answer(pod, node)


@pytest.mark.parametrize(("owner", "pod", "want", "said"), CASES.values(), ids=CASES)
async def test_which_plain_pods_wait_for_a_person(owner: Any, pod: dict[str, Any], want: Any, said: str) -> None:
    owners = owner if isinstance(owner, tuple) else (owner,)
    async with running(*NODES, group_json("two", 2), *owners) as world:
        world.pod("train-0", **{"owner": OWNED, **pod})
        await world.settle(0.1)
        assert await answered(world) is (want if pod.get("scheduler") is None else Reason.NOT_OURS)
        await world.settle(3.0)
        told = world.told_to("ProbableMistake")
        assert told.keys() == ({"train-0", owners[-1]["metadata"]["name"]} if said else set())
        assert all(said in note and len(note) < 1024 for note in told.values())
        assert not want or (await answered(world), world.filter("train-0", debug=True)) == (want, Refused(want))
        world.delete("train-0")


async def test_the_whole_job_waits_with_one_read_and_explain_says_why() -> None:
    async with running(*NODES, job(MARKS)) as world:
        names = [f"train-{i}" for i in range(40)]
        for name in names:
            world.pod(name, owner=OWNED, annotations={}, cpu="100m")
        await world.settle(0.1)
        assert {await answered(world, name) for name in names} == {Reason.INVALID_GROUP}
        assert (world.bound(), world.api.calls["get_object"]) == ({}, 1)
        for asked in ("train-3", "train"):
            said = (await world.get(f"/v1/explain/default/{asked}")).text
            assert "move the labels to spec.template.metadata.labels, and create the Job again" in said, asked
        await world.settle(60.0)
        assert world.api.calls["get_object"] <= 8
        world.delete(names[0])  # of which it was read
        await world.settle(2.0)
        assert await answered(world, names[1]) is Reason.INVALID_GROUP
        world.delete(*names[1:])
        await world.settle(2.0)
        assert world.service.verbs.owners.marked == {}, "nobody waits for it any more"


CORRECTED: dict[str, Any] = {"no labels": job(), "a minimum of one": job(MARKS | {LEAST: "1"})}


@pytest.mark.parametrize("owner", CORRECTED.values(), ids=CORRECTED)
async def test_pods_start_once_their_owner_is_corrected(owner: Any) -> None:
    async with running(*NODES, job(MARKS)) as world:
        names = ["train-0", "train-1"]
        for name in names:
            world.pod(name, owner=OWNED)
        await world.settle(0.1)
        assert [await answered(world, name) for name in names] == [Reason.INVALID_GROUP] * 2
        assert world.refusal("train-0") is Reason.INVALID_GROUP
        world.api.add(owner)
        await world.settle(12.0)
        assert all(NUDGE_ANNOTATION in world.api.pod(name)["metadata"]["annotations"] for name in names)
        assert [await answered(world, name) for name in names] == [None, None]


UNREAD: dict[str, tuple[Exception | None, float]] = {  # what the read of the owner ends with, how long it takes
    "no right": (ApiError(403, "forbidden"), 0.0),
    "no answer": (ApiUnavailableError("away"), 0.0),
    "a slow answer": (None, 60.0),
}


@pytest.mark.parametrize(("error", "takes_s"), UNREAD.values(), ids=UNREAD)
async def test_an_owner_that_cannot_be_read_keeps_no_pod(error: Exception | None, takes_s: float) -> None:
    async with running(*NODES, job(MARKS)) as world:
        world.api.latency_s["get_object"] = takes_s
        if error is not None:
            world.api.fail_next("get_object", error, times=100)
        world.pod("train-0", owner=OWNED)
        await world.settle(0.1)
        began_s = world.now_s
        assert isinstance(await world.ask("train-0"), Passed)
        call = world.bind("train-0", "n0")
        await call.task
        assert call.answer is None
        assert world.now_s - began_s < 1.1


async def test_pods_without_labels_wait_for_the_one_read_of_their_owner_and_no_more() -> None:
    async with running(*NODES, job()) as world:
        world.api.latency_s["get_object"] = 0.005
        for name in ("train-0", "train-1"):
            world.pod(name, owner=OWNED)
        await world.settle(0.1)
        for name, most_s in (("train-0", 0.006), ("train-1", 0.0)):
            began_s = world.now_s
            assert isinstance(await world.ask(name), Passed)
            await (call := world.bind(name, "n0")).task
            assert (call.answer, world.now_s - began_s <= most_s) == (None, True)
        assert world.api.calls["get_object"] == 1
