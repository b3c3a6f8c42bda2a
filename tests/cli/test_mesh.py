"""`netgang mesh`: the paper's test bed as a file and from an API server, and mistakes as sentences."""

import json
from pathlib import Path

import pytest
import yaml

from tests.cli.world import CLUSTER, refused, run
from tests.contract.manifests.psconfig_rules import problems
from tests.fakes.raw_http import RawServer, ok

ARCHIVE = ("--archive", "https://archive.example.org")
NODE = {"metadata": {"name": "n"}, "status": {"addresses": [{"type": "InternalIP", "address": "192.0.2.1"}]}}


def written(path: Path, document: object) -> Path:
    path.write_text(json.dumps(document))
    return path


def named(name: str, address: str, **metadata: object) -> dict[str, object]:
    return {
        "kind": "Node",
        "metadata": {"name": name, **metadata},
        "status": {"addresses": [{"type": "InternalIP", "address": address}]},
    }


def kubeconfig(folder: Path, url: str) -> Path:
    document = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "users": [{"name": "u", "user": {}}],
    }
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump(document))
    return path


def test_psconfig_of_the_paper_test_bed() -> None:
    result = run("mesh", "psconfig", "--cluster", CLUSTER, *ARCHIVE)
    assert (result.exit_code, result.stderr) == (0, "")
    template = json.loads(result.stdout)
    assert problems(template) == []
    assert {key: one["address"] for key, one in template["addresses"].items()} == {
        f"node{number}": f"192.0.2.{number}" for number in range(1, 37)
    }
    sizes = {name: len(group["addresses"]) for name, group in template["groups"].items()}
    zones = {f"{kind}-zone-{zone}": 9 for kind in ("latency", "throughput") for zone in "ABCD"}
    assert sizes == zones | {"latency-gateways": 4, "throughput-gateways": 4}
    first = [one["name"] for one in template["groups"]["latency-gateways"]["addresses"]]
    assert first == ["node1", "node10", "node19", "node28"]


PRINTED = {"psconfig": ("mesh", "psconfig"), "maddash": ("mesh", "maddash", *ARCHIVE)}


@pytest.mark.parametrize("words", PRINTED.values(), ids=PRINTED)
def test_forms_of_a_mesh(words: tuple[str, ...]) -> None:
    """Either configuration as JSON or YAML; and its ends, one line each, as all lists."""
    given = (*words, "--cluster", CLUSTER)
    as_it_is = yaml.safe_load(run(*given).stdout)
    assert json.loads(run(*given, "-o", "json").stdout) == json.loads(run(*given, "--json").stdout) == as_it_is
    assert yaml.safe_load(run(*given, "-o", "yaml").stdout) == as_it_is
    lines = run(*given, "-o", "wide", columns=40).stdout.splitlines()
    assert lines[0].split() == ["END", "ZONE", "ADDRESS", "GATEWAY", "DIRECTIONS", "TESTS"]
    assert lines[1].split() == ["node1", "A", "192.0.2.1", "yes", "44", "latency,", "throughput"]
    assert lines[2].split()[3:5] == ["–", "32"]
    bare = run(*given, "-o", "wide", "--no-headers").stdout.splitlines()
    assert [one.split() for one in bare] == [one.split() for one in lines[1:]]
    assert len(lines) == 37
    assert set(run(*given, "-o", "name").stdout.split()) == {f"node{number}" for number in range(1, 37)}


def test_maddash_of_the_paper_test_bed() -> None:
    result = run("mesh", "maddash", "--snapshot", CLUSTER, *ARCHIVE, "--name", "KISTI", "--plugins", "/opt/plugins/")
    assert (result.exit_code, result.stderr) == (0, "")
    config = yaml.safe_load(result.stdout)
    places = [*(f"zone {zone}" for zone in "ABCD"), "between zones"]
    assert {grid["name"] for grid in config["grids"]} == {
        f"KISTI - {place} - {metric}" for place in places for metric in ("Loss", "Delay", "Throughput")
    }
    assert {one["label"]: one["id"] for one in config["groupMembers"]}["node36"] == "192.0.2.36"
    assert config["checks"]["loss"]["params"]["command"].startswith("/opt/plugins/check_loss.pl ")


def test_nodes_from_standard_input_and_settings(tmp_path: Path) -> None:
    settings = {
        "zone_label": "room",
        "endpoint_annotation": "x.io/ps",
        "network": {
            "mapping": {"n1": "ps-table.example.org"},
            "rules": [{"pattern": r"n(\d)", "endpoint": r"ps-\1.example.org"}],
        },
    }
    nodes = [
        named("n1", "192.0.2.1", labels={"room": "R"}),
        named("n2", "192.0.2.2", labels={"room": "R"}, annotations={"x.io/ps": "ps-note.example.org"}),
        named("n3", "192.0.2.3", labels={"room": "R"}),
    ]
    config = written(tmp_path / "settings.json", settings)
    body = json.dumps({"kind": "NodeList", "items": nodes}).encode()
    result = run("mesh", "psconfig", "--cluster", "-", "--config", config, given=body)
    template = json.loads(result.stdout)
    assert {key: one["address"] for key, one in template["addresses"].items()} == {
        "n1": "ps-table.example.org",
        "n2": "ps-note.example.org",
        "n3": "ps-3.example.org",
    }
    assert list(template["groups"]) == ["latency-zone-R", "throughput-zone-R"]


def test_nodes_from_the_api_server(tmp_path: Path) -> None:
    """Two pages of a list; an object in it may have no kind, as API servers send them."""
    first = {"metadata": {"resourceVersion": "7", "continue": "next"}, "items": [named("n1", "192.0.2.7")]}
    second = {"metadata": {"resourceVersion": "7"}, "items": [NODE]}
    answers = {
        "/api/v1/nodes?limit=500": ok(json.dumps(first).encode()),
        "/api/v1/nodes?limit=500&continue=next": ok(json.dumps(second).encode()),
    }
    with RawServer(answers) as server:
        result = run("mesh", "psconfig", "--kubeconfig", kubeconfig(tmp_path, server.url))
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["addresses"].keys() == {"n", "n1"}


def test_an_api_server_that_refuses(tmp_path: Path) -> None:
    body = json.dumps({"kind": "Status", "message": "nodes is forbidden"}).encode()
    with RawServer({"/api/v1/nodes?limit=500": ok(body, status=403)}) as server:
        said = refused("mesh", "psconfig", "--kubeconfig", kubeconfig(tmp_path, server.url), code=1)
    assert "nodes is forbidden" in said


def test_notes_are_on_standard_error() -> None:
    result = run(
        "mesh", "psconfig", "--cluster", CLUSTER, "--throughput-interval-s", "600", "--throughput-duration-s", "30"
    )
    assert result.exit_code == 0
    assert result.stderr == (
        "note: throughput tests do not fit into 600 s on 36 of 36 hosts; node1 needs 880 s for one round\n"
    )
    assert json.loads(result.stdout)["schedules"]["throughput"]["repeat"] == "PT600S"


MISTAKES = {  # case: (arguments, part of the sentence)
    "no nodes named": (["psconfig"], "--cluster FILE"),
    "both": (["psconfig", "--cluster", CLUSTER, "--kubeconfig", CLUSTER], "go not together"),
    "no such file": (["psconfig", "--cluster", "nowhere.json"], "nowhere.json: No such file"),
    "not a cluster": (["psconfig", "--cluster", __file__], "test_mesh.py: not JSON"),
    "no archive": (["maddash", "--cluster", CLUSTER], "--archive"),
    "plugins": (["maddash", "--cluster", CLUSTER, *ARCHIVE, "--plugins", "/a b"], "splits commands at blanks"),
    "test": (["psconfig", "--cluster", CLUSTER, "--latency-test", "trace"], "'trace' is not one of"),
    "settings": (["psconfig", "--cluster", CLUSTER, "--config", "nowhere.yaml"], "nowhere.yaml"),
}


@pytest.mark.parametrize(("arguments", "sentence"), MISTAKES.values(), ids=MISTAKES)
def test_mistakes(arguments: list[object], sentence: str) -> None:
    assert sentence in refused("mesh", *arguments)
