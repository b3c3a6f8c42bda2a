"""What the examples and how-tos print is tried out (`--dry-run=server`) with the frameworks' own definitions."""

from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest
import yaml

from lab.testbed.api import Api, Object
from lab.testbed.cluster import Cluster
from lab.testbed.errors import ControlPlaneError
from lab.testbed.parts.operator import CRDS
from lab.testbed.programs.definitions import DEFINITIONS
from tests.e2e.site import define
from tests.newcomer.document import fenced

ROOT = Path(__file__).parents[3]
FILES = sorted([*(ROOT / "examples").glob("*.yaml"), *(ROOT / "examples/kinds").glob("*.yaml")])
_PAGES = ("from-coscheduling", "gates-and-schedulers", "job-kinds", "measurements")
PAGES = [ROOT / f"docs/how-to/{name}.md" for name in _PAGES]
PLAIN = frozenset({"v1", "batch/v1", "apps/v1", "scheduling.x-k8s.io/v1alpha1"})
FRAMEWORKS = frozenset(
    ("kubeflow.org/v1", "kubeflow.org/v2beta1", "jobset.x-k8s.io/v1alpha2", "leaderworkerset.x-k8s.io/v1", "ray.io/v1",
     "trainer.kubeflow.org/v1alpha1")
)  # fmt: skip
SERVED = PLAIN | FRAMEWORKS
GATED = "scheduling.k8s.io/v1beta1"  # Kubernetes' own gangs, behind gates that this API server has not
OURS_ALONE = {  # names of definitions, as their files have them
    f"{plural}.{group}"
    for asset in DEFINITIONS.values()
    for group, _, plural in (name.removesuffix(".yaml").partition("_") for name in asset.files.values())
}
CLUSTER_WIDE = frozenset({"Namespace", "ClusterTrainingRuntime"})


def objects() -> list[Object]:
    """Everything printed whose kind this API server has, moved to the namespace that every cluster has."""
    examples = [one for path in FILES for one in yaml.safe_load_all(path.read_text())]
    assert {one["apiVersion"] for one in examples if "apiVersion" in one} == SERVED | {GATED}
    blocks = [text for page in PAGES for text in fenced(page.read_text(), "yaml")]
    shown = [*examples, *(one for text in blocks for one in yaml.safe_load_all(text))]
    served = [one for one in shown if one.get("apiVersion") in SERVED and "schedulingGroup" not in one.get("spec", {})]
    for one in served:
        if one["kind"] not in CLUSTER_WIDE:
            one["metadata"]["namespace"] = "default"
    return served


def misspelt(shown: list[Object]) -> list[Object]:
    first = {one["kind"]: one for one in reversed(shown) if one["apiVersion"] in FRAMEWORKS}
    return [{**one, "spec": {**one["spec"], "misspelt": True}} for one in first.values()]


@pytest.fixture
async def served(controlled_cluster: Cluster, controlled_api: Api) -> AsyncIterator[Cluster]:
    for asset in (CRDS, *DEFINITIONS):
        await define(controlled_cluster, controlled_api, asset)
    yield controlled_cluster
    await controlled_cluster.kubectl("delete", "crd", "--wait=false", *sorted(OURS_ALONE))


@pytest.mark.timeout(120, func_only=True)  # the fixture may have to fetch definitions
async def test_what_is_printed_is_accepted(served: Cluster) -> None:
    strictly = ("--dry-run=server", "--validate=strict", "--warnings-as-errors")
    tried = partial(served.kubectl, "create", *strictly, "--filename=-")
    shown = objects()
    assert len((await tried("-o", "name", text=yaml.safe_dump_all(shown))).splitlines()) == len(shown)
    wrong = misspelt(shown)
    with pytest.raises(ControlPlaneError) as refused:
        await tried(text=yaml.safe_dump_all(wrong))
    assert str(refused.value).count('unknown field "spec.misspelt"') == len(wrong), refused.value
    defined = {"TFJob", "PyTorchJob", "MPIJob", "JobSet", "LeaderWorkerSet"}
    assert {one["kind"] for one in wrong} == defined | {"RayCluster", "TrainJob", "ClusterTrainingRuntime"}
