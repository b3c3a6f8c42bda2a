"""The runtime of a TrainJob that is not in its manifest: from the cluster that is asked, or a sentence what to do."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.job_manifests.manifests import runtime, train_job
from tests.cli.world import refused, run, served, written
from tests.extender.scheduling.world import node_json
from tests.fakes.api_proxy import ApiProxy
from tests.fakes.raw_http import RawServer

PORT = 8889
BASE = "/apis/trainer.kubeflow.org/v1alpha1"
CLUSTER_WIDE = f"{BASE}/clustertrainingruntimes/torch-distributed"
OF_NAMESPACE = f"{BASE}/namespaces/team/trainingruntimes/torch-distributed"
SUPPOSED: dict[str, Any] = {
    "if": "a job more", "at_s": 1.0, "gangs": {}, "admitted": [], "refused": [], "moved": [], "other": [],
}  # fmt: skip


def manifest(folder: Path, *objects: Any) -> Path:
    path = folder / "job.yaml"
    path.write_text(yaml.safe_dump_all([dict(one) for one in objects]))
    return path


def test_a_saved_cluster_has_it(tmp_path: Path) -> None:
    cluster = written(tmp_path, *(node_json(f"n{i}", cpu="8") for i in range(2)), runtime())
    result = run("what-if", "-f", manifest(tmp_path, train_job(numNodes=2)), "--cluster", cluster, "-n", "team")
    assert result.stdout.splitlines()[1].startswith("team/multi-node: would start now"), result.output


LACKING: dict[str, tuple[Any, tuple[str, ...], str]] = {
    # case: (the TrainJob, further arguments, what is said)
    "an address alone": (
        train_job(),
        ("--url", "http://127.0.0.1:1"),
        "is not in the manifest: add it, as `kubectl get clustertrainingruntimes torch-distributed -o yaml` prints it",
    ),
    "a saved cluster without it": (train_job(), ("--cluster", "{cluster}"), "is neither in the manifest nor in "),
    "standard input": (train_job(), ("--cluster", "-"), "is neither in the manifest nor in -: add it"),
    "a namespace's runtime": (train_job("TrainingRuntime"), (), "kubectl get trainingruntimes torch-distributed"),
    "another kind": (train_job("Recipe"), (), "runtimeRef.kind Recipe is not read, but ClusterTrainingRuntime and"),
    "a directive": (
        train_job(patches=[{"$patch": "delete"}]),
        ("--cluster", "{with}"),
        "TrainJob multi-node: not as its kind is written: patches with $patch are not read",
    ),
    "no PodGroup": (
        train_job(),
        ("--cluster", "{bare}"),
        "runtime torch-distributed has no podGroupPolicy, so that the trainer makes no PodGroup",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("job", "arguments", "said"), LACKING.values(), ids=LACKING)
def test_what_is_said_without_it(job: Any, arguments: tuple[str, ...], said: str, tmp_path: Path) -> None:
    for name, objects in {"cluster": [], "with": [runtime()], "bare": [runtime(groups=None)]}.items():
        (tmp_path / name).write_text(json.dumps({"kind": "List", "items": objects}))
    files = {name: tmp_path / name for name in ("cluster", "with", "bare")}
    given = [one.format(**files) for one in arguments]
    assert said in refused("what-if", "-f", manifest(tmp_path, job), *given)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ApiProxy]:
    for name in ("KUBECONFIG", "NETGANG_URL", "NETGANG_TOKEN", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    with RawServer({"/v1/what-if": served(SUPPOSED)}) as netgang, ApiProxy({PORT: netgang.port}) as proxy:
        yield proxy


@pytest.mark.parametrize(("kind", "path"), [(None, CLUSTER_WIDE), ("TrainingRuntime", OF_NAMESPACE)])
def test_the_api_server_that_is_asked_has_it(kind: str | None, path: str, site: ApiProxy, tmp_path: Path) -> None:
    arguments = ("what-if", "-f", manifest(tmp_path, train_job(kind)), "-n", "team", "--kubeconfig")
    kubeconfig = site.kubeconfig(tmp_path)
    assert "is neither in the manifest nor in the cluster" in refused(*arguments, kubeconfig)
    site.objects[path] = runtime(kind=kind or "ClusterTrainingRuntime")
    result = run(*arguments, kubeconfig)
    assert result.exit_code == 0, result.output
    assert f"GET {path}" in site.asked
    site.denied = {path.split("/")[5], "/".join(path.split("/")[5:8:2])}
    said = refused(*arguments, kubeconfig, code=1)
    assert "cannot get resource" in said
    assert "; or add the runtime to the manifest" in said
