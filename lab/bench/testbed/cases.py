"""The experiment's words: what is impaired, by how much, and which six nodes train.

The impaired nodes are the paper's (node33, node34, node35 of node28 … node36, PAPERS N4); values are those between
which its figures run (N5). *worst* has all three among the six, and the job's first rank, the parameter server, on one
of them: a published "worst case" names no roles, and this is the worst. *random* draws the
six in random order. *clean ps* is the worst case with the parameter server on a clean node: the same six nodes, of
which only workers are slow.
"""

import random
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final

import msgspec

from lab.bench.testbed.nodes import NODES

WANTED: Final = 6
IMPAIRED: Final = ("node33", "node34", "node35")
BASE_BPS: Final = 100_000_000
"""Rate of every link that is not impaired, in each direction."""


class Impairment(StrEnum):
    """What is wrong with three nodes."""

    BANDWIDTH = "bandwidth"
    """Mbit/s of all they send and of all they get."""
    LOSS = "loss"
    """Percent of the packets that they send."""
    DELAY = "delay"
    """Milliseconds on all that they send."""

    @property
    def unit(self) -> str:
        """Of the values."""
        return {"bandwidth": "Mbit/s", "loss": "%", "delay": "ms"}[self.value]


class Choice(StrEnum):
    """What chose the six nodes."""

    NETGANG = "netgang"
    WORST = "worst"
    CLEAN_PS = "clean ps"
    """As the worst case, but with rank 0 on a clean node."""
    RANDOM = "random"


class Setting(msgspec.Struct, frozen=True):
    """One state of the network."""

    impairment: Impairment
    value: float
    impaired: tuple[str, ...] = IMPAIRED

    @property
    def title(self) -> str:
        """For people.

        >>> Setting(Impairment.LOSS, 5).title
        'loss 5 %'
        """
        return f"{self.impairment.value} {self.value:g} {self.impairment.unit}"


SWEEP: Final = {
    Impairment.BANDWIDTH: (40.0, 65.0, 90.0),
    Impairment.LOSS: (5.0, 20.0, 50.0),
    Impairment.DELAY: (50.0, 250.0, 500.0),
}
"""The ends of the published ranges and one value between."""


def settings(sweep: Mapping[Impairment, tuple[float, ...]]) -> list[Setting]:
    """All of them, one of each impairment in turn, so that a run that is cut short has some of each."""
    longest = max(map(len, sweep.values()))
    return [
        Setting(impairment, values[number])
        for number in range(longest)
        for impairment, values in sweep.items()
        if number < len(values)
    ]


def worst_case(impaired: Sequence[str] = IMPAIRED, nodes: Sequence[str] = NODES) -> tuple[str, ...]:
    """All impaired nodes first, then the first others by name.

    >>> worst_case()
    ('node33', 'node34', 'node35', 'node28', 'node29', 'node30')
    """
    others = [one for one in nodes if one not in impaired]
    return (*impaired, *others[: WANTED - len(impaired)])


def clean_ps_case(impaired: Sequence[str] = IMPAIRED, nodes: Sequence[str] = NODES) -> tuple[str, ...]:
    """The worst case's nodes, a clean one first.

    >>> clean_ps_case()
    ('node28', 'node33', 'node34', 'node35', 'node29', 'node30')
    """
    worst = worst_case(impaired, nodes)
    first = next(one for one in worst if one not in impaired)
    return (first, *(one for one in worst if one != first))


def drawn(seed: str, nodes: Sequence[str] = NODES) -> tuple[str, ...]:
    """Six nodes in an order, by chance; the same seed gives the same ones.

    >>> drawn("a") == drawn("a"), len(set(drawn("a")))
    (True, 6)
    """
    return tuple(random.Random(seed).sample(list(nodes), WANTED))
