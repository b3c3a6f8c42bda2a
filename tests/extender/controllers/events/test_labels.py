"""Probable mistakes in labels and scheduler names: an Event for each owner, on a pod and the owner; in virtual time."""

from typing import Any

import pytest

from tests.extender.scheduling.world import node_json, pod_json, running

pytestmark = pytest.mark.looptime

NAME, LEAST = "pod-group.scheduling.sigs.k8s.io/name", "pod-group.scheduling.sigs.k8s.io/min-available"
N1 = node_json("n1", cpu="8")
GANG = {NAME: "g", LEAST: "2"}


def owned(name: str, labels: dict[str, str], owner: str = "job", **fields: Any) -> dict[str, Any]:
    made = pod_json(name, **fields)
    controller = {"apiVersion": "batch/v1", "kind": "Job", "name": owner, "uid": f"uid-{owner}", "controller": True}
    made["metadata"] |= {"labels": labels, "ownerReferences": [controller]}
    return made


def placed_by(scheduler: str) -> dict[str, Any]:
    return pod_json(f"of-{scheduler}", scheduler=scheduler, nodeName="n1", phase="Running")


MISTAKES: dict[str, tuple[dict[str, str], str, str]] = {  # case: (labels, schedulerName, what is asked; empty: nothing)
    "a misspelt label": ({NAME.replace("name", "nmae"): "g"}, "netgang", f"did you mean label {NAME}?"),
    "of whatever scheduler": ({NAME.replace("name", "nmae"): "g"}, "other", f"did you mean label {NAME}?"),
    "a misspelt scheduler": (GANG, "net-gang", "did you mean netgang?"),
    "a scheduler that places no pod": (GANG, "volcanoo", "no pod of the cluster was placed by it"),
    "no scheduler is named": (GANG, "default-scheduler", "set schedulerName to netgang"),
    "another scheduler that is at work": (GANG, "busy", ""),
    "a gang of ours": (GANG, "netgang", ""),
    "a pod of others": ({"app.kubernetes.io/name": "x"}, "default-scheduler", ""),
}


@pytest.mark.parametrize(("labels", "scheduler", "asked"), MISTAKES.values(), ids=MISTAKES)
async def test_a_mistake_is_said_once_for_an_owner(labels: dict[str, str], scheduler: str, asked: str) -> None:
    pods = [owned(f"p{i}", labels, scheduler=scheduler) for i in range(3)]
    async with running(N1, placed_by("busy"), placed_by("default-scheduler"), *pods) as world:
        await world.settle(30.0)
        for one in pods[:2]:
            world.api.add(one)
        await world.settle(660.0)
        told = world.told_to("ProbableMistake")
        assert (len(world.told("ProbableMistake")), len(told)) == ((2, 2) if asked else (0, 0))
        assert "job" in told or not asked
        assert all(asked in note for note in told.values())
        assert not [patch for patch in world.api.patches if scheduler != "netgang"]


async def test_many_owners_are_told_one_after_the_other() -> None:
    pods = [owned(f"p{i}", {NAME.replace("name", "nmae"): "g"}, f"job-{i}") for i in range(20)]
    async with running(N1, *pods) as world:
        await world.settle(2.5)
        assert 0 < len(world.told_to("ProbableMistake")) < 20
        await world.settle(30.0)
        assert len(world.told_to("ProbableMistake")) == 40


async def test_a_tenants_many_keys_are_bounded() -> None:
    """As many keys as an object can hold are not looked through (docs/safety.md S21)."""
    keys = {f"pod-group.scheduling.sigs.k8s.io/name{i}": "g" for i in range(2000)}
    async with running(N1, owned("many", keys), owned("few", dict(list(keys.items())[:60]), "other")) as world:
        await world.settle(10.0)
        assert world.told_to("ProbableMistake").keys() == {"few", "other"}
        assert all(len(note) < 1024 for note in world.told_to("ProbableMistake").values())
