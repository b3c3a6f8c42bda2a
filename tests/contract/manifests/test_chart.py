"""The Helm chart: manifests/ are what it prints, values are checked, and what they switch on fits together."""

import re
import subprocess
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from msgspec.structs import replace

from cli.doctor.checks import examine
from cli.doctor.facts import Facts, ServiceAddress, mounted, settings_of
from cli.removal import CALLS, POLICIES
from extender.api.problems import PROBES
from extender.kube import calls
from extender.network.probe_bursts import PORTS
from extender.ports import SystemClock
from extender.server.tls import load
from extender.settings.settings import TlsSettings
from lab.testbed.errors import ControlPlaneError
from lab.testbed.parts.helm import CHART, HOOK, Helm, hooks
from lab.testbed.programs.catalogue import KUBERNETES
from probe.__main__ import OPTIONS, PORT
from tests.authority import openssl
from tests.contract.manifests.rendered import (
    ROOT,
    container_of,
    mounted_settings,
    of_kind,
    pod_spec,
    rendered,
    rights_of,
)
from tests.newcomer.document import fenced

VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
NAMESPACE = "netgang-system"
Object = dict[str, Any]
Chart = Callable[..., list[Object]]
ON = {"enabled": True}
OFF = {"enabled": False}
ELASTIC = {"elastic": ON}
INSTANCE = "app.kubernetes.io/instance"
PLACED: Mapping[str, Any] = {  # where pods run, as values
    "nodeSelector": {"kubernetes.io/arch": "amd64"},
    "tolerations": [{"key": "infra", "operator": "Exists", "effect": "NoSchedule"}],
    "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}},
    "priorityClassName": "system-node-critical",
}


@pytest.fixture
def chart(helm: Helm) -> Chart:
    def render(values: Mapping[str, Any], namespace: str = NAMESPACE, version: str = KUBERNETES) -> list[Object]:
        return helm.render(values, namespace=namespace, version=version)

    return render


def test_manifests_are_what_the_chart_prints(helm: Helm) -> None:
    """`make manifests` renews them."""
    assert [path.name for path, text in rendered(helm).items() if path.read_text() != text] == []


def test_the_chart_is_well_formed(helm: Helm) -> None:
    lint = ("lint", "--strict", "--set", "image.repository=netgang")
    for words in (lint, ("package", "--destination", str(helm.home))):
        ended = helm.run(*words, str(CHART))
        assert (ended.code, ended.complaint) == (0, ""), ended
        assert re.search(r"\[(WARNING|ERROR)\]", ended.output) is None
    assert [one.name for one in helm.home.glob("*.tgz")] == [f"netgang-{VERSION}.tgz"]


VOLUME: Object = {"name": "archive", "secret": {"secretName": "netgang-archive"}}
MOUNT: Object = {"name": "archive", "mountPath": "/etc/netgang-archive", "readOnly": True}
REFUSED = {  # case: (values, what the refusal names)
    "an unknown value": ({"replica": 3}, "additional properties 'replica' not allowed"),
    "an unknown mode": ({"mode": "default-scheduler"}, "/mode"),
    "no replica": ({"replicas": 0}, "/replicas"),
    "an image that moves": ({"image": {"tag": "latest"}}, "/image/tag"),
    "no image": ({"image": {}}, "image.repository: say where you pushed netgang's image"),
    "a kube-scheduler without a version": ({"scheduler": {"tag": "stable"}}, "/scheduler/tag"),
    "another API": ({"gates": {"apiVersion": "v1"}}, "/gates/apiVersion"),
    "a volume with the name of one of ours": (
        {"extraVolumes": [{**VOLUME, "name": "settings"}]}, "/extraVolumes/0/name"),
    "a mount over the settings": (
        {"extraVolumes": [VOLUME], "extraVolumeMounts": [{**MOUNT, "mountPath": "/etc/netgang/more"}]},
        "/extraVolumeMounts/0/mountPath"),
    "a label that Services select by": ({"podLabels": {"netgang.io/role": "leader"}}, "/podLabels"),
    "a label that is no text": ({"podLabels": {"team": 3}}, "/podLabels/team"),
    "reports without certificates": ({"reports": ON, "probe": OFF}, "reports.enabled: needs"),
    "the probe without agents": ({"probe": OFF, "settings": {"probe": ON}}, "settings.probe.enabled: set probe."),
    "viewers of a port that is closed": ({"viewers": ["researchers"]}, "viewers: needs documentsFrom"),
    "namespaces without a second scheduler": (
        {"mode": "native", "scheduler": {"namespaces": True}}, "scheduler.namespaces: "),
    "two kube-schedulers for the same pods": (
        {"settings": {"scheduler_names": ["default-scheduler"]}}, "settings.scheduler_names: "),
    "two that act": ({"mode": "native", "settings": {"leader_election": "off"}}, "settings.leader_election: "),
    "a hold beyond the timeout": ({"settings": {"hold_limit_s": 50}}, "settings.http_timeout_s: "),
}  # fmt: skip


@pytest.mark.parametrize(("values", "named"), REFUSED.values(), ids=REFUSED)
def test_bad_values_are_refused_by_name(values: Mapping[str, Any], named: str, chart: Chart) -> None:
    with pytest.raises(ControlPlaneError) as refused:
        chart(values)
    assert named in str(refused.value)


def test_an_older_kubernetes_is_refused(chart: Chart) -> None:
    with pytest.raises(ControlPlaneError, match=r"requires kubeVersion: >=1\.35.* with Kubernetes v1\.34\.9"):
        chart({}, version="1.34.9")


def test_settings_reach_everything_that_depends_on_them(chart: Chart, tmp_path: Path) -> None:
    settings = {"port": 9999, "scheduler_names": ["gangs", "more"], "http_timeout_s": 90, "hold_limit_s": 50}
    made = chart({"settings": settings, "gates": ON}, "elsewhere", "v1.35.4-gke.12")
    found = {(one["kind"], one["metadata"]["name"]): one for one in made}
    config = yaml.safe_load(found["ConfigMap", "netgang-scheduler-config"]["data"]["scheduler.yaml"])
    assert [one["schedulerName"] for one in config["profiles"]] == ["gangs", "more"]
    assert {one["urlPrefix"] for one in config["extenders"]} == {"https://netgang.elsewhere.svc:9999"}
    assert [one["httpTimeout"] for one in config["extenders"] if "bindVerb" in one] == ["90s"]
    assert config["leaderElection"]["resourceNamespace"] == "elsewhere"
    assert mounted_settings(made, tmp_path).hold_limit_s == 50
    ports = container_of(made)["ports"][0]["containerPort"], found["Service", "netgang"]["spec"]["ports"][0]["port"]
    assert ports == (9999, 9999)
    policy = found["MutatingAdmissionPolicy", "netgang-gate"]["spec"]
    assert policy["variables"][0]["expression"] == "object.spec.schedulerName in ['gangs', 'more']"
    assert "elsewhere" in policy["matchConstraints"]["namespaceSelector"]["matchExpressions"][0]["values"]
    for name in ("netgang-pods", "netgang-pod-status", "netgang-jobs"):
        (account, *_) = found["ValidatingAdmissionPolicy", name]["spec"]["matchConditions"]
        account_alone, _, _ = account["expression"].partition(" && ")
        assert account_alone.endswith("'system:serviceaccount:elsewhere:netgang'")
    assert container_of(made, "netgang-scheduler")["image"] == "registry.k8s.io/kube-scheduler:v1.35.4"
    placed = {one["metadata"]["namespace"] for one in made if "namespace" in one["metadata"]}
    assert placed == {"elsewhere", "kube-system"}


def test_nodes_may_be_patched_where_a_taint_is_chosen(chart: Chart) -> None:
    tainting = {"settings": {"network": {"taint": "NoSchedule"}}}
    roles = (of_kind(chart(values), "ClusterRole")["netgang"] for values in ({}, tainting))
    without, chosen = (set(rights_of(role["rules"])) for role in roles)
    assert without.isdisjoint(calls.TAINTING)
    assert chosen == without | calls.TAINTING


def test_the_cluster_s_own_kube_scheduler_needs_no_second_one(chart: Chart) -> None:
    """As docs/how-to/gates-and-schedulers.md installs netgang for scheduler-config/default-scheduler.yaml."""
    own = {"scheduler_names": ["default-scheduler"]}
    made = chart({"nodeName": "cp", "settings": own, "scheduler": {"replicas": 0}, "gates": ON})
    assert [one["metadata"]["name"] for one in made if "netgang-scheduler" in one["metadata"]["name"]] == []
    (deployment,) = of_kind(made, "Deployment").values()
    assert (pod_spec(deployment)["nodeName"], deployment["spec"]["replicas"]) == ("cp", 2)


def test_viewers_may_ask_for_documents_and_nothing_else(chart: Chart) -> None:
    made = chart({"documentsFrom": ["10.0.0.0/24"], "viewers": ["researchers"]})
    binding = of_kind(made, "RoleBinding")["netgang-service-proxy"]
    assert binding["roleRef"] | {"name": "netgang-service-proxy", "kind": "Role"} == binding["roleRef"]
    assert [(one["kind"], one["name"]) for one in binding["subjects"]] == [("Group", "researchers")]


def test_other_settings_make_other_pods(chart: Chart) -> None:
    """The pods' annotation changes with the settings, so that an upgrade restarts what reads them."""

    def marks(values: Mapping[str, Any]) -> list[str]:
        deployments = of_kind(chart(values), "Deployment").values()
        return [mark for one in deployments for mark in one["spec"]["template"]["metadata"]["annotations"].values()]

    before, after = marks({}), marks({"settings": {"spill_wait_s": 7}})
    assert [old == new for old, new in zip(before, after, strict=True)] == [False, True]


EVERYTHING: Mapping[str, Any] = {
    **dict.fromkeys(("gates", "tls", "reports", "monitoring"), ON),
    "scheduler": {"namespaces": True},
    "settings": ELASTIC,
}
EXAMINED: dict[str, Mapping[str, Any]] = {  # values with which the doctor looks at what is rendered
    "as it comes": {"gates": ON},
    "with everything": EVERYTHING,
    "another name, port and time": {
        "gates": ON,
        "scheduler": {"namespaces": True},
        "settings": {"port": 9999, "scheduler_names": ["gangs"], "http_timeout_s": 120},
    },
    "native": {"mode": "native"},
}


@pytest.mark.parametrize("values", EXAMINED.values(), ids=EXAMINED)
def test_the_doctor_finds_nothing_in_what_the_chart_installs(values: Mapping[str, Any], chart: Chart) -> None:
    found = {(one["kind"], one["metadata"]["name"]): one for one in chart(values, "ng")}
    read = settings_of(found["ConfigMap", "netgang"]["data"]["netgang.yaml"], {}, origin="")
    assert read.settings_problems == ()
    seen = Facts(settings=read.settings)
    if (policy := found.get(("MutatingAdmissionPolicy", "netgang-gate"))) is not None:  # a pod is never refused by it
        [ours] = [one["expression"] for one in policy["spec"]["variables"] if one["name"] == "ours"]
        assert {*re.findall(r"'([^']*)'", ours)} == {*read.settings.scheduler_names}
        assert policy["spec"]["failurePolicy"] == "Ignore"
        assert found["MutatingAdmissionPolicyBinding", "netgang-gate"]["spec"]["policyName"] == "netgang-gate"
    if ("Deployment", "netgang-scheduler") in found:
        port = found["Service", "netgang"]["spec"]["ports"][0]["port"]
        config = yaml.safe_load(found["ConfigMap", "netgang-scheduler-config"]["data"]["scheduler.yaml"])
        seen = replace(seen, scheduler=config, service=ServiceAddress("netgang", "ng", port))
    assert examine(seen) == ()
    for deployment in (one for (kind, _), one in found.items() if kind == "Deployment"):
        assert all(("ConfigMap", name) in found for name in mounted(deployment))


def test_volumes_of_ones_own_come_on_top(chart: Chart) -> None:
    volumes = [VOLUME, {"name": "authority", "configMap": {"name": "site-ca"}}]
    mounts = [MOUNT, {"name": "authority", "mountPath": "/etc/site/ca.crt", "subPath": "ca.crt"}]
    before, after = chart({"tls": ON}), chart({"tls": ON, "extraVolumes": volumes, "extraVolumeMounts": mounts})
    pods = of_kind(before, "Deployment")["netgang"]["spec"]["template"]["spec"]
    pods["volumes"] += volumes
    pods["containers"][0]["volumeMounts"] += mounts
    assert after == before


def test_pods_run_where_the_values_say(chart: Chart) -> None:
    made = chart({**PLACED, "podLabels": {"team": "infra"}, "podAnnotations": {"example.org/scrape": "true"}})
    deployments = of_kind(made, "Deployment")
    assert set(deployments) == {"netgang", "netgang-scheduler"}
    for one in deployments.values():
        pods, marks = pod_spec(one), one["spec"]["template"]["metadata"]
        assert {key: pods[key] for key in PLACED} == PLACED
        assert marks["labels"] == {**one["spec"]["selector"]["matchLabels"], INSTANCE: "netgang", "team": "infra"}
        assert set(marks["annotations"]) > {"example.org/scrape"}
    assert pod_spec(of_kind(made, "Job")["netgang-uninstall-pre-delete"])["nodeSelector"] == PLACED["nodeSelector"]
    bare = of_kind(chart({"priorityClassName": ""}), "Deployment").values()
    assert [pod_spec(one).get("priorityClassName") for one in bare] == [None, None]


def test_what_is_run_at_the_end(chart: Chart) -> None:
    """`netgang uninstall` before anything goes, and once more when all is gone, with the rights for its calls alone."""

    def arguments(objects: Sequence[Object]) -> dict[str, list[str]]:
        jobs = [one for one in hooks(objects) if one["kind"] == "Job"]
        return {one["metadata"]["annotations"][HOOK]: pod_spec(one)["containers"][0]["args"] for one in jobs}

    made, own = chart({}), ["uninstall", "--namespace", NAMESPACE]
    assert arguments(made) == {"pre-delete": own, "post-delete": [*own, "--leases"]}
    assert arguments(chart({"uninstall": {"leaveGates": True}}))["pre-delete"] == [*own, "--leave-gates"]
    assert hooks(chart({"uninstall": {"enabled": False}})) == []
    rules = [rule for one in hooks(made) for rule in one.get("rules", ())]
    assert set(rights_of(rules)) == CALLS
    named = [rule["resourceNames"] for rule in rules if "resourceNames" in rule]
    assert sorted(named) == sorted([list(POLICIES), ["netgang-leader", "netgang-scheduler"]])


def certificates(objects: Sequence[Object], deployment: str) -> tuple[str, str]:
    volumes = pod_spec(of_kind(objects, "Deployment")[deployment])["volumes"]
    (name,) = [volume["secret"]["secretName"] for volume in volumes if volume["name"] == "tls"]
    (mount,) = [one for one in container_of(objects, deployment)["volumeMounts"] if one["name"] == "tls"]
    assert mount.keys() == {"name", "mountPath", "readOnly"}, "with subPath a renewed file would never appear"
    return name, mount["mountPath"]


def test_with_tls_both_sides_show_and_check_certificates(chart: Chart, tmp_path: Path) -> None:
    """The kubelet shows none, and probes a port of its own; without caFile kube-scheduler would check nothing."""
    guarded = chart({"tls": ON, "probe": OFF})
    settings = mounted_settings(guarded, tmp_path)
    name, directory = certificates(guarded, "netgang")
    paths = {f"{field}_file": Path(directory, f"{file}.crt") for field, file in (("cert", "tls"), ("client_ca", "ca"))}
    wanted = TlsSettings(**paths, key_file=Path(directory, "tls.key"), client_names=("netgang-scheduler",))
    assert (name, settings.tls) == ("netgang-tls", wanted)
    container = container_of(guarded)
    asked = [container[one]["httpGet"] for one in ("livenessProbe", "readinessProbe")]
    assert [(one["port"], one["path"] in PROBES) for one in asked] == [("health", True)] * 2
    assert settings.health_port == 8890
    assert {port["name"]: port["containerPort"] for port in container["ports"]} == {"http": 8888, "health": 8890}
    name, directory = certificates(guarded, "netgang-scheduler")
    assert name == "netgang-scheduler-tls"
    config = yaml.safe_load(of_kind(guarded, "ConfigMap")["netgang-scheduler-config"]["data"]["scheduler.yaml"])
    files = {"cert": "tls.crt", "key": "tls.key", "ca": "ca.crt"}
    shown = {f"{one}File": f"{directory}/{file}" for one, file in files.items()}
    for entry in config["extenders"]:
        assert entry["tlsConfig"] == {**shown, "serverName": "netgang.netgang-system.svc"}
        assert (entry["enableHTTPS"], entry["urlPrefix"]) == (True, "https://netgang.netgang-system.svc:8888")


def test_the_documented_commands_make_what_is_mounted(chart: Chart, tmp_path: Path) -> None:
    openssl("version")  # skips without the command
    guarded = chart({"tls": ON})
    blocks = fenced((ROOT / "docs/how-to/operate.md").read_text(), "sh")
    (making,), (creating,) = ([one for one in blocks if word in one] for word in ("openssl req", "create secret"))
    run = subprocess.run(["bash", "-e"], input=making, cwd=tmp_path, text=True, capture_output=True)
    assert run.returncode == 0, run.stderr
    authority = ("-CAfile", str(tmp_path / "ca.crt"))
    server = ("-purpose", "sslserver", "-verify_hostname", "netgang.netgang-system.svc", str(tmp_path / "netgang.crt"))
    assert openssl("verify", *authority, *server).endswith(": OK\n")
    assert openssl("verify", *authority, "-purpose", "sslclient", str(tmp_path / "scheduler.crt")).endswith(": OK\n")
    subject = openssl("x509", "-in", str(tmp_path / "scheduler.crt"), "-noout", "-subject", "-nameopt", "RFC2253")
    assert subject.strip() == "subject=CN=netgang-scheduler"
    settings = TlsSettings(tmp_path / "netgang.crt", tmp_path / "netgang.key", tmp_path / "ca.crt")
    load(settings, now_s=SystemClock().now_s())
    assert {path.stat().st_mode & 0o077 for path in tmp_path.glob("*.key")} == {0}
    found = {}
    for command in creating.replace("\\\n", " ").strip().splitlines():
        (name,) = re.findall(r"secret generic (\S+)", command)
        found[name] = dict(re.findall(r"--from-file=(\S+)=(\S+)", command))
    assert found.keys() == {certificates(guarded, one)[0] for one in ("netgang", "netgang-scheduler")}
    for files in found.values():
        assert files.keys() == {"tls.crt", "tls.key", "ca.crt"}
        assert all((tmp_path / file).exists() for file in files.values())
        assert "ca.key" not in files.values()


VERBS = (8888, [{"podSelector": {"matchLabels": {"app.kubernetes.io/name": "netgang-scheduler"}}}])
HEALTH, REPORTS = (8890, None), {"http": 8888, "reports": 8891}
SITE = [{"ipBlock": {"cidr": "10.0.0.0/24"}}]
DOORS: dict[str, tuple[Mapping[str, Any], list[tuple[int, Any]], Mapping[str, int]]] = {
    # case: (values, port and who may connect, ports of the Service)
    "documents": (
        {"probe": OFF, "documentsFrom": ["10.0.0.0/24"]}, [VERBS, (8889, SITE)], {"http": 8888, "documents": 8889}),
    "certificates": ({"tls": ON, "probe": OFF}, [VERBS, HEALTH], {"http": 8888}),
    "monitoring": ({"monitoring": ON, "probe": OFF}, [VERBS, HEALTH], {"http": 8888}),
    "reports": (
        {"tls": ON, "probe": OFF, "reports": ON}, [VERBS, HEALTH, (8891, [{"namespaceSelector": {}}])], REPORTS),
    "agents in the nodes' network": ({"probe": {**ON, "hostNetwork": True}}, [VERBS, HEALTH, (8891, None)], REPORTS),
}  # fmt: skip


@pytest.mark.parametrize(("values", "doors", "served"), DOORS.values(), ids=DOORS)
def test_pods_reach_health_and_reports_and_never_the_verbs(
    values: Mapping[str, Any], doors: list[tuple[int, Any]], served: Mapping[str, int], chart: Chart, tmp_path: Path
) -> None:
    """And netgang listens there: at the documents' port on the pod's loopback alone, unless the API server may ask."""
    made = chart(values)
    rules = of_kind(made, "NetworkPolicy")["netgang"]["spec"]["ingress"]
    assert [(port["port"], rule.get("from")) for rule in rules for port in rule["ports"]] == doors
    assert {one["name"]: one["port"] for one in of_kind(made, "Service")["netgang"]["spec"]["ports"]} == served
    settings = mounted_settings(made, tmp_path)
    opened = ("0.0.0.0", True) if "documents" in served else ("127.0.0.1", False)
    assert (settings.debug_host, settings.debug_open, settings.reports.port) == (*opened, served.get("reports"))


def test_the_probe_is_on_and_its_certificates_are_made_in_a_cluster_alone(
    chart: Chart, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without one each rendering would have others (tests/e2e/people/test_install.py has those of a cluster)."""
    found = chart({}, "ng")
    assert (of_kind(found, "Secret"), "netgang-ca" in of_kind(found, "ConfigMap")) == ({}, False)
    monkeypatch.setenv("POD_NAMESPACE", "ng")  # as the downward API has it
    account, settings = of_kind(found, "ServiceAccount")["netgang-probe"], mounted_settings(found, tmp_path)
    assert settings.probe.service_account == f"ng/{account['metadata']['name']}"
    assert (settings.reports.port, settings.reports.audiences, settings.elastic.enabled) == (8891, (), True)
    (agent,) = pod_spec(of_kind(found, "DaemonSet")["netgang-probe"])["containers"]
    assert {one["name"]: one.get("value") for one in agent["env"]}["NETGANG_PROBE_URL"] == "https://netgang.ng.svc:8891"


@pytest.mark.parametrize("throughput", [False, True])
def test_agents_have_no_rights_no_privileges_and_no_other_port(throughput: bool, chart: Chart, tmp_path: Path) -> None:
    objects = chart({"probe": {**ON, "throughput": throughput}})
    assert "netgang-probe" not in {one["name"] for binding in objects for one in binding.get("subjects", ())}
    pod = pod_spec(of_kind(objects, "DaemonSet")["netgang-probe"])
    (container,) = pod["containers"]
    assert (pod["securityContext"]["runAsNonRoot"], pod["automountServiceAccountToken"]) == (True, False)
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == container_of(objects)["securityContext"]
    assert not {"hostNetwork", "priorityClassName"} & pod.keys()
    assert {one["name"] for one in container["env"]} <= {variable for variable, _, _ in OPTIONS.values()}
    assert [(one["containerPort"], one["protocol"]) for one in container["ports"]] == [(PORT, "UDP")]
    (rule,) = of_kind(objects, "NetworkPolicy")["netgang-probe"]["spec"]["ingress"]
    bursts = {"port": PORTS[0], "endPort": PORTS[-1], "protocol": "TCP"}
    assert rule["ports"] == [{"port": PORT, "protocol": "UDP"}, *([bursts] if throughput else [])]
    assert rule["from"] == [{"podSelector": {"matchLabels": {"app.kubernetes.io/name": "netgang-probe"}}}]
    assert mounted_settings(objects, tmp_path).probe.throughput.enabled is throughput
    directory = {"name": "tmp", "emptyDir": {"medium": "Memory", "sizeLimit": "4Mi"}}
    mounted = {"name": "tmp", "mountPath": "/tmp"} in container["volumeMounts"], directory in pod["volumes"]
    assert mounted == (throughput, throughput)


@pytest.mark.parametrize("mode", ["second-scheduler", "native"])
def test_prometheus_finds_the_metrics_of_all_replicas(mode: str, chart: Chart, tmp_path: Path) -> None:
    objects = chart({"mode": mode, "monitoring": ON})
    settings = mounted_settings(objects, tmp_path)
    ports = {port["name"]: port["containerPort"] for port in container_of(objects)["ports"]}
    assert settings.health_port == ports["health"]
    monitor = of_kind(objects, "PodMonitor")["netgang"]["spec"]
    labels = of_kind(objects, "Deployment")["netgang"]["spec"]["template"]["metadata"]["labels"]
    assert monitor["selector"]["matchLabels"].items() <= labels.items()
    assert [one["port"] for one in monitor["podMetricsEndpoints"]] == ["health"]
    groups = yaml.safe_load((CHART / "files/alerts.yaml").read_text())
    assert of_kind(objects, "PrometheusRule")["netgang"]["spec"] == groups
    board = of_kind(objects, "ConfigMap")["netgang-dashboard"]["data"]["netgang.json"]
    assert yaml.safe_load(board) == yaml.safe_load((CHART / "files/dashboard.json").read_text())
