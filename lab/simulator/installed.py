"""netgang as installed on recorded workloads whose jobs declare nothing, half of them, or all; beside two bounds.

A job that declares may have from half to twice the workers that it asked for (Philly's have no other size), and may be
suspended. First come, first served and the shortest remaining time take no notice of it, so they run once.
"""

from collections.abc import Iterator
from statistics import fmean
from typing import Any

from lab.simulator.compare import Report
from lab.simulator.model import Scenario
from lab.simulator.policies import NETGANG, made
from lab.simulator.scenarios import load, scenarios
from lab.simulator.summary import Row, row_of
from lab.simulator.world import run

ABOUT = "netgang as installed, no job, half of them (four draws) or all declare; ratios to first come, first served."
SHARES = {"none": (0.0, 1), "half": (0.5, 4), "all": (1.0, 1)}
"""which jobs declare → their share, draws"""
_LOADS = {"pollux": (), "philly": (0.9,)}
"""scenario → loads"""


def run_installed(*, seed: int = 1) -> Report:
    """A row for each workload and share, and one for each share over all workloads."""
    bounds = [[row_of(run(jobs, made(name))) for name in ("coscheduling", "srpt")] for _, jobs in _runs(0.0, seed)]
    rows = [_row(words, number, seed, *both) for number, both in enumerate(bounds) for words in SHARES]
    rows.sort(key=lambda row: list(SHARES).index(str(row["declare"])))
    over = tuple(_over([row for row in rows if row["declare"] == words]) for words in SHARES)
    return Report("installed", seed, ABOUT, tuple(rows), {"over_all_workloads": over})


def _runs(share: float, seed: int) -> Iterator[tuple[str, Scenario]]:
    for name, loads in _LOADS.items():
        file = load(name, changes={"seed": seed})
        workload = file.workload.model_copy(update={"declaring": share, "loads": loads})
        for labels, scenario in scenarios(file.model_copy(update={"workload": workload})):
            yield str(labels["workload"]), scenario


def _row(words: str, number: int, seed: int, fifo: Any, srpt: Any) -> Row:
    share, draws = SHARES[words]
    drawn = [list(_runs(share, seed + draw))[number] for draw in range(draws)]
    ours: list[Any] = [row_of(run(scenario, made(NETGANG))) for _, scenario in drawn]
    means, p99s = ([float(row[column]) for row in ours] for column in ("jct_mean_s", "jct_p99_s"))
    return {
        "declare": words,
        "workload": drawn[0][0],
        "fifo_s": fifo["jct_mean_s"],
        "srpt_s": srpt["jct_mean_s"],
        "netgang_s": round(fmean(means), 1),
        "of_fifo": round(fmean(means) / fifo["jct_mean_s"], 3),
        "worst": round(max(means) / fifo["jct_mean_s"], 3),
        "p99_of_fifo": round(fmean(p99s) / fifo["jct_p99_s"], 3),
        "srpt_of_fifo": round(srpt["jct_mean_s"] / fifo["jct_mean_s"], 3),
        "srpt_p99_of_fifo": round(srpt["jct_p99_s"] / fifo["jct_p99_s"], 3),
    }


def _over(rows: list[Any]) -> Row:
    """Ratios of the means over all workloads, and means of their ratios."""
    fifo_s, srpt_s, ours_s = (fmean(row[f"{name}_s"] for row in rows) for name in ("fifo", "srpt", "netgang"))
    of = {"of_fifo": ours_s / fifo_s, "of_srpt": ours_s / srpt_s, "srpt_of_fifo": srpt_s / fifo_s}
    means = {
        f"mean_{name}": fmean(row[name] for row in rows) for name in ("of_fifo", "p99_of_fifo", "srpt_p99_of_fifo")
    }
    worst = {"worst": max(row["worst"] for row in rows), "worst_p99": max(row["p99_of_fifo"] for row in rows)}
    return {"declare": rows[0]["declare"], **{name: round(value, 3) for name, value in (of | means | worst).items()}}
