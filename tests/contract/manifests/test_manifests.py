"""The manifests as kustomize renders them: rights equal to the calls made, one acts, no privileges, closed doors."""

from pathlib import Path

import pytest
import yaml

from extender.kube import calls
from extender.kube.leases import ROLE_LABEL
from extender.kube.text_store import STARTED_GANGS
from extender.leadership.lease import LEADER
from extender.settings.leadership import LeaderElection
from lab.testbed.processes.schedulers import load_configuration
from tests.contract.manifests.rendered_manifests import (
    ROOT,
    Object,
    mounted_settings,
    of_kind,
    pod_spec,
    rendered_overlay,
    rights_of,
)


@pytest.fixture
def objects() -> tuple[Object, ...]:
    return rendered_overlay("second-scheduler")


def test_the_rights_are_the_calls_that_are_made(objects: tuple[Object, ...]) -> None:
    allowed = list(rights_of(of_kind(objects, "ClusterRole")["netgang"]["rules"]))
    assert set(allowed) == calls.rules()
    assert len(set(allowed)) == len(allowed)


def test_netgang_has_no_other_rights(objects: tuple[Object, ...]) -> None:
    bindings = [one for one in objects if one["kind"] in ("ClusterRoleBinding", "RoleBinding")]
    mine = [b for b in bindings for s in b["subjects"] if (s["name"], s["namespace"]) == ("netgang", "netgang-system")]
    everywhere = ("ClusterRoleBinding", "ClusterRole", "netgang", None)
    at_home = [("RoleBinding", "Role", name, "netgang-system") for name in ("netgang", "netgang-notes")]
    found = [(b["kind"], b["roleRef"]["kind"], b["roleRef"]["name"], b["metadata"].get("namespace")) for b in mine]
    assert sorted(found) == sorted([everywhere, *at_home])


def test_rules_name_what_they_allow(objects: tuple[Object, ...]) -> None:
    roles = [one for one in objects if one["kind"] in ("ClusterRole", "Role")]
    rules = [rule for role in roles for rule in role["rules"]]
    assert not [right for right in rights_of(rules) if "*" in right or right[2] in ("secrets", "clusterroles", "roles")]


def test_the_key_for_notes_is_a_file_where_netgang_looks(objects: tuple[Object, ...], tmp_path: Path) -> None:
    spec = pod_spec(of_kind(objects, "Deployment")["netgang"])
    assert {"name": "notes", "secret": {"secretName": "netgang-notes", "optional": True}} in spec["volumes"]
    (mount,) = [one for one in spec["containers"][0]["volumeMounts"] if one["name"] == "notes"]
    assert Path(mount["mountPath"]) == mounted_settings(objects, tmp_path).note_keys_dir


def test_started_gangs_are_in_the_only_config_map_that_netgang_may_read(objects: tuple[Object, ...]) -> None:
    found, role = of_kind(objects, "ConfigMap")[STARTED_GANGS.name], of_kind(objects, "Role")["netgang-notes"]
    assert (found["metadata"]["namespace"], "data" in found) == ("netgang-system", False)
    assert set(rights_of(role["rules"])) == calls.rules(calls.STARTED)
    assert [rule["resourceNames"] for rule in role["rules"]] == [[STARTED_GANGS.name]]


def test_accounts_that_are_used_exist(objects: tuple[Object, ...]) -> None:
    accounts = set(of_kind(objects, "ServiceAccount"))
    used = {pod_spec(one)["serviceAccountName"] for one in of_kind(objects, "Deployment").values()}
    bound = {s["name"] for one in objects if one["kind"].endswith("RoleBinding") for s in one["subjects"]}
    assert used == accounts == bound


def test_everything_is_in_its_own_namespace(objects: tuple[Object, ...]) -> None:
    elsewhere = [
        (one["kind"], one["metadata"]["name"])
        for one in objects
        if one["metadata"].get("namespace", "netgang-system") != "netgang-system"
    ]
    assert elsewhere == [("RoleBinding", "netgang-scheduler-authentication")]


def test_one_netgang_acts_at_a_time(objects: tuple[Object, ...], tmp_path: Path) -> None:
    """Two would count the same gang twice: several only with leader election, and where there is a Service."""
    spec = of_kind(objects, "Deployment")["netgang"]["spec"]
    assert mounted_settings(objects, tmp_path).leader_election is LeaderElection.ON
    assert (spec["replicas"], spec["strategy"]["rollingUpdate"]["maxUnavailable"]) == (2, 0)


def test_the_lease_is_the_only_one_that_netgang_may_write(tmp_path: Path) -> None:
    objects = rendered_overlay("second-scheduler")
    role = of_kind(objects, "Role")["netgang"]
    assert set(rights_of(role["rules"])) == calls.rules(calls.LEADING)
    lease = mounted_settings(objects, tmp_path).lease
    assert (role["metadata"]["namespace"], lease.namespace) == ("netgang-system", None)
    assert [rule.get("resourceNames") for rule in role["rules"]] == [None, [lease.name]]
    assert [rule["verbs"] for rule in role["rules"] if "resourceNames" not in rule] == [["create"]]


def test_the_service_leads_to_the_leader() -> None:
    objects = rendered_overlay("second-scheduler")
    template = of_kind(objects, "Deployment")["netgang"]["spec"]["template"]
    selector = of_kind(objects, "Service")["netgang"]["spec"]["selector"]
    assert selector == {**template["metadata"]["labels"], ROLE_LABEL: LEADER}
    (container,) = template["spec"]["containers"]
    told = {one["name"]: one["valueFrom"]["fieldRef"]["fieldPath"] for one in container["env"]}
    assert told == {"POD_NAME": "metadata.name", "POD_NAMESPACE": "metadata.namespace"}


def test_replicas_are_drained_one_at_a_time() -> None:
    objects = rendered_overlay("second-scheduler")
    budgets = of_kind(objects, "PodDisruptionBudget")
    for name, deployment in of_kind(objects, "Deployment").items():
        labels = deployment["spec"]["selector"]["matchLabels"]
        assert deployment["spec"]["replicas"] == 2
        assert budgets[name]["spec"] == {"maxUnavailable": 1, "selector": {"matchLabels": labels}}
        affinity = pod_spec(deployment)["affinity"]["podAntiAffinity"]
        (term,) = affinity["preferredDuringSchedulingIgnoredDuringExecution"]
        assert term["podAffinityTerm"]["labelSelector"]["matchLabels"] == labels


def test_containers_have_no_privileges(objects: tuple[Object, ...]) -> None:
    for deployment in of_kind(objects, "Deployment").values():
        pod = pod_spec(deployment)
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert pod["securityContext"]["runAsUser"] >= 1000
        for container in pod["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }


def test_containers_say_what_they_need(objects: tuple[Object, ...]) -> None:
    """Requests for all, a memory limit for netgang, no CPU limit: throttling would stop the scheduler behind it."""
    for name, deployment in of_kind(objects, "Deployment").items():
        pod = pod_spec(deployment)
        (container,) = pod["containers"]
        assert set(container["resources"]["requests"]) == {"cpu", "memory"}
        assert "cpu" not in container["resources"].get("limits", {})
        assert "memory" in container["resources"].get("limits", {}) or name == "netgang-scheduler"
        assert ":" in container["image"]
        assert not container["image"].endswith(":latest")
        assert pod["enableServiceLinks"] is False


def test_probes_ask_the_port_of_the_settings(objects: tuple[Object, ...], tmp_path: Path) -> None:
    settings = mounted_settings(objects, tmp_path)
    (container,) = pod_spec(of_kind(objects, "Deployment")["netgang"])["containers"]
    alive, ready = container["livenessProbe"]["httpGet"], container["readinessProbe"]["httpGet"]
    assert (alive["path"], ready["path"]) == ("/healthz", "/readyz")
    assert alive["port"] == ready["port"] == settings.port == container["ports"][0]["containerPort"]
    assert alive.get("host", "0.0.0.0") == ready.get("host", "0.0.0.0") == settings.host
    grace_s = pod_spec(of_kind(objects, "Deployment")["netgang"])["terminationGracePeriodSeconds"]
    assert settings.hold_limit_s + settings.commit_timeout_s < grace_s, "a held bind outlives an orderly stop"


def test_netgang_reads_the_mounted_settings(objects: tuple[Object, ...]) -> None:
    pod = pod_spec(of_kind(objects, "Deployment")["netgang"])
    (container,) = pod["containers"]
    mount, _ = container["volumeMounts"]
    assert container["args"] == ["serve", "--config", f"{mount['mountPath']}/netgang.yaml"]
    assert mount["name"] == pod["volumes"][0]["name"]


def test_the_door_is_closed(objects: tuple[Object, ...], tmp_path: Path) -> None:
    """Only kube-scheduler reaches the verbs."""
    settings = mounted_settings(objects, tmp_path)
    labels = of_kind(objects, "Deployment")["netgang"]["spec"]["template"]["metadata"]["labels"]
    scheduler = of_kind(objects, "Deployment")["netgang-scheduler"]
    policy = of_kind(objects, "NetworkPolicy")["netgang"]["spec"]
    assert policy["podSelector"]["matchLabels"] == labels
    assert policy["policyTypes"] == ["Ingress"]
    assert policy["ingress"] == [
        {
            "from": [{"podSelector": {"matchLabels": scheduler["spec"]["template"]["metadata"]["labels"]}}],
            "ports": [{"protocol": "TCP", "port": settings.port}],
        }
    ]
    assert of_kind(objects, "Service")["netgang"]["spec"]["selector"].items() >= labels.items()


def test_the_port_for_people_is_on_the_pod_s_loopback(objects: tuple[Object, ...], tmp_path: Path) -> None:
    settings = mounted_settings(objects, tmp_path)
    assert (settings.debug_host, settings.debug_port) == ("127.0.0.1", 8889)
    (container,) = pod_spec(of_kind(objects, "Deployment")["netgang"])["containers"]
    assert [port["containerPort"] for port in container["ports"]] == [settings.port]
    assert [port["port"] for port in of_kind(objects, "Service")["netgang"]["spec"]["ports"]] == [settings.port]
    others = [one for one in objects if one["kind"] != "ConfigMap"]
    assert str(settings.debug_port) not in yaml.safe_dump(others)


def test_the_namespace_allows_what_its_pods_need_and_no_more(objects: tuple[Object, ...]) -> None:
    (namespace,) = of_kind(objects, "Namespace").values()
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"


def test_the_second_scheduler_runs_our_configuration() -> None:
    objects = rendered_overlay("second-scheduler")
    pod = pod_spec(of_kind(objects, "Deployment")["netgang-scheduler"])
    (container,) = pod["containers"]
    (mount,) = container["volumeMounts"]
    (volume,) = pod["volumes"]
    mounted = of_kind(objects, "ConfigMap")[volume["configMap"]["name"]]["data"]["scheduler.yaml"]
    assert yaml.safe_load(mounted) == load_configuration(ROOT / "scheduler-config/second-scheduler.yaml")
    assert f"--config={mount['mountPath']}/scheduler.yaml" in container["command"]
    assert not any("--feature-gates" in argument for argument in container["command"])


def test_the_second_scheduler_has_kube_schedulers_own_roles_and_its_own_lease() -> None:
    """Its two built-in roles, so that it may what the cluster's version may; the lease is that of its configuration."""
    objects = rendered_overlay("second-scheduler")
    bindings = of_kind(objects, "ClusterRoleBinding").values()
    roles = {b["roleRef"]["name"] for b in bindings if b["subjects"][0]["name"] == "netgang-scheduler"}
    assert roles == {"system:kube-scheduler", "system:volume-scheduler"}
    role = of_kind(objects, "Role")["netgang-scheduler"]
    lease = load_configuration(ROOT / "scheduler-config/second-scheduler.yaml")["leaderElection"]
    assert role["metadata"]["namespace"] == lease["resourceNamespace"]
    named = [rule for rule in role["rules"] if rule.get("resourceNames")]
    assert [rule["resourceNames"] for rule in named] == [[lease["resourceName"]]]
    assert [rule["verbs"] for rule in role["rules"] if not rule.get("resourceNames")] == [["create"]]


def test_the_native_way_needs_no_scheduler_and_is_asked_by_none(tmp_path: Path) -> None:
    """Two replicas, no kube-scheduler, and gates in labelled namespaces alone."""
    objects = rendered_overlay("native")
    settings = mounted_settings(objects, tmp_path)
    assert (settings.extender, settings.scheduler_names) == (False, ("default-scheduler",))
    deployments = of_kind(objects, "Deployment")
    assert list(deployments) == ["netgang"]
    assert (deployments["netgang"]["spec"]["replicas"], str(settings.leader_election)) == (2, "on")
    binding = of_kind(objects, "MutatingAdmissionPolicyBinding")["netgang-gate"]
    assert binding["spec"]["matchResources"] == {"namespaceSelector": {"matchLabels": {"netgang.io/gangs": "native"}}}
