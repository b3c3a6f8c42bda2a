"""The test bed's plan, rules and report, without any network."""

import json
import socket
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.bench.testbed.cases import (
    IMPAIRED,
    SWEEP,
    WANTED,
    Choice,
    Impairment,
    clean_ps_case,
    drawn,
    settings,
    worst_case,
)
from lab.bench.testbed.errors import BedUnavailable
from lab.bench.testbed.experiment import summary
from lab.bench.testbed.gains import gains
from lab.bench.testbed.kernel import examined
from lab.bench.testbed.nodes import NODES
from lab.bench.testbed.probes import Link, tournament
from lab.bench.testbed.relay import Direction
from lab.bench.testbed.report import as_json, from_json, table
from lab.bench.testbed.result import Result, Row
from lab.bench.testbed.running_job import Run, together
from lab.bench.testbed.shaping import loss_rules, netem_lines, rate_lines


def run(seconds: float | None, *, finished: bool = True) -> Run:
    return Run(seconds, finished, 1.0 if finished else 0.5, steps=5, retransmits=0, first_loss=2.3, last_loss=0.5)


def row(
    choice: str,
    seconds: float | None,
    *,
    value: float = 40.0,
    finished: bool = True,
    round_: int = 0,
    topology: str = "ps",
) -> Row:
    impaired = 3 if choice == "worst" else 0
    done = run(seconds, finished=finished)
    return Row("cifar10", topology, "bandwidth", value, choice, worst_case(), impaired, done, round=round_)


def rank(**changes: object) -> dict[str, object]:
    moved: dict[str, object] = {"received_bytes": 100, "expected_bytes": 100, "retransmits": 1}
    return {"seconds": 2.0, "finished": True, **moved, "steps": 2, "losses": [2.0, 1.0]} | changes


@given(st.integers(2, 12))
def test_a_tournament_has_every_pair_once_and_nobody_twice_in_a_round(count: int) -> None:
    """So throughput tests that run at one time never share a node, and none is missing."""
    names = [f"n{number:02d}" for number in range(count)]
    rounds = list(tournament(names))
    played = [pair for one in rounds for pair in one]
    assert sorted(played) == sorted((a, b) for a in names for b in names if a < b)
    assert all(len({end for pair in one for end in pair}) == 2 * len(one) for one in rounds)


def test_the_sweep_runs_between_the_published_ends() -> None:
    assert {one.value: (min(v), max(v)) for one, v in SWEEP.items()} == {
        "bandwidth": (40.0, 90.0),
        "loss": (5.0, 50.0),
        "delay": (50.0, 500.0),
    }
    assert {one.impairment for one in settings(SWEEP)[:3]} == set(Impairment)


def test_the_worst_case_has_all_impaired_nodes_and_begins_with_one() -> None:
    worst = worst_case()
    assert set(IMPAIRED) < set(worst) <= set(NODES)
    assert (len(set(worst)), worst[0] in IMPAIRED) == (WANTED, True)
    clean = clean_ps_case()
    assert (set(clean), clean[0] in IMPAIRED) == (set(worst), False)
    assert drawn("1") == drawn("1")
    assert len({drawn(str(number)) for number in range(20)}) > 10


def test_rules_say_what_is_shaped() -> None:
    assert all("rate 40000000bit" in line for line in rate_lines("node33", 40_000_000))
    assert loss_rules([], 0.0).count("-A INPUT") == 0
    assert loss_rules(["10.77.0.33", "10.77.0.34"], 0.5).count("--probability 0.5 -j DROP") == 2
    delete, netem, bucket = netem_lines(250.0)
    assert "del" in delete
    assert "netem delay 250ms" in netem
    assert "parent 1:1" in bucket


RUNS = {  # case: (expected seconds, finished, what two ranks say)
    "whole": (2.5, True, [rank(), rank(seconds=2.5)]),
    "cut short: projected": (20.0, False, [rank(), rank(seconds=10.0, finished=False, received_bytes=0)]),
    "nothing moved: no time": (None, False, [rank(received_bytes=0, finished=False)]),
}


@pytest.mark.parametrize(("want_s", "finished", "ranks"), RUNS.values(), ids=RUNS)
def test_a_run_is_as_long_as_its_slowest_rank(
    want_s: float | None, finished: bool, ranks: list[dict[str, object]]
) -> None:
    found = together(ranks)
    assert (found.seconds, found.finished) == (want_s, finished)
    found = together([rank(losses=[]), *(rank(losses=[one, one / 2]) for one in (2.0, 4.0))])
    assert (found.first_loss, found.last_loss) == (3.0, 1.5), "means of the ranks that compute"


def test_an_asynchronous_run_is_as_long_as_its_server_says() -> None:
    """Its workers have no share that was settled before, and end when the server hangs up."""
    workers = [rank(expected_bytes=0, received_bytes=70, seconds=9.0, steps=count) for count in (3, 1)]
    found = together([rank(staleness=[0, 1, 1, 2], steps=4, losses=[]), *workers])
    assert (found.seconds, found.finished, found.steps) == (2.0, True, 4)
    assert (found.staleness, found.worker_steps) == (1.0, (3, 1))


def test_a_gain_keeps_the_spread_over_runs_and_over_values_apart() -> None:
    """Run 1: 2.5 and 1.25 times as fast, in the mean 1.875; run 2: 3 and 2; random draws of one run are averaged."""
    rows = [
        *(row("worst", 100.0, value=value, round_=number) for value in (40.0, 90.0) for number in (0, 1)),
        *(row("netgang", one, round_=number) for number, one in enumerate((40.0, 100 / 3))),
        *(row("netgang", one, value=90.0, round_=number) for number, one in enumerate((80.0, 50.0))),
        *(row("random", one) for one in (60.0, 80.0)),
        row("random", 80.0, value=90.0),
    ]
    ours, chance = gains(rows)
    assert (ours.choice, ours.worst, ours.runs, ours.values, ours.projected) == ("netgang", "worst", 2, 2, False)
    assert (ours.lowest_run, ours.speed_ratio, ours.highest_run) == pytest.approx((1.875, 2.1875, 2.5))
    assert (ours.lowest_value, ours.highest_value) == pytest.approx((1.625, 2.75))
    assert chance.speed_ratio == pytest.approx((100 / 70 + 100 / 80) / 2)
    assert "| ps | 2.19 | 1.88–2.50 | 1.62–2.75 | 1.34 | one run |" in table(Result(0, "relay", rows=rows))


def test_a_run_without_all_values_is_no_run() -> None:
    rows = [row(choice, 5.0, round_=number) for choice in ("worst", "netgang") for number in (0, 1)]
    rows += [row("worst", 4.0, value=90.0), row("netgang", 1.0, value=90.0)]
    ours = gains(rows)[0]
    assert (ours.runs, ours.values, ours.speed_ratio) == (1, 2, 2.5)


def test_each_worst_case_has_gains_of_its_own() -> None:
    rows = [row("worst", 9.0), row("clean ps", 3.0), row("netgang", 3.0)]
    ours = [(one.topology, one.worst, one.speed_ratio) for one in gains(rows) if one.choice == Choice.NETGANG]
    assert ours == [("ps", "worst", 3.0), ("ps", "clean ps", 1.0)]


def test_a_run_that_never_began_gives_no_gain_and_is_counted() -> None:
    rows = [row("worst", None), row("netgang", 1.0), row("worst", 4.0, value=90.0), row("netgang", 1.0, value=90.0)]
    ours = gains(rows)[0]
    assert (ours.values, ours.never_began) == (1, 1)
    assert ours.speed_ratio == pytest.approx(4.0)
    assert "4.00 (1 never began)" in table(Result(0, "relay", rows=rows))


def test_the_table_has_the_published_figure_and_marks_projections() -> None:
    rows = [row("worst", 10.0, finished=False), row("netgang", 6.0)]
    text = table(Result(0, "relay", rows=rows, left_out=["loss 50 %: 3 runs"]))
    assert "| bandwidth | cifar10 | 1.40 | ps | ~1.67 | one run | 1.67–1.67 | – | – |" in text
    assert "loss 50 %: 3 runs" in text
    assert "with an impaired node: 0 of 1 runs" in text


def test_a_kept_result_is_read_as_it_was() -> None:
    stale = replace(run(2.0), staleness=1.5, worker_steps=(3, 1))
    result = Result(7, "relay", rows=[replace(row("netgang", 2.0, round_=2), run=stale)])
    assert from_json(json.loads(json.dumps(as_json(result)))).rows == result.rows


def test_the_summary_keeps_clean_and_impaired_apart() -> None:
    setting = settings(SWEEP)[0]
    clean_link, sick = Link(0.0, 0.1, 9.5e7), Link(0.1, 50.0, None)
    measured = {
        ("node28", "node29"): clean_link,
        ("node29", "node28"): clean_link,
        ("node33", "node28"): sick,
        ("node28", "node33"): Link(1.0, 1.0, 1.0),
    }
    found = summary(measured, setting)
    assert (found["clean_loss_ratio"], found["impaired_loss_ratio"]) == (0.0, 0.1)
    assert (found["clean_throughput_bps"], found["impaired_throughput_bps"]) == (9.5e7, None)


def test_a_missing_program_is_named_with_its_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BedUnavailable, match="ip is missing: install the package iproute2"):
        examined()
    for name in ("ip", "tc"):
        (tmp_path / name).touch(mode=0o755)
    with pytest.raises(BedUnavailable, match="iptables is missing: install the package iptables"):
        examined()


def test_the_relay_keeps_order_delay_and_its_limit() -> None:
    with ExitStack() as stack:
        (outside, source), (target, inside) = (socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM) for _ in range(2))
        for one in (outside, source, target, inside):
            stack.enter_context(one)
            one.setblocking(False)
        way = Direction(source, target, delay_s=0.5, most_bytes=10)
        for number, frame in enumerate((b"first", b"2nd", b"too long", b"3d")):
            outside.send(frame)
            way.take(10.0 + number / 10.0)
        assert way.give(10.49) == 10.5
        assert way.give(10.6) == pytest.approx(10.8)
        assert [inside.recv(100), inside.recv(100)] == [b"first", b"2nd"]
        assert way.give(10.8) == float("inf")
        assert inside.recv(100) == b"3d"
        assert way.held_bytes == 0
