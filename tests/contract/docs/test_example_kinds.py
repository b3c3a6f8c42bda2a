"""examples/kinds: what each comment promises (gang, minimum, members, worker range) is what netgang makes of it."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from extender.bootstrap import empty_cache, fill
from extender.controllers.elastic.kinds import KINDS, read
from extender.convert.clusterfile import parse_cluster
from extender.settings.settings import Settings
from lab.testbed.parts.installed import installed_settings
from lab.testbed.programs.catalogue import TRAINING_CRDS
from lab.testbed.programs.definitions import DEFINITIONS
from scoring.ids import GangKey
from scoring.model import Gang, GangSource
from scoring.model.policy import Policy, gang_options
from scoring.model.snapshot import Snapshot
from scoring.plan import Plan, plan
from tests.contract.docs.job_pods import made

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "examples"
FILES = sorted((EXAMPLES / "kinds").glob("*.yaml"))
STARTED_BY_US = [one for one in FILES if one.stem != "native-gang"]
OTHERS = {  # examples that are older than this folder → their gang's key, minimum, members
    "gang-job.yaml": ("default/resnet", 4, 4),
    "podgroup.yaml": ("default/pair", 2, 3),
    "case1.yaml": ("demo/case1", 6, 6),
    "tf-smoke-gpu.yaml": ("demo/tf-smoke-gpu", 5, 5),
    "reporting-job.yaml": ("team/resnet", 2, 2),
}
FIXED = "fixed"
SETTINGS = Settings.model_validate(installed_settings())


@dataclass(frozen=True, slots=True)
class Promise:
    gang: GangKey
    minimum: int
    members: Counter[str]
    workers: str

    @classmethod
    def of(cls, text: str) -> "Promise":
        """Read them. KeyError: one is missing."""
        said = dict(re.findall(r"^# (gang|members|workers): (.+)$", text, re.MULTILINE))
        gang, _, minimum = said["gang"].removesuffix(" pods on").partition(", whole from ")
        members = Counter[str]()
        for part in said["members"].split(", "):
            count, role = part.split()
            members[role.removesuffix("s") if role != "ps" else role] += int(count)
        return cls(GangKey(gang), int(minimum), members, said["workers"].partition(",")[0])


@pytest.fixture(params=FILES, ids=[one.stem for one in FILES])
def file(request: pytest.FixtureRequest) -> Path:
    return request.param


def documents(file: Path) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(file.read_text()))


def nodes(count: int) -> list[dict[str, Any]]:
    allocatable = {"cpu": "64", "memory": "256Gi", "pods": "1", "nvidia.com/gpu": "8"}
    return [
        {
            "kind": "Node",
            "metadata": {"name": f"n{number}", "labels": {"topology.kubernetes.io/zone": "D"}},
            "status": {"allocatable": allocatable, "conditions": [{"type": "Ready", "status": "True"}]},
        }
        for number in range(count)
    ]


def snapshot(objects: Iterable[Mapping[str, Any]]) -> Snapshot:
    listed = json.dumps({"kind": "List", "items": list(objects)}).encode()
    cache = empty_cache(SETTINGS)
    fill(cache, parse_cluster(listed, name="example", zone_label=SETTINGS.zone_label), now_s=0.0)
    return cache.snapshot()


def gang_in(seen: Snapshot) -> Gang:
    (gang,) = seen.gangs.values()
    return gang


def planned(file: Path, room: int) -> Plan:
    return plan(snapshot([*nodes(room), *made(documents(file))]), SETTINGS.policy(), now_s=0.0)


def test_the_gang_is_the_one_promised(file: Path) -> None:
    promise = Promise.of(file.read_text())
    gang = gang_in(snapshot(made(documents(file))))
    roles = Counter(pod.role.value for pod in gang.members)
    assert (gang.key, gang.min_member, roles) == (promise.gang, promise.minimum, promise.members)
    assert (gang.problem, gang.problem_detail, gang.own) == (None, "", True)
    assert gang_options(dict(gang.options), Policy()).problems == ()


@pytest.mark.parametrize("file", STARTED_BY_US, ids=[one.stem for one in STARTED_BY_US])
def test_it_starts_with_its_minimum_and_not_with_less(file: Path) -> None:
    promise = Promise.of(file.read_text())
    for room in {promise.minimum, promise.members.total()}:
        admitted = planned(file, room).admitted[promise.gang]
        assert len(set(admitted.members.values())) == room
    assert set(planned(file, promise.minimum - 1).waiting) == {promise.gang}


def as_run(objects: Iterable[Mapping[str, Any]], run: str, *, created: str, done: bool) -> list[dict[str, Any]]:
    """These pods as those of one run: their controllers are its own, and `done` ones Succeeded on their nodes."""
    found = []
    for one in objects:
        labels = dict(one["metadata"].get("labels", {}))
        if "jobset.sigs.k8s.io/jobset-uid" in labels:
            labels["jobset.sigs.k8s.io/jobset-uid"] += run
        owners = [{**owner, "uid": owner["uid"] + run} for owner in one["metadata"].get("ownerReferences", ())]
        name = one["metadata"]["name"]
        metadata = {
            **one["metadata"],
            "uid": f"{name}-{run}",
            "labels": labels,
            "ownerReferences": owners,
            "creationTimestamp": created,
        }
        scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:30Z"}
        status = {"phase": "Succeeded", "conditions": [scheduled]} if done else {"phase": "Pending"}
        spec = {**one["spec"], "nodeName": "n0"} if done else one["spec"]
        found.append({**one, "metadata": metadata, "spec": spec, "status": status})
    return found


@pytest.mark.parametrize("file", STARTED_BY_US, ids=[one.stem for one in STARTED_BY_US])
def test_finished_pods_count_in_their_own_run_only(file: Path) -> None:
    objects = made(documents(file))
    pods = [one for one in objects if one["kind"] == "Pod"]
    groups = [one for one in objects if one["kind"] != "Pod"]
    half = len(pods) // 2
    done = as_run(pods[:half], "first", created="2026-01-01T00:00:00Z", done=True)
    same = as_run(pods[half:], "first", created="2026-01-01T00:00:00Z", done=False)
    next_ones = as_run(pods[half:], "second", created="2026-01-01T01:00:00Z", done=False)
    gang = gang_in(snapshot([*groups, *done, *same]))
    assert {pod.uid for pod in gang.members} == {one["metadata"]["uid"] for one in (*done, *same)}
    gang = gang_in(snapshot([*groups, *done, *next_ones]))
    assert {pod.uid for pod in gang.members} == {one["metadata"]["uid"] for one in next_ones}
    assert {pod.uid for pod in gang.earlier} == {one["metadata"]["uid"] for one in done}


def test_it_may_be_resized_as_promised(file: Path) -> None:
    promise = Promise.of(file.read_text())
    found = FIXED
    for one in documents(file):
        kind = KINDS.get(f"{one['kind']}.{one['apiVersion'].rpartition('/')[0]}")
        if kind is None:
            continue
        seen = read(kind, json.dumps(one).encode())
        assert (seen.bounds.bad, seen.bad_wants) == (False, False)
        if seen.unsafe is not None:
            continue
        assert seen.workers == promise.members["worker"]
        least, most = seen.bounds.least, seen.bounds.most or seen.workers
        if least is not None and least < most:
            found = f"{least} to {most}"
    assert found == promise.workers


def test_every_kind_that_is_understood_has_an_example() -> None:
    every = [one for file in FILES for one in documents(file)]
    shown = {f"{one['kind']}.{one['apiVersion'].rpartition('/')[0]}" for one in every}
    assert set(KINDS) <= shown
    assert {
        "TrainJob.trainer.kubeflow.org",
        "LeaderWorkerSet.leaderworkerset.x-k8s.io",
        "RayCluster.ray.io",
        "Pod.",
    } <= shown
    gangs = [gang_in(snapshot(made(documents(file)))) for file in FILES]
    assert {gang.source for gang in gangs} | {GangSource.GATED_NATIVE} == set(GangSource), "its gate comes by a policy"


def test_names_are_used_once() -> None:
    named = [
        (one["apiVersion"], one["kind"], one["metadata"].get("namespace"), one["metadata"]["name"])
        for file in FILES
        for one in documents(file)
        if one["kind"] != "PriorityClass"
    ]
    assert len(set(named)) == len(named)
    classes = [one for file in FILES for one in documents(file) if one["kind"] == "PriorityClass"]
    assert all(one == classes[0] for one in classes)


@pytest.mark.parametrize(("name", "want"), OTHERS.items(), ids=OTHERS)
def test_the_other_examples_are_made_into_gangs_too(name: str, want: tuple[str, int, int]) -> None:
    found = gang_in(snapshot(made(documents(EXAMPLES / name))))
    assert (found.key, found.min_member, len(found.members), found.problem, found.own) == (*want, None, True)


def test_the_list_of_examples_is_complete() -> None:
    text = (EXAMPLES / "README.md").read_text()
    rows = re.findall(r"^\| \[([^\]]+)\]\(([^)]+)\) \| ([^|]*) \|", text, re.MULTILINE)
    assert all(shown == target and (EXAMPLES / target).exists() for shown, target, _ in rows)
    listed = [target for _, target, _ in rows]
    here = {str(one.relative_to(EXAMPLES)) for one in EXAMPLES.rglob("*.*") if one.suffix in (".yaml", ".py", ".sh")}
    assert sorted(listed) == sorted(here)
    for _, target, kinds in rows:
        if target.endswith(".yaml") and target != "simulate.yaml":
            inside = {one["kind"] for one in documents(EXAMPLES / target)}
            assert {kind.strip() for kind in kinds.split(",")} <= inside, target


def test_the_definitions_named_are_those_of_the_tests() -> None:
    text = (EXAMPLES / "README.md").read_text().partition("How far each kind is checked")[2].partition("\n\n")[0]
    pinned = {one.default_version.rpartition(".")[0] for one in (*DEFINITIONS.values(), TRAINING_CRDS)}
    assert set(re.findall(r"\s(\d+\.\d+)\b", text)) == pinned
