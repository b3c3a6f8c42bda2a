"""`netgang scores`, and what check-config says of nodes and endpoints: for people, for machines, and mistakes."""

import json
from http import HTTPStatus
from pathlib import Path
from typing import Any

import msgspec
import pytest

from extender.api.documents.link import link_document
from extender.api.problems import problem_body
from scoring.ids import NodeName
from scoring.model.policy import ScorePolicy
from tests.builders import mesh, node, snapshot
from tests.cli.world import as_json, refused, run, served, shown
from tests.extender.scheduling.world import node_json
from tests.fakes.raw_http import RawServer, ok

PATH = "/v1/network/n1/n2"
ASKED = ("scores", "--from", "n1", "--to", "n2", "--url")


def document() -> dict[str, Any]:
    """What a running netgang says of the link from n1 to n2, as JSON has it."""
    names = ["n1", "n2", "n3"]
    found = mesh(names, bad={"n2": {"loss_ratio": 0.002, "throughput_bps": 50e6}}, now_s=90.0)
    state = snapshot([node(name) for name in names], network=found)
    made = link_document(state, NodeName("n1"), NodeName("n2"), ScorePolicy())
    answer = json.loads(msgspec.json.encode(made))
    assert isinstance(answer, dict)
    return answer


def test_for_people() -> None:
    """A row for each part: both directions with value, age and source; what counts, and its points."""
    with RawServer({PATH: served(document())}) as server:
        lines = shown(*ASKED, server.url)
    assert "│ loss │ 0.2 % │ 0.2 % │ 0.2 % │ both directions │ 18.00 │" in lines
    assert "│ delay │ 1 ms │ 1 ms │ 1 ms │ both directions │ 39.00 │" in lines
    assert "│ throughput │ 50 Mbit/s │ 50 Mbit/s │ 50 Mbit/s │ both directions │ 20.00 │" in lines
    assert "│ sum │ │ │ │ │ 77.00 │" in lines
    assert "loss is measured at n1 → n2" in lines
    assert "compared among 3 nodes; full points for 100 Mbit/s" in lines
    assert any("90 s old" in line for line in lines)


def test_for_people_when_values_are_too_old() -> None:
    """What is past the hard TTL is shown with its age, and as the most that the link is worth."""
    names = ["n1", "n2"]
    state = snapshot([node(name) for name in names], network=mesh(names, loss_ratio=0.01, now_s=1e6))
    made = msgspec.json.encode(link_document(state, NodeName("n1"), NodeName("n2"), ScorePolicy()))
    with RawServer({PATH: ok(made)}) as server:
        lines = shown(*ASKED, server.url)
    assert "│ loss │ 1 % │ 1 % │ – │ nothing │ 9.00 │" in lines
    assert "│ │ 278 h old │ 278 h old │ as 1 % at best │ │ │" in lines
    assert "some value is old: its points fade; too old, it only says what the link is worth at best" in lines


def test_for_people_when_nothing_is_known() -> None:
    """Dashes, and points all the same: what is unknown is neutral less a penalty."""
    state = snapshot([node("n1"), node("n2")])
    made = msgspec.json.encode(link_document(state, NodeName("n1"), NodeName("n2"), ScorePolicy()))
    with RawServer({PATH: ok(made)}) as server:
        lines = shown(*ASKED, server.url)
    assert "│ loss │ – │ – │ – │ nothing │ 9.00 │" in lines
    assert "loss is measured at no endpoint → no endpoint" in lines


def test_what_a_server_says_is_only_text() -> None:
    """Markup and control characters in names of endpoints and sources are shown, not carried out."""
    said = document()
    said["metrics"]["loss"]["endpoints"] = ["[red]x", "y\x1b[2J"]
    said["metrics"]["loss"]["there"] |= {"origin": "[/b]", "age_s": 17_013.0}
    with RawServer({PATH: served(said)}) as server:
        result = run("scores", "--from", "n1", "--to", "n2", "--url", server.url)
    assert "loss is measured at [red]x → y�[2J" in result.stdout
    assert "5 h old, [/b]" in result.stdout


def test_for_machines() -> None:
    """The document as it came."""
    with RawServer({PATH: served(document())}) as server:
        assert as_json(*ASKED, f"{server.url}/") == document()


def test_a_node_that_does_not_exist() -> None:
    """Netgang says which, and it is wrong use."""
    answer = ok(problem_body(HTTPStatus.NOT_FOUND, "n1 or n2 is no node that is known"), status=404)
    with RawServer({PATH: answer}) as server:
        assert refused(*ASKED, server.url) == "error: n1 or n2 is no node that is known\n"


# -- check-config -----------------------------------------------------------------------------------------------------


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    """A cluster of four nodes, a mesh of four endpoints, and settings with a rule."""
    nodes = [node_json(name) for name in ("node1", "node2", "other", "ps1")]
    ends = ["ps-1", "ps-2", "ps1.a.example", "ps1.b.example"]
    links = [{"source": a, "target": b, "loss_ratio": 0.0, "delay_ms": 1.0} for a in ends for b in ends if a != b]
    content = {
        "cluster": {"kind": "List", "items": nodes},
        "mesh": links,
        "settings": {"network": {"rules": [{"pattern": r"node(\d)", "endpoint": r"ps-\1", "metrics": ["loss"]}]}},
    }
    paths = {name: tmp_path / f"{name}.json" for name in content}
    for name, path in paths.items():
        path.write_text(json.dumps(content[name]))
    return paths


def test_which_node_is_measured_where(files: dict[str, Path]) -> None:
    """Each node per metric; doubts and endpoints without a node by name."""
    found = as_json("check-config", files["settings"], "--cluster", files["cluster"], "--network", files["mesh"])
    assert {name: ends["loss"] for name, ends in found["nodes"].items()} == {
        "node1": "ps-1",
        "node2": "ps-2",
        "other": None,
        "ps1": None,
    }
    assert found["nodes"]["node1"] == {"loss": "ps-1", "delay": None, "throughput": None}
    assert found["counts"]["loss"] == {"mapped": 2, "unmapped": 1, "ambiguous": 1}
    assert found["problems"] == [
        f"node ps1, {metric}: several endpoints have its host name: ps1.a.example, ps1.b.example"
        for metric in ("loss", "delay")
    ]
    assert found["unused"] == ["ps1.a.example", "ps1.b.example"]


def test_the_same_for_people(files: dict[str, Path]) -> None:
    """A table with the totals, and the doubts as sentences."""
    lines = shown("check-config", files["settings"], "--cluster", files["cluster"], "--network", files["mesh"])
    assert "│ node1 │ ps-1 │ – │ – │" in lines
    assert "│ nodes with an endpoint │ 2 of 4 │ 0 of 4 │ 0 of 4 │" in lines
    assert "no node is measured at: ps1.a.example, ps1.b.example" in lines


def test_a_cluster_needs_a_mesh(files: dict[str, Path]) -> None:
    """And a mesh a cluster; files that cannot be read are named."""
    for arguments in (("--cluster", files["cluster"]), ("--network", files["mesh"])):
        assert refused("check-config", *arguments) == "error: --cluster and --network belong together\n"
    assert "/no/such.json" in refused("check-config", "--cluster", files["cluster"], "--network", "/no/such.json")
