"""How fast a job trains on the nodes where its members run: what the engine takes as an argument.

Rule: the engine knows members and nodes, and leaves everything else to the function that it is given.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from scoring.ids import NodeName
from scoring.model.resources import CPU
from simulator.model import Scenario, SimJob
from simulator.speed import Crowd, Wires, speed_of
from simulator.speed.rate import Placement


@dataclass(frozen=True, slots=True)
class Placed:
    """Nodes of a job's running members, by index."""

    ps: tuple[NodeName, ...]
    workers: tuple[NodeName, ...]


@dataclass(frozen=True, slots=True)
class Rate:
    """How a job trains while nothing about it changes."""

    samples_per_s: float
    busy_cores: float
    """Cores that compute, mean over time."""
    step_samples: float = 0.0
    """Samples of one step: what may have to be repeated is counted in steps."""


Training: TypeAlias = Callable[[SimJob, Placed], Rate]
"""Of a job with all its parameter servers and at least one worker."""


def constant(samples_per_s: float = 1.0) -> Training:
    """Every worker sees so many samples a second, wherever it is, and all requested cores are busy.

    >>> from scoring.model.resources import Resources
    >>> from simulator.model import Work
    >>> two = Resources.parse({"cpu": "2"})
    >>> job = SimJob("a", 0.0, Work("any", 8, 1e4), worker=two, workers=4, min_workers=2)
    >>> constant(10.0)(job, Placed((), (NodeName("n1"), NodeName("n2"))))
    Rate(samples_per_s=20.0, busy_cores=4.0, step_samples=0.0)
    """

    def rate(job: SimJob, at: Placed) -> Rate:
        millicores = job.worker.get(CPU) * len(at.workers) + job.ps.get(CPU) * len(at.ps)
        return Rate(samples_per_s * len(at.workers), millicores / 1000.0)

    return rate


def modelled(scenario: Scenario, *, unmeasured_bps: float = 1e9, card_bps: float = 10e9) -> Training:
    """The training-speed model of `simulator.speed` on the scenario's nodes and links, without other jobs' load.

    `unmeasured_bps`: rate of links without a measurement; `card_bps`: what a node's network card moves.
    """
    names = tuple(sorted(node.name for node in scenario.nodes))
    row_of = {name: row for row, name in enumerate(names)}
    wires = Wires(scenario.network, names, unmeasured_bps=unmeasured_bps, card_bps=card_bps)
    alone = Crowd({}, {})

    def rate(job: SimJob, at: Placed) -> Rate:
        rows = Placement(tuple(row_of[name] for name in at.ps), tuple(row_of[name] for name in at.workers))
        found = speed_of(job, rows, wires, alone)
        return Rate(found.samples_per_s, found.busy_cores, found.step_samples)

    return rate
