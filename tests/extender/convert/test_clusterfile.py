"""A cluster in a file: what kubectl prints is read, what decides nothing is skipped, what is wrong is named."""

import json
from pathlib import Path
from typing import Any

import pytest

from extender.convert import clusterfile
from extender.convert.clusterfile import ClusterFile, parse_cluster, read_cluster
from extender.errors import ConfigError
from tests.extender.scheduling.world import node_json, pod_json

ZONE = "topology.kubernetes.io/zone"


def parsed(document: Any, *, zone_label: str = ZONE) -> ClusterFile:
    return parse_cluster(json.dumps(document).encode(), name="c.json", zone_label=zone_label)


def test_a_list_is_read_in_its_order() -> None:
    group = {"kind": "PodGroup", "metadata": {"name": "g"}, "spec": {"minMember": 2}}
    other = {"kind": "Service", "spec": 7}
    items = [pod_json("p2"), other, node_json("n2"), group, {}, pod_json("p1"), node_json("n1")]
    saved = parsed({"kind": "List", "apiVersion": "v1", "items": items})
    assert [node.name for node in saved.nodes] == ["n2", "n1"]
    assert [pod.name for pod in saved.pods] == ["p2", "p1"]
    assert [(one.key, one.min_member) for one in saved.pod_groups] == [("default/g", 2)]


def test_both_kinds_of_list_and_single_objects() -> None:
    """`kubectl get pods,nodes` prints a List, the API server a PodList; a pod's JSON is kept as it came."""
    pod = pod_json("p", cpu="1.50")
    for document in (pod, *({"kind": kind, "items": [pod]} for kind in ("List", "PodList"))):
        saved = parsed(document)
        assert ([one.name for one in saved.pods], json.loads(saved.pods_json["default/p"])) == (["p"], pod)


def test_the_zone_label_is_the_settings() -> None:
    node = node_json("n", zone="z")
    node["metadata"]["labels"]["rack"] = "r7"
    assert parsed(node, zone_label="rack").nodes[0].zone == "r7"


@pytest.mark.parametrize("body", [b"", b"\xff\xfe", b"[" * 100_000, b"null", b"3", b'"List"', b'{"items": 3}'])
def test_what_is_no_list_is_refused(body: bytes) -> None:
    with pytest.raises(ConfigError, match=r"^c\.json: not a JSON List as `kubectl get nodes,pods -A -o json` prints"):
        parse_cluster(body, name="c.json", zone_label=ZONE)


def test_the_item_that_is_wrong_is_counted_from_0() -> None:
    """As in jq's .items[2]."""
    with pytest.raises(ConfigError, match=r"^c\.json: items\[2\]: Pod default/bad: .*containers\[0\].*: cpu: "):
        parsed({"kind": "List", "items": [node_json("n"), pod_json("p"), pod_json("bad", cpu="x")]})


def test_a_huge_file_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clusterfile, "_LARGEST_BYTES", 3)
    path = tmp_path / "c.json"
    path.write_text("[[[]]]")
    with pytest.raises(ConfigError, match="larger than 1 GiB"):
        read_cluster(path, zone_label=ZONE)
