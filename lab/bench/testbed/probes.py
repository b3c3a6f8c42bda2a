"""Measure every directed pair of nodes: loss and one-way delay all at once, throughput a few pairs at a time.

Throughput tests that share a node would measure each other, so each round is a set of pairs without a common node (a
round-robin tournament), first in one direction and then in the other.
"""

import select
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Final

import msgspec

from lab.bench.testbed.nodes import Bed, address

_ROUNDS = count(1)
_TAIL_S: Final = 0.3


class Link(msgspec.Struct, frozen=True):
    """What was measured of one direction; None: the probe got no value."""

    loss_ratio: float
    delay_ms: float | None
    throughput_bps: float | None


Measured = dict[tuple[str, str], Link]
"""(source, target) → what was measured"""


class Effort(msgspec.Struct, frozen=True):
    """How long probes take."""

    packets: int = 100
    gap_s: float = 0.01
    warm_up_s: float = 0.15
    seconds: float = 0.45


def probe(bed: Bed, *, longest_delay_ms: float, effort: Effort | None = None) -> Measured:
    """Measure all directed pairs; `longest_delay_ms` is for how long a late packet is waited for. Errors: BedError.

    Cost: about 1.5 s, and 2(n − 1) rounds of throughput for n nodes (2n if n is odd).
    """
    effort = effort or Effort()
    packets = _packets(bed, effort, wait_s=longest_delay_ms / 1e3 + _TAIL_S)
    rates_bps = _rates(bed, effort)
    return {
        (source, target): Link(
            loss_ratio=max(1.0 - packets.get((source, target), (0, 0.0))[0] / effort.packets, 0.0),
            delay_ms=packets[source, target][1] if (source, target) in packets else None,
            throughput_bps=rates_bps[source, target],
        )
        for source in bed.processes
        for target in bed.processes
        if source != target
    }


def _packets(bed: Bed, effort: Effort, *, wait_s: float) -> dict[tuple[str, str], tuple[int, float]]:
    """(source, target) → packets that came, least delay in ms."""
    run = next(_ROUNDS)
    for node, process in bed.processes.items():
        targets = {one: address(one) for one in bed.processes if one != node}
        process.tell("send", targets=targets, run=run, count=effort.packets, gap_s=effort.gap_s)
    for process in bed.processes.values():
        process.answer(limit_s=30.0 + effort.packets * effort.gap_s)
    select.select([], [], [], wait_s)
    found = {}
    for target, process in bed.processes.items():
        for source, (received, delay_ms) in process.ask("seen", limit_s=10.0, run=run).items():
            found[source, target] = (int(received), float(delay_ms))
    return found


def _rates(bed: Bed, effort: Effort) -> dict[tuple[str, str], float | None]:
    found: dict[tuple[str, str], float | None] = {}
    for pairs in tournament(sorted(bed.processes)):
        for round_ in (pairs, [(target, source) for source, target in pairs]):
            for source, target in round_:
                how = {"warm_up_s": effort.warm_up_s, "seconds": effort.seconds}
                bed.processes[source].tell("throughput", to=address(target), **how)
            for source, target in round_:
                found[source, target] = bed.processes[source].answer(limit_s=20.0)
    return found


def tournament(names: Sequence[str]) -> Iterator[list[tuple[str, str]]]:
    """Rounds in which each pair comes once and no node twice in one round.

    >>> list(tournament(["a", "b", "c"]))
    [[('a', 'b')], [('a', 'c')], [('b', 'c')]]
    """
    ring: list[str | None] = [*names] if len(names) % 2 == 0 else [None, *names]
    half = len(ring) // 2
    for _ in range(len(ring) - 1):
        yield [
            (min(a, b), max(a, b))
            for a, b in zip(ring[:half], reversed(ring[half:]), strict=True)
            if a is not None and b is not None
        ]
        ring = [ring[0], ring[-1], *ring[1:-1]]
