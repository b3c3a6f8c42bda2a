"""What a training job is and what each of its ranks says when it ends."""

from typing import Any, Final, Self

import msgspec

from lab.bench.testbed.training.data import DATASETS, Dataset

PS: Final = "ps"
"""Synchronous parameter server: each step waits for the slowest worker."""
ASYNC: Final = "async"
"""Asynchronous parameter server: each worker pulls and pushes for itself."""
TOPOLOGIES: Final = (PS, ASYNC)
"""Rank 0 is the parameter server in both; the others are workers."""


class Job(msgspec.Struct, frozen=True):
    """What each rank gets. Rank i is at `addresses[i]`."""

    dataset: str
    topology: str
    addresses: tuple[str, ...]
    port: int
    seed: int
    steps: int
    """Of each worker; an asynchronous job ends after as many updates of all workers together as these make."""
    limit_s: float
    """Longest time for all steps together."""
    connect_s: float
    """Longest time for the connections."""

    @classmethod
    def from_json(cls, given: dict[str, Any]) -> Self:
        """As `to_builtins` wrote it."""
        return cls(**{**given, "addresses": tuple(given["addresses"])})

    @property
    def data(self) -> Dataset:
        """The data set by its name."""
        return DATASETS[self.dataset]

    @property
    def updates(self) -> int:
        """Gradients that the workers compute, all together."""
        return self.steps * (len(self.addresses) - 1)


class Trained(msgspec.Struct, frozen=True):
    """What one rank did."""

    rank: int
    steps: int
    """Whole steps; of an asynchronous parameter server, updates."""
    seconds: float
    finished: bool
    received_bytes: int
    expected_bytes: int
    """What it receives in a finished run; 0 for an asynchronous worker, whose share is not settled beforehand."""
    retransmits: int
    losses: tuple[float, ...] = ()
    """Loss of its batch at each step; a parameter server has none."""
    staleness: tuple[int, ...] = ()
    """Of an asynchronous parameter server: per update, how many others came between the worker's pull and its push."""

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return dict(msgspec.to_builtins(self))
