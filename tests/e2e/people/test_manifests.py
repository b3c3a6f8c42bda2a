"""Everything that the chart renders is tried out (`--dry-run=server`, strictly) on a real API server."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab.testbed.cluster import INSTALLED_IN, Cluster
from lab.testbed.errors import ControlPlaneError
from lab.testbed.objects import namespace
from lab.testbed.parts.helm import Helm, find_helm
from lab.testbed.programs.build import ensure_program
from tests.e2e.objects import kind

Object = dict[str, Any]
ON = {"enabled": True}
ALL: Mapping[str, Any] = {
    **dict.fromkeys(("gates", "tls", "reports", "monitoring"), ON),
    "probe": {**ON, "hostNetwork": True, "throughput": True},
    "scheduler": {"namespaces": True},
    "settings": {"elastic": ON},
    "nodeName": "cp",
    "nodeSelector": {"kubernetes.io/arch": "amd64"},
    "tolerations": [{"key": "infra", "operator": "Exists", "effect": "NoSchedule"}],
    "affinity": {"podAntiAffinity": {}},
    "priorityClassName": "system-node-critical",
    "podLabels": {"team": "infra"},
    "podAnnotations": {"example.org/scrape": "true"},
}
VALUES: Mapping[str, Mapping[str, Any]] = {
    "as it comes": {},
    "everything": ALL,
    "without the probe": {"probe": {"enabled": False}},
    "native": {"mode": "native", "monitoring": ON},
}
OPERATOR = {"PodMonitor", "PrometheusRule"}  # of Prometheus Operator, which this API server does not know


@pytest.fixture
def helm(tmp_path: Path) -> Helm:
    return Helm(find_helm() or ensure_program("helm"), tmp_path)


async def accepted(cluster: Cluster, objects: Sequence[Object]) -> list[str]:
    """The names that the API server would make of the objects; ControlPlaneError with its complaint."""
    async with cluster.api() as api:  # nothing can be tried out in a namespace that is not there
        await api.apply([one for one in objects if one["kind"] == "Namespace"] or [namespace(INSTALLED_IN)])
    text = yaml.safe_dump_all(objects)
    told = await cluster.kubectl("apply", "--dry-run=server", "--validate=strict", "-o", "name", "-f", "-", text=text)
    return told.split()


@pytest.mark.timeout(120, func_only=True)  # the fixture may have to build helm
async def test_what_the_chart_renders_is_accepted(cluster: Cluster, helm: Helm) -> None:
    left_out: set[str] = set()
    for values in VALUES.values():
        made = await asyncio.to_thread(helm.render, values, namespace=INSTALLED_IN, version=cluster.version)
        known = [one for one in made if one["kind"] not in OPERATOR]
        left_out |= {one["kind"] for one in made} & OPERATOR
        assert len(await accepted(cluster, known)) == len(known) > 15
    assert left_out == OPERATOR
    (wrong, *_) = [one for one in made if one["kind"] == "Deployment"]
    wrong["spec"]["template"]["spec"]["nodeSelektor"] = {}
    with pytest.raises(ControlPlaneError, match=r'unknown field "spec\.template\.spec\.nodeSelektor"'):
        await accepted(cluster, [wrong])


async def test_an_agent_is_admitted_where_pod_security_is_restricted(cluster: Cluster, helm: Helm) -> None:
    made = await asyncio.to_thread(helm.render, {}, namespace=INSTALLED_IN, version=cluster.version)
    (daemon_set,) = [one for one in made if one["kind"] == "DaemonSet"]
    template = daemon_set["spec"]["template"]
    place = namespace("restricted")
    place["metadata"]["labels"] = {"pod-security.kubernetes.io/enforce": "restricted"}
    account = kind("v1", "ServiceAccount", "netgang-probe", "restricted")
    async with cluster.api() as api:
        await api.apply([place, account])
    pod = {"apiVersion": "v1", "kind": "Pod", **template, "metadata": {"name": "agent", "namespace": "restricted"}}
    assert await accepted(cluster, [pod]) == ["pod/agent"]
    pod["spec"] = {**pod["spec"], "hostNetwork": True}
    with pytest.raises(ControlPlaneError, match="violates PodSecurity"):
        await accepted(cluster, [pod])
