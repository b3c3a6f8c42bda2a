"""What the testbed reads from manifests/ and scheduler-config/ is there and fits together."""

from pathlib import Path

import pytest
import yaml

from lab.testbed.cluster import INSTALLED_IN, NETGANG, NETGANG_SCHEDULER
from lab.testbed.parts.service import ROOT, SCHEDULER_CONFIG, installed_gates
from lab.testbed.processes.schedulers import load_configuration, on_testbed


def test_gates_are_those_of_the_deployment() -> None:
    assert installed_gates() == {}


def test_service_accounts_are_those_of_the_manifests() -> None:
    others = {"uninstall", "probe"}  # a Job of its own; agents on nodes, which the test bed has not
    installing = [path for path in (ROOT / "manifests").rglob("*.yaml") if others.isdisjoint(path.parts)]
    documents = [one for path in installing for one in yaml.safe_load_all(path.read_text()) if one]
    accounts = {
        (one["metadata"]["namespace"], one["metadata"]["name"])
        for one in documents
        if one.get("kind") == "ServiceAccount"
    }
    assert accounts == {(INSTALLED_IN, NETGANG), (INSTALLED_IN, NETGANG_SCHEDULER)}


CONFIGURATIONS = sorted(path for path in SCHEDULER_CONFIG.glob("*.yaml") if path.name != "kustomization.yaml")


@pytest.mark.parametrize("path", CONFIGURATIONS, ids=lambda path: path.stem)
def test_installed_configurations_run_on_the_testbed(path: Path) -> None:
    ready = on_testbed(load_configuration(path), kubeconfig=Path("/k"), extender="http://127.0.0.1:20123")
    assert all(entry["urlPrefix"] == "http://127.0.0.1:20123" for entry in ready["extenders"])
    assert ready["profiles"] == load_configuration(path)["profiles"]
