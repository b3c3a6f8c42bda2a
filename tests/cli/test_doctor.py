"""`netgang doctor` and `netgang uninstall`: words, JSON and exit codes, on an API server of the test."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
import yaml

from scoring.model import GATE
from tests.cli.doctor.installed import LEASE, SETTINGS, installed, plain_settings
from tests.cli.world import as_json, refused, run, shown
from tests.contract.manifests.rendered import ROOT
from tests.fakes.api_proxy import kubeconfig
from tests.fakes.operator_api import FakeOperatorApi
from tests.fakes.verbs import FakeViews

READY = msgspec.to_builtins(FakeViews().readiness())


def asked(api: FakeOperatorApi, monkeypatch: pytest.MonkeyPatch) -> FakeOperatorApi:
    """Whatever commands ask of an API server they ask of this one."""
    monkeypatch.setattr("extender.kube.credentials.load", lambda *_, **how: how)
    monkeypatch.setattr("extender.kube.client.OperatorApi", lambda _: api)
    return api


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeOperatorApi:
    """What manifests/ installs, with a short renewal."""
    api, settings = installed(), plain_settings() | {"lease": {"duration_s": 1}}
    api.edit(SETTINGS, lambda one: one["data"].update({"netgang.yaml": yaml.safe_dump(settings)}))
    return asked(api, monkeypatch)


def test_a_system_as_it_should_be(cluster: FakeOperatorApi) -> None:
    result = run("doctor")
    assert result.output == (
        "nothing wrong (Kubernetes 1.36.3, settings of ConfigMap netgang-system/netgang, "
        "ConfigMap netgang-system/netgang-scheduler-config)\n"
    )
    assert result.exit_code == 0


def test_findings_for_people_and_machines(cluster: FakeOperatorApi) -> None:
    cluster.on_get = lambda path: None
    cluster.add("/api/v1/nodes/elsewhere", status={})
    result = run("doctor")
    assert result.exit_code == 1
    assert "error   leader-missing: netgang-0 holds the Lease netgang-leader and does not renew it" in result.stdout
    assert "→ kubectl label node NODE topology.kubernetes.io/zone=ZONE" in result.stdout
    assert "1 error, 1 warning" in result.stdout
    document = json.loads(run("doctor", "--json").stdout)
    assert document["ok"] is False
    assert [one["id"] for one in document["findings"]] == ["leader-missing", "zone-labels"]
    assert {*document["findings"][0]} == {"id", "severity", "what", "fix"}
    assert "elsewhere" in document["findings"][1]["what"]


def test_a_running_netgang_is_asked(cluster: FakeOperatorApi) -> None:
    counts = {"loss": {"mapped": 1, "unmapped": 3, "ambiguous": 0}}
    more = {"unmapped": {}, "ambiguous": 0, "unknown": 0, "unused": 0}
    mapping = {"nodes": counts, "unmapped": {}, "ambiguous": [], "unknown": [], "unused": [], "left_out": more}
    network = {"sources": [{"name": "maddash", "error": "connection refused"}], "mapping": mapping}
    ready = READY | {"ready": False, "reasons": ["pods are not read yet"]}
    ready["detail"] = READY["detail"] | {"network": network}
    result = run("doctor", "--json", told={"/readyz": ready})
    found = [one["id"] for one in json.loads(result.stdout)["findings"]]
    assert found == ["service-not-ready", "source-unreachable", "nodes-unmapped"]


def test_a_running_netgang_alone() -> None:
    assert run("doctor", "--no-cluster", told={"/readyz": READY}).exit_code == 0
    other = run("doctor", "--no-cluster", told={"/readyz": httpx.Response(200, content=b"<html>")})
    assert "not what netgang answers" in other.stdout
    result = run("doctor", "--no-cluster", "--url", "http://127.0.0.1:9")
    assert (result.exit_code, "service-unreachable" in result.stdout) == (1, True)


def test_a_file_before_it_is_installed(tmp_path: Path) -> None:
    settings = tmp_path / "settings.yaml"
    settings.write_text(yaml.safe_dump(plain_settings()))
    good = ROOT / "scheduler-config/second-scheduler.yaml"
    arguments = ("doctor", "--no-cluster", "--config", settings, "--scheduler-config")
    assert run(*arguments, good).exit_code == 0
    bad = tmp_path / "scheduler.yaml"
    bad.write_text(good.read_text().replace("nodeCacheCapable: true", "nodeCacheCapable: false"))
    result = run(*arguments, bad)
    assert (result.exit_code, "set nodeCacheCapable: true" in result.stdout) == (1, True)


WRONG: dict[str, tuple[tuple[str, ...], str]] = {  # case: (arguments, words of the refusal)
    "nothing to look at": (("doctor", "--no-cluster"), "leaves nothing to look at"),
    "no such kubeconfig": (("doctor", "--kubeconfig", "/none"), "kubeconfig /none: cannot be read"),
    "no such file": (("doctor", "--no-cluster", "--scheduler-config", "/none"), "/none cannot be read"),
    "no address": (("doctor", "--no-cluster", "--url", "netgang"), "accepted: http://HOST:PORT"),
    "both ends at once": (("uninstall", "--leases", "--leave-gates"), "exclude each other"),
    "nowhere to uninstall": (("uninstall", "--kubeconfig", "/none"), "cannot be read"),
}


@pytest.mark.parametrize(("arguments", "words"), WRONG.values(), ids=WRONG)
def test_wrong_use_is_exit_code_2(arguments: tuple[str, ...], words: str) -> None:
    assert words in refused(*arguments)


def test_an_api_server_that_is_gone(tmp_path: Path) -> None:
    """No findings can be had: that is not "nothing wrong"."""
    for command in ("doctor", "uninstall"):
        refused(command, "--kubeconfig", kubeconfig(tmp_path, "http://127.0.0.1:9"))


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> FakeOperatorApi:
    api = FakeOperatorApi()
    for plural in ("mutatingadmissionpolicies", "mutatingadmissionpolicybindings"):
        api.add(f"/apis/admissionregistration.k8s.io/v1/{plural}/netgang-gate")
    for name, scheduler in (("a", "netgang"), ("b", "default-scheduler")):
        spec: dict[str, Any] = {"schedulerName": scheduler, "containers": [], "schedulingGates": [{"name": GATE}]}
        api.add(f"/api/v1/namespaces/team/pods/{name}", spec=spec, status={"phase": "Pending"})
    api.add(LEASE, spec={"holderIdentity": ""})
    return asked(api, monkeypatch)


def test_uninstall_says_what_it_would_do(full: FakeOperatorApi) -> None:
    assert shown("uninstall", "--dry-run") == [
        "would delete mutatingadmissionpolicybindings/netgang-gate",
        "would delete mutatingadmissionpolicies/netgang-gate",
        "would let go 2 pods that wait at the gate",
        "1 of them name schedulerName netgang: once its kube-scheduler is gone they wait for it",
    ]
    assert shown("uninstall", "--leases", "--dry-run") == ["would delete leases/netgang-leader"]
    document = as_json("uninstall", "--dry-run")
    assert document["released"] == {"team/a": "netgang", "team/b": "default-scheduler"}
    assert document["dry_run"] is True
    assert set(full.calls) == {"get", "list"}


def test_uninstall_takes_policies_gates_and_leases_apart(full: FakeOperatorApi) -> None:
    uninstall = partial(run, "uninstall")
    assert uninstall("--leave-gates").exit_code == 0
    assert full.stored("/api/v1/namespaces/team/pods/a")["spec"]["schedulingGates"] == [{"name": GATE}]
    assert uninstall("--leases").stdout == "deleted leases/netgang-leader\n"
    assert uninstall("--leases").stdout == "nothing is left to remove\n"
    full.refused.add("/api/v1/namespaces/team/pods/b")
    result = uninstall()
    assert result.exit_code == 1
    assert "left: team/b: kubernetes-admin cannot patch /api/v1/namespaces/team/pods/b" in result.stdout
    assert not full.stored("/api/v1/namespaces/team/pods/a")["spec"].get("schedulingGates")
    full.refused.clear()
    for said in ("let go 1 pod that waits at the gate\n", "nothing is left to remove\n"):
        result = uninstall()
        assert (result.exit_code, result.stdout) == (0, said)
