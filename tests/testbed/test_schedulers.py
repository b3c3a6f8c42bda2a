"""kube-scheduler configurations on the testbed: only connection, election and addresses change."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from lab.testbed.processes.schedulers import PLAIN, load_configuration, on_testbed, readdress

INSTALLED: dict[str, Any] = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "leaderElection": {"leaderElect": True, "resourceName": "netgang"},
    "profiles": [{"schedulerName": "netgang"}],
    "extenders": [
        {
            "urlPrefix": "https://netgang.netgang.svc:8443/score",
            "filterVerb": "filter",
            "prioritizeVerb": "prioritize",
            "weight": 5,
            "nodeCacheCapable": True,
            "enableHTTPS": True,
            "tlsConfig": {"caFile": "/etc/netgang/ca.crt"},
            "httpTimeout": "5s",
        },
        {"urlPrefix": "https://netgang.netgang.svc:8443/", "bindVerb": "bind", "httpTimeout": "60s"},
    ],
}


def test_only_the_connection_changes() -> None:
    ready = on_testbed(INSTALLED, kubeconfig=Path("/k"), extender="http://127.0.0.1:20123")

    assert ready["clientConnection"] == {"kubeconfig": "/k", "qps": 5000, "burst": 10000}
    assert ready["leaderElection"] == {"leaderElect": False}
    assert ready["profiles"] == INSTALLED["profiles"]
    assert ready["extenders"] == [
        {
            "urlPrefix": "http://127.0.0.1:20123/score",
            "filterVerb": "filter",
            "prioritizeVerb": "prioritize",
            "weight": 5,
            "nodeCacheCapable": True,
            "httpTimeout": "5s",
        },
        {"urlPrefix": "http://127.0.0.1:20123/", "bindVerb": "bind", "httpTimeout": "60s"},
    ]


def test_certificates_and_leader_election_stay_where_they_are_wanted() -> None:
    before = yaml.safe_dump(INSTALLED)
    ready = on_testbed(INSTALLED, kubeconfig=Path("/k"), extender="https://127.0.0.1:20123", leader_election=True)
    assert ready["extenders"][0]["tlsConfig"] == {"caFile": "/etc/netgang/ca.crt"}
    assert ready["leaderElection"] == INSTALLED["leaderElection"]
    assert yaml.safe_dump(INSTALLED) == before


def test_extenders_need_an_address() -> None:
    with pytest.raises(ValueError, match="at which URL"):
        on_testbed(INSTALLED, kubeconfig=Path("/k"))
    assert "extenders" not in on_testbed(PLAIN, kubeconfig=Path("/k"))


PREFIXES = {  # case: (expected, installed prefix)
    "root": ("http://127.0.0.1:9", "https://netgang"),
    "slash": ("http://127.0.0.1:9/", "https://netgang/"),
    "path": ("http://127.0.0.1:9/v1/bind", "http://10.0.0.1:80/v1/bind"),
}


@pytest.mark.parametrize(("want", "url"), PREFIXES.values(), ids=PREFIXES)
def test_paths_survive(want: str, url: str) -> None:
    """Entries are distinguished by their paths, so these stay."""
    assert want == readdress(url, "http://127.0.0.1:9")


def in_config_map(document: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "ConfigMap", "data": {"config.yaml": yaml.safe_dump(document)}}


FILES = {  # case: documents of the file
    "plain": [INSTALLED],
    "in a ConfigMap": [in_config_map(INSTALLED)],
    "among others": [{"kind": "Deployment"}, in_config_map(INSTALLED), {"kind": "Service"}],
}


@pytest.mark.parametrize("documents", FILES.values(), ids=FILES)
def test_configuration_is_found(documents: list[dict[str, Any]], tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(yaml.safe_dump_all(documents))
    assert load_configuration(path) == INSTALLED


@pytest.mark.parametrize("documents", [[], [{"kind": "Pod"}], [INSTALLED, INSTALLED]], ids=["none", "other", "two"])
def test_one_configuration_per_file(documents: list[dict[str, Any]], tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(yaml.safe_dump_all(documents))
    with pytest.raises(ValueError, match="expected one"):
        load_configuration(path)
