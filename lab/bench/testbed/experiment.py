"""The whole experiment: each setting is made, measured, netgang chooses, and the same jobs run on each choice.

A *round* is all of that once; each round measures and chooses again and has seeds of its own, so that the spread over
rounds is that of the whole procedure. Rule: bounded. Each run has a limit, and no run begins when it might end after
the whole's limit; what was left out for that is counted in the result.
Rounds come one after the other, so that one that is cut short has whole rounds and some of each impairment.
"""

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from time import monotonic
from typing import Final

import msgspec
from msgspec.structs import replace

from lab.bench.testbed.cases import SWEEP, Choice, Impairment, Setting, clean_ps_case, drawn, settings, worst_case
from lab.bench.testbed.model import DATASETS, TOPOLOGIES
from lab.bench.testbed.nodes import Bed, bed
from lab.bench.testbed.probes import Effort, probe
from lab.bench.testbed.result import Result, Row
from lab.bench.testbed.running_job import CONNECT_LIMITS, NEVER_BEGAN, run_job
from lab.bench.testbed.shaping import shaped

SETTING_S: Final = 40.0
"""What making and measuring a setting takes at most, and netgang's choice."""


class Wanted(msgspec.Struct, frozen=True):
    """What to run."""

    sweep: dict[Impairment, tuple[float, ...]] = msgspec.field(default_factory=lambda: dict(SWEEP))
    datasets: tuple[str, ...] = tuple(DATASETS)
    topologies: tuple[str, ...] = TOPOLOGIES
    rounds: int = 1
    draws: int = 1
    """Random choices beside each of netgang's."""
    seed: int = 0
    run_s: float = 8.0
    """Longest time of one run; a longer one is cut short and its time is projected."""
    whole_s: float = 840.0
    steps: int | None = None
    effort: Effort = msgspec.field(default_factory=Effort)


class _Begun(msgspec.Struct):
    """An experiment while it runs."""

    bed: Bed
    wanted: Wanted
    result: Result
    ends_s: float
    tell: Callable[[str], None]
    left_out: Counter[str] = msgspec.field(default_factory=Counter)
    """setting → runs for which there was no time"""


def experiment(wanted: Wanted, result: Result, tell: Callable[[str], None]) -> None:
    """Fill `result`, in a bed of its own; cut short it holds all runs until then. Errors: BedError."""
    began_s = monotonic()
    try:
        with bed() as made:
            result.congestion_control = next(iter(made.processes.values())).ask("congestion", limit_s=10.0)
            running = _Begun(made, wanted, result, began_s + wanted.whole_s, tell)
            for round_ in range(wanted.rounds):
                for setting in settings(wanted.sweep):
                    _one_setting(running, setting, round_)
            result.left_out = [f"{title}: {count} runs" for title, count in running.left_out.items()]
    finally:
        result.seconds = monotonic() - began_s


def _one_setting(running: _Begun, setting: Setting, round_: int) -> None:
    from lab.bench.testbed.choosing import chosen  # the whole service: `check` and `clean` do without

    wanted, result = running.wanted, running.result
    planned = list(_planned(setting, wanted, round_))
    if running.ends_s - monotonic() < SETTING_S + wanted.run_s:
        running.left_out[setting.title] += len(planned)
        return
    with shaped(running.bed, setting):
        result.load.append(round(os.getloadavg()[0], 1))
        longest_ms = setting.value if setting.impairment is Impairment.DELAY else 0.0
        measured = probe(running.bed, longest_delay_ms=longest_ms, effort=wanted.effort)
        ours = chosen(measured)
        running.tell(f"round {round_ + 1}, {setting.title}: netgang chose {', '.join(sorted(ours))}")
        for one in planned:
            if monotonic() + (1.0 + CONNECT_LIMITS) * wanted.run_s > running.ends_s:
                running.left_out[setting.title] += 1
                continue
            row = _ran(running, one, ours, setting.impaired)
            result.rows.append(row)
            running.tell(_line(row))


def _ran(running: _Begun, planned: Row, ours: tuple[str, ...], impaired: Sequence[str]) -> Row:
    nodes = planned.nodes or ours
    run = run_job(
        running.bed,
        nodes,
        dataset=planned.dataset,
        topology=planned.topology,
        seed=running.wanted.seed + planned.round,
        limit_s=running.wanted.run_s,
        steps=running.wanted.steps,
    )
    seen = msgspec.structs.asdict(run)
    return replace(planned, nodes=nodes, impaired=sum(node in impaired for node in nodes), **seen)


def _planned(setting: Setting, wanted: Wanted, round_: int) -> Iterator[Row]:
    """The runs of a setting and round, with nothing run yet; netgang's have no nodes yet."""
    for dataset in wanted.datasets:
        for topology in wanted.topologies:
            choices: list[tuple[Choice, tuple[str, ...]]] = [
                (Choice.NETGANG, ()),
                (Choice.WORST, worst_case(setting.impaired)),
                (Choice.CLEAN_PS, clean_ps_case(setting.impaired)),
            ]
            for draw in range(wanted.draws):
                seed = f"{wanted.seed + round_}/{setting.title}/{dataset}/{topology}/{draw}"
                choices.append((Choice.RANDOM, drawn(seed)))
            for number, (choice, nodes) in enumerate(choices):
                yield Row(
                    **msgspec.structs.asdict(NEVER_BEGAN),
                    dataset=dataset,
                    topology=topology,
                    impairment=setting.impairment.value,
                    value=setting.value,
                    choice=choice.value,
                    nodes=nodes,
                    impaired=0,
                    round=round_,
                    draw=max(0, number - (len(choices) - wanted.draws)),
                )


def _line(row: Row) -> str:
    time = "never began" if row.seconds is None else f"{row.seconds:.2f} s{'' if row.finished else ' (projected)'}"
    stale = "" if row.staleness is None else f", staleness {row.staleness:.1f}"
    return f"  {row.dataset:8} {row.topology:5} {row.choice:8} {row.impaired} impaired: {time}{stale}"
