"""Random runs of a small cluster with back-fill: what each promised gang was promised first, and when it started.

Many of them: `python -m tests.scoring.plan.random_runs 10000 [--first 500]`.
"""

import argparse
import sys
from collections.abc import Callable, Iterable
from itertools import product
from random import Random
from typing import Final

import msgspec

from scoring import GangKey
from scoring.model.policy import Order, Policy, QueuePolicy
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


class Found(msgspec.Struct, frozen=True):
    """Of one promise."""

    gang: str
    late_s: float  # By how much the gang started later than it was promised first; below 0: sooner
    error_s: float
    """By how much a gang outlived the end that was expected of it, at most: of those that ran when the promise was
    made, or were given room until the promised gang started"""


def run(seed: int, says: str, order: Order = Order.FIFO) -> list[Found]:
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
    world = World(nodes, jobs, Policy(queue=QueuePolicy(order=order)))
    world.run()
    return [
        Found(key, world.started_s[key] - at_s, max((_outlived_s(one, key, world) for one in jobs), default=0.0))
        for key, at_s in world.promised_s.items()
    ]


def _outlived_s(one: Job, promised: str, world: World) -> float:
    """By how much a gang ran longer than was expected when the other was promised its start, or when it started."""
    if one.says_s is None or one.key == promised or one.key not in world.started_s:  # some are too large to start
        return 0.0
    made_s, start_s, end_s = world.promised_at_s[GangKey(promised)], world.started_s[one.key], world.ended_s[one.key]
    if end_s <= made_s or start_s >= world.started_s[GangKey(promised)]:
        return 0.0
    expected_s = one.says_s
    while start_s + expected_s <= made_s:  # it has outlived that already
        expected_s *= 2.0
    return end_s - start_s - expected_s


def broken(seeds: Iterable[int], says: str, order: Order = Order.FIFO) -> tuple[int, list[tuple[int, Found]]]:
    """How many promises were made, and those that were kept later than the lengths that were said explain, by seed."""
    promised, wrong = 0, []
    for seed in seeds:
        found = run(seed, says, order)
        promised += len(found)
        wrong += [(seed, one) for one in found if one.late_s > max(one.error_s, 0.0) + 0.002]
    return promised, wrong


def main() -> None:
    """Run and print; ends with status 1 if a promise was broken."""
    parser = argparse.ArgumentParser(description="Random runs with promised starts")
    parser.add_argument("runs", type=int)
    parser.add_argument("--first", type=int, default=0, help="seed of the first run")
    options = parser.parse_args()
    seeds, failed = range(options.first, options.first + options.runs), False
    for says, order in product(SAYS, (Order.FIFO, Order.WEIGHT)):
        promised, wrong = broken(seeds, says, order)
        failed |= bool(wrong)
        counts = f"{len(seeds)} runs, {promised} promises, {len(wrong)} broken"
        sys.stdout.write(f"{says} {order}: {counts} {wrong[:3]}\n")
        sys.stdout.flush()
    sys.exit(failed)


if __name__ == "__main__":
    main()
