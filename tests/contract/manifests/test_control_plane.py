"""Manifests/control-plane: netgang as a static pod on control-plane machines, with a standby (docs/safety.md S16)."""

import re
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from extender.kube import calls
from extender.kube.leases import ROLE_LABEL
from extender.leadership.lease import LEADER
from extender.settings.leadership import LeaderElection
from extender.settings.settings import Settings
from tests.contract.manifests.rendered_manifests import MANIFESTS, ROOT, Object, rendered, rights_of

HERE = MANIFESTS / "control-plane"
CONFIGURATIONS = ("default-scheduler", "managed-resource")


@pytest.fixture(scope="module")
def objects() -> dict[tuple[str, str], Object]:
    return {(one["kind"], one["metadata"]["name"]): one for one in rendered(HERE)}


@pytest.fixture(scope="module")
def pod() -> Object:
    return yaml.safe_load((HERE / "static-pod.yaml").read_text())


@pytest.fixture(params=CONFIGURATIONS)
def settings(request: pytest.FixtureRequest) -> Settings:
    return Settings.load(HERE / f"{request.param}.yaml")


def test_the_cluster_holds_rights_and_a_service(objects: Mapping[tuple[str, str], Object]) -> None:
    kinds = {kind for kind, _ in objects}
    confined = {"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}
    bound = {"ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"}
    assert kinds == confined | bound | {"Namespace", "Secret", "ConfigMap", "Service"}
    roles = [objects["ClusterRole", "netgang"], objects["Role", "netgang"], objects["Role", "netgang-notes"]]
    made = calls.rules() | calls.rules(calls.LEADING) | calls.rules((*calls.NOTES, *calls.STARTED))
    assert {right for role in roles for right in rights_of(role["rules"])} == made
    user = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "netgang"}
    assert all(one["subjects"] == [user] for (kind, _), one in objects.items() if kind.endswith("RoleBinding"))
    policies = [one["spec"] for (kind, _), one in objects.items() if kind == "ValidatingAdmissionPolicy"]
    assert len(policies) == 3
    assert {one["matchConditions"][0]["expression"] for one in policies} == {"request.userInfo.username == 'netgang'"}
    labels = objects["Namespace", "netgang-system"]["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "privileged"


def test_the_service_leads_to_the_static_pod_that_leads(
    objects: Mapping[tuple[str, str], Object], pod: Object, settings: Settings
) -> None:
    service = objects["Service", "netgang"]["spec"]
    assert service["selector"] == {**pod["metadata"]["labels"], ROLE_LABEL: LEADER}
    (container,) = pod["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert [port["targetPort"] for port in service["ports"]] == ["http"]
    assert ports == {"http": settings.port, "health": settings.health_port}
    told = {one["name"]: one["valueFrom"]["fieldRef"]["fieldPath"] for one in container["env"]}
    assert told == {"POD_NAME": "metadata.name", "POD_NAMESPACE": "metadata.namespace"}


def test_a_static_pod_names_nothing_of_the_cluster(pod: Object) -> None:
    """The kubelet would refuse it; and its priority is written out, because nobody looks its class up."""
    spec = pod["spec"]
    assert spec["hostNetwork"] is True
    assert "serviceAccountName" not in spec
    assert {key for volume in spec["volumes"] for key in volume} == {"name", "hostPath"}
    assert spec["priority"] >= 2_000_000_000
    assert "secretKeyRef" not in yaml.safe_dump(spec)
    assert "configMap" not in yaml.safe_dump(spec)


def test_the_static_pod_is_as_careful_as_the_deployment(pod: Object) -> None:
    deployment = yaml.safe_load((ROOT / "manifests/base/deployment.yaml").read_text())["spec"]["template"]["spec"]
    (mine,), (its,) = pod["spec"]["containers"], deployment["containers"]
    for field in ("args", "imagePullPolicy", "resources", "securityContext"):
        assert mine[field] == its[field]
    for field in ("securityContext", "terminationGracePeriodSeconds", "enableServiceLinks"):
        assert pod["spec"][field] == deployment[field]
    tag = yaml.safe_load((ROOT / "manifests/base/kustomization.yaml").read_text())["images"][0]["newTag"]
    assert mine["image"] == f"netgang:{tag}"


def test_several_stand_and_one_acts(pod: Object, settings: Settings) -> None:
    assert settings.leader_election is LeaderElection.ON
    assert settings.lease.name == "netgang-leader"
    assert settings.tls.client_ca_file is not None
    assert settings.tls.client_names
    assert settings.debug_host == "127.0.0.1"
    (container,) = pod["spec"]["containers"]
    (mount,) = container["volumeMounts"]
    assert settings.kubeconfig is not None
    files = [settings.kubeconfig, settings.tls.cert_file, settings.tls.key_file, settings.tls.client_ca_file]
    assert {str(Path(str(file)).parent) for file in files} == {mount["mountPath"]}
    for probe in ("livenessProbe", "readinessProbe"):
        asked = container[probe]["httpGet"]
        assert (asked["host"], asked["port"]) == (settings.health_host, settings.health_port)
    assert settings.hold_limit_s + settings.commit_timeout_s < pod["spec"]["terminationGracePeriodSeconds"]


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_settings_are_those_of_the_overlay(name: str) -> None:
    here = yaml.safe_load((HERE / f"{name}.yaml").read_text())
    overlay = yaml.safe_load((ROOT / f"manifests/overlays/{name}/settings.yaml").read_text())
    other = {"host", "health_port", "health_host", "kubeconfig", "leader_election", "tls"}
    assert {key: value for key, value in here.items() if key not in other} == {
        key: value for key, value in overlay.items() if key != "host"
    }


def test_the_documented_entry_leads_to_the_service(objects: Mapping[tuple[str, str], Object]) -> None:
    text = (ROOT / "docs/how-to/operations.md").read_text()
    [block] = re.findall(r"```yaml\n(urlPrefix: https://.*?)```", text, re.DOTALL)
    entry = yaml.safe_load(block)
    service = objects["Service", "netgang"]["spec"]
    assert entry["urlPrefix"] == f"https://{service['clusterIP']}:{service['ports'][0]['port']}"
    assert entry["enableHTTPS"] is True
    assert set(entry["tlsConfig"]) == {"serverName", "certFile", "keyFile", "caFile"}
    assert f"DNS:{entry['tlsConfig']['serverName']}" in (ROOT / "docs/how-to/tls.md").read_text()
