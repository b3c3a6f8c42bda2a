"""Make lab/simulator/records/orders.json: `.venv/bin/python -m tests.simulator.orders`, 20 minutes.

Why a record of its own: orders of the queue are compared over draws of which jobs may be suspended, which one run of
`netgang simulate` does not have. A row is what `netgang simulate SCENARIO --suspendable S --seed N --json` prints.
"""

import json
from collections.abc import Iterator
from typing import Any, Final

from lab.simulator.compare import compare
from lab.simulator.scenarios import load
from tests.simulator.test_records import RECORDS

POLICIES: Final = tuple(f"netgang-elastic-{end}" for end in ("levels", "las", "srpt-by-report", "srpt-lies"))
DRAWS: Final = (  # scenario, share of jobs that may be suspended, seeds; with all of them there is nothing to draw
    ("pollux", 0.5, (1, 2, 3, 4)),
    ("pollux", 1.0, (1,)),
    ("generated", 0.5, (1, 2, 3, 4)),
)
FILE: Final = RECORDS / "orders.json"


def rows_of(scenario: str, suspendable: float, seed: int) -> list[dict[str, Any]]:
    """A row a policy, over all workloads of the scenario."""
    file = load(scenario, changes={"seed": seed, "policies": POLICIES}, workload={"suspendable": suspendable})
    found = compare(file)
    means = found.more.get("means_over_workloads", found.rows)
    kept = ("policy", "jct_mean_s", "jct_p99_s", "suspensions")
    return [
        {"scenario": scenario, "suspendable": suspendable, "seed": seed, **{name: dict(row)[name] for name in kept}}
        for row in means
    ]


def made() -> Iterator[dict[str, Any]]:
    """All rows."""
    for scenario, suspendable, seeds in DRAWS:
        for seed in seeds:
            yield from rows_of(scenario, suspendable, seed)


if __name__ == "__main__":
    FILE.write_text(json.dumps({"rows": list(made())}, indent=1) + "\n")
