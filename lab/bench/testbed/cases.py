"""What is impaired, by how much, and which six nodes train.

The impaired nodes are the paper's (node33, node34, node35 of node28 … node36, PAPERS N4). *worst* has all three among
the six, and the parameter server, which is first, on one of them: a published "worst case" names no roles, and this is
the worst. *clean ps* is the worst case with the parameter server on a clean node: the same six nodes, of which only
workers are slow. *random* draws the six in random order.
"""

import random
from collections.abc import Mapping
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


def settings(sweep: Mapping[Impairment, tuple[float, ...]]) -> list[Setting]:
    """Each value of each impairment."""
    return [Setting(impairment, value) for impairment, values in sweep.items() for value in values]


def worst_case() -> tuple[str, ...]:
    """All impaired nodes first, then the first others by name.

    >>> worst_case()
    ('node33', 'node34', 'node35', 'node28', 'node29', 'node30')
    """
    others = [one for one in NODES if one not in IMPAIRED]
    return (*IMPAIRED, *others[: WANTED - len(IMPAIRED)])


def clean_ps_case() -> tuple[str, ...]:
    """The worst case's nodes, a clean one first.

    >>> clean_ps_case()
    ('node28', 'node33', 'node34', 'node35', 'node29', 'node30')
    """
    worst = worst_case()
    first = next(one for one in worst if one not in IMPAIRED)
    return (first, *(one for one in worst if one != first))


def drawn(seed: str) -> tuple[str, ...]:
    """Six nodes in an order, by chance; the same seed gives the same ones.

    >>> drawn("a") == drawn("a"), len(set(drawn("a")))
    (True, 6)
    """
    return tuple(random.Random(seed).sample(NODES, WANTED))
