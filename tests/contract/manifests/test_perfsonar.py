"""The testpoints of manifests/perfsonar: on chosen nodes, apart from netgang, with the rights that are explained."""

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

import yaml

from tests.contract.manifests.psconfig_rules import problems
from tests.contract.manifests.rendered_manifests import MANIFESTS, ROOT, Object, rendered, rendered_overlay

PERFSONAR = MANIFESTS / "perfsonar"
LABEL = "netgang.io/testpoint"


@cache
def _objects() -> dict[str, Object]:
    found = rendered(PERFSONAR)
    assert len({one["kind"] for one in found}) == len(found)
    return {one["kind"]: one for one in found}


def _pod() -> Mapping[str, Any]:
    return _objects()["DaemonSet"]["spec"]["template"]["spec"]


def _container() -> Mapping[str, Any]:
    (container,) = _pod()["containers"]
    return container


def test_three_objects_in_a_namespace_of_their_own() -> None:
    objects = _objects()
    assert objects.keys() == {"Namespace", "ConfigMap", "DaemonSet"}
    name = objects["Namespace"]["metadata"]["name"]
    assert name != "netgang-system"
    assert {objects[kind]["metadata"]["namespace"] for kind in ("ConfigMap", "DaemonSet")} == {name}
    assert objects["Namespace"]["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "privileged"
    kinds = [one["kind"] for one in rendered_overlay("second-scheduler")]
    assert ("DaemonSet" in kinds, kinds.count("Namespace")) == (False, 1), "netgang does not bring them"


def test_only_labelled_nodes_have_one() -> None:
    assert _pod()["nodeSelector"] == {LABEL: "true"}
    assert _pod()["tolerations"] == [{"operator": "Exists", "effect": "NoSchedule"}]
    spec = _objects()["DaemonSet"]["spec"]
    assert spec["selector"]["matchLabels"] == spec["template"]["metadata"]["labels"]


def test_the_links_of_the_node_are_measured() -> None:
    assert (_pod()["hostNetwork"], _pod()["dnsPolicy"]) == (True, "ClusterFirstWithHostNet")
    ports = {one["containerPort"]: one["hostPort"] for one in _container()["ports"]}
    assert ports == {port: port for port in (443, 861, 862, 5201)}


def test_the_privileges_are_those_that_the_comment_explains() -> None:
    assert _container()["securityContext"] == {"privileged": True}
    volumes = {one["name"]: one for one in _pod()["volumes"]}
    assert [one["hostPath"]["path"] for one in volumes.values() if "hostPath" in one] == ["/sys/fs/cgroup"]
    assert _pod()["automountServiceAccountToken"] is False
    assert "hostPID" not in _pod()
    assert "hostIPC" not in _pod()
    assert {one["name"] for one in _container()["volumeMounts"]} == volumes.keys()
    comment = " ".join(
        line.lstrip("# ") for line in (PERFSONAR / "testpoint.yaml").read_text().splitlines() if line[:1] == "#"
    )
    for word in ("privileged:", "hostNetwork:", "clocks", "service account token", "control groups"):
        assert word in comment


def test_the_mesh_reaches_the_testpoints() -> None:
    config = _objects()["ConfigMap"]
    (mount,) = [one for one in _container()["volumeMounts"] if one["name"] == "mesh"]
    (volume,) = [one for one in _pod()["volumes"] if one["name"] == "mesh"]
    assert volume["configMap"]["name"] == config["metadata"]["name"]
    assert config["metadata"]["name"].startswith("testpoint-mesh-")
    assert mount["mountPath"] == "/etc/perfsonar/psconfig/pscheduler.d/netgang.json"
    template = json.loads(config["data"][mount["subPath"]])
    assert template == json.loads((PERFSONAR / "mesh.json").read_text())
    assert problems(template) == []
    assert template["tasks"] == {}


def test_the_image_is_a_parameter() -> None:
    """Repository and version stand in kustomization.yaml alone; a CPU limit would be what a throttled test measures."""
    kustomization = yaml.safe_load((PERFSONAR / "kustomization.yaml").read_text())
    (image,) = kustomization["images"]
    assert _container()["image"] == f"{image['newName']}:{image['newTag']}"
    daemon_set = yaml.safe_load((PERFSONAR / "testpoint.yaml").read_text())
    assert daemon_set["spec"]["template"]["spec"]["containers"][0]["image"] == image["name"]
    resources = _container()["resources"]
    assert (set(resources["requests"]), set(resources["limits"])) == ({"cpu", "memory"}, {"memory"})


def test_the_label_is_the_one_in_the_documents() -> None:
    for path in (ROOT / "docs/how-to/site.md", PERFSONAR / "kustomization.yaml"):
        text = path.read_text()
        assert f"kubectl label node NODE {LABEL}=true" in text
        assert f"--selector {LABEL}=true" in text
