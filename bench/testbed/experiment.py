"""The whole experiment: each setting is made, measured, netgang chooses, and the same jobs run on each choice.

Rule: bounded. Each run has a limit, and no run begins when it might end after the whole's limit; what was left out for
that is in the result. The order of runs gives each impairment its share of a run that is cut short.
"""

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any, Final, Self

from bench.testbed.cases import BASE_BPS, SWEEP, Choice, Impairment, Setting, drawn, settings, worst_case
from bench.testbed.kernel import Kernel
from bench.testbed.nodes import NODES, Bed, bed
from bench.testbed.probes import Effort, Measured, probe
from bench.testbed.record import RECORDS
from bench.testbed.running_job import CONNECT_LIMITS, Run, run_job
from bench.testbed.shaping import shaped
from bench.testbed.training.data import DATASETS
from bench.testbed.training.worker import TOPOLOGIES

SETTING_S: Final = 40.0
"""What making and measuring a setting takes at most, and netgang's choice."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to run."""

    sweep: dict[Impairment, tuple[float, ...]] = field(default_factory=lambda: dict(SWEEP))
    datasets: tuple[str, ...] = tuple(DATASETS)
    topologies: tuple[str, ...] = TOPOLOGIES
    draws: int = 1
    """Random choices beside each of netgang's."""
    seed: int = 0
    run_s: float = 8.0
    """Longest time of one run; a longer one is cut short and its time is projected."""
    whole_s: float = 840.0
    steps: int | None = None
    effort: Effort = field(default_factory=Effort)


@dataclass(frozen=True, slots=True)
class Row:
    """One run of one job."""

    dataset: str
    topology: str
    impairment: str
    value: float
    choice: str
    nodes: tuple[str, ...]
    impaired: int
    """How many of the three impaired nodes are among them."""
    run: Run

    def as_json(self) -> dict[str, Any]:
        """One flat object."""
        fields = {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "run"}
        return {**fields, "nodes": list(self.nodes), **asdict(self.run)}

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> Self:
        """As `as_json` wrote it."""
        run = Run(**{name: given[name] for name in Run.__dataclass_fields__})
        own = {name: given[name] for name in cls.__dataclass_fields__ if name != "run"}
        return cls(**{**own, "nodes": tuple(given["nodes"]), "run": run})


@dataclass(slots=True)
class Result:
    """What came of it."""

    seed: int
    delay_by: str
    congestion: str = ""
    rows: list[Row] = field(default_factory=list)
    probes: list[dict[str, Any]] = field(default_factory=list)
    """Per setting: medians of what was measured between clean nodes and from impaired ones."""
    left_out: list[str] = field(default_factory=list)
    load: list[float] = field(default_factory=list)
    """Runnable processes of the whole machine at each setting (mean of a minute): what else there was to wait for."""
    seconds: float = 0.0


def experiment(
    kernel: Kernel, wanted: Wanted, *, tell: Callable[[str], None] | None = None, records: Path = RECORDS
) -> Result:
    """Run it all in a bed of its own, which is gone afterwards. Errors: BedError."""
    tell = tell or (lambda line: print(line, file=sys.stderr, flush=True))
    began_s = monotonic()
    result = Result(wanted.seed, kernel.delay_by)
    with bed(records=records) as made:
        result.congestion = next(iter(made.processes.values())).ask("congestion", limit_s=10.0)
        for setting in settings(wanted.sweep):
            left_s = wanted.whole_s - (monotonic() - began_s)
            if left_s < SETTING_S + wanted.run_s:
                result.left_out.append(setting.title)
                continue
            with shaped(made, kernel, setting):
                _one_setting(made, setting, wanted, result, tell, ends_s=began_s + wanted.whole_s)
    result.seconds = monotonic() - began_s
    return result


def _one_setting(
    made: Bed, setting: Setting, wanted: Wanted, result: Result, tell: Callable[[str], None], *, ends_s: float
) -> None:
    from bench.testbed.choosing import chosen  # the whole service: `check` and `clean` do without

    result.load.append(round(os.getloadavg()[0], 1))
    longest_ms = setting.value if setting.impairment is Impairment.DELAY else 0.0
    measured = probe(made, longest_delay_ms=longest_ms, effort=wanted.effort)
    result.probes.append({"impairment": setting.impairment.value, "value": setting.value, **summary(measured, setting)})
    ours = chosen(measured)
    tell(f"{setting.title}: netgang chose {', '.join(sorted(ours))}")
    for dataset, topology, choice, nodes in _runs(setting, wanted, ours):
        if monotonic() + (1.0 + CONNECT_LIMITS) * wanted.run_s > ends_s:
            result.left_out.append(f"{setting.title}, {dataset}, {topology}, {choice.value}")
            continue
        run = run_job(
            made, nodes, dataset=dataset, topology=topology, seed=wanted.seed, limit_s=wanted.run_s, steps=wanted.steps
        )
        impaired = sum(node in setting.impaired for node in nodes)
        row = Row(dataset, topology, setting.impairment.value, setting.value, choice.value, nodes, impaired, run)
        result.rows.append(row)
        tell(_line(row))


def _runs(
    setting: Setting, wanted: Wanted, ours: tuple[str, ...]
) -> Iterator[tuple[str, str, Choice, tuple[str, ...]]]:
    for dataset in wanted.datasets:
        for topology in wanted.topologies:
            yield dataset, topology, Choice.NETGANG, ours
            yield dataset, topology, Choice.WORST, worst_case(setting.impaired)
            for draw in range(wanted.draws):
                seed = f"{wanted.seed}/{setting.title}/{dataset}/{topology}/{draw}"
                yield dataset, topology, Choice.RANDOM, drawn(seed)


def _line(row: Row) -> str:
    run = row.run
    time = "never began" if run.seconds is None else f"{run.seconds:.2f} s{'' if run.finished else ' (projected)'}"
    return f"  {row.dataset:9} {row.topology:4} {row.choice:7} {row.impaired} impaired: {time}"


def summary(measured: Measured, setting: Setting) -> dict[str, float | None]:
    """Medians over the directed pairs that are clean, and over those whose sender is impaired."""
    clean = [link for (a, b), link in measured.items() if not {a, b} & set(setting.impaired)]
    sick = [link for (a, b), link in measured.items() if a in setting.impaired and b not in setting.impaired]
    found: dict[str, float | None] = {}
    for name, links in (("clean", clean), ("impaired", sick)):
        found[f"{name}_loss_ratio"] = _median([one.loss_ratio for one in links])
        found[f"{name}_delay_ms"] = _median([one.delay_ms for one in links])
        found[f"{name}_throughput_bps"] = _median([one.throughput_bps for one in links])
    return found


def _median(values: Sequence[float | None]) -> float | None:
    known = sorted(one for one in values if one is not None)
    return known[len(known) // 2] if known else None


__all__ = ["BASE_BPS", "NODES", "Result", "Row", "Wanted", "experiment", "summary"]
