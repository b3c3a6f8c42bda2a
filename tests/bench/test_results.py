"""The page of results is what the records say, and nothing else is."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from lab.bench import record
from lab.bench.__main__ import app
from lab.bench.peers.workloads import WORKLOADS
from lab.bench.programs import BENCHES
from lab.bench.record import Record, Section
from lab.bench.results import pages as results
from lab.bench.results.beside import with_measured
from lab.bench.results.pages import DOCS, RECORDS, WORDS, page, pages
from lab.bench.results.sources import by_load
from lab.bench.results.tables import TABLES, markdown

NONE = {"workload": "gangs", "load": "words", "way": "none", "pairs": 3, "unfinished": 0, "partial_gangs": 0,
        "pods_per_s": 100.0, "pods_per_s_min": 90.0, "pods_per_s_max": 110.0, "gang_p99_s": 1.0,
        "processes": {}}  # fmt: skip
GOAL = {"workload": "gangs", "way": "second", "reference": "none", "figure": "ratio", "value": 0.5, "lowest": 0.4,
        "highest": 0.6, "at_most": False, "bound": 0.75, "stretch": None, "holds": False,
        "stretch_holds": None, "words": "w"}  # fmt: skip
MACHINE = {"cores": 2, "processor": "p", "memory_gib": 8, "kernel": "6"}


def a_record(date: str, *ways: str, goals: tuple[dict[str, Any], ...] = (), load: str = "gangs") -> Record:
    lines = tuple({**NONE, "workload": load, "way": way} for way in ways)
    return Record(date, "abc", MACHINE, {"python": "3"}, (Section("peers", "the command", (*lines, *goals)),))


def words() -> str:
    return "".join(path.read_text() for path in sorted(WORDS.iterdir()))


def test_the_pages_are_made_from_the_committed_records() -> None:
    made = pages([record.read(path) for path in sorted(RECORDS.glob("*.json"))])
    research = {f"research/{name}.md" for name in ("results", "results-peers", "exam")}
    assert made.keys() == {*research, "explanation/comparison.md"}
    assert made == {name: (DOCS / name).read_text() for name in made}


def test_the_words_hold_no_figures() -> None:
    assert re.findall(r"(?<!\w)\d[\d.,]*\s?(?:ms|s|µs|MiB|kB|%|pods/s|×)(?!\w)", words()) == []


def test_every_benchmark_has_a_place_on_the_page() -> None:
    places = set(re.findall(r"^\[\[(\w+)\]\]$", words(), re.MULTILINE))
    assert places - {"runs", "goals"} == {one.name for one in BENCHES} == {*TABLES, "peers", "exam"}


def test_what_has_no_record_is_said() -> None:
    assert page([], words()).count("No record yet") == len(BENCHES) + 1
    with pytest.raises(ValueError, match="nothing"):
        page([], "[[nothing]]\n")


def test_a_newer_run_takes_the_place_of_an_older_one() -> None:
    old, new = a_record("2026-01-01", "none", "second", goals=(GOAL,)), a_record("2026-01-02", "none", "second")
    assert [source.record.date for source in by_load([old, new])["gangs"]] == ["2026-01-02"]
    partly = a_record("2026-01-03", "none", "default")
    assert [source.record.date for source in by_load([old, partly])["gangs"]] == ["2026-01-03", "2026-01-01"]
    assert "**misses**" in page([old, partly], "[[goals]]\n")


def test_the_comparison_shows_the_best_of_one_run_and_what_was_not_bound_whole() -> None:
    page = "a\n<!-- measured: make results -->\n<!-- end of measured -->\n"
    runs = {
        "gangs": [
            [{**NONE, "way": "kueue-second"}, {**NONE, "way": "kueue", "pods_per_s": 90.0}],
            [{**NONE, "way": "second"}, {**NONE, "way": "volcano", "pods_per_s": 120.0}],
        ],
        "wide": [[{**NONE, "way": "volcano"}, {**NONE, "way": "volcano-sampled", "unfinished": 2, "partial_gangs": 1}]],
        "burst": [[{**NONE, "way": "second"}, {**NONE, "way": "coscheduling", "gang_p99_s": 2.0}]],
    }
    made = with_measured(page, lambda load: runs.get(load, []))
    assert "pods/s | 100 (90–110) | – | – | – | **120** (90–110) | – | – | – |" in made
    assert "quota, pods/s | **100** (90–110) | – | – | – | – | 90 (90–110) | – | – |" in made
    assert "sample, pods/s | – | – | – | – | partial gangs: 1, pods unbound: 2 | – | – | – |" in made
    assert "whole gangs, s | **1.00** | – | – | 2.00 | – | – | – | – |" in made
    assert with_measured(made, lambda load: runs.get(load, [])) == made
    with pytest.raises(ValueError, match="0 places"):
        with_measured("a", lambda _: [])


def test_the_comparison_is_of_the_newest_run_beside_a_peer() -> None:
    old = a_record("2026-01-01", "second", "coscheduling")
    alone = a_record("2026-01-02", "second", "none", "echo")
    made = pages([old, alone])["explanation/comparison.md"]
    assert "on 100 nodes, pods/s | **100** (90–110) | – | – | **100** (90–110) | – | – | – | – |" in made


def test_a_miss_is_shown_as_one() -> None:
    text = page([a_record("2026-01-01", "none", goals=(GOAL,))], "[[goals]]\n")
    assert "| ≥ 0.75 | 0.5 (0.4–0.6) | – | **misses** |" in text


def test_a_spread_that_crosses_the_goal_and_the_rounds_are_shown() -> None:
    goal = {**GOAL, "value": 0.8, "highest": 0.9, "holds": True}
    text = page([a_record("2026-01-01", "none", "second", goals=(goal,))], "[[goals]]\n")
    assert "| 0.8 (0.4–0.9) | 3 | holds in the median |" in text


PARTIAL = {**GOAL, "figure": "partial_gangs", "reference": "", "at_most": True, "bound": 0, "lowest": None}


def test_loads_and_ways_with_the_same_partial_gangs_share_a_line() -> None:
    kept, broken = {**PARTIAL, "value": 0, "holds": True}, {**PARTIAL, "way": "managed", "value": 2, "holds": False}
    loads = {"gangs": (kept,), "trios": (kept,), "large": (kept, broken), "burst": (kept,)}
    records = [
        a_record(f"2026-01-0{day}", "none", goals=tuple({**goal, "workload": name} for goal in goals), load=name)
        for day, (name, goals) in enumerate(loads.items(), start=1)
    ]
    lines = [line for line in page(records, "[[goals]]\n").splitlines() if "partial gangs" in line]
    assert lines == [
        "| gangs, trios, burst | second | partial gangs | 0 | 0 | – | holds |",
        "| large | second, managed | partial gangs | 0 | 2 | – | **misses** |",
    ]


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    made = replace(a_record("2026-01-01", "none", goals=(GOAL,)), remark="a remark")
    record.write(tmp_path / "deep" / "r.json", made)
    assert record.read(tmp_path / "deep" / "r.json") == made
    assert json.loads((tmp_path / "deep" / "r.json").read_text())["format"] == record.FORMAT


WRONG = {"no JSON": "{", "no record": "{}", "another format": '{"format": 0}', "a list": "[]"}


@pytest.mark.parametrize("text", WRONG.values(), ids=WRONG)
def test_what_is_no_record_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "bad.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"bad\.json"):
        record.read(path)


def test_a_record_knows_where_it_is_from() -> None:
    made = record.here([])
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC", made.date)
    assert made.versions["python"].startswith("3.")
    assert made.machine["cores"] >= 1
    assert re.fullmatch(r"[0-9a-f]{10,}\+?|unknown", made.commit)


def test_a_file_is_added_and_the_page_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "RECORDS", tmp_path / "records")
    monkeypatch.setattr(results, "DOCS", tmp_path)
    record.write(tmp_path / "new.json", a_record("2026-01-01 10:00 UTC", "none"))
    run = CliRunner().invoke
    assert run(app, ["results", str(tmp_path / "new.json")]).exit_code == 0
    assert [path.name for path in (tmp_path / "records").iterdir()] == ["2026-01-01-10-00.json"]
    assert run(app, ["results", "--check"]).exit_code == 0
    (tmp_path / "research/results.md").write_text("typed by hand")
    assert run(app, ["results", "--check"]).exit_code == 1
    (tmp_path / "records" / "bad.json").write_text("{}")
    assert run(app, ["results"]).exit_code == 2


def test_a_row_of_another_length_is_refused() -> None:
    """A table with a hole in it would shift its cells."""
    with pytest.raises(ValueError, match="cells"):
        markdown(["a", "b"], [["1"]])


REFUSED = {  # case: arguments
    "unknown benchmark": ["all", "--only", "nothing"],
    "unknown load": ["peers", "--workload", "nothing"],
    "unknown way": ["peers", "--workload", "burst", "--way", "nothing"],
    "unknown peer": ["peers", "--workload", "burst", "--peer", "nothing"],
    "no rounds": ["peers", "--pairs", "0"],
}


@pytest.mark.parametrize("arguments", REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_run_is_refused_at_once(arguments: list[str]) -> None:
    assert CliRunner().invoke(app, arguments).exit_code == 2


def test_a_run_leaves_a_record_that_makes_the_page(tmp_path: Path) -> None:
    path = tmp_path / "out" / "bench.json"
    done = CliRunner().invoke(app, ["all", "--only", "sync", "--quick", "--json", str(path)])
    assert done.exit_code == 0
    [section] = record.read(path).sections
    assert (section.bench, section.ok) == ("sync", True)
    assert section.command == "python -m lab.bench.sync --pods 5000 --nodes 500"
    assert "5,000 pods of" in page([record.read(path)], "[[sync]]\n")


def test_the_page_of_peers_has_room_for_every_load() -> None:
    every = [
        {**NONE, "workload": load.name, "way": way}
        for load in WORKLOADS.values()
        for way in (*load.ways, "coscheduling")
    ]
    section = Section("peers", "python -m lab.bench peers --peer coscheduling", tuple(every))
    newer = a_record("2026-01-02", "none", "second")
    text = pages([Record("2026-01-01", "abc", MACHINE, {}, (section,)), newer])["research/results-peers.md"]
    assert text.count("\n| ") > len(every)
    assert len(text.splitlines()) <= 200
