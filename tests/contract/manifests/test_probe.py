"""manifests/components/probe: agents of no rights on each node, and netgang takes their reports."""

from pathlib import Path

import pytest

from extender.kube import calls
from extender.network.probe.bursts import PORTS
from extender.settings.settings import Settings
from probe.settings import OPTIONS, PORT
from tests.contract.manifests.rendered_manifests import (
    Object,
    mounted_settings,
    of_kind,
    pod_spec,
    rendered,
    with_components,
)


@pytest.fixture(scope="module")
def objects(tmp_path_factory: pytest.TempPathFactory) -> tuple[Object, ...]:
    directory = tmp_path_factory.mktemp("probe").resolve()
    return rendered(with_components(directory, "overlays/second-scheduler", ("tls", "reports", "probe")))


def test_netgang_takes_reports_of_this_account(
    objects: tuple[Object, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings: Settings = mounted_settings(objects, tmp_path, monkeypatch)
    assert (settings.probe.enabled, settings.elastic.enabled, settings.reports.port) == (True, False, 8891)
    account = of_kind(objects, "ServiceAccount")["netgang-probe"]["metadata"]
    assert settings.probe.service_account == f"{account['namespace']}/{account['name']}"
    assert settings.reports.audiences == ()
    assert ("get", "", "pods") in calls.rules()


def test_agents_have_no_rights_and_no_privileges(objects: tuple[Object, ...]) -> None:
    subjects = [one for binding in objects for one in binding.get("subjects", ())]
    assert subjects
    assert "netgang-probe" not in {one["name"] for one in subjects}
    pod = pod_spec(of_kind(objects, "DaemonSet")["netgang-probe"])
    (container,) = pod["containers"]
    assert (pod["securityContext"]["runAsNonRoot"], pod["automountServiceAccountToken"]) == (True, False)
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert not {"hostNetwork", "priorityClassName"} & pod.keys()


def test_the_agent_knows_its_options_and_its_port(objects: tuple[Object, ...]) -> None:
    (container,) = pod_spec(of_kind(objects, "DaemonSet")["netgang-probe"])["containers"]
    assert {one["name"] for one in container["env"]} <= {variable for variable, _, _ in OPTIONS.values()}
    assert [(one["containerPort"], one["protocol"]) for one in container["ports"]] == [(PORT, "UDP")]
    (rule,) = of_kind(objects, "NetworkPolicy")["netgang-probe"]["spec"]["ingress"]
    assert rule["ports"] == [{"port": PORT, "protocol": "UDP"}]
    assert rule["from"] == [{"podSelector": {"matchLabels": {"app.kubernetes.io/name": "netgang-probe"}}}]


def test_throughput_opens_its_ports_and_only_with_its_component(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, objects: tuple[Object, ...]
) -> None:
    parts = ("tls", "reports", "probe", "probe-throughput")
    with_it = rendered(with_components(tmp_path / "with", "overlays/second-scheduler", parts))
    for some, is_on in ((objects, False), (with_it, True)):
        assert mounted_settings(some, tmp_path, monkeypatch).probe.throughput.enabled is is_on
    (rule,) = of_kind(with_it, "NetworkPolicy")["netgang-probe"]["spec"]["ingress"]
    assert rule["ports"][1:] == [{"port": PORTS[0], "endPort": PORTS[-1], "protocol": "TCP"}]
    pod = pod_spec(of_kind(with_it, "DaemonSet")["netgang-probe"])
    (container,) = pod["containers"]
    assert {"name": "tmp", "mountPath": "/tmp"} in container["volumeMounts"]
    assert {"name": "tmp", "emptyDir": {"medium": "Memory", "sizeLimit": "4Mi"}} in pod["volumes"]
    assert len(pod["volumes"]) == len(pod_spec(of_kind(objects, "DaemonSet")["netgang-probe"])["volumes"]) + 1
