"""`netgang network show` and `netgang scores`: what they print for people and machines, and how they refuse."""

import json
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any

import msgspec
import pytest
from rich.console import Console

from cli.rendering.links import draw
from extender.api.documents.link import link_document
from extender.api.problems import problem_body
from extender.network.file.mesh import read_mesh
from extender.network.survey import Link, Survey
from scoring.ids import NodeName
from scoring.model.policy import ScorePolicy
from scoring.network.matrix import NetworkMatrix
from tests.builders import mesh, node, snapshot
from tests.cli.world import as_json, refused, run, served, shown
from tests.extender.network import recorded
from tests.fakes.maddash_server import Fault, MaddashServer
from tests.fakes.mesh import full_mesh, paper_mesh
from tests.fakes.network_source import measurements
from tests.fakes.raw_http import CERTIFICATE, RawServer, ok

NOW_S = 1_700_000_000.0
FIELDS = ["source", "target", "loss_ratio", "delay_ms", "throughput_bps", "age_s", "grid"]


def links(*arguments: object) -> list[dict[str, Any]]:
    return as_json("network", "show", *arguments)


@pytest.fixture
def paper() -> Iterator[MaddashServer]:
    with MaddashServer(paper_mesh(), checked_at_s=lambda: NOW_S) as server:
        yield server


def test_json_of_the_paper_mesh(paper: MaddashServer, tmp_path: Path) -> None:
    found = links("--maddash", paper.url)
    assert [list(one) for one in found] == [FIELDS] * 1260
    assert {one["grid"] for one in found} == {"Loss, Delay, Throughput"}
    assert min(one["age_s"] for one in found) > 0.0
    path = tmp_path / "mesh.json"
    path.write_text(json.dumps(found))
    read = read_mesh(path, now_s=NOW_S + 1e9).measurements
    wanted = measurements(paper_mesh(), measured_at_s=0.0)
    assert {(m.source, m.target, m.metric, m.value) for m in read} == {
        (m.source, m.target, m.metric, m.value) for m in wanted
    }


def test_a_server_that_has_just_started() -> None:
    listed = b'{"grids":[{"name":"Loss"}]}'
    answers = {"/maddash/grids": ok(listed), "/maddash/grids/Loss": ok(recorded.body("grid-loss-startup.json"))}
    with RawServer(answers) as server:
        found = links("--maddash", server.url)
    assert len(found) == 29
    assert {(one["loss_ratio"], one["age_s"], one["grid"]) for one in found} == {(None, None, "Loss")}


def test_other_checks_are_no_links() -> None:
    answers = {
        "/maddash/grids": ok(b'{"grids":[{"name":"Random"}]}'),
        "/maddash/grids/Random": ok(recorded.body("grid-random.json")),
    }
    with RawServer(answers) as server:
        result = run("network", "show", "--maddash", server.url, "--json")
    assert (result.exit_code, json.loads(result.stdout)) == (1, [])
    assert "nothing there measures packet loss, delay or throughput" in result.stderr


def test_one_failing_grid_is_a_note(paper: MaddashServer) -> None:
    paper.faults["Delay"] = Fault.SERVER_ERROR
    result = run("network", "show", "--maddash", paper.url, "--json")
    assert result.exit_code == 0
    assert {one["delay_ms"] for one in json.loads(result.stdout)} == {None}
    assert "note: grid 'Delay' failed" in result.stderr


def test_weird_names_are_shown_and_do_no_harm() -> None:
    ends = ["[red]a[/red]", "b\x1b[2J", "c d+%/", "ü終", "2001:db8::1"]
    with MaddashServer(full_mesh(*ends), checked_at_s=lambda: NOW_S, prefix="Lab 100% A+B/") as server:
        assert {one["source"] for one in links("--maddash", server.url)} == set(ends)
        result = run("network", "show", "--maddash", server.url)
    assert result.exit_code == 0
    assert "\x1b[2J" not in result.stdout
    for text in ("[red]a[/red]", "b�[2J", "c d+%/", "ü終", "2001:db8::1"):
        assert text in result.stdout


REFUSALS = {  # case: (arguments, exit code, what is said)
    "no server there": (("--maddash", "http://127.0.0.1:9"), 1, "http://127.0.0.1:9/maddash/grids: "),
    "no address": (("--maddash", "maddash.example.org"), 2, "accepted is http:// or https://"),
    "no such CA file": (("--maddash", "https://127.0.0.1", "--ca-file", "/no/such.pem"), 2, "ca_file /no/such.pem"),
    "no such CA file of a running netgang": (("--ca-file", "x.pem"), 2, "ca_file x.pem"),
    "zone of MaDDash": (("--maddash", "http://127.0.0.1", "--zone", "A"), 2, "--zone is for a running netgang"),
    "both": (("--maddash", "http://127.0.0.1", "--url", "http://127.0.0.1"), 2, "--url is for a running netgang"),
    "no netgang there": (("--url", "http://127.0.0.1:9"), 1, "does netgang run there?"),
    "no address of netgang": (("--url", "localhost"), 2, "accepted: http://HOST:PORT"),
    "limit": (("--limit", "0"), 2, "--limit"),
}


@pytest.mark.parametrize(("arguments", "code", "text"), REFUSALS.values(), ids=REFUSALS)
def test_refusals(arguments: tuple[str, ...], code: int, text: str) -> None:
    assert text in refused("network", "show", *arguments, code=code)


def test_certificates() -> None:
    """A self-signed certificate is refused unless it is named or nothing is to be checked."""
    answers = {
        "/maddash/grids": ok(b'{"grids":[{"name":"Loss"}]}'),
        "/maddash/grids/Loss": ok(recorded.body("grid-loss.json")),
    }
    with RawServer(answers, tls=True) as server:
        assert "certificate verify failed" in refused("network", "show", "--maddash", server.url, code=1)
        assert len(links("--maddash", server.url, "--ca-file", CERTIFICATE)) == 29
        assert len(links("--maddash", server.url, "--insecure")) == 29


# -- the picture ------------------------------------------------------------------------------------------------------


def drawn(*found: Link, width: int = 200, colours: bool = False) -> str:
    console = Console(
        width=width, force_terminal=colours, color_system="256" if colours else None, legacy_windows=False
    )
    with console.capture() as capture:
        draw(console, Survey(found, {"a": "A, first"}, ()))
    return capture.get()


def test_the_papers_colours() -> None:
    """Loss: green up to 0.001 %, yellow above, pink from 0.1 % on; orange without a value."""
    text = drawn(
        Link("a", "b", loss_ratio=0.00001),
        Link("b", "a", loss_ratio=0.0000101),
        Link("a", "c", loss_ratio=0.001),
        Link("c", "a"),
        colours=True,
    )
    green, yellow, pink, orange = "\x1b[32m", "\x1b[33m", "\x1b[38;5;206m", "\x1b[38;5;208m"
    assert f"{green}  0.001\x1b" in text
    assert f"{yellow}0.00101\x1b" in text or f"{yellow}  0.001\x1b" in text
    assert f"{pink}    0.1\x1b" in text
    assert f"{orange}      ?\x1b" in text


def test_small_meshes_have_their_numbers() -> None:
    text = drawn(
        Link("a", "b", loss_ratio=0.0005, delay_ms=12.34, throughput_bps=9.4e9, age_s=60.0),
        Link("b", "a", loss_ratio=0.0, delay_ms=0.5, throughput_bps=1e9, age_s=7300.0),
    )
    lines = [line.rstrip() for line in text.splitlines()]
    assert lines[0] == "packet loss (%), from row to column"
    assert "1 a (A, first)           0.05" in lines
    assert "2 b                  0" in lines
    assert "throughput (Gbit/s), from row to column" in lines
    assert lines[-1] == "2 ends, 2 directions; with a value: loss 2, delay 2, throughput 2; checked 60 s to 2 h ago"


@pytest.mark.parametrize("width", [40, 60, 80, 120, 200])
@pytest.mark.parametrize("ends", [2, 9, 36, 100])
def test_matrices_fit_the_terminal(ends: int, width: int) -> None:
    names = [f"node{number}" for number in range(1, ends + 1)]
    found = [Link(a, b, loss_ratio=0.5) for a in names for b in names if a != b]
    text = drawn(*found, width=width)
    rows = [line for line in text.splitlines() if line.lstrip().split(" ")[0].isdigit() and "node" in line]
    cells = sum(line.count("#") for line in rows if "→" not in line) or sum(line.count("50") for line in rows)
    assert cells >= ends * (ends - 1)
    assert max(len(line) for line in rows if "→" not in line) <= width


# -- a running netgang ------------------------------------------------------------------------------------------------

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


def netgang(pairs: dict[str, Any] | None = None) -> bytes:
    source = {
        **{"name": "maddash", "error": "gone", "problems": ["no grid gives a value of delay"], "failures": 1},
        **{"last_success_s": None, "fetch_s": None, "measurements": 0, "endpoints": 0, "rejected": {}},
    }
    status: dict[str, Any] = {
        **{"version": 1, "published_at_s": None, "sources": [source], "mapping": None, "crash": None},
        **{"known_pairs": {}, "pairs": {}},
    }
    head = {"version": 1, "evaluated_at_s": 0.0, "endpoints": 2, "metrics": {}, "zones": {"A": 2}}
    return served({**head, "pairs": pairs or PAIRS, "status": status})


def test_a_running_netgang() -> None:
    with RawServer({"/v1/network?limit=40": netgang()}) as server:
        result = run("network", "show", "--url", server.url, "--json")
    assert json.loads(result.stdout) == [
        dict(zip(FIELDS, ("n1", "n2", 0.5, 3.0, None, 20.0, None), strict=True)),
        dict(zip(FIELDS, ("n2", "n1", None, None, 1e9, 5.0, None), strict=True)),
    ]
    with RawServer({"/v1/network?limit=40": netgang()}) as server:
        wide = run("network", "show", "--url", server.url, "-o", "wide").stdout.splitlines()
        names = run("network", "show", "--url", server.url, "-o", "name").stdout.splitlines()
    assert [" ".join(line.split()) for line in wide] == [
        "FROM TO LOSS DELAY THROUGHPUT AGE",
        "n1 n2 50 % 3 ms – 20 s",
        "n2 n1 – – 1000 Mbit/s 5 s",
    ]
    assert names == ["n1/n2", "n2/n1"]
    assert "note: gone" in result.stderr
    assert "note: no grid gives a value of delay" in result.stderr


NOBODY: dict[str, Any] = {"count": 0, "since_s": None, "nodes": [], "zone": None}
SEEN: dict[str, Any] = {
    "links": {
        "pairs": {"loss": {"measured": 630, "estimated": 600, "of": 1260, "oldest_age_s": 95.0}},
        "worst": [{"source": "n7", "target": "n1", "loss_ratio": 0.016, "delay_ms": 2.7}],
        "zones": [{"source": "A", "target": "B", "loss_ratio": 0.0, "delay_ms": 5.0}],
        "degraded": ["Node n7: links are bad since 2026-01-01 10:00:00 UTC"],
    },
    "probe": {
        "reporting": 19,
        "silent": {"count": 17, "since_s": 1_800_000_000.0, "nodes": ["n1", "n2"], "zone": "B"},
        "absent": NOBODY,
        "unanswered": NOBODY,
    },
}
SUMMARY = """\
loss: 630 of 1260 pairs measured, 600 estimated, the oldest 95 s ago
probe: 19 of 36 agents report and get answers
probe: 17 silent since 2027-01-15 08:00:00 UTC: n1, n2 and 15 more; all in zone B
Node n7: links are bad since 2026-01-01 10:00:00 UTC

worst links
FROM  TO  LOSS   DELAY
n7    n1  1.6 %  2.7 ms

medians between zones
FROM ZONE  TO ZONE  LOSS  DELAY
A          B        0 %   5 ms
"""


def test_what_is_said_of_all_links() -> None:
    answer = served(json.loads(netgang().partition(b"\r\n\r\n")[2]) | SEEN)
    with RawServer({"/v1/network?limit=40": answer}) as server:
        whole = run("network", "show", "--url", server.url).stdout
        alone = run("network", "show", "--url", server.url, "--summary").stdout
        document = json.loads(run("network", "show", "--url", server.url, "--summary", "--json").stdout)
    lines = [line.rstrip() for line in alone.splitlines()]
    assert lines == SUMMARY.splitlines()
    assert [line.rstrip() for line in whole.splitlines()][-len(lines) :] == lines
    assert document == SEEN
    assert "--summary" in refused("network", "show", "--maddash", "http://x", "--summary")


def test_a_part_of_a_large_cluster() -> None:
    with RawServer({"/v1/network?limit=7&zone=A": netgang(PAIRS | {"of": 5000})}) as server:
        result = run("network", "show", "--url", server.url, "--zone", "A", "--limit", 7)
    assert result.exit_code == 0
    assert "2 of 5000 nodes; see --zone and --limit" in result.stdout


def test_a_zone_that_does_not_exist() -> None:
    with RawServer({"/v1/network?limit=40&zone=X": netgang()}) as server:
        said = refused("network", "show", "--url", server.url, "--zone", "X")
    assert "--zone 'X': the cluster's zones are A" in said


# -- scores -----------------------------------------------------------------------------------------------------------

PATH = "/v1/network/n1/n2"
ASKED = ("scores", "n1", "n2", "--url")


def document() -> dict[str, Any]:
    names = ["n1", "n2", "n3"]
    found = mesh(names, bad={"n2": {"loss_ratio": 0.002, "throughput_bps": 50e6}}, now_s=90.0)
    state = snapshot([node(name) for name in names], network=found)
    made = link_document(state, NodeName("n1"), NodeName("n2"), ScorePolicy())
    return json.loads(msgspec.json.encode(made))


def test_scores_for_people() -> None:
    with RawServer({PATH: served(document())}) as server:
        lines = shown(*ASKED, server.url)
    assert lines[:5] == [
        "METRIC n1→n2 n2→n1 COUNTS BASIS POINTS",
        "loss 0.2 % 0.2 % 0.2 % both directions 18.00",
        "delay 1 ms 1 ms 1 ms both directions 39.00",
        "throughput 50 Mbit/s 50 Mbit/s 50 Mbit/s both directions 20.00",
        "sum – – – – 77.00",
    ]
    assert "loss is measured at n1 → n2" in lines
    assert "compared among 3 nodes; full points for 100 Mbit/s" in lines
    with RawServer({PATH: served(document())}) as server:
        wide = shown(*ASKED, server.url, "-o", "wide")
        bare = shown(*ASKED, server.url, "--no-headers")
        before = shown("scores", "--from", "n1", "--to", "n2", "--url", server.url)
    assert wide[0] == "METRIC n1→n2 OLD SOURCE n2→n1 OLD SOURCE COUNTS BASIS POINTS"
    assert "loss 0.2 % 90 s" in wide[1]
    assert (before, bare) == (lines, lines[1:5])


def shown_link(network: NetworkMatrix | None = None) -> list[str]:
    state = snapshot([node("n1"), node("n2")], network=network)
    made = msgspec.json.encode(link_document(state, NodeName("n1"), NodeName("n2"), ScorePolicy()))
    with RawServer({PATH: ok(made)}) as server:
        return shown(*ASKED, server.url)


def test_for_people_when_values_are_too_old() -> None:
    lines = shown_link(mesh(["n1", "n2"], loss_ratio=0.01, now_s=1e6))
    assert "loss 1 % 1 % at best 1 % nothing 9.00" in lines
    assert "some value is old: its points fade; too old, it only says what the link is worth at best" in lines


def test_for_people_when_nothing_is_known() -> None:
    lines = shown_link()
    assert "loss – – – nothing 9.00" in lines
    assert "loss is measured at no endpoint → no endpoint" in lines


def test_what_a_server_says_is_only_text() -> None:
    said = document()
    said["metrics"]["loss"]["endpoints"] = ["[red]x", "y\x1b[2J"]
    said["metrics"]["loss"]["there"] |= {"origin": "[/b]", "age_s": 17_013.0}
    with RawServer({PATH: served(said)}) as server:
        lines = shown(*ASKED, server.url, "-o", "wide")
    assert "loss is measured at [red]x → y�[2J" in lines
    assert "0.2 % 5 h [/b]" in lines[1]


def test_scores_for_machines() -> None:
    with RawServer({PATH: served(document())}) as server:
        assert as_json(*ASKED, f"{server.url}/") == document()


def test_two_nodes_are_asked_about() -> None:
    for names in ((), ("n1",), ("n1", "n2", "n3"), ("n1", "--from", "n1", "--to", "n2")):
        assert refused("scores", *names) == "error: name two nodes: netgang scores NODE NODE\n"


def test_a_node_that_does_not_exist() -> None:
    answer = ok(problem_body(HTTPStatus.NOT_FOUND, "n1 or n2 is no node that is known"), status=404)
    with RawServer({PATH: answer}) as server:
        assert refused(*ASKED, server.url) == "error: n1 or n2 is no node that is known\n"
