"""`netgang explain` and `netgang what-if`: for people and for machines."""

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from cli.tables import network_line
from scoring.records import GangNetwork
from tests.cli.world import Saved, as_json, refused, shown

JOB = "demo/tf-smoke-gpu"


@pytest.fixture(scope="module")
def saved() -> Saved:
    """The paper's test bed."""
    return Saved()


def test_why_the_demo_job_waits(saved: Saved) -> None:
    lines = shown("explain", JOB, told=saved)
    assert lines[0] == f"{JOB}: waiting"
    assert "members: 5 exist, 5 needed; 5 waiting" in lines
    assert "A yes 9 3 of 5 3 of 5 – – 4 nvidia.com/gpu on node1, node2" in lines
    assert any(line.startswith("ZoneTooSmall: Even empty, zone A has room for 2 of 4 pods") for line in lines)


def test_where_the_other_job_goes(saved: Saved) -> None:
    lines = shown("explain", "demo/case1-0", told=saved)
    assert lines[0].startswith("demo/case1: admitted in zone D, network score 98.")
    assert "planned for it: 6 places in zone D" in lines
    assert "case1-0 other planned node28 –" in lines


def test_all_of_it_at_once(saved: Saved) -> None:
    document = as_json(
        "what-if",
        *("--set", "queue.order=fifo", "--set", "queue.starve_limit_s=60", "--set", "spill_wait_s=5"),
        *("--remove-job", "demo/case1"),
        *("--cordon", "node28", "--cordon", "node29"),
        *("--pods", "6", "--request", "cpu=1,memory=1Gi", "--min-available", "4", "-n", "team"),
        *("--advance", "10m"),
        told=saved,
    )
    said = "6 more pods, demo/case1 gone, nodes node28, node29 cordoned, other settings: queue, spill_wait_s, "
    assert (document["if"], document["gangs"]) == (f"{said}10 min later", {"admitted": 1, "waiting": 1})
    [new] = document["admitted"]
    assert (new["gang"], len(new["after"]["members"])) == ("team/what-if", 6)
    assert {"node28", "node29"}.isdisjoint(new["after"]["members"].values())
    assert [(one["gang"], one["after"]["state"]) for one in document["other"]] == [("demo/case1", "absent")]


def test_a_node_that_is_cordoned_and_uncordoned_takes_pods(saved: Saved) -> None:
    both = ("--cordon", "node28", "--uncordon", "node28")
    assert shown("what-if", *both, told=saved)[0] == "Supposed: node node28 cordoned, node node28 uncordoned"
    assert shown("what-if", *both, told=saved)[1] == "nothing would be different for any gang"


MISTAKES: Mapping[str, tuple[str, tuple[object, ...]]] = {
    "no such gang": ("no such gang is known", ("explain", "demo/x")),
    "nothing to suppose": ("say what would be different", ("what-if",)),
    "half a setting": ("--set queue.order: write NAME=VALUE", ("what-if", "--set", "queue.order")),
    "a time that is none": ("--advance soon is not a duration such as 90m", ("what-if", "--advance", "soon")),
    "a field that is wrong": ("remove_jobs.0: Expected `str` matching", ("what-if", "--remove-job", "x")),
    "pods of nothing": ("--pods and --request belong together", ("what-if", "--pods", "2")),
    "an amount of nothing": ("--request cpu: write NAME=AMOUNT", ("what-if", "--pods", "2", "--request", "cpu")),
}


@pytest.mark.parametrize(("said", "arguments"), MISTAKES.values(), ids=MISTAKES)
def test_mistakes_are_sentences(said: str, arguments: tuple[object, ...], saved: Saved) -> None:
    assert said in refused(*arguments, told=saved)


def test_rare_parts_are_shown(saved: Saved) -> None:
    document = as_json("explain", JOB, told=saved)
    held = {"kind": "held", "zone": "A", "nodes": {}, "held_nodes": ["n1", "n2"], "until_s": 60.0}
    document["turn"] |= {"waited_s": 65.0, "starves_in_s": 200.0, "reservation": held}
    ahead = {"waiting": ["a/1", "a/2"], "waiting_count": 7, "admitted": ["a/9"], "admitted_count": 1}
    document["turn"]["ahead"] |= ahead
    document["zones"][0] |= {"homeless": 2, "allowed": False}
    document["decisions"] = [{"at_s": 0.0, "what": "admit", "reason": "", "detail": "node1"}]
    document |= {"admission_lapses_in_s": 41.5, "admission_refused": "no", "problems": ["x: no such annotation"]}
    document["members"] *= 5
    text = "\n".join(shown("explain", JOB, told={f"/v1/explain/{JOB}": document}))
    for part in (
        "waited 65 s, STARVING in 3 min",
        "it is admitted, and has 42 s to come to bind",
        "the API server refused to admit it: no",
        "ahead of it wait a/1, a/2",
        "ahead of it were given room: a/9",
        "held for it: nodes n1, n2 in zone A until 00:01:00Z",
        "nodes for 2 members",
        "1970-01-01 00:00:00Z admit · yes · node1",
        "note: x: no such annotation",
        "5 more members; see --json",
    ):
        assert part in text


WORST = {"source": "n1", "target": "n2", "points": 41.2, "loss_ratio": 0.001, "delay_ms": 0.35, "oldest_s": 30.0}
WORST |= {"throughput_bps": 9.4e9}
NETWORK = {"zones": ["A"], "nodes": ["n1", "n2"], "of_nodes": 2, "score": 62.31, "worst": WORST}
NOTHING = dict.fromkeys(("loss_ratio", "delay_ms", "throughput_bps"))
LINES = {  # case: (fields that differ, the line)
    "all is known": ({}, "network: worst link n1 → n2: 41 points, loss 0.1 %, "
        "delay 0.35 ms, throughput 9400 Mbit/s; zone A, 2 nodes, score 62.3"),
    "it is bad": ({"worst": WORST | NOTHING | {"loss_ratio": 0.13, "bad": "13 % loss"}},
        "network: bad link n1 → n2: 41 points, loss 13 %, delay not known, throughput not known; "
        "zone A, 2 nodes, score 62.3"),
    "two zones, nothing measured": (
        {"zones": ["A", "B"], "worst": WORST | NOTHING},
        "network: worst link n1 → n2: 41 points, loss not known, delay not known, throughput not known; "
        "zones A, B, 2 nodes, score 62.3"),
    "one node": ({"zones": [""], "of_nodes": 1, "score": None, "worst": None},
        "network: no zone, 1 node; no two members exchange data over a link that is scored"),
}  # fmt: skip


@pytest.mark.parametrize(("fields", "line"), LINES.values(), ids=LINES)
def test_the_line_says_what_is_known(fields: dict[str, Any], line: str) -> None:
    assert network_line(msgspec.convert({**NETWORK, **fields}, GangNetwork)) == line
