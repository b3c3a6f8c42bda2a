"""manifests/ of both modes: rights equal to the calls made, one acts, no privileges, closed doors."""

from pathlib import Path

import pytest
import yaml

from client.way import DEFAULT, proxied
from extender.controllers.elastic.kinds import KINDS
from extender.kube import calls
from extender.kube.own_objects import ROLE_LABEL, STARTED_GANGS
from extender.leadership.lease_loop import LEADER
from extender.settings.settings import COMMIT_TIMEOUT_S, LEASE_NAME
from lab.testbed.processes.schedulers import load_configuration
from tests.contract.manifests.rendered import (
    MODES,
    ROOT,
    Object,
    container_of,
    mounted_settings,
    objects_of,
    of_kind,
    pod_spec,
    rights_of,
)

OURS = "netgang-system"


@pytest.fixture(params=MODES)
def objects(request: pytest.FixtureRequest) -> tuple[Object, ...]:
    return objects_of(request.param)


@pytest.fixture
def second() -> tuple[Object, ...]:
    return objects_of("second-scheduler")


def test_the_rights_are_the_calls_that_are_made(objects: tuple[Object, ...]) -> None:
    """One rule may name several groups: of the pairs that nobody calls, none exists (tests/e2e asks an API server)."""
    allowed = list(rights_of(of_kind(objects, "ClusterRole")["netgang"]["rules"]))
    assert len(set(allowed)) == len(allowed)
    assert set(allowed) >= calls.CALLS
    called = {(group, resource) for _, group, resource in calls.CALLS}
    assert {(verb, *pair) for verb, *pair in set(allowed) - calls.CALLS if tuple(pair) in called} == set()


def test_netgang_has_no_other_rights(objects: tuple[Object, ...]) -> None:
    bindings = [one for one in objects if one["kind"] in ("ClusterRoleBinding", "RoleBinding")]
    mine = [b for b in bindings for s in b["subjects"] if (s["name"], s["namespace"]) == ("netgang", OURS)]
    found = [(b["kind"], b["roleRef"]["kind"], b["roleRef"]["name"], b["metadata"].get("namespace")) for b in mine]
    wanted = [("ClusterRoleBinding", "ClusterRole", "netgang", None), ("RoleBinding", "Role", "netgang", OURS)]
    assert sorted(found) == sorted(wanted)
    rules = [rule for one in objects if one["kind"] in ("ClusterRole", "Role") for rule in one["rules"]]
    assert not [right for right in rights_of(rules) if "*" in right or right[2] in ("secrets", "clusterroles", "roles")]
    used = {pod_spec(one)["serviceAccountName"] for one in of_kind(objects, "Deployment").values()}
    bound = {subject["name"] for one in bindings for subject in one["subjects"]}
    assert used == set(of_kind(objects, "ServiceAccount")) - {"netgang-probe"} == bound
    about = [one["metadata"] for one in objects]
    elsewhere = [one["name"] for one in about if one.get("namespace", OURS) != OURS]
    assert elsewhere in ([], ["netgang-scheduler-authentication"])


def test_in_its_own_namespace_netgang_may_write_what_is_named_and_nothing_else(
    second: tuple[Object, ...], tmp_path: Path
) -> None:
    """Its Lease, and a ConfigMap that is there, empty: a right to create one has no name."""
    role = of_kind(second, "Role")["netgang"]
    create, rest = role["rules"]
    assert role["metadata"]["namespace"] == OURS
    assert set(rights_of([create])) == {("create", "coordination.k8s.io", "leases")}
    assert rest["resourceNames"] == [LEASE_NAME, STARTED_GANGS]
    wanted = calls.LEADING | calls.STARTED
    assert wanted <= set(rights_of(role["rules"]))
    assert set(rest["verbs"]) | {"create"} == {verb for verb, _, _ in wanted}
    assert "data" not in of_kind(second, "ConfigMap")[STARTED_GANGS]
    assert of_kind(second, "Secret") == {}, "the keys would be some that everybody knows"


def test_every_kind_of_job_can_be_followed_read_and_changed() -> None:
    for kind in KINDS.values():
        assert calls.resource_of(kind.collection).plural == kind.plural
        for among in ({**calls.OWNERS, **calls.RESIZED}, calls.RESIZED):
            path = calls.served_as(kind.api_version, kind.kind, among=among).path("a", "j")
            assert path == f"/apis/{kind.api_version}/namespaces/a/{kind.plural}/j"
        assert {(verb, kind.group, kind.plural) for verb in ("list", "watch", "get", "patch")} <= calls.CALLS


def test_one_netgang_acts_at_a_time(objects: tuple[Object, ...], tmp_path: Path) -> None:
    """Two would count the same gang twice: there are several, with leader election, and a Service of the leader."""
    deployment = of_kind(objects, "Deployment")["netgang"]
    assert mounted_settings(objects, tmp_path).leader_election
    assert deployment["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"] == 0
    labels = deployment["spec"]["selector"]["matchLabels"]
    assert of_kind(objects, "Service")["netgang"]["spec"]["selector"] == {**labels, ROLE_LABEL: LEADER}
    told = {one["name"]: one["valueFrom"]["fieldRef"]["fieldPath"] for one in container_of(objects)["env"]}
    assert told == {"POD_NAME": "metadata.name", "POD_NAMESPACE": "metadata.namespace"}


def test_replicas_are_drained_one_at_a_time_and_have_what_they_need(objects: tuple[Object, ...]) -> None:
    """No privileges, so that the namespace may enforce Pod Security's level `restricted`.

    Requests for all, a memory limit for netgang, no CPU limit: throttling would stop the scheduler behind it.
    """
    budgets = of_kind(objects, "PodDisruptionBudget")
    for name, deployment in of_kind(objects, "Deployment").items():
        selector, pod = deployment["spec"]["selector"], pod_spec(deployment)
        assert deployment["spec"]["replicas"] == 2
        assert budgets[name]["spec"] == {"maxUnavailable": 1, "selector": selector}
        (term,) = pod["affinity"]["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
        assert term["podAffinityTerm"]["labelSelector"] == selector
        assert (pod["securityContext"]["runAsNonRoot"], "hostNetwork" in pod) == (True, False)
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert pod["securityContext"]["runAsUser"] >= 1000
        assert pod["enableServiceLinks"] is False
        (container,) = pod["containers"]
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert set(container["resources"]["requests"]) == {"cpu", "memory"}
        limits = container["resources"].get("limits", {})
        assert ("cpu" in limits, "memory" in limits or name == "netgang-scheduler") == (False, True)
        assert container["image"].partition(":")[2] not in ("", "latest")


def test_it_reads_the_mounted_settings_and_is_asked_where_they_say(objects: tuple[Object, ...], tmp_path: Path) -> None:
    settings, container = mounted_settings(objects, tmp_path), container_of(objects)
    pod = pod_spec(of_kind(objects, "Deployment")["netgang"])
    mount, *_ = container["volumeMounts"]
    assert container["args"] == ["serve", "--config", f"{mount['mountPath']}/netgang.yaml"]
    assert mount["name"] == pod["volumes"][0]["name"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports == {"http": settings.port, "health": settings.health_port, "reports": settings.reports.port}
    asked = {name: container[name]["httpGet"] for name in ("livenessProbe", "readinessProbe")}
    assert [one["path"] for one in asked.values()] == ["/healthz", "/readyz"]
    assert {one["port"] for one in asked.values()} == {"health"}
    grace_s = pod["terminationGracePeriodSeconds"]
    assert settings.hold_limit_s + COMMIT_TIMEOUT_S < grace_s, "a held bind outlives an orderly stop"
    assert (settings.debug_host, settings.debug_port) == ("127.0.0.1", 8889), "people's is on the pod's loopback"
    served = [port["port"] for one in of_kind(objects, "Service").values() for port in one["spec"]["ports"]]
    assert served == [settings.port, settings.reports.port]
    others = [one for one in objects if one["kind"] not in ("ConfigMap", "Role")]
    assert str(settings.debug_port) not in yaml.safe_dump(others)


def test_only_kube_scheduler_reaches_the_verbs(second: tuple[Object, ...], tmp_path: Path) -> None:
    labels = {name: one["spec"]["selector"]["matchLabels"] for name, one in of_kind(second, "Deployment").items()}
    policy = of_kind(second, "NetworkPolicy")["netgang"]["spec"]
    assert policy["podSelector"]["matchLabels"] == labels["netgang"]
    assert policy["policyTypes"] == ["Ingress"]
    settings = mounted_settings(second, tmp_path)
    scheduler = {"podSelector": {"matchLabels": labels["netgang-scheduler"]}}
    assert policy["ingress"][0] == {"from": [scheduler], "ports": [{"protocol": "TCP", "port": settings.port}]}
    others = [{"protocol": "TCP", "port": port} for port in (settings.health_port, settings.reports.port)]
    assert [one for rule in policy["ingress"][1:] for one in rule["ports"]] == others


def test_the_second_scheduler_runs_our_configuration_with_kube_scheduler_s_roles(second: tuple[Object, ...]) -> None:
    """That of scheduler-config/ (test_scheduler_config.py), its own lease, and the roles that any version may need."""
    pod = pod_spec(of_kind(second, "Deployment")["netgang-scheduler"])
    (container,), (volume, _) = pod["containers"], pod["volumes"]
    mount, _ = container["volumeMounts"]
    configuration = load_configuration(ROOT / "scheduler-config/second-scheduler.yaml")
    mounted = of_kind(second, "ConfigMap")[volume["configMap"]["name"]]["data"]["scheduler.yaml"]
    written = yaml.safe_load(mounted)
    for entry in written["extenders"]:  # certificates come with the probe
        assert (entry.pop("enableHTTPS"), entry.pop("tlsConfig").keys() > {"caFile"}) == (True, True)
        entry["urlPrefix"] = entry["urlPrefix"].replace("https", "http")
    assert written == configuration
    assert container["command"] == ["kube-scheduler", f"--config={mount['mountPath']}/scheduler.yaml"]
    bindings = of_kind(second, "ClusterRoleBinding").values()
    roles = {b["roleRef"]["name"] for b in bindings if b["subjects"][0]["name"] == "netgang-scheduler"}
    assert roles == {"system:kube-scheduler", "system:volume-scheduler"}
    role, lease = of_kind(second, "Role")["netgang-scheduler"], configuration["leaderElection"]
    assert role["metadata"]["namespace"] == lease["resourceNamespace"]
    assert [rule.get("resourceNames") for rule in role["rules"]] == [None, [lease["resourceName"]]]
    assert role["rules"][0]["verbs"] == ["create"]


def test_the_native_mode_has_no_scheduler_and_gates_in_labelled_namespaces(tmp_path: Path) -> None:
    objects = objects_of("native")
    settings = mounted_settings(objects, tmp_path)
    assert (settings.extender, settings.scheduler_names) == (False, ("default-scheduler",))
    assert list(of_kind(objects, "Deployment")) == ["netgang"]
    binding = of_kind(objects, "MutatingAdmissionPolicyBinding")["netgang-gate"]
    assert binding["spec"]["matchResources"] == {"namespaceSelector": {"matchLabels": {"netgang.io/gangs": "native"}}}


def test_the_role_for_people_allows_what_is_asked_and_nothing_else(objects: tuple[Object, ...]) -> None:
    """docs/how-to/operate.md: the proxy to the port for people; bound to nobody."""
    roles = of_kind(objects, "Role")
    bound = {one["roleRef"]["name"] for one in of_kind(objects, "RoleBinding").values()}
    assert {"netgang-service-proxy"} == roles.keys() - bound
    proxy = roles["netgang-service-proxy"]["rules"]
    assert set(rights_of(proxy)) == {("get", "", "services/proxy"), ("create", "", "services/proxy")}
    paths = [proxied(DEFAULT).replace("https:", scheme).split("/")[-2] for scheme in ("", "https:")]
    assert [rule["resourceNames"] for rule in proxy] == [paths]
