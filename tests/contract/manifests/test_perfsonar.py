"""examples/perfsonar: testpoints on chosen nodes, with the rights that are explained, and a mesh that is whole."""

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

import yaml

from tests.contract.manifests.rendered import ROOT, Object

PERFSONAR = ROOT / "examples/perfsonar"
LABEL = "netgang.io/testpoint"


@cache
def _objects() -> dict[str, Object]:
    return {one["kind"]: one for one in yaml.safe_load_all((PERFSONAR / "testpoint.yaml").read_text())}


def _pod() -> Mapping[str, Any]:
    return _objects()["DaemonSet"]["spec"]["template"]["spec"]


def _container() -> Mapping[str, Any]:
    (container,) = _pod()["containers"]
    return container


def test_two_objects_in_a_namespace_of_their_own() -> None:
    objects = _objects()
    assert objects.keys() == {"Namespace", "DaemonSet"}
    name = objects["Namespace"]["metadata"]["name"]
    assert name != "netgang-system"
    assert objects["DaemonSet"]["metadata"]["namespace"] == name
    assert objects["Namespace"]["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "privileged"


def test_only_labelled_nodes_have_one() -> None:
    assert _pod()["nodeSelector"] == {LABEL: "true"}
    spec = _objects()["DaemonSet"]["spec"]
    assert spec["selector"]["matchLabels"] == spec["template"]["metadata"]["labels"]
    assert f"kubectl label node NODE {LABEL}=true" in (ROOT / "docs/how-to/site.md").read_text()


def test_the_links_of_the_node_are_measured() -> None:
    assert (_pod()["hostNetwork"], _pod()["dnsPolicy"]) == (True, "ClusterFirstWithHostNet")
    ports = {one["containerPort"]: one["hostPort"] for one in _container()["ports"]}
    assert ports == {port: port for port in (443, 861, 862, 5201)}


def test_the_privileges_are_those_that_the_comment_explains() -> None:
    assert _container()["securityContext"] == {"privileged": True}
    volumes = {one["name"]: one for one in _pod()["volumes"]}
    assert [one["hostPath"]["path"] for one in volumes.values() if "hostPath" in one] == ["/sys/fs/cgroup"]
    assert {one["name"] for one in _container()["volumeMounts"]} == volumes.keys()
    assert (_pod()["automountServiceAccountToken"], "hostPID" in _pod()) == (False, False)


def test_the_mesh_names_only_what_it_has() -> None:
    mesh = json.loads((PERFSONAR / "mesh.json").read_text())
    assert {one["name"] for group in mesh["groups"].values() for one in group["addresses"]} == set(mesh["addresses"])
    assert {task["group"] for task in mesh["tasks"].values()} == set(mesh["groups"])
    assert {task["test"] for task in mesh["tasks"].values()} == set(mesh["tests"])
    assert {task["schedule"] for task in mesh["tasks"].values() if "schedule" in task} == set(mesh["schedules"])
    assert {name for task in mesh["tasks"].values() for name in task["archives"]} == set(mesh["archives"])
    (mount,) = [one for one in _container()["volumeMounts"] if one["name"] == "mesh"]
    assert mount["mountPath"] == "/etc/perfsonar/psconfig/pscheduler.d/netgang.json"
