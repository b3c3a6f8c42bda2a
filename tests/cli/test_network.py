"""`netgang network`: what it prints for people and machines, and how it refuses."""

import json
from http import HTTPStatus
from pathlib import Path
from typing import Any

import msgspec
import pytest

from extender.api.network import link_document
from extender.network.meshfile import read_mesh
from scoring import NodeName
from scoring.model.policy import ScorePolicy
from scoring.network.matrix import NetworkMatrix
from tests.builders import mesh, node, snapshot
from tests.cli.world import as_json, problem, refused, run, shown

ALL = "/v1/network?limit=100"

PAIRS: dict[str, Any] = {
    "zone": None,
    "nodes": ["n1", "n2"],
    "of": 2,
    "loss_ratio": [[None, 0.5], [None, None]],
    "delay_ms": [[None, 3.0], [None, None]],
    "throughput_bps": [[None, None], [1e9, None]],
    "loss_age_s": [[None, 10.0], [None, None]],
    "delay_age_s": [[None, 20.0], [None, None]],
    "throughput_age_s": [[None, None], [5.0, None]],
}


def netgang(pairs: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    source = {"name": "maddash", "error": "gone", "problems": ["no grid gives a value of delay"]}
    status: dict[str, Any] = {"version": 1, "sources": [source], "pairs": {}}
    status |= dict.fromkeys(("published_at_s", "mapping", "crash"))
    metrics = {"loss": {"known_pairs": 1, "mapped_nodes": 2, "nodes": 2}}
    head = {"version": 1, "evaluated_at_s": 0.0, "metrics": metrics, "zones": {"A": 2}}
    return {**head, "pairs": pairs or PAIRS, "status": status, **more}


def test_links_one_by_one(tmp_path: Path) -> None:
    """The JSON is a mesh for `netgang plan --network`."""
    result = run("network", "--json", told={ALL: netgang()})
    fields = ("source", "target", "loss_ratio", "delay_ms", "throughput_bps", "age_s")
    assert json.loads(result.stdout) == [
        dict(zip(fields, ("n1", "n2", 0.5, 3.0, None, 20.0), strict=True)),
        dict(zip(fields, ("n2", "n1", None, None, 1e9, 5.0), strict=True)),
    ]
    path = tmp_path / "mesh.json"
    path.write_text(result.stdout)
    read = {(one.source, one.target, one.metric, one.value) for one in read_mesh(path, now_s=0.0).measurements}
    assert read == {("n1", "n2", "loss", 0.5), ("n1", "n2", "delay", 3.0), ("n2", "n1", "throughput", 1e9)}
    assert result.stderr.splitlines() == ["note: gone", "note: no grid gives a value of delay"]


NOBODY: dict[str, Any] = {"count": 0, "since_s": None, "nodes": [], "zone": None}
SILENT = {"count": 17, "since_s": 1_800_000_000.0, "nodes": ["n1", "n2"], "zone": "B"}
WORST: dict[str, Any] = {"worst": 0.016, "source": "n7", "target": "n1"}
SEEN: dict[str, Any] = {
    "metrics": {"loss": {"known_pairs": 630, "mapped_nodes": 36, "nodes": 38}},
    "degraded": [{"kind": "node", "name": "n7", "metric": "loss", "bad": 16, "of": 16, **WORST}],
    "probe": {"reporting": 19, "silent": SILENT, "absent": NOBODY, "unanswered": NOBODY},
}
HEALTH = """\
loss: 630 pairs measured; 36 of 38 nodes have an endpoint
node n7: loss up to 1.6 % (n7 → n1) on 16 of 16 links
probe: 19 of 36 agents report and get answers
probe: 17 silent since 2027-01-15 08:00:00 UTC: n1, n2 and 15 more; all in zone B
"""


def test_what_is_measured_and_what_is_bad() -> None:
    text = run("network", told={ALL: netgang(**SEEN)}).stdout
    assert [line.rstrip() for line in text.splitlines()] == HEALTH.splitlines()


MAPPED: dict[str, Any] = {
    "nodes": {}, "unmapped": {}, "ambiguous": [], "unknown": ["node n2: rule 0 names 'x'"], "unused": ["ps.b"],
    "rules": ["{zone: '(.+)', endpoint: 'ps.\\1'}"],
    "left_out": {"unmapped": {}, "ambiguous": 0, "unknown": 0, "unused": 3},
}  # fmt: skip
ENDPOINTS: dict[str, Any] = {"n1": ["ps.a", "ps.a", None], "n2": [None, None, None]}


def test_where_nodes_are_measured_and_the_rule_for_what_is_no_node_s() -> None:
    told = netgang(endpoints=ENDPOINTS)
    told["status"] |= {"sources": [], "mapping": MAPPED}
    assert shown("network", "map", told={ALL: told}) == [
        "NODE LOSS DELAY THROUGHPUT",
        "n1 ps.a ps.a –",
        "n2 – – –",
        "node n2: rule 0 names 'x'",
        "no node is measured at ps.b; add to network.mapping: {zone: '(.+)', endpoint: 'ps.\\1'}",
        "and 3 more",
    ]
    assert json.loads(run("network", "map", "--json", told={ALL: told}).stdout) == ENDPOINTS


def test_nothing_is_measured() -> None:
    none = [[None, None], [None, None]]
    empty = PAIRS | {name: none for name in PAIRS if name.endswith(("ratio", "ms", "bps", "age_s"))} | {"nodes": []}
    result = run("network", told={ALL: netgang(empty, metrics={})})
    assert (result.exit_code, result.stdout.strip()) == (1, "")
    assert "nothing there measures packet loss, delay or throughput" in result.stderr


def test_a_part_of_a_large_cluster() -> None:
    result = run("network", "--zone", "A", "--json", told={f"{ALL}&zone=A": netgang(PAIRS | {"of": 5000})})
    assert result.exit_code == 0
    assert "2 of 5000 nodes; see --zone" in result.stderr


# -- two nodes --------------------------------------------------------------------------------------------------------

PATH = "/v1/network/n1/n2"
ASKED = ("network", "n1", "n2")


def document() -> dict[str, Any]:
    names = ["n1", "n2", "n3"]
    found = mesh(names, bad={"n2": {"loss_ratio": 0.002, "throughput_bps": 50e6}}, now_s=90.0)
    state = snapshot([node(name) for name in names], network=found)
    made = link_document(state, NodeName("n1"), NodeName("n2"), ScorePolicy())
    return json.loads(msgspec.json.encode(made))


def test_a_link_for_people() -> None:
    lines = shown(*ASKED, told={PATH: document()})
    assert lines[:5] == [
        "METRIC n1→n2 OLD SOURCE n2→n1 OLD SOURCE COUNTS BASIS POINTS",
        "loss 0.2 % 90 s – 0.2 % 90 s – 0.2 % both directions 18.00",
        "delay 1 ms 90 s – 1 ms 90 s – 1 ms both directions 39.00",
        "throughput 50 Mbit/s 90 s – 50 Mbit/s 90 s – 50 Mbit/s both directions 20.00",
        "sum – – – – – – – – 77.00",
    ]
    assert "loss is measured at n1 → n2" in lines
    assert "compared among 3 nodes; full points for 100 Mbit/s" in lines
    assert as_json(*ASKED, told={PATH: document()}) == document()


OLD = mesh(["n1", "n2"], loss_ratio=0.01, now_s=1e6)
RARE: dict[str, tuple[NetworkMatrix | None, tuple[str, ...]]] = {  # case: (the network, lines)
    "too old": (OLD, (
        "loss 1 % 11 d 13 h – 1 % 11 d 13 h – at best 1 % nothing 9.00",
        "some value is old: its points fade; too old, it only says what the link is worth at best",
    )),
    "not known": (None, ("loss – – – – – – – nothing 9.00", "loss is measured at no endpoint → no endpoint")),
}  # fmt: skip


@pytest.mark.parametrize(("network", "lines"), RARE.values(), ids=RARE)
def test_a_link_whose_values_do_not_count(network: NetworkMatrix | None, lines: tuple[str, ...]) -> None:
    state = snapshot([node("n1"), node("n2")], network=network)
    made = link_document(state, NodeName("n1"), NodeName("n2"), ScorePolicy())
    assert set(lines) <= set(shown(*ASKED, told={PATH: msgspec.to_builtins(made)}))


def test_what_a_server_says_is_only_text() -> None:
    said = document()
    said["metrics"]["loss"]["endpoints"] = ["[red]x", "y\x1b[2J"]
    said["metrics"]["loss"]["there"] |= {"origin": "[/b]", "age_s": 17_013.0}
    lines = shown(*ASKED, told={PATH: said})
    assert "loss is measured at [red]x → y�[2J" in lines
    assert "0.2 % 4 h 43 min [/b]" in lines[1]


NO_NODE = problem(HTTPStatus.NOT_FOUND, "no node n2 is known; did you mean n3?")
MISTAKES: dict[str, tuple[tuple[str, ...], dict[str, Any], str]] = {  # case: (arguments, what netgang answers, said)
    "one node": (("n1",), {}, "error: name two nodes: netgang network NODE NODE; or netgang network map\n"),
    "no such node": (("n1", "n2"), {PATH: NO_NODE}, "error: no node n2 is known; did you mean n3?\n"),
    "no such zone": (("--zone", "X"), {f"{ALL}&zone=X": netgang()}, "--zone 'X': the cluster's zones are A"),
}


@pytest.mark.parametrize(("arguments", "told", "said"), MISTAKES.values(), ids=MISTAKES)
def test_mistakes_are_sentences(arguments: tuple[str, ...], told: dict[str, Any], said: str) -> None:
    assert said in refused("network", *arguments, told=told)
