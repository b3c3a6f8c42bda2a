"""What the examples and how-tos print goes through a real API server, with the frameworks' own definitions.

Only tried out (`--dry-run=server`): unknown and misspelt fields, wrong types and broken rules are refused, and nothing
is kept.
"""

from __future__ import annotations

import asyncio
import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest
import yaml

from testbed.api import Object
from testbed.build import ensure_asset, ensure_program
from testbed.cluster import Cluster
from testbed.operator import CRDS

ROOT = Path(__file__).parents[2]
FILES = sorted([*(ROOT / "examples").glob("*.yaml"), *(ROOT / "examples/kinds").glob("*.yaml")])
PAGES = sorted((ROOT / "docs/how-to").glob("*.md"))
SERVED = frozenset(
    {"v1", "batch/v1", "apps/v1", "scheduling.k8s.io/v1", "scheduling.x-k8s.io/v1alpha1", "kubeflow.org/v1"}
)
NOT_SERVED = frozenset({"JAXJob"})  # it came after training-operator 1.8.1
CLUSTER_WIDE = frozenset({"Namespace", "PriorityClass"})


def printed(page: Path) -> list[str]:
    """The YAML blocks of a page."""
    return re.findall(r"^```yaml\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)


def rendered(kubectl: str, beside: Path) -> str:
    """What kustomize makes of the one kustomization that the pages print, beside a clone of the project."""
    (text,) = [text for page in PAGES for text in printed(page) if "kind: Kustomization" in text]
    (beside / "kustomization.yaml").write_text(text)
    (beside / "netgang").symlink_to(ROOT)
    done = subprocess.run([kubectl, "kustomize", str(beside)], capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def objects() -> list[Object]:
    """Everything printed whose kind this API server has, moved to the namespace that every cluster has."""
    texts = [path.read_text() for path in FILES]
    texts += [text for page in PAGES for text in printed(page)]
    found: list[Object] = []
    for one in (document for text in texts for document in yaml.safe_load_all(text)):
        if one.get("apiVersion") not in SERVED or one["kind"] in NOT_SERVED:
            continue
        metadata = dict(one["metadata"])
        if one["kind"] not in CLUSTER_WIDE:
            metadata["namespace"] = "default"
        found.append({**one, "metadata": metadata})
    return found


@pytest.mark.timeout(120)
@pytest.mark.usefixtures("controlled_api")
async def test_what_is_printed_is_accepted(controlled_cluster: Cluster, tmp_path: Path) -> None:
    """Every example and every manifest of a how-to is accepted strictly, field by field; a misspelt field is not."""
    kubectl = (str(ensure_program("kubectl")), f"--kubeconfig={controlled_cluster.kubeconfig()}")

    async def run(*words: str | Path) -> subprocess.CompletedProcess[str]:
        command = [*kubectl, *map(str, words)]
        return await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=False)

    async def tried(shown: list[Object]) -> subprocess.CompletedProcess[str]:
        file = tmp_path / "shown.yaml"
        file.write_text(yaml.safe_dump_all(shown))
        return await run("create", "--dry-run=server", "--validate=strict", "-o", "name", "-f", file)

    # Not Cluster.install: in Python two megabytes of YAML take longer than everything else here.
    installed = await run("apply", "--server-side", "--force-conflicts", "-f", ensure_asset(CRDS))
    assert installed.returncode == 0, installed.stderr
    served = await run("wait", "--for=condition=established", "--timeout=30s", "crd", "--all")
    assert served.returncode == 0, served.stderr
    shown = objects()
    done = await tried(shown)
    assert (done.stderr, done.returncode) == ("", 0)
    assert len(done.stdout.splitlines()) == len(shown)
    assert "secretName: netgang-archive" in await asyncio.to_thread(rendered, kubectl[0], tmp_path)
    kinds = Counter(one["kind"] for one in shown)
    assert set(kinds) >= {"Job", "Pod", "PodGroup", "StatefulSet", "TFJob", "PyTorchJob", "PaddleJob", "XGBoostJob"}
    wrong = next(one for one in shown if one["kind"] == "TFJob")
    refused = await tried([{**wrong, "spec": {**wrong["spec"], "enableDynamicWorkers": True}}])
    assert refused.returncode == 1
    assert "enableDynamicWorkers" in refused.stderr
