"""The Helm chart: the very objects of the kustomizations, in every mode, with every component; values are checked."""

import json
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from cli.doctor import Facts, examine
from cli.doctor.facts import Policies, ServiceAddress
from cli.doctor.installed import environment_of, mounted, settings_of
from extender.settings.settings import Settings
from testbed.errors import ControlPlaneError
from testbed.parts.helm import CHART, HOOK, Helm, find_helm, hooks
from tests.contract.manifests import chart_schema
from tests.contract.manifests.rendered_manifests import ROOT, kustomized, rendered, with_components
from tests.newcomer.document import fenced

KUBERNETES = "1.36.3"
NAMESPACE = "netgang-system"
Object = dict[str, Any]
_HASHED = re.compile(r"(.+)-[a-z0-9]{10}")


@pytest.fixture
def helm(tmp_path: Path) -> Helm:
    """Helm without a cluster; a loud skip without any: the test of tests/e2e that installs the chart builds one."""
    program = find_helm()
    if program is None:
        pytest.skip("no helm: set NETGANG_HELM, install helm 3, or `python -m testbed build helm`; chart NOT checked")
    return Helm(program, tmp_path)


COMPONENTS = "manifests/components/**/kustomization.yaml"
ON = {"enabled": True}
OWN = ("elastic", "explain", "provisioning", "restart", "debug-auth", "flow-schema", "monitoring")
VALUES = ("elastic", "explain", "provisioning", "restart", "debugAuth", "flowSchema", "monitoring")  # as in the chart
ALIKE: dict[str, tuple[str, tuple[str, ...], Mapping[str, Any]]] = {  # case: (overlay, components, values)
    "second scheduler": ("second-scheduler", (), {}),
    "second scheduler with everything": (
        "second-scheduler",
        (*OWN, "tls", "reports", "gate-policy", "scheduler-name-policy"),
        {
            **dict.fromkeys((*VALUES, "tls", "reports", "gates", "namespaces"), ON),
        },
    ),
    "second scheduler with monitoring alone": ("second-scheduler", ("monitoring",), {"monitoring": ON}),
    "default scheduler": ("default-scheduler", (), {"nodeName": "control-plane"}),
    "default scheduler with everything": (
        "default-scheduler",
        (*OWN, "tls/netgang", "gate-policy-default-scheduler"),
        {
            "nodeName": "control-plane",
            **dict.fromkeys((*VALUES, "tls", "gates"), ON),
        },
    ),
    "managed resource": ("managed-resource", (), {}),
    "managed resource with gates": ("managed-resource", ("gate-policy-managed-resource",), {"gates": ON}),
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
    assert sorted(chart) == sorted(wanted)
    for key, one in wanted.items():
        assert one == chart[key], key


def test_every_component_is_in_the_chart() -> None:
    there = {str(one.parent.relative_to(ROOT / "manifests/components")) for one in ROOT.glob(COMPONENTS)}
    assert there - {"host-network"} <= {name for _, names, _ in ALIKE.values() for name in names}


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
    assert set(jobs(hooks_of(helm, {"mode": "managed-resource"}))) == {"pre-delete"}


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
    "the default scheduler without a machine": ({"mode": "default-scheduler"}, "nodeName: "),
    "namespaces of another scheduler": ({"mode": "managed-resource", "namespaces": ON}, "namespaces.enabled: "),
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
    "two mounts at one place": (
        {"extraVolumes": [VOLUME], "extraVolumeMounts": [MOUNT, MOUNT]},
        "extraVolumeMounts: two at /etc/netgang-archive",
    ),
    "another resource than the policy's": (
        {"mode": "managed-resource", "settings": {"managed_resource": "example.org/gang"}},
        "settings.managed_resource: ",
    ),
}


@pytest.mark.parametrize(("values", "named"), REFUSED.values(), ids=REFUSED)
def test_bad_values_are_refused_by_name(values: Mapping[str, Any], named: str, helm: Helm) -> None:
    with pytest.raises(ControlPlaneError) as refused:
        helm.render(values, namespace=NAMESPACE, version=KUBERNETES)
    assert named in str(refused.value)


def test_the_schema_knows_every_setting() -> None:
    """Written from the settings themselves: `python -m tests.contract.manifests.chart_schema` renews it."""
    assert chart_schema.FILE.read_text() == chart_schema.text()


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
        ("gates", "namespaces", "restart", "elastic", "provisioning", "tls", "reports", "monitoring"), ON
    ),
    "another name, port and time": {
        "gates": ON,
        "namespaces": ON,
        "settings": {"port": 9999, "scheduler_names": ["gangs"], "http_timeout_s": 120, "commit_timeout_s": 60},
    },
    "managed resource": {"mode": "managed-resource", "gates": ON, "tls": ON},
    "default scheduler": {"mode": "default-scheduler", "nodeName": "cp", "gates": ON},
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
    if ("Service", "netgang") in found:
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
    "managed resource": {"mode": "managed-resource"},
}


@pytest.mark.parametrize("values", OWN_VOLUMES.values(), ids=OWN_VOLUMES)
def test_volumes_of_ones_own_come_on_top(values: Mapping[str, Any], helm: Helm) -> None:
    volumes = [VOLUME, {"name": "authority", "configMap": {"name": "site-ca"}}]
    mounts = [MOUNT, {"name": "authority", "mountPath": "/etc/site/ca.crt", "subPath": "ca.crt"}]
    before, after = (
        helm.render({**values, **more}, namespace=NAMESPACE, version=KUBERNETES)
        for more in ({}, {"extraVolumes": volumes, "extraVolumeMounts": mounts})
    )
    (deployment,) = [one for one in before if (one["kind"], one["metadata"]["name"]) == ("Deployment", "netgang")]
    pods = deployment["spec"]["template"]["spec"]
    pods["volumes"] += volumes
    pods["containers"][0]["volumeMounts"] += mounts
    assert after == before


def test_the_how_to_mounts_what_its_settings_name(helm: Helm, tmp_path: Path) -> None:
    page = (ROOT / "docs/how-to/opensearch.md").read_text()
    settings, values, kustomization = map(yaml.safe_load, fenced(page, "yaml"))
    made = helm.render({**values, "settings": settings}, namespace=NAMESPACE, version=KUBERNETES)
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
    (tmp_path / "netgang").symlink_to(ROOT)
    patched = list(rendered(tmp_path))
    wanted = {MOUNT["mountPath"]: VOLUME["secret"]}
    assert [mounts_of_ones_own(made), mounts_of_ones_own(patched)] == [wanted, wanted]
    (source,) = settings["network"]["sources"]
    inside = {f"{MOUNT['mountPath']}/{name}" for name in re.findall(r"--from-file=([\w.]+)=", page)}
    assert {source["password_file"], source["ca_file"]} == inside
    assert f"create secret generic {VOLUME['secret']['secretName']} " in page


def mounts_of_ones_own(objects: Sequence[Object]) -> dict[str, Object]:
    """Path in netgang's container → the Secret that is there, for all but the chart's own volumes."""
    (deployment,) = [one for one in objects if (one["kind"], one["metadata"]["name"]) == ("Deployment", "netgang")]
    pods = deployment["spec"]["template"]["spec"]
    volumes = {one["name"]: one["secret"] for one in pods["volumes"] if one["name"] != "settings"}
    mounts = pods["containers"][0]["volumeMounts"]
    return {one["mountPath"]: volumes[one["name"]] for one in mounts if one["name"] != "settings"}


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
    ended = helm.run("lint", "--strict", str(CHART), "--kube-version", KUBERNETES)
    assert (ended.code, "[WARNING]" in ended.output, "[ERROR]" in ended.output) == (0, False, False), ended.output
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    tags = [
        yaml.safe_load((ROOT / "manifests" / place / "kustomization.yaml").read_text())["images"][0]["newTag"]
        for place in ("base", "uninstall")
    ]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert [chart["version"], chart["appVersion"], *tags] == [project] * 4


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
            one["data"] = {name: read[name.rpartition(".")[2]](text) for name, text in one["data"].items()}
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
