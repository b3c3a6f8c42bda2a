"""The whole experiment: each setting is made, and the same jobs run on each choice.

A *round* is all of that once, with seeds of its own. netgang's choice is the six nodes without an impairment: that it
takes those by what its agents measure is a row of the papers (`lab.papers.n4`). Rule: bounded. Each run has a limit,
and no run begins when it might end after the whole's limit; what was left out for that is counted in the result.
Rounds come one after the other, so that one that is cut short has whole rounds and some of each impairment.
"""

import os
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import product
from time import monotonic
from typing import Any, Final

import msgspec

from lab.bench.testbed.cases import SWEEP, Choice, Impairment, Setting, clean_ps_case, drawn, settings, worst_case
from lab.bench.testbed.nodes import Bed, bed
from lab.bench.testbed.result import Result, Row
from lab.bench.testbed.running_job import CONNECT_LIMITS, DATASETS, TOPOLOGIES, run_job
from lab.bench.testbed.shaping import shaped

SETTING_S: Final = 10.0
"""What making a setting takes at most."""


class Wanted(msgspec.Struct, frozen=True):
    """What to run."""

    sweep: dict[Impairment, tuple[float, ...]] = msgspec.field(default_factory=lambda: dict(SWEEP))
    datasets: tuple[str, ...] = tuple(DATASETS)
    topologies: tuple[str, ...] = TOPOLOGIES
    rounds: int = 1
    seed: int = 0
    run_s: float = 8.0
    """Longest time of one run; a longer one is cut short and its time is projected."""
    whole_s: float = 840.0
    steps: int | None = None


def experiment(wanted: Wanted, result: Result, tell: Callable[[str], None]) -> None:
    """Fill `result`, in a bed of its own; cut short it holds all runs until then. Errors: BedError, ChildFailed."""
    began_s = monotonic()
    left_out: Counter[str] = Counter()
    try:
        with bed() as made:
            for round_ in range(wanted.rounds):
                for setting in settings(wanted.sweep):
                    runs = len(wanted.datasets) * len(wanted.topologies) * len(Choice)
                    if began_s + wanted.whole_s - monotonic() > SETTING_S + wanted.run_s:
                        for row in _rows(made, wanted, setting, round_, result, tell, began_s + wanted.whole_s):
                            result.rows.append(row)
                            tell(_line(row))
                            runs -= 1
                    left_out[setting.title] += runs
            result.left_out = [f"{title}: {count} runs" for title, count in left_out.items() if count]
    finally:
        result.seconds = monotonic() - began_s


def _rows(
    made: Bed, wanted: Wanted, setting: Setting, round_: int, result: Result, tell: Callable[[str], None], ends_s: float
) -> Iterator[Row]:
    """The runs of a setting and round, but for those that might not end in time."""
    with shaped(made, setting):
        result.load.append(round(os.getloadavg()[0], 1))
        tell(f"round {round_ + 1}, {setting.title}")
        for dataset, topology, choice in product(wanted.datasets, wanted.topologies, Choice):
            if monotonic() + (1.0 + CONNECT_LIMITS) * wanted.run_s > ends_s:
                continue
            nodes = {
                Choice.NETGANG: tuple(one for one in made.nodes if one not in setting.impaired),
                Choice.WORST: worst_case(setting.impaired),
                Choice.CLEAN_PS: clean_ps_case(setting.impaired),
                Choice.RANDOM: drawn(f"{wanted.seed + round_}/{setting.title}/{dataset}/{topology}/0"),
            }[choice]
            what: dict[str, Any] = {"dataset": dataset, "topology": topology}
            how: dict[str, Any] = {"seed": wanted.seed + round_, "limit_s": wanted.run_s, "steps": wanted.steps}
            run = run_job(made, nodes, **what, **how)
            yield Row(
                **msgspec.structs.asdict(run),
                **what,
                impairment=setting.impairment.value,
                value=setting.value,
                choice=choice.value,
                nodes=nodes,
                impaired=sum(node in setting.impaired for node in nodes),
                round=round_,
            )


def _line(row: Row) -> str:
    time = "never began" if row.seconds is None else f"{row.seconds:.2f} s{'' if row.finished else ' (projected)'}"
    stale = "" if row.staleness is None else f", staleness {row.staleness:.1f}"
    return f"  {row.dataset:8} {row.topology:5} {row.choice:8} {row.impaired} impaired: {time}{stale}"
