"""The gang of each kind of job: its name, its minimum and its members are those of the real objects."""

import json
from collections import Counter
from typing import Any

import pytest
import yaml

from extender.bootstrap import empty_cache, fill
from extender.convert.clusterfile import parse_cluster
from extender.settings.settings import Settings
from scoring.model import Gang
from tests.cli.job_manifests.manifests import (
    GANG,
    Object,
    gang_of,
    job_set,
    mpi_pi,
    pytorch,
    roles_of,
    runtime,
    step,
    template,
    train_job,
)
from tests.cli.world import EXAMPLES
from tests.contract.docs.job_pods import made

LAUNCHER_WAITS: Object = {"launcherCreationPolicy": "WaitForWorkersReady"}
OWN = {"Launcher": {"template": template(labels=GANG, schedulerName="netgang")}}
MPI: Object = {"mpi": {"runLauncherAsNode": True}}
INITIALIZED = (step("dataset-initializer", "dataset-initializer"), step("node"))

KINDS: dict[str, tuple[list[Object], tuple[str, int], dict[str, int]]] = {
    # case: (objects, the gang and its minimum, role → members)
    "MPIJob: the launcher counts": ([mpi_pi()], ("team/pi", 3), {"chief": 1, "worker": 2}),
    "MPIJob of its own minimum": (
        [mpi_pi(runPolicy={"schedulingPolicy": {"minAvailable": 2}})],
        ("team/pi", 2),
        {"chief": 1, "worker": 2},
    ),
    "MPIJob: workers that are not given are none": ([mpi_pi(workers=None)], ("team/pi", 1), {"chief": 1}),
    "MPIJob whose templates name a gang": ([mpi_pi(mpiReplicaSpecs=OWN)], ("team/own", 2), {"chief": 1}),
    "MPIJob of the training operator": ([mpi_pi("v1")], ("team/pi", 3), {"chief": 1, "worker": 2}),
    "MPIJob v1 without workers": ([mpi_pi("v1", workers=None)], ("team/pi", 1), {"chief": 1}),
    "PyTorchJob": ([pytorch()], ("kubeflow/pytorch-simple", 2), {"chief": 1, "worker": 1}),
    "PyTorchJob of its own minimum": (
        [pytorch(minAvailable=1)],
        ("kubeflow/pytorch-simple", 1),
        {"chief": 1, "worker": 1},
    ),
    "JobSet: Jobs and their pods": (
        [job_set(("driver", 1, 1), ("workers", 3, 2))],
        ("team/own", 2),
        {"chief": 1, "worker": 6},
    ),
    "JobSet: what makes no pods": ([job_set(("workers", 1, 2), ("spare", 0, 4))], ("team/own", 2), {"worker": 2}),
    "TrainJob": ([runtime(), train_job(numNodes=3)], ("team/multi-node", 3), {"worker": 3}),
    "TrainJob: nodes of the runtime": (
        [runtime(numNodes=2, torch={}), train_job(None)],
        ("team/multi-node", 2),
        {"worker": 2},
    ),
    "TrainJob on a namespace's runtime": (
        [runtime(kind="TrainingRuntime"), train_job("TrainingRuntime", numNodes=2)],
        ("team/multi-node", 2),
        {"worker": 2},
    ),
    "TrainJob on Volcano's PodGroups": (
        [runtime(groups="volcano"), train_job(numNodes=4)],
        ("team/multi-node", 4),
        {"worker": 4},
    ),
    "TrainJob: initializers count": (
        [runtime(*INITIALIZED), train_job(numNodes=2)],
        ("team/multi-node", 3),
        {"other": 1, "worker": 2},
    ),
    "TrainJob of MPI: the launcher is a node": (
        [runtime(step("node", None), step("launcher"), **MPI), train_job(numNodes=4)],
        ("team/multi-node", 4),
        {"chief": 1, "worker": 3},
    ),
    "TrainJob of MPI: the launcher is none": (
        [runtime(step("node", None), step("launcher"), mpi={}), train_job(numNodes=4)],
        ("team/multi-node", 5),
        {"chief": 1, "worker": 4},
    ),
}


@pytest.mark.parametrize(("objects", "gang", "roles"), KINDS.values(), ids=KINDS)
def test_the_gang_of_a_kind(objects: list[Object], gang: tuple[str, int], roles: dict[str, int]) -> None:
    found, _ = gang_of(*objects)
    assert ((found.key, found.min_member), roles_of(found)) == (gang, roles)
    assert (found.problem, found.own) == (None, True)


def test_resources_and_patches_of_a_train_job() -> None:
    """As in Trainer's examples/yaml/02-runtime-patches.yaml; what the runtime asks for and the job does not, stays."""
    patch = {"spec": {"nodeSelector": {"node-type": "training"}, "tolerations": [{"key": "t", "operator": "Exists"}]}}
    job = train_job(
        patches=[{"replicatedJobs": [{"name": "node", "template": {"spec": {"template": patch}}}]}],
        numNodes=2,
        resourcesPerNode={"requests": {"cpu": "2"}, "limits": {"cpu": "4"}},
    )
    for objects in ([runtime(), job], [job, runtime()]):
        found, notes = gang_of(*objects)
        assert (found.min_member, notes) == (2, [])
        (requests,) = {pod.requests.items for pod in found.members}
        assert {"cpu": 2000, "memory": 2**30}.items() <= dict(requests).items()
        assert {pod.member_class.constraints.node_selector for pod in found.members} == {(("node-type", "training"),)}


NOTES: dict[str, tuple[list[Object], str]] = {
    "a launcher that waits": ([mpi_pi(**LAUNCHER_WAITS)], "set minAvailable to 2 or less"),
    "a class that reaches no pod": ([pytorch(priorityClass="high")], "priorityClass high reaches no pod"),
    "a Job that waits": ([job_set(("a", 1, 1), ("b", 1, 1), depends="Ready")], "b is made when a is Ready"),
    "Jobs in order": (
        [job_set(("a", 1, 1), ("b", 1, 1), startupPolicy={"startupPolicyOrder": "InOrder"})],
        "made one after the other",
    ),
    "a step that waits": (
        [
            runtime(INITIALIZED[0], {**INITIALIZED[1], "dependsOn": [{"name": "dataset-initializer"}]}),
            train_job(),
        ],
        "node is made when dataset-initializer is Ready; a gang",
    ),
    "exclusive placement": (
        [{**job_set(("a", 1, 2)), "metadata": {"name": "j", "annotations": {
            "alpha.jobset.sigs.k8s.io/exclusive-topology": "rack"}}}],
        "exclusive-topology is not looked at",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("objects", "said"), NOTES.values(), ids=NOTES)
def test_notes(objects: list[Object], said: str) -> None:
    _, notes = gang_of(*objects)
    assert said in " ".join(notes)
    assert len(notes) == 1


KNOWN = ("Pod", "Job", "TFJob", "PyTorchJob", "PaddleJob", "JAXJob", "XGBoostJob", "MPIJob", "JobSet", "TrainJob")
FILES = sorted((EXAMPLES / "kinds").glob("*.yaml"))


def documents(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((EXAMPLES / "kinds" / name).read_text()))


READABLE = [
    one.name
    for one in FILES
    if one.stem != "native-gang"  # other settings
    and {each["kind"] for each in documents(one.name)} & set(KNOWN)
]


@pytest.mark.parametrize("name", READABLE)
def test_examples_are_the_gangs_of_their_controllers_pods(name: str) -> None:
    """Once more by the model of all controllers by which examples/kinds is checked, pod by pod."""
    settings = Settings()
    cache = empty_cache(settings)
    body = json.dumps({"kind": "List", "items": made(documents(name))}).encode()
    fill(cache, parse_cluster(body, name=name, zone_label=settings.zone_label), now_s=0.0)
    (wanted,) = cache.snapshot().gangs.values()
    found, notes = gang_of(*documents(name))
    assert seen(found) == seen(wanted)
    assert notes == []


def seen(gang: Gang) -> tuple[object, ...]:
    return (
        gang.key,
        gang.min_member,
        gang.problem,
        gang.own,
        Counter((pod.role, pod.requests, pod.scheduler_name, pod.job) for pod in gang.members),
        dict(gang.options),
    )
