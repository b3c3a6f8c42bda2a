"""The measurement of expected starts: its table, its goal, and the figures in the page."""

from pathlib import Path

import pytest

from lab.bench.expected_starts import GOAL, measured, ratio, row, table
from lab.simulator.expected import Coverage, Start
from scoring.model.policy import Backfill
from scoring.plan.expected import Result

PAGE = Path(__file__).parents[2] / "docs/research/expected-starts.md"


def start(result: Result) -> Start:
    return Start(promised=False, low_s=60.0, expected_s=90.0, high_s=180.0, waited_s=600.0, result=result)


def test_a_row_has_shares_and_medians() -> None:
    """Of all intervals; and beside it what the lengths alone would have given."""
    moved = [*[start(Result.INSIDE)] * 8, start(Result.EARLY), start(Result.LATE)]
    plain = [*[start(Result.INSIDE)] * 6, *[start(Result.LATE)] * 4]
    assert row("7", moved, plain) == "| 7 | 10 | 10.0% | 80.0% | 10.0% | 60.0% | 2 min | 10 min |"
    found = [Coverage(seed, tuple(moved), tuple(plain)) for seed in (1, 2)]
    assert table(found)[-1] == "| all | 20 | 10.0% | 80.0% | 10.0% | 60.0% | 2 min | 10 min |"


def test_the_page_has_the_table_and_its_last_line_says_whether_the_goal_holds() -> None:
    rows = [line for line in PAGE.read_text().partition("\n## ")[0].splitlines() if line.startswith("| ")]
    name, _, _, inside, *_ = rows[-1].strip("| ").split(" | ")
    low, high = GOAL
    assert name == "all"
    assert low <= float(inside.rstrip("%")) / 100.0 <= high


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_goal_is_near_also_for_a_short_run() -> None:
    """Most intervals are right, and more of them than by the lengths alone; the figures are in the page."""
    found = measured(1, 200, Backfill.EASY)
    assert 0.6 < ratio(found.starts) < 0.95
    assert ratio(found.starts) > ratio(found.plain)
