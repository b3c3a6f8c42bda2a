"""By service level on recorded workloads, whichever half of the jobs may be suspended (docs/research/simulator.md)."""

import pytest

from lab.simulator.compare import compare
from lab.simulator.scenarios import load

POLICIES = ("coscheduling", "srpt", "srpt-suspendable", "netgang-elastic-levels")


def means(seed: int, suspendable: float) -> dict[str, dict[str, float]]:
    """policy → its means over the five workloads."""
    file = load("pollux", changes={"seed": seed, "policies": POLICIES}, workload={"suspendable": suspendable})
    return {str(row["policy"]): dict(row) for row in compare(file).more["means_over_workloads"]}  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("seed", "most_ratio"), [(2, 0.5), (4, 0.6)])
def test_half_of_the_jobs_may_be_suspended(seed: int, most_ratio: float) -> None:
    """Less than half of first come, first served is out of reach in the draw 4, even if all lengths were known."""
    of = means(seed, 0.5)
    ours = of["netgang-elastic-levels"]
    assert ours["ratio"] <= max(most_ratio, of["srpt-suspendable"]["ratio"])
    assert ours["worst_ratio"] <= 1.0


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_all_jobs_may_be_suspended() -> None:
    of = means(1, 1.0)
    ours, known = of["netgang-elastic-levels"], of["srpt"]
    assert ours["worst_ratio"] <= 1.0
    assert ours["jct_mean_s"] <= 1.15 * known["jct_mean_s"]
    assert of["srpt-suspendable"]["jct_mean_s"] == known["jct_mean_s"]
