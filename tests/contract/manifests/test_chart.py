"""The Helm chart: the very objects of the kustomizations, in every mode, with every component; values are checked."""

import json
import re
import shutil
import subprocess
import tomllib
from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from ssl import create_default_context
from typing import Any

import pytest
import yaml

from cli.doctor import Facts, examine
from cli.doctor.facts import Policies, ServiceAddress
from cli.doctor.installed import environment_of, mounted, settings_of
from extender.settings.settings import Settings
from lab.testbed.errors import ControlPlaneError
from lab.testbed.parts.helm import CHART, HOOK, Helm, find_helm, hooks
from lab.testbed.programs.catalogue import KUBERNETES
from tests.contract.manifests import chart_files, chart_readme, chart_schema
from tests.contract.manifests.rendered_manifests import ROOT, kustomized, rendered, with_components
from tests.newcomer.document import fenced

VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
NAMESPACE = "netgang-system"
Object = dict[str, Any]
_HASHED = re.compile(r"(.+)-[a-z0-9]{10}")


@pytest.fixture
def helm(tmp_path: Path) -> Helm:
    """Helm without a cluster; a loud skip without any: the test of tests/e2e that installs the chart builds one."""
    program = find_helm()
    if program is None:
        pytest.skip(
            "no helm: set NETGANG_HELM, install helm 3, or `python -m lab.testbed build helm`; chart NOT checked"
        )
    return Helm(program, tmp_path)


COMPONENTS = "manifests/components/**/kustomization.yaml"
ON = {"enabled": True}
OWN = ("elastic", "explain", "lengths", "restart", "debug-auth", "flow-schema", "monitoring")
PLACED: Mapping[str, Any] = {  # where pods run, as values
    "nodeSelector": {"kubernetes.io/arch": "amd64"},
    "tolerations": [{"key": "infra", "operator": "Exists", "effect": "NoSchedule"}],
    "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}},
    "topologySpreadConstraints": [
        {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway"}
    ],
    "priorityClassName": "system-node-critical",
}
MARKED: Mapping[str, Any] = {"podLabels": {"team": "infra"}, "podAnnotations": {"example.org/scrape": "true"}}
VALUES = (
    "elastic",
    "explain",
    "lengths",
    "restart",
    "debugAuth",
    "flowSchema",
    "monitoring",
)  # as in the chart
ALIKE: dict[str, tuple[str, tuple[str, ...], Mapping[str, Any]]] = {  # case: (overlay, components, values)
    "second scheduler": ("second-scheduler", (), {}),
    "second scheduler with everything": (
        "second-scheduler",
        (*OWN, "tls", "reports", "probe", "probe-throughput", "gate-policy", "scheduler-name-policy", "warnings"),
        {
            **dict.fromkeys((*VALUES, "tls", "reports", "gates", "namespaces", "warnings"), ON),
            "probe": {"enabled": True, "throughput": True},
        },
    ),
    "second scheduler with agents in the nodes' network": (
        "second-scheduler",
        ("tls", "reports", "probe", "probe/host-network"),
        {"tls": ON, "probe": {"enabled": True, "hostNetwork": True}},
    ),
    "second scheduler with monitoring alone": ("second-scheduler", ("monitoring",), {"monitoring": ON}),
    "native": ("native", (), {}),
    "native with everything": ("native", OWN, dict.fromkeys((*VALUES, "gates"), ON)),
}


@pytest.mark.parametrize(("overlay", "components", "values"), ALIKE.values(), ids=ALIKE)
def test_the_chart_is_the_kustomization(
    overlay: str, components: Sequence[str], values: Mapping[str, Any], helm: Helm, tmp_path: Path
) -> None:
    """Object by object; but the namespace, which Helm needs before, and the hooks, which kustomize has no word for."""
    made = helm.render({"mode": overlay, **values}, namespace=NAMESPACE, version=KUBERNETES)
    wanted = overlaid(tmp_path / "k", f"overlays/{overlay}", components)
    del wanted["Namespace", "", NAMESPACE]
    chart = plain([one for one in made if one not in hooks(made)])
    assert len(b64decode(chart.pop(("Secret", NAMESPACE, "netgang-notes"))["data"]["key"])) == 64
    assert sorted(chart) == sorted(wanted)
    for key, one in wanted.items():
        assert one == chart[key], key


def test_every_component_is_in_the_chart() -> None:
    there = {str(one.parent.relative_to(ROOT / "manifests/components")) for one in ROOT.glob(COMPONENTS)}
    alone = {"gate-policy-native", "tls/netgang"}  # parts of others, not to be chosen
    assert there - alone <= {name for _, names, _ in ALIKE.values() for name in names}


def test_what_is_run_at_the_end_is_the_kustomization_for_it(helm: Helm, tmp_path: Path) -> None:
    made = {one["metadata"]["name"]: one for one in hooks(helm.render({}, namespace=NAMESPACE, version=KUBERNETES))}
    assert {name for name, one in made.items() if one["kind"] == "Job"} == {
        "netgang-uninstall-pre-delete",
        "netgang-uninstall-post-delete",
    }
    wanted = overlaid(tmp_path / "k", "uninstall", ())
    arguments = wanted["Job", NAMESPACE, "netgang-uninstall"]["spec"]["template"]["spec"]["containers"][0].pop("args")
    for when, more in (("pre-delete", []), ("post-delete", ["--leases"])):
        job = made[f"netgang-uninstall-{when}"]
        assert job["metadata"]["annotations"][HOOK] == when
        (container,) = job["spec"]["template"]["spec"]["containers"]
        assert container.pop("args") == [*arguments, *more]
        assert job["spec"] == wanted["Job", NAMESPACE, "netgang-uninstall"]["spec"]
    rights = plain([one for one in hooks_of(helm, {}) if one["kind"] != "Job"])
    assert rights == {key: one for key, one in wanted.items() if key[0] != "Job"}


def test_options_of_the_end(helm: Helm) -> None:
    left = jobs(hooks_of(helm, {"uninstall": {"leaveGates": True}}))
    assert left["pre-delete"][-1] == "--leave-gates"
    assert hooks_of(helm, {"uninstall": {"enabled": False}}) == []
    assert jobs(hooks_of(helm, {"mode": "native"}))["post-delete"][-1] == "--leases"


VOLUME: Object = {"name": "archive", "secret": {"secretName": "netgang-archive"}}
MOUNT: Object = {"name": "archive", "mountPath": "/etc/netgang-archive", "readOnly": True}
REFUSED = {  # case: (values, what the refusal names)
    "an unknown value": ({"replica": 3}, "additional properties 'replica' not allowed"),
    "an unknown mode": ({"mode": "third-scheduler"}, "/mode"),
    "no replica": ({"replicas": 0}, "/replicas"),
    "an image that moves": ({"image": {"tag": "latest"}}, "/image/tag"),
    "a misspelt setting": ({"settings": {"hold_limit": 3}}, "additional properties 'hold_limit' not allowed"),
    "a setting of the wrong kind": ({"settings": {"spares": "few"}}, "/settings/spares"),
    "a word that is none of the setting's": ({"settings": {"score": {"variant": "round"}}}, "/settings/score/variant"),
    "a source without an address": ({"settings": {"network": {"sources": [{"kind": "maddash"}]}}}, "'url'"),
    "a kube-scheduler without a version": ({"scheduler": {"tag": "stable"}}, "/scheduler/tag"),
    "another API": ({"gates": {"apiVersion": "v1"}}, "/gates/apiVersion"),
    "reports without certificates": ({"reports": ON, "elastic": ON}, "reports.enabled: needs"),
    "agents of another scheduler": ({"mode": "native", "probe": ON}, "probe.enabled: needs"),
    "the probe without agents": ({"settings": {"probe": {"enabled": True}}}, "settings.probe.enabled: set probe."),
    "two schedulers for the same pods": (
        {"settings": {"scheduler_names": ["default-scheduler"]}},
        "settings.scheduler_names: ",
    ),
    "namespaces of another scheduler": ({"mode": "native", "namespaces": ON}, "namespaces.enabled: "),
    "two that act": ({"settings": {"leader_election": "off"}}, "settings.leader_election: "),
    "a hold beyond the timeout": ({"settings": {"hold_limit_s": 50}}, "settings.http_timeout_s: "),
    "a volume with the name of one of ours": (
        {"extraVolumes": [{**VOLUME, "name": "settings"}]},
        "/extraVolumes/0/name",
    ),
    "a volume of nothing": ({"extraVolumes": [{"name": "archive"}]}, "/extraVolumes/0"),
    "a volume twice": ({"extraVolumes": [VOLUME, VOLUME]}, "extraVolumes: archive is there twice"),
    "a mount of nothing": ({"extraVolumeMounts": [MOUNT]}, "extraVolumeMounts: extraVolumes has no archive"),
    "a mount over the settings": (
        {"extraVolumes": [VOLUME], "extraVolumeMounts": [{**MOUNT, "mountPath": "/etc/netgang/more"}]},
        "/extraVolumeMounts/0/mountPath",
    ),
    "a misspelt mount": (
        {"extraVolumes": [VOLUME], "extraVolumeMounts": [{**MOUNT, "readonly": True}]},
        "additional properties 'readonly' not allowed",
    ),
    "a label that Services select by": ({"podLabels": {"netgang.io/role": "leader"}}, "/podLabels"),
    "the Deployment's own label": (
        {"scheduler": {"podLabels": {"app.kubernetes.io/name": "x"}}},
        "/scheduler/podLabels",
    ),
    "a label that is no text": ({"podLabels": {"team": 3}}, "/podLabels/team"),
    "two mounts at one place": (
        {"extraVolumes": [VOLUME], "extraVolumeMounts": [MOUNT, MOUNT]},
        "extraVolumeMounts: two at /etc/netgang-archive",
    ),
    "two that act without an extender": (
        {"mode": "native", "settings": {"leader_election": "off"}},
        "settings.leader_election: ",
    ),
}


@pytest.mark.parametrize(("values", "named"), REFUSED.values(), ids=REFUSED)
def test_bad_values_are_refused_by_name(values: Mapping[str, Any], named: str, helm: Helm) -> None:
    with pytest.raises(ControlPlaneError) as refused:
        helm.render(values, namespace=NAMESPACE, version=KUBERNETES)
    assert named in str(refused.value)


def test_the_probe_alone_brings_certificates_that_fit(helm: Helm, tmp_path: Path) -> None:
    """kube-scheduler and agents trust netgang at its Service's name, and no private key is beside the Secrets."""
    found = helm.render({"probe": ON}, namespace="ng", version=KUBERNETES)
    named = {(one["kind"], one["metadata"]["name"]): one for one in found}
    authority = named["ConfigMap", "netgang-ca"]["data"]
    assert list(authority) == ["ca.crt"]
    (tmp_path / "ca.crt").write_text(authority["ca.crt"])
    pairs = {"netgang-tls": "netgang.ng.svc", "netgang-scheduler-tls": "netgang-scheduler"}
    for secret, name in pairs.items():
        data = {key: b64decode(text).decode() for key, text in named["Secret", secret]["data"].items()}
        assert data.pop("ca.crt") == authority["ca.crt"]
        for key, text in data.items():
            (tmp_path / key).write_text(text)
        create_default_context().load_cert_chain(tmp_path / "tls.crt", tmp_path / "tls.key")
        checked = ["openssl", "verify", "-x509_strict", "-CAfile", "ca.crt", "-verify_hostname", name, "tls.crt"]
        subprocess.run(checked, cwd=tmp_path, check=True, capture_output=True)
    rest = [one for one in found if one["kind"] != "Secret"]
    assert "PRIVATE KEY" not in yaml.safe_dump_all(rest)
    netgang = environment_of(named["Deployment", "netgang"])
    assert netgang["NETGANG_PROBE__SERVICE_ACCOUNT"] == "ng/netgang-probe"
    (agent,) = named["DaemonSet", "netgang-probe"]["spec"]["template"]["spec"]["containers"]
    assert {one["name"]: one.get("value") for one in agent["env"]}["NETGANG_PROBE_URL"] == "https://netgang.ng.svc:8891"


def test_the_schema_knows_every_setting() -> None:
    """Written from the settings themselves: `python -m tests.contract.manifests.chart_schema` renews it."""
    assert chart_schema.FILE.read_text() == chart_schema.text()


def test_copies_are_what_they_were_copied_from() -> None:
    """`python -m tests.contract.manifests.chart_files` renews them."""
    assert chart_files.found() == chart_files.wanted()


@pytest.mark.slow
def test_only_what_templates_read_is_copied(helm: Helm, tmp_path: Path) -> None:
    """Every copy is left out once, all at the same time but those that the rendering named before."""
    chart = tmp_path / "chart"
    shutil.copytree(CHART, chart)
    read: set[str] = set()
    for overlay, _, values in ALIKE.values():
        for name in chart_files.SOURCES:
            (chart / "files" / name).unlink(missing_ok=True)
        (helm.home / "values.yaml").write_text(yaml.safe_dump({"mode": overlay, **values}))
        while missing := re.search(
            r"the chart lacks files/(\S+)",
            helm.run("template", str(chart), "-f", str(helm.home / "values.yaml")).complaint,
        ):
            read.add(missing[1])
            (chart / "files" / missing[1]).write_text((ROOT / missing[1]).read_text())
    assert read == set(chart_files.SOURCES)


def test_the_readme_lists_the_values() -> None:
    """`python -m tests.contract.manifests.chart_readme` renews it."""
    assert chart_readme.FILE.read_text() == chart_readme.text()
    rows = re.findall(r"^\| `(\S+)` \| .* \| (.*) \|$", chart_readme.text(), re.MULTILINE)
    assert len(rows) > 40
    assert [name for name, said in rows if not said] == []


def test_settings_reach_everything_that_depends_on_them(helm: Helm, tmp_path: Path) -> None:
    settings = {"port": 9999, "scheduler_names": ["gangs", "more"], "http_timeout_s": 90, "hold_limit_s": 50}
    made = helm.render({"settings": settings, "gates": ON}, namespace="elsewhere", version="v1.35.4-gke.12")
    found = {(one["kind"], one["metadata"]["name"]): one for one in made}
    config = yaml.safe_load(found["ConfigMap", "netgang-scheduler-config"]["data"]["scheduler.yaml"])
    assert [one["schedulerName"] for one in config["profiles"]] == ["gangs", "more"]
    assert {one["urlPrefix"] for one in config["extenders"]} == {"http://netgang.elsewhere.svc:9999"}
    assert [one["httpTimeout"] for one in config["extenders"] if "bindVerb" in one] == ["90s"]
    assert config["leaderElection"]["resourceNamespace"] == "elsewhere"
    file = tmp_path / "settings.yaml"
    file.write_text(found["ConfigMap", "netgang"]["data"]["netgang.yaml"])
    assert Settings.load(file).hold_limit_s == 50
    (container,) = found["Deployment", "netgang"]["spec"]["template"]["spec"]["containers"]
    asked = [container["ports"][0]["containerPort"], container["readinessProbe"]["httpGet"]["port"]]
    assert {*asked, found["Service", "netgang"]["spec"]["ports"][0]["port"]} == {9999}
    policy = found["MutatingAdmissionPolicy", "netgang-gate"]["spec"]
    assert policy["variables"][0]["expression"] == "object.spec.schedulerName in ['gangs', 'more']"
    assert "elsewhere" in policy["matchConstraints"]["namespaceSelector"]["matchExpressions"][0]["values"]
    (scheduler,) = found["Deployment", "netgang-scheduler"]["spec"]["template"]["spec"]["containers"]
    assert scheduler["image"] == "registry.k8s.io/kube-scheduler:v1.35.4"
    placed = {one["metadata"]["namespace"] for one in made if "namespace" in one["metadata"]}
    assert placed == {"elsewhere", "kube-system"}


EXAMINED: dict[str, Mapping[str, Any]] = {  # values with which the doctor looks at what is rendered
    "as it comes": {"gates": ON},
    "with everything": dict.fromkeys(
        (
            "gates",
            "namespaces",
            "restart",
            "elastic",
            "lengths",
            "tls",
            "reports",
            "probe",
            "monitoring",
        ),
        ON,
    ),
    "with the probe": {"gates": ON, "probe": ON},
    "another name, port and time": {
        "gates": ON,
        "namespaces": ON,
        "settings": {"port": 9999, "scheduler_names": ["gangs"], "http_timeout_s": 120, "commit_timeout_s": 60},
    },
    "native": {"mode": "native"},
}


@pytest.mark.parametrize("values", EXAMINED.values(), ids=EXAMINED)
def test_the_doctor_finds_nothing_in_what_the_chart_installs(values: Mapping[str, Any], helm: Helm) -> None:
    found = {
        (one["kind"], one["metadata"]["name"]): one for one in helm.render(values, namespace="ng", version=KUBERNETES)
    }
    text = found["ConfigMap", "netgang"]["data"]["netgang.yaml"]
    read = settings_of(text, environment_of(found["Deployment", "netgang"]), origin="")
    assert read.settings_problems == ()
    policies = {name: one for (kind, name), one in found.items() if kind == "MutatingAdmissionPolicy"}
    bindings = {name: one for (kind, name), one in found.items() if kind == "MutatingAdmissionPolicyBinding"}
    seen = Facts(settings=read.settings, policies=Policies(policies=policies, bindings=bindings))
    if ("Deployment", "netgang-scheduler") in found:
        port = found["Service", "netgang"]["spec"]["ports"][0]["port"]
        config = yaml.safe_load(found["ConfigMap", "netgang-scheduler-config"]["data"]["scheduler.yaml"])
        seen = replace(seen, scheduler=config, service=ServiceAddress("netgang", "ng", port))
    assert examine(seen) == ()
    for deployment in (one for (kind, _), one in found.items() if kind == "Deployment"):
        mounts = set(mounted(deployment))
        assert all(("ConfigMap", name) in found for name in mounts)


OWN_VOLUMES: dict[str, Mapping[str, Any]] = {  # values beside which volumes of one's own are given
    "as it comes": {},
    "with certificates": {"tls": ON},
    "native": {"mode": "native"},
}


@pytest.mark.parametrize("values", OWN_VOLUMES.values(), ids=OWN_VOLUMES)
def test_volumes_of_ones_own_come_on_top(values: Mapping[str, Any], helm: Helm) -> None:
    volumes = [VOLUME, {"name": "authority", "configMap": {"name": "site-ca"}}]
    mounts = [MOUNT, {"name": "authority", "mountPath": "/etc/site/ca.crt", "subPath": "ca.crt"}]
    before, after = (
        without_key(helm.render({**values, **more}, namespace=NAMESPACE, version=KUBERNETES))
        for more in ({}, {"extraVolumes": volumes, "extraVolumeMounts": mounts})
    )
    (deployment,) = [one for one in before if (one["kind"], one["metadata"]["name"]) == ("Deployment", "netgang")]
    pods = deployment["spec"]["template"]["spec"]
    pods["volumes"] += volumes
    pods["containers"][0]["volumeMounts"] += mounts
    assert after == before


def without_key(objects: Sequence[Object]) -> list[Object]:
    """All but the key for notes, which is another one each time that the chart is rendered without a cluster."""
    return [one for one in objects if (one["kind"], one["metadata"]["name"]) != ("Secret", "netgang-notes")]


@pytest.mark.parametrize("mode", ["second-scheduler", "native"])
def test_pods_run_where_the_values_say(mode: str, helm: Helm) -> None:
    own = {**PLACED, **MARKED}
    made = helm.render({"mode": mode, **own, "scheduler": own}, namespace=NAMESPACE, version=KUBERNETES)
    deployments = {one["metadata"]["name"]: one["spec"] for one in made if one["kind"] == "Deployment"}
    assert len(deployments) == (2 if mode == "second-scheduler" else 1)
    for name, spec in deployments.items():
        pods, marks = spec["template"]["spec"], spec["template"]["metadata"]
        assert {key: pods[key] for key in PLACED} == PLACED
        assert marks["labels"] == {"app.kubernetes.io/name": name, "team": "infra"}
        assert marks["labels"].items() >= spec["selector"]["matchLabels"].items()
        assert set(marks["annotations"]) > {"example.org/scrape"}
    (end,) = [one for one in made if one["metadata"]["name"] == "netgang-uninstall-pre-delete"]
    assert end["spec"]["template"]["spec"]["nodeSelector"] == PLACED["nodeSelector"]


def test_no_priority_class_is_the_clusters_default(helm: Helm) -> None:
    bare = {"priorityClassName": ""}
    made = helm.render({**bare, "scheduler": bare}, namespace=NAMESPACE, version=KUBERNETES)
    pods = [one["spec"]["template"]["spec"] for one in made if one["kind"] == "Deployment"]
    assert [one.get("priorityClassName") for one in pods] == [None, None]


def test_the_how_to_mounts_what_its_settings_name(helm: Helm, tmp_path: Path) -> None:
    page = (ROOT / "docs/how-to/opensearch.md").read_text()
    settings, values, kustomization = map(yaml.safe_load, fenced(page, "yaml"))
    made = helm.render({**values, "settings": settings}, namespace=NAMESPACE, version=KUBERNETES)
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
    (tmp_path / "netgang").symlink_to(ROOT)
    patched = rendered(tmp_path)
    wanted = {MOUNT["mountPath"]: VOLUME["secret"]}
    assert [mounts_of_ones_own(made), mounts_of_ones_own(patched)] == [wanted, wanted]
    (source,) = settings["network"]["sources"]
    inside = {f"{MOUNT['mountPath']}/{name}" for name in re.findall(r"--from-file=([\w.]+)=", page)}
    assert {source["password_file"], source["ca_file"]} == inside
    assert f"create secret generic {VOLUME['secret']['secretName']} " in page


def mounts_of_ones_own(objects: Sequence[Mapping[str, Any]]) -> dict[str, Object]:
    """Path in netgang's container → the Secret that is there, for all but the chart's own volumes."""
    (deployment,) = [one for one in objects if (one["kind"], one["metadata"]["name"]) == ("Deployment", "netgang")]
    pods = deployment["spec"]["template"]["spec"]
    volumes = {one["name"]: one["secret"] for one in pods["volumes"] if one["name"] not in ("settings", "notes")}
    mounts = pods["containers"][0]["volumeMounts"]
    return {one["mountPath"]: volumes[one["name"]] for one in mounts if one["name"] in volumes}


def test_other_settings_make_other_pods(helm: Helm) -> None:
    """The pods' annotation changes with the settings, so that an upgrade restarts what reads them."""

    def marks(values: Mapping[str, Any]) -> list[str]:
        made = helm.render(values, namespace=NAMESPACE, version=KUBERNETES)
        return [
            mark
            for one in made
            if one["kind"] == "Deployment"
            for mark in one["spec"]["template"]["metadata"]["annotations"].values()
        ]

    before, after = marks({}), marks({"settings": {"spares": 7}})
    assert [old == new for old, new in zip(before, after, strict=True)] == [False, True]


def test_the_chart_is_well_formed(helm: Helm) -> None:
    commands = (("lint", "--strict"), ("template",), ("package", "--destination", str(helm.home)))
    for ended in (helm.run(*words, str(CHART)) for words in commands):  # as they are typed, without a version
        assert (ended.code, ended.complaint) == (0, ""), ended
        assert re.search(r"\[(WARNING|ERROR)\]", ended.output) is None
    assert [one.name for one in helm.home.glob("*.tgz")] == [f"netgang-{VERSION}.tgz"]
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    tags = [
        yaml.safe_load((ROOT / "manifests" / place / "kustomization.yaml").read_text())["images"][0]["newTag"]
        for place in ("base", "uninstall", "components/probe")
    ]
    assert [chart["version"], chart["appVersion"], *tags] == [VERSION] * 5


def hooks_of(helm: Helm, values: Mapping[str, Any]) -> list[Object]:
    return hooks(helm.render(values, namespace=NAMESPACE, version=KUBERNETES))


def jobs(objects: Sequence[Object]) -> dict[str, list[str]]:
    return {
        one["metadata"]["annotations"][HOOK]: one["spec"]["template"]["spec"]["containers"][0]["args"]
        for one in objects
        if one["kind"] == "Job"
    }


def overlaid(work: Path, what: str, components: Sequence[str]) -> dict[tuple[str, str, str], Object]:
    text = kustomized(with_components(work, what, components))
    for one in yaml.safe_load_all(text):
        if one["kind"] == "ConfigMap" and (hashed := _HASHED.fullmatch(one["metadata"]["name"])):
            text = text.replace(hashed[0], hashed[1])  # the chart has a checksum on the pods instead
    return plain([one for one in yaml.safe_load_all(text) if one])


def plain(objects: Sequence[Object]) -> dict[tuple[str, str, str], Object]:
    """(kind, namespace, name) → object, written one way: named lists by name, documents in ConfigMaps as documents."""
    found = {}
    for one in objects:
        meta = one["metadata"]
        meta.pop("annotations", None)
        template = one.get("spec", {}).get("template", {}).get("metadata", {})
        if all(key.startswith("checksum/") for key in template.get("annotations", {})):
            template.pop("annotations", None)
        if one["kind"] == "ConfigMap":
            read: dict[str, Callable[[str], Any]] = {"yaml": yaml.safe_load, "json": json.loads}
            one["data"] = {name: read[name.rpartition(".")[2]](text) for name, text in one.get("data", {}).items()}
        found[one["kind"], meta.get("namespace", ""), meta["name"]] = _sorted(one)
    assert len(found) == len(objects)
    return found


def _sorted(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _sorted(one) for key, one in value.items()}
    if not isinstance(value, list):
        return value
    listed = [_sorted(one) for one in value]
    named = listed and all(isinstance(one, Mapping) and "name" in one for one in listed)
    return sorted(listed, key=lambda one: one["name"]) if named else listed
