"""What the testbed reads from manifests/ and scheduler-config/ is there and fits together."""

from pathlib import Path

import pytest

from lab.testbed.cluster import INSTALLED_IN, NETGANG, NETGANG_SCHEDULER
from lab.testbed.parts.installed import installed
from lab.testbed.parts.service import SCHEDULER_CONFIG
from lab.testbed.processes.schedulers import load_configuration, on_testbed


def test_service_accounts_are_those_of_the_manifests() -> None:
    accounts = {
        (one["metadata"]["namespace"], one["metadata"]["name"])
        for one in installed()
        if one["kind"] == "ServiceAccount"
    }
    assert accounts == {(INSTALLED_IN, NETGANG), (INSTALLED_IN, NETGANG_SCHEDULER)}


CONFIGURATIONS = sorted(SCHEDULER_CONFIG.glob("*.yaml"))


@pytest.mark.parametrize("path", CONFIGURATIONS, ids=lambda path: path.stem)
def test_installed_configurations_run_on_the_testbed(path: Path) -> None:
    ready = on_testbed(load_configuration(path), kubeconfig=Path("/k"), extender="http://127.0.0.1:20123")
    assert all(entry["urlPrefix"] == "http://127.0.0.1:20123" for entry in ready["extenders"])
    assert ready["profiles"] == load_configuration(path)["profiles"]
