"""The test bed's gains, which docs/research/testbed.md publishes: of all values or none, and marked where projected."""

import pytest

from lab.bench.testbed.cases import Choice, worst_case
from lab.bench.testbed.report import table
from lab.bench.testbed.result import Result, Row, gains


def row(choice: str, seconds: float | None, *, value: float = 40.0, finished: bool = True, round_: int = 0) -> Row:
    impaired = 3 if choice == "worst" else 0
    return Row(
        dataset="cifar10", topology="ps", impairment="bandwidth", value=value, choice=choice, nodes=worst_case(),
        impaired=impaired, round=round_, seconds=seconds, finished=finished, progress_ratio=1.0 if finished else 0.5,
        steps=5, first_loss=2.3, last_loss=0.5,
    )  # fmt: skip


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
    assert "| ps | 2.19 | 1.88–2.50 | 1.62–2.75 | 1.34 | one run |" in table(Result(0, rows=rows))


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
    assert "4.00 (1 never began)" in table(Result(0, rows=rows))


def test_the_table_has_the_published_figure_and_marks_projections() -> None:
    rows = [row("worst", 10.0, finished=False), row("netgang", 6.0)]
    text = table(Result(0, rows=rows, left_out=["loss 50 %: 3 runs"]))
    assert "| bandwidth | cifar10 | 1.40 | ps | ~1.67 | one run | 1.67–1.67 | – | – |" in text
    assert "loss 50 %: 3 runs" in text
    assert "with an impaired node: 0 of 1 runs" in text
