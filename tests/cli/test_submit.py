"""`netgang what-if -f`: whether a manifest's job would fit, where and with what score, else behind which gangs."""

import re
from collections.abc import Iterator
from contextlib import suppress
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml

from cli.manifest import MOST_BYTES, read_manifest, submitted
from extender.errors import ConfigError
from tests.cli.world import EXAMPLES, Saved, as_json, refused, run, written
from tests.extender.scheduling.world import node_json, pod_json

POD = {"schedulerName": "netgang", "containers": [{"name": "c", "resources": {"requests": {"cpu": "4"}}}]}
MARKS = {"pod-group.scheduling.sigs.k8s.io/name": "g", "pod-group.scheduling.sigs.k8s.io/min-available": "2"}


def job(count: int = 2, **spec: Any) -> dict[str, Any]:
    template = {"metadata": {"labels": MARKS}, "spec": {**POD, **spec}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "g"},
            "spec": {"parallelism": count, "completions": count, "template": template}}  # fmt: skip


EXAMPLE_JOBS = (("gang-job.yaml", "default/resnet"), ("kinds/job-with-podgroup.yaml", "team/retrain"))


@pytest.mark.parametrize(("name", "gang"), EXAMPLE_JOBS)
def test_examples_would_start(name: str, gang: str) -> None:
    result = run("what-if", "-f", EXAMPLES / name, told=Saved())
    [found] = as_json("what-if", "-f", EXAMPLES / name, told=Saved())["admitted"]
    assert re.match(f"{gang}: would start now in zone [AB], network score ", result.stdout.splitlines()[1])
    assert (found["gang"], found["before"]["state"], len(found["after"]["members"])) == (gang, "absent", 4)
    assert 90.0 < found["after"]["score"] <= 100.0


def lines(tmp_path: Path, manifest: Any, *arguments: object, **settings: Any) -> list[str]:
    """What is said of a job, from standard input, in a cluster of one node of 8 CPU on which a gang of 4 waits."""
    cluster = written(tmp_path, node_json("n1", cpu="8"), pod_json("first-0", gang="first", cpu="4"))
    text = yaml.safe_dump_all(manifest if isinstance(manifest, list) else [manifest])
    told = Saved(cluster, None, now_s=1000.0, **settings)
    result = run("what-if", "-f", "-", *arguments, told=told, given=text)
    assert result.exit_code == 0, result.output
    return [*result.stderr.splitlines(), *result.stdout.splitlines()]


def test_why_a_job_would_wait(tmp_path: Path) -> None:
    said = lines(tmp_path, job())
    assert any(line.startswith("default/g: would wait, rank 2, behind default/first: ") for line in said)
    never = lines(tmp_path, job(2, nodeSelector={"gpu": "a100"}))[1]
    assert never.startswith("default/g: cannot start: the gang would not fit into the empty cluster")


GATES = {"schedulingGates": [{"name": "netgang.io/gang"}]}
NATIVE = {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "metadata": {"name": "g"}}
NATIVE_GROUP = {**NATIVE, "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}}}


def test_a_gated_gang_of_kubernetes_own(tmp_path: Path) -> None:
    manifest = [NATIVE_GROUP, job(2, schedulingGroup={"podGroupName": "g"}, **GATES)]
    assert any(line.startswith("default/g: would wait, rank 2") for line in lines(tmp_path, manifest))


def test_without_an_extender_the_policy_adds_the_gate(tmp_path: Path) -> None:
    """Nothing but gated native gangs is planned there, so that is what the template must become."""
    plain = job(2, schedulingGroup={"podGroupName": "g"}, schedulerName="default-scheduler")
    said = lines(tmp_path, [NATIVE_GROUP, plain], scheduler_names=("default-scheduler",), extender=False)
    assert any(line.startswith("default/g: would start now") for line in said)


def test_a_priority_comes_from_the_manifest_or_an_option(tmp_path: Path) -> None:
    """With it the job is ahead of the gang that was admitted, which waits then."""
    classed = job(2, priorityClassName="high")
    high = {"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 1000}
    assert "note: the value of PriorityClass high is not known here" in lines(tmp_path, classed)[0]
    for said in (lines(tmp_path, [high, classed]), lines(tmp_path, classed, "--priority", "1000")):
        assert said[1].startswith("default/g: would start now")
        assert any(line.split()[:3] == ["default/first", "admitted", "waiting"] for line in said)


def test_what_is_not_understood_is_said(tmp_path: Path) -> None:
    manifest = job(2, containers=[{"name": "c", "resources": {"requests": {"example.com/gpuu": "1"}}}])
    manifest["spec"]["template"]["metadata"]["annotations"] = {"netgang.io/selection": "best"}
    said = "\n".join(lines(tmp_path, manifest))
    assert "\nnote: default/g: netgang.io/selection: 'best' is not one of subset, paper, pack" in said
    assert "\nnote: default/g: no node's allocatable shows example.com/gpuu: " in said


def test_the_namespace_is_the_manifests_or_the_options(tmp_path: Path) -> None:
    assert any(line.startswith("team/g: ") for line in lines(tmp_path, job(), "-n", "team"))
    named = {**job(), "metadata": {"name": "g", "namespace": "own"}}
    assert any(line.startswith("own/g: ") for line in lines(tmp_path, named, "-n", "team"))


REFUSED: dict[str, tuple[Any, str]] = {
    "no pods": ({"kind": "Service", "metadata": {"name": "s"}}, "the manifest has no Pod and no Job"),
    "a kind whose pods others make": ({"kind": "PyTorchJob", "metadata": {"name": "w"}},
        "PyTorchJob w: of the kinds that have pods Pod and Job are read: give its pods as Pods, or as --pods N"),
    "another group's kind": ({"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "v"}},
        "Job v: of the kinds that have pods"),
    "no kind": ({"metadata": {}}, "no Kubernetes object: it has no kind"),
    "no metadata": ({"kind": "Pod", "metadata": 5}, "metadata is no mapping"),
    "a bad amount": (job(2, containers=[{"name": "c", "resources": {"requests": {"cpu": "much"}}}]), "pods.0.pod: "),
    "a native gang without a gate": ([NATIVE_GROUP, job(2, schedulingGroup={"podGroupName": "g"})],
        "kube-scheduler itself plans default/g, by spec.schedulingGroup without gate netgang.io/gang"),
    "no template": ({"kind": "Job", "metadata": {"name": "j"}, "spec": {}}, "Job j: not as its kind is written"),
    "no replicas": (job(0), "Job g: it makes no pods"),
    "too few pods": (job(1), "pods: gang default/g has 1 pod, and its minimum is 2: it would never start"),
}  # fmt: skip


@pytest.mark.parametrize(("manifest", "said"), REFUSED.values(), ids=REFUSED)
def test_refusals(manifest: Any, said: str, tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(yaml.safe_dump_all(manifest if isinstance(manifest, list) else [manifest]))
    assert said in refused("what-if", "-f", path, told=Saved())


JUNK: tuple[Any, ...] = (None, 5, "x", [], {}, [5], {"name": 5}, float("nan"))


def without(whole: Any, junk: Any) -> Iterator[Any]:
    """The same with junk in place of each of its parts, one after the other."""
    for key in whole if isinstance(whole, dict) else range(len(whole)) if isinstance(whole, list) else ():
        for part in (junk, *without(whole[key], junk)):
            made = deepcopy(whole)
            made[key] = part
            yield made


@pytest.mark.parametrize("junk", JUNK, ids=repr)
def test_whatever_stands_in_a_manifest(junk: Any) -> None:
    """Pods, or a sentence that names what cannot be read; never another error."""
    for made in without(job(2, priorityClassName="c"), junk):
        with suppress(ConfigError):
            if isinstance(made.get("kind"), str) and isinstance(made.get("metadata") or {}, dict):
                submitted([made], namespace="a", priority=1)


HOSTILE: dict[str, tuple[str, str]] = {
    "too large": ("#" * (MOST_BYTES + 1), "larger than"),
    "deep": ("[" * 10_000, "not YAML"),
    "an object's tag": ("!!python/object/apply:os.system [ls]", "not YAML"),
    "empty": ("", "holds no object"),
}


@pytest.mark.parametrize(("text", "said"), HOSTILE.values(), ids=HOSTILE)
def test_hostile_files(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=said):
        read_manifest(path)
