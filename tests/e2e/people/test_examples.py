"""What the examples and how-tos print is tried out (`--dry-run=server`) with the frameworks' own definitions."""

import asyncio
import re
import subprocess
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import msgspec
import pytest
import yaml

from lab.testbed.api import Api, Object
from lab.testbed.cluster import Cluster
from lab.testbed.parts.operator import CRDS
from lab.testbed.programs.build import ensure_asset, ensure_program
from lab.testbed.programs.definitions import DEFINITIONS

ROOT = Path(__file__).parents[3]
FILES = sorted([*(ROOT / "examples").glob("*.yaml"), *(ROOT / "examples/kinds").glob("*.yaml")])
_PAGES = ("from-coscheduling", "gates", "maddash", "opensearch", "pytorch-elastic", "tfjob", "which-scheduler")
PAGES = [ROOT / f"docs/how-to/{name}.md" for name in _PAGES]
PLAIN = frozenset({"v1", "batch/v1", "apps/v1", "scheduling.x-k8s.io/v1alpha1"})
FRAMEWORKS = frozenset(
    {
        "kubeflow.org/v1",
        "kubeflow.org/v2beta1",
        "jobset.x-k8s.io/v1alpha2",
        "leaderworkerset.x-k8s.io/v1",
        "ray.io/v1",
        "trainer.kubeflow.org/v1alpha1",
    }
)
SERVED = PLAIN | FRAMEWORKS
GATED = "scheduling.k8s.io/v1beta1"  # Kubernetes' own gangs, behind gates that this API server has not
OURS_ALONE = {  # names of definitions, as their files have them
    f"{plural}.{group}"
    for asset in DEFINITIONS.values()
    for group, _, plural in (name.removesuffix(".yaml").partition("_") for name in asset.files.values())
}
CLUSTER_WIDE = frozenset({"Namespace", "ClusterTrainingRuntime"})


def printed(page: Path) -> list[str]:
    return re.findall(r"^```yaml\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)


def documents(*texts: str) -> list[Object]:
    return [one for text in texts for one in yaml.safe_load_all(text)]


def objects() -> list[Object]:
    """Everything printed whose kind this API server has, moved to the namespace that every cluster has."""
    examples = documents(*(path.read_text() for path in FILES))
    assert {one["apiVersion"] for one in examples if "apiVersion" in one} == SERVED | {GATED}
    found: list[Object] = []
    for one in [*examples, *documents(*(text for page in PAGES for text in printed(page)))]:
        if one.get("apiVersion") not in SERVED:
            continue
        metadata = dict(one["metadata"])
        if one["kind"] not in CLUSTER_WIDE:
            metadata["namespace"] = "default"
        found.append({**one, "metadata": metadata})
    return found


def misspelt(shown: list[Object]) -> list[Object]:
    """One object of each of the frameworks' kinds, with a field that it does not have."""
    first = {one["kind"]: one for one in reversed(shown) if one["apiVersion"] in FRAMEWORKS}
    return [{**one, "spec": {**one["spec"], "misspelt": True}} for one in first.values()]


def written(shown: list[Object], file: Path) -> Path:
    file.write_text(yaml.safe_dump_all(shown))
    return file


class Kubectl(msgspec.Struct, frozen=True):
    program: Path
    kubeconfig: Path

    async def run(self, *words: str | Path) -> subprocess.CompletedProcess[str]:
        command = [str(self.program), f"--kubeconfig={self.kubeconfig}", *map(str, words)]
        return await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=False)

    async def good(self, *words: str | Path) -> None:
        done = await self.run(*words)
        assert done.returncode == 0, done.stderr

    async def tried(self, file: Path) -> subprocess.CompletedProcess[str]:
        return await self.run("create", "--dry-run=server", "--validate=strict", "-o", "name", "-f", file)


@pytest.fixture
async def kubectl(controlled_cluster: Cluster, controlled_api: Api) -> AsyncIterator[Kubectl]:
    """With the definitions of all frameworks; those that no other test wants are gone afterwards."""
    found = Kubectl(ensure_program("kubectl"), controlled_cluster.kubeconfig())
    own = [f"--filename={ensure_asset(name)}" for name in DEFINITIONS]
    await found.good("apply", "--server-side", "--force-conflicts", f"--filename={ensure_asset(CRDS)}", *own)
    waited = partial(found.run, "wait", "--for=condition=established", "--timeout=30s", "crd", "--all")
    # It gives up at once where a new definition has no condition yet.
    await controlled_api.until(waited, lambda done: done.returncode == 0, what="all kinds are served")
    yield found
    await found.good("delete", "crd", "--wait=false", *sorted(OURS_ALONE))


@pytest.mark.timeout(120, func_only=True)  # the fixture may have to fetch definitions
async def test_what_is_printed_is_accepted(kubectl: Kubectl, tmp_path: Path) -> None:
    """Every example and every manifest of a how-to is accepted strictly, field by field; a misspelt field is not."""
    shown = objects()
    done = await kubectl.tried(written(shown, tmp_path / "shown.yaml"))
    assert (done.stderr, done.returncode) == ("", 0)
    assert len(done.stdout.splitlines()) == len(shown)
    wrong = misspelt(shown)
    refused = await kubectl.tried(written(wrong, tmp_path / "wrong.yaml"))
    assert refused.returncode == 1
    assert (refused.stdout, refused.stderr.count('unknown field "spec.misspelt"')) == ("", len(wrong)), refused.stderr
    defined = {"TFJob", "PyTorchJob", "MPIJob", "JobSet", "LeaderWorkerSet"}
    assert {one["kind"] for one in wrong} == defined | {"RayCluster", "TrainJob", "ClusterTrainingRuntime"}
