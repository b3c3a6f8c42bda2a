"""What the simulator's benchmark says of a run."""

from pathlib import Path

from lab.bench.results.tables import simulated
from lab.bench.simulated import GOAL_S, measure

EXAMPLE = Path(__file__).parents[2] / "examples" / "simulate.yaml"


def test_a_run_of_the_command_is_measured() -> None:
    found = measure(str(EXAMPLE), "coscheduling")
    assert (found["jobs"], found["completed"]) == (6, 6)
    assert 0.0 < found["cpu_s"] < GOAL_S
    assert found["peak_mib"] > 10
    head, [row] = simulated([found])
    assert len(head) == len(row)
    assert row[0] == "coscheduling"
    assert row[-1] == "holds"
