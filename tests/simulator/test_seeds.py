"""The KOD2 experiment over 20 seeds: what its record says of netgang, and that the code still says it."""

import json
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from lab.simulator.compare import compare
from lab.simulator.seeds import over_seeds
from lab.simulator.summary import Row
from tests.simulator.simulated import small

pytestmark = pytest.mark.slow  # seconds each: processes, simulations or many plans

RECORD: dict[str, Any] = json.loads(
    (Path(__file__).parents[2] / "lab" / "simulator" / "records" / "kod2-seeds.json").read_text()
)
ROWS: list[Row] = RECORD["rows"]
CELLS = [(model, batch) for model in ("cnn-rand", "vgg16", "resnet50", "resnext110") for batch in (8, 16, 32, 64, 128)]
RULES = {"", "deadlock_s: 900", "deadlock_s: 3600", "resubmit: 0"}
"""For deadlocked jobs; the empty one is `deadlock_s: 1800`, submitted again."""


def of(policy: str) -> list[Row]:
    return [row for row in ROWS if row["policy"] == policy and "rule" not in row]


def over_all(policy: str) -> dict[str, float]:
    found: dict[str, float] = next(
        row for row in RECORD["over_all_runs"] if row["policy"] == policy and "rule" not in row
    )
    return found


def test_netgang_as_installed_is_in_no_cell_slower_than_plain_gangs() -> None:
    """By the median over the seeds, of the ratios and of the times themselves."""
    ours, gangs = of("netgang"), of("coscheduling")
    assert [(row["model"], row["batch"]) for row in ours] == CELLS
    assert [row for row in ours if float(row["beside_gangs_ratio"] or 2.0) > 1.0] == []
    assert all(
        float(one["jct_median_s"] or 0) <= float(other["jct_median_s"] or 0)
        for one, other in zip(ours, gangs, strict=True)
    )


@pytest.mark.parametrize("policy", ["netgang", "netgang-elastic-levels"])
def test_netgang_is_not_slower_than_kod2_as_published_in_the_mean(policy: str) -> None:
    """Of the ratios, and of the times."""
    assert over_all(policy)["beside_kod2_ratio"] <= 1.0
    assert over_all(policy)["jct_mean_s"] <= over_all("kod2-literal")["jct_mean_s"]


def test_the_record_has_every_cell_20_times_and_every_rule_for_deadlocked_jobs() -> None:
    """Six policies, and `default` under four rules; all jobs complete but those that are not submitted again."""
    assert {row["seeds"] for row in ROWS} == {20}
    assert len(ROWS) == 20 * (6 + 3)
    assert {str(row.get("rule", "")) for row in ROWS if row["policy"] == "default"} == RULES
    assert {row["completed"] for row in ROWS if row["policy"] != "default"} == {200}


@pytest.mark.parametrize(
    ("model", "batch", "policies"),
    [
        ("cnn-rand", 128, ("default", "coscheduling", "kod2-literal", "netgang", "netgang-elastic")),
        ("vgg16", 64, ("coscheduling", "kod2-literal", "netgang", "netgang-elastic-levels")),
    ],
)
def test_cells_of_the_record_are_what_is_printed(model: str, batch: int, policies: tuple[str, ...]) -> None:
    """`netgang simulate kod2 --seeds 20 --json > lab/simulator/records/kod2-seeds.json`; these are made again here."""
    made = over_seeds(small(policies, models=(model,), batches=(batch,)), 20).rows
    kept = [row for row in ROWS if (row["model"], row["batch"]) == (model, batch) and row["policy"] in policies]
    assert list(made) == kept


def test_a_policy_is_set_beside_another_one_seed_by_seed() -> None:
    """Median, least and most of the drawn runs; the ratio is that of equal jobs."""
    file = small(("coscheduling", "netgang"), models=("vgg16",), batches=(64,))
    drawn = [compare(file.model_copy(update={"seed": seed})).rows for seed in (1, 2, 3)]
    gangs, ours = ([float(rows[place]["jct_mean_s"] or 0) for rows in drawn] for place in (0, 1))
    report = over_seeds(file, 3)
    row = report.rows[1]
    assert (row["jct_median_s"], row["jct_least_s"], row["jct_most_s"]) == (median(ours), min(ours), max(ours))
    ratios = [one / other for one, other in zip(ours, gangs, strict=True)]
    assert (row["beside_gangs_ratio"], row["beside_gangs_most_ratio"]) == (
        round(median(ratios), 3),
        round(max(ratios), 3),
    )
    assert report.more["over_all_runs"][1]["beside_gangs_ratio"] == round(sum(ratios) / 3, 3)


def test_progress_is_told_over_all_seeds_and_rules() -> None:
    told: list[tuple[int, int, str]] = []
    file = small(("coscheduling",), models=("cnn-rand",), batches=(128,))
    over_seeds(file, 2, told=lambda *said: told.append(said))
    done = [one for one, _, _ in told]
    assert done == sorted(done)
    assert (done[-1], {total for _, total, _ in told}) == (20, {20})
    assert {label.split()[1] for _, _, label in told} == {"1", "2"}
