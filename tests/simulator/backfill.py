"""Make lab/simulator/records/backfill.json and its page: `python -m tests.simulator.backfill`, ten minutes and more.

Why a record of its own: what users say of lengths is drawn, so some policies are run with several seeds, and the page
shows figures that no other record has: how long the largest jobs wait in the mean, and how busy the GPUs are while jobs
arrive. `python -m tests.simulator.backfill page` writes docs/research/simulator-backfill.md from the record again.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from math import ceil
from pathlib import Path
from statistics import fmean
from typing import Any, Final

from lab.simulator.compare import choices_of, tuning_of
from lab.simulator.model import JobOutcome, Scenario
from lab.simulator.policies import POLICIES
from lab.simulator.scenarios import load, scenarios
from lab.simulator.summary import row_of
from lab.simulator.world import run

ROOT: Final = Path(__file__).parents[2]
FILE: Final = ROOT / "lab" / "simulator" / "records" / "backfill.json"
PAGE: Final = ROOT / "docs" / "research" / "simulator-backfill.md"
WORDS: Final = Path(__file__).with_name("backfill.md")
GREEDY: Final = "netgang"
DRAWN: Final = frozenset({"netgang-easy-declared", "netgang-easy-half"})
SEEDS: Final = (1, 2)
RUNS: Final = (
    # scenario, loads, policies
    ("philly", (0.9, 1.1), (GREEDY, "netgang-easy", "netgang-easy-late", *sorted(DRAWN), "netgang-conservative")),
    (
        "pollux",
        (None,),
        (
            *(GREEDY, "netgang-easy", "netgang-easy-late", *sorted(DRAWN), "netgang-easy-learned"),
            *("netgang-conservative", "netgang-levels", "netgang-levels-easy", "netgang-levels-easy-late"),
        ),
    ),
)
_KEPT: Final = ("jct_mean_s", "jct_p50_s", "jct_p99_s", "wait_p99_largest_tenth_s", "gpu_requested_ratio")


def largest(outcomes: Sequence[JobOutcome]) -> list[JobOutcome]:
    """The tenth of the jobs that asked for most workers, as in `lab.simulator.summary`."""
    return sorted(outcomes, key=lambda one: -one.job.pods)[: ceil(len(outcomes) / 10)]


def busy_ratio(outcomes: Sequence[JobOutcome], gpus: int) -> float:
    """Share of the GPUs that jobs have until the last one arrives."""
    last_s = max(one.job.arrival_s for one in outcomes)
    had_s = 0.0
    for one in outcomes:
        if one.started_s is not None and one.ended_s is not None:
            had_s += one.job.workers * max(min(one.ended_s, last_s) - one.started_s, 0.0)
    return had_s / (gpus * last_s)


def row(labels: dict[str, Any], one: Scenario, policy: str, assume: Any) -> dict[str, Any]:
    """One run."""
    result = run(one, POLICIES[policy](choices_of(assume, one.seed)), tuning=tuning_of(assume))
    found = row_of(result)
    gpus = sum(dict(node.allocatable.items).get("nvidia.com/gpu", 0) for node in one.nodes)  # type: ignore[call-overload]
    waits = [other.waited_s for other in largest(result.outcomes)]
    return {
        "policy": policy,
        **labels,
        "seed": one.seed,
        "nodes": len(one.nodes),
        **{name: found[name] for name in _KEPT},
        "wait_mean_largest_tenth_s": round(fmean(waits), 1),
        "gpu_while_arriving_ratio": round(busy_ratio(result.outcomes, gpus), 4) if not found["suspensions"] else None,
    }


def made(policies: Sequence[str] = (), workload: str = "") -> Iterator[dict[str, Any]]:
    """All rows, or those of some policies on workloads whose names begin with this."""
    for name, loads, names in RUNS:
        for policy in (one for one in names if not policies or one in policies):
            for seed in SEEDS if policy in DRAWN else SEEDS[:1]:
                file = load(name, changes={"seed": seed})
                for labels, one in scenarios(file):
                    if labels.get("load") in loads and str(labels["workload"]).startswith(workload):
                        yield row(dict(labels), one, policy, file.assume)


def main() -> None:
    """Write the record and its page; with arguments only print rows: of these workloads and policies."""
    arguments = sys.argv[1:]
    if arguments != ["page"]:
        rows = []
        for one in made(arguments[1:], *arguments[:1]):
            rows.append(one)
            sys.stdout.write(json.dumps(one) + "\n")
            sys.stdout.flush()
        if arguments:
            return
        FILE.write_text(json.dumps({"rows": rows}, indent=1) + "\n")
    PAGE.write_text(page(json.loads(FILE.read_text())["rows"]))


# -- the page ----------------------------------------------------------------------------------------------------------


def page(rows: Sequence[dict[str, Any]]) -> str:
    """The words with their tables; a policy is shown once all its runs are in the record."""
    text = WORDS.read_text()
    for name in ("philly-a 0.9", "philly-a 1.1", "philly-b 0.9", "pollux"):
        workload, _, load_ratio = name.partition(" ")
        mine = [
            one
            for one in rows
            if one["workload"].startswith(workload) and (not load_ratio or one["load"] == float(load_ratio))
        ]
        scenario, workloads = ("pollux", 5) if workload == "pollux" else ("philly", 1)
        [policies] = [names for known, _, names in RUNS if known == scenario]
        shown = [policy for policy in policies if len(of(mine, policy)) == workloads * seeds(policy)]
        lines = list(table(mine, shown))
        if missing := [policy for policy in policies if policy not in shown]:
            lines += ["", f"Not run yet: {', '.join(missing)}."]
        text = text.replace(f"[[{name}]]", "\n".join(lines))
    return text


def of(rows: Sequence[dict[str, Any]], policy: str) -> list[dict[str, Any]]:
    """The rows of one policy."""
    return [one for one in rows if one["policy"] == policy]


def seeds(policy: str) -> int:
    """How many seeds a policy is run with."""
    return len(SEEDS) if policy in DRAWN else 1


def table(rows: Sequence[dict[str, Any]], policies: Sequence[str]) -> Iterator[str]:
    """A line for each policy: means over workloads and seeds, and beside greedy back-fill."""
    yield "| policy | JCT mean | p50 | p99 | waiting p99 | waiting mean | GPUs | until the last arrival |"
    yield "|---|---|---|---|---|---|---|---|"
    for policy in policies:
        cells = [_cell(rows, policy, name) for name in (*_KEPT[:4], "wait_mean_largest_tenth_s")]
        cells += [_cell(rows, policy, name) for name in ("gpu_requested_ratio", "gpu_while_arriving_ratio")]
        yield f"| {policy} | {' | '.join(cells)} |"


def mean(rows: Sequence[dict[str, Any]], policy: str, name: str) -> float | None:
    """Of one policy's figure, over workloads and seeds."""
    values = [one[name] for one in of(rows, policy)]
    return None if None in values else fmean(values)


def _cell(rows: Sequence[dict[str, Any]], policy: str, name: str) -> str:
    value, greedy = mean(rows, policy, name), mean(rows, GREEDY, name)
    if value is None:
        return "–"
    if name.endswith("_ratio"):
        return f"{value:.1%}"
    if policy == GREEDY or not greedy:
        return f"{value:,.0f}"
    return f"{value:,.0f} ({value / greedy - 1:+.0%})"


if __name__ == "__main__":
    main()
