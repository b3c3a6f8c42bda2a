"""Random runs of a small cluster with back-fill: what each promised gang was promised first, and when it started.

Many of them: `python -m tests.scoring.plan.backfill.random_runs 10000`, and perhaps `easy` or `conservative`.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import Final

from scoring.model.policy import Backfill, Order, Policy, QueuePolicy
from tests.builders import node
from tests.scoring.plan.virtual import Job, World

Says = Callable[[Random, float], float | None]
"""How long a gang's user says that it runs, by how long it does"""


def truth(chance: Random, length_s: float) -> float | None:
    """Exactly; but one in ten says nothing."""
    return None if chance.random() < 0.1 else length_s


def limit(chance: Random, length_s: float) -> float | None:
    """A true limit: up to five times too long."""
    return None if chance.random() < 0.1 else length_s * chance.uniform(1.0, 5.0)


def guess(chance: Random, length_s: float) -> float | None:
    """From a half to twice as long as it runs."""
    return length_s * 2.0 ** chance.uniform(-1.0, 1.0)


SAYS: Final[dict[str, Says]] = {"truth": truth, "limit": limit, "guess": guess}


@dataclass(frozen=True, slots=True)
class Found:
    """Of one run."""

    promised: int
    """Gangs that were promised a start"""
    late_s: float
    """The longest time by which one of them started later than it was promised first"""
    error_s: float
    """The longest time by which a gang outlived what its user said"""


def run(seed: int, says: str, mode: Backfill, order: Order = Order.FIFO) -> Found:
    """One run to its end."""
    chance = Random(f"{seed} {says}")
    zones = chance.choice(("a", "ab"))
    nodes = [node(f"{zone}{at}", zone=zone, cpu=str(chance.choice((2, 4)))) for zone in zones for at in range(3)]
    jobs: list[Job] = []
    for number in range(chance.randint(4, 14)):
        length_s = float(chance.randint(1, 100))
        jobs.append(
            Job(
                f"g{number:02}",
                arrives_s=float(chance.randint(0, 60)),
                size=chance.randint(1, 5),
                cpu=chance.choice((1, 1, 2)),
                length_s=length_s,
                says_s=SAYS[says](chance, length_s),
            )
        )
    policy = Policy(queue=QueuePolicy(order=order, backfill=mode))
    world = World(nodes, jobs, policy)
    world.run()
    late_s = max((world.started_s[key] - at_s for key, at_s in world.promised_s.items()), default=0.0)
    return Found(len(world.promised_s), late_s, max(one.length_s - (one.says_s or one.length_s) for one in jobs))


def broken(seeds: range, says: str, mode: Backfill, order: Order = Order.FIFO) -> tuple[int, list[tuple[int, Found]]]:
    """How many promises were made, and the runs in which one was kept later than the lengths that were said explain."""
    promised, wrong = 0, []
    for seed in seeds:
        found = run(seed, says, mode, order)
        promised += found.promised
        if found.late_s > max(found.error_s, 0.0) + 0.002:
            wrong.append((seed, replace(found)))
    return promised, wrong


if __name__ == "__main__":
    runs = int(sys.argv[1])
    for mode in map(Backfill, sys.argv[2:] or (Backfill.EASY, Backfill.CONSERVATIVE)):
        for says in SAYS:
            for order in (Order.FIFO, Order.WEIGHT):
                promised, wrong = broken(range(runs), says, mode, order)
                sys.stdout.write(
                    f"{mode} {says} {order}: {runs} runs, {promised} promises, {len(wrong)} broken {wrong[:3]}\n"
                )
                sys.stdout.flush()
