"""`netgang explain` and `netgang what-if`: from files and from a running service, for people and for machines."""

import json
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path

import msgspec
import pytest

from cli.commands.changes import READERS, from_options
from cli.offline.plan import explain_file
from extender.api.problems import problem_body
from extender.errors import ConfigError
from extender.schemas.explain import ExplainedPod, PodPlace, PodScores
from extender.settings.settings import Settings
from tests.cli.world import CLUSTER, MESH, as_json, refused, run, served, shown, written
from tests.extender.scheduling.world import node_json, pod_json
from tests.fakes.raw_http import RawServer, ok

AT = ("--now", "2026-11-02T10:05:00Z")
SAVED = ("--cluster", CLUSTER, "--network", MESH, *AT)
JOB = "demo/tf-smoke-gpu"


def test_why_the_demo_job_waits() -> None:
    lines = shown("explain", JOB, *SAVED)
    assert lines[0] == f"{JOB}: waiting"
    assert "members: 5 exist, 5 needed; 5 waiting" in lines
    assert "A yes 9 3 of 5 3 of 5 – – 4 nvidia.com/gpu on node1, node2" in lines
    assert lines[-5:] == [
        "Waiting will not help: it would not fit into the empty cluster as it is.",
        "What would admit it, as the planner tried it:",
        "1. 4 more nvidia.com/gpu in zone A (on node1, node2)",
        f"2. the pods of {JOB} ask for nvidia.com/gpu 1 instead of 2",
        f"3. job {JOB} shrinks by 2",
    ]


def test_where_the_other_job_goes() -> None:
    lines = shown("explain", "demo/case1-0", *SAVED)
    assert lines[0].startswith("demo/case1: admitted in zone D, network score 98.")
    assert "planned for it: 6 places in zone D" in lines
    assert "case1-0 other planned node28 –" in lines


def test_the_document_is_the_services() -> None:
    document = as_json("explain", JOB, *SAVED)
    assert document["would_help"]["impossible"] is True
    assert document == as_json("explain", JOB, *SAVED)
    settings = Settings()
    again = explain_file(CLUSTER, MESH, settings, JOB, now_s=1_793_613_900.0)
    assert json.loads(msgspec.json.encode(again)) == document


def test_the_first_suggestion_lets_the_job_in() -> None:
    document = as_json("what-if", "--suggestion", JOB, *SAVED)
    assert [one["gang"] for one in document["admitted"]] == [JOB]
    lines = shown("what-if", "--suggestion", JOB, *SAVED)
    assert lines[0] == "Supposed: 4 more nvidia.com/gpu in zone A (on node1, node2)"
    assert lines[-1] == "then 2 gangs admitted, 0 waiting"


def test_many_changes_at_once() -> None:
    document = as_json(
        "what-if",
        *("--set", "queue.order=fifo"),
        *("--annotate", "demo/case1:zones=A"),
        *("--link", "node28:node29:delay=90"),
        *("--remove-node", "node28"),
        *("--add-nodes", "A:2:like=node1", "--add-nodes", "A:1:cpu=4,memory=8Gi"),
        *("--add-capacity", "A/node2:nvidia.com/gpu=2"),
        *("--shrink-job", f"{JOB}:1"),
        *("--add-pods", "team/new:2:cpu=1"),
        *("--remove-pod", "demo/case1-5"),
        *("--advance", "10m"),
        *SAVED,
    )
    assert document["gangs"] == {"admitted": 2, "waiting": 1}
    assert [one["gang"] for one in document["admitted"]] == [JOB, "team/new"]
    assert [(one["gang"], one["after"]["code"]) for one in document["refused"]] == [("demo/case1", "INCOMPLETE")]


def test_changes_from_a_file_and_from_standard_input(tmp_path: Path) -> None:
    changes = [{"change": "end-job", "job": "demo/case1"}]
    path = tmp_path / "changes.json"
    path.write_text(json.dumps({"changes": changes}))
    document = as_json("what-if", "--changes", path, *SAVED)
    assert [one["gang"] for one in document["other"]] == ["demo/case1"]
    assert as_json("what-if", "--changes", "-", *SAVED, given=json.dumps(changes)) == document


def test_nothing_would_be_different() -> None:
    assert shown("what-if", "--advance", "1s", *SAVED)[1] == "nothing would be different for any gang"


def test_plain_pods_of_a_file(tmp_path: Path) -> None:
    busy = pod_json("x", cpu="4", scheduler="default-scheduler", nodeName="n1")
    path = written(tmp_path, node_json("n1"), pod_json("g-0", gang="g"), busy)
    document = as_json("what-if", "--remove-pod", "default/x", "--cluster", path, "--now", "0")
    assert [one["gang"] for one in document["admitted"]] == ["default/g"]


NODES = {  # case: (words, options that say the same, the sentence)
    "cordon": (("cordon", "node28", "node29"), ("--cordon", "node28"), "node node28 cordoned"),
    "uncordon": (("uncordon", "node28"), ("--uncordon", "node28"), "node node28 uncordoned"),
    "taint": (("taint", "node28", "a=b:NoSchedule"), ("--taint", "node28:a=b:NoSchedule"), "tainted a=b:NoSchedule"),
}


@pytest.mark.parametrize(("words", "options", "said"), NODES.values(), ids=NODES)
def test_nodes_as_kubectl_changes_them(words: tuple[str, ...], options: tuple[str, ...], said: str) -> None:
    assert said in shown("what-if", *options, *SAVED)[0]
    assert as_json("what-if", *words, *SAVED)["gangs"]["waiting"] == 1


def test_a_cordoned_node_is_left_by_what_has_not_started() -> None:
    document = as_json("what-if", "cordon", "node28", *SAVED)
    [moved] = document["moved"]
    assert moved["gang"] == "demo/case1"
    assert "node28" not in moved["after"]["members"].values()
    twice = as_json("what-if", "--cordon", "node28", "--uncordon", "node28", *SAVED)
    assert twice["moved"] == []


MISTAKES: Mapping[str, tuple[str, tuple[object, ...]]] = {
    "no such gang": ("no pod of a gang, is demo/x; gangs of the file: demo/case1", ("explain", "demo/x", *SAVED)),
    "half a name": ("'case1' is no NAMESPACE/NAME", ("explain", "case1", *SAVED)),
    "two places": ("name one of them", ("explain", JOB, "--server", "http://x", *SAVED)),
    "a mesh for a service": ("--network is for --cluster", ("explain", JOB, "--network", MESH)),
    "a moment that is none": ("neither Unix seconds", ("explain", JOB, "--cluster", CLUSTER, "--now", "soon")),
    "no file": ("No such file", ("explain", JOB, "--cluster", "nowhere.json")),
    "nothing to suppose": ("say what would be different", ("what-if", *SAVED)),
    "a node that is not there": ("changes.0.nodes: there is no node n9", ("what-if", "--remove-node", "n9", *SAVED)),
    "no verb of nodes": ("drain n1: write cordon NODE or", ("what-if", "drain", "n1", *SAVED)),
    "a taint without effect": ("taint a=b: write KEY[=VALUE]:EFFECT", ("what-if", "taint", "node1", "a=b", *SAVED)),
    "a taint that is not there": ("node node1 has no taint x", ("what-if", "untaint", "node1", "x", *SAVED)),
    "a node to cordon": ("changes.0.nodes: there is no node n9", ("what-if", "cordon", "n9", *SAVED)),
    "a setting that is none": ("settings.port: decides nothing", ("what-if", "--set", "port=1", *SAVED)),
    "no suggestion": ("demo/case1: it does not wait", ("what-if", "--suggestion", "demo/case1", *SAVED)),
    "a field that is wrong": ("changes.0.job: Expected `str` matching", ("what-if", "--end-job", "x", *SAVED)),
}  # fmt: skip


@pytest.mark.parametrize(("said", "arguments"), MISTAKES.values(), ids=MISTAKES)
def test_mistakes_are_sentences(said: str, arguments: tuple[object, ...]) -> None:
    assert said in refused(*arguments)


FILES = {
    "not JSON": ("not JSON", "{"),
    "deep": ("not JSON", "[" * 100_000),
    "no list": ("not a list of changes", '{"changes": 1}'),
}


@pytest.mark.parametrize(("said", "text"), FILES.values(), ids=FILES)
def test_files_of_changes_that_are_none(said: str, text: str, tmp_path: Path) -> None:
    path = tmp_path / "changes.json"
    path.write_text(text)
    assert said in refused("what-if", "--changes", path, *SAVED)
    assert "No such file" in refused("what-if", "--changes", tmp_path / "none", *SAVED)


OPTIONS = {
    "--add-capacity": ("A",),
    "--taint": ("node1",),
    "--advance": ("soon",),
    "--add-nodes": ("A", "A:x:like=n", "A:1:cpu", "A:1:"),
    "--add-pods": ("team:2", "team/x:y"),
    "--link": ("a:b", "a:b:delay=x"),
    "--annotate": ("team/a",),
    "--set": ("queue.order",),
    "--shrink-job": ("team/a", "team/a:x"),
}


@pytest.mark.parametrize(("option", "text"), [(option, text) for option, texts in OPTIONS.items() for text in texts])
def test_options_that_cannot_be_read(option: str, text: str) -> None:
    with pytest.raises(ConfigError, match=f"{option} {text}: (write |.* is no whole number|could not convert)"):
        from_options({option: [text]})


def test_every_reader_has_an_option() -> None:
    help_text = run("what-if", "--help").stdout
    assert all(option in help_text for option in READERS)
    assert "netgang what-if --suggestion team-a/resnet" in help_text


def test_a_running_service_is_asked() -> None:
    document, supposed = as_json("explain", JOB, *SAVED), as_json("what-if", "--suggestion", JOB, *SAVED)
    with RawServer({f"/v1/explain/{JOB}": served(document), "/v1/what-if": served(supposed)}) as server:
        assert shown("explain", JOB, "--server", server.url) == shown("explain", JOB, *SAVED)
        assert as_json("explain", JOB, "--server", server.url) == document
        assert shown("what-if", "--end-job", JOB, "--server", server.url) == shown(
            "what-if", "--suggestion", JOB, *SAVED
        )


def test_a_pod_of_no_gang() -> None:
    scores = PodScores(nodes=(), of=0)
    place = PodPlace(name="a/b", uid="u", own=True, node=None, planned=None, prioritize=scores)
    with RawServer({"/v1/explain/a/b": ok(msgspec.json.encode(ExplainedPod(pod=place)))}) as server:
        assert shown("explain", "a/b", "--server", server.url) == ["a/b is a pod of no gang; node: none yet"]


def test_a_service_that_had_no_time() -> None:
    document = as_json("explain", JOB, *SAVED) | {"would_help": None}
    with RawServer({f"/v1/explain/{JOB}": served(document)}) as server:
        assert shown("explain", JOB, "--server", server.url)[-1].startswith("others ask what would help")
        assert "ask again" in refused("what-if", "--suggestion", JOB, "--server", server.url)


def test_answers_that_are_none() -> None:
    problem = ok(problem_body(HTTPStatus.NOT_FOUND, "no gang or pod a/b is known"), status=404)
    busy = ok(problem_body(HTTPStatus.TOO_MANY_REQUESTS, "others are being answered"), status=429)
    answers = {"/v1/explain/a/b": problem, "/v1/explain/a/c": served({"gang": "x"}), "/v1/what-if": busy}
    with RawServer(answers) as server:
        assert "no gang or pod a/b is known" in refused("explain", "a/b", "--server", server.url)
        assert "not what netgang answers" in refused("explain", "a/c", "--server", server.url, code=1)
        assert "status 429" in refused("what-if", "--advance", "1s", "--server", server.url, code=1)
    assert "does netgang run there?" in refused("explain", "a/b", "--server", server.url, code=1)
    assert "does netgang run there?" in refused("what-if", "--advance", "1s", "--server", server.url, code=1)
    assert "--url" in refused("what-if", "--advance", "1s", "--server", "x:/y")


def test_rare_parts_are_shown() -> None:
    document = as_json("explain", JOB, *SAVED)
    document["turn"] |= {"waited_s": 65.0, "starves_in_s": 200.0}
    document["turn"]["work"] = {"hours": 0.25, "reported": True, "text": "0.25 cluster-hours left"}
    document["turn"]["ahead"] |= {
        "waiting": ["a/1", "a/2"],
        "waiting_count": 7,
        "admitted": ["a/9"],
        "admitted_count": 1,
    }
    held = {"kind": "held", "zone": "A", "nodes": {}, "held_nodes": ["n1", "n2"], "until_s": 60.0, "givers": []}
    document["turn"]["reservation"] = held
    document["zones"][0] |= {"homeless": 2, "closed": {"cordoned": 3}, "allowed": False}
    document["decisions"] = [{"at_s": 0.0, "what": "admit", "reason": "", "detail": "node1"}]
    document |= {"admission_lapses_in_s": 41.5, "admission_refused": "no"}
    document["problems"] = ["netgang.io/x: no such annotation"]
    document["members"] *= 5
    document["would_help"]["suggestions"][0] |= {"also_admitted": ["a/1"], "refused_instead": ["a/9"]}
    with RawServer({f"/v1/explain/{JOB}": served(document)}) as server:
        text = "\n".join(shown("explain", JOB, "--server", server.url))
    for part in (
        "waited 65 s, STARVING in 3 min",
        "it is admitted, and has 42 s to come to bind",
        "the API server refused to admit it: no",
        "ahead of it wait a/1, a/2",
        "ahead of it were given room: a/9",
        "held for it: nodes n1, n2 in zone A until 00:01:00Z",
        "nodes for 2 members (3 × cordoned)",
        "1970-01-01 00:00:00Z admit · yes · node1",
        "note: netgang.io/x: no such annotation",
        "5 more members; see --json",
        "(on node1, node2); a/1 too; a/9 would wait instead",
    ):
        assert part in text
