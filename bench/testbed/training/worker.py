"""One rank of a training job: connect to the others, train, say how far it came.

Rule: three stages, each started only when all ranks are through with the one before (their parent sees to that),
so that the time of training holds neither process start nor connection set-up. A rank that runs out of time says how
many bytes it had received of how many: a run that is cut short is never taken for a finished one.
"""

import socket
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from time import monotonic
from typing import Any, Self

import numpy as np

from bench.testbed.training.data import DATASETS, Dataset, Floats, batch
from bench.testbed.training.model import LEARNING_RATE, Model
from bench.testbed.training.ps import serve_step, work_step
from bench.testbed.training.ring import all_reduce
from bench.testbed.training.wire import Meter, OutOfTime, prepared, retransmitted, transfer

PS = "ps"
RING = "ring"
TOPOLOGIES = (PS, RING)


@dataclass(frozen=True, slots=True)
class Job:
    """What each rank gets. Rank i is at `addresses[i]`; with a parameter server, rank 0 is it."""

    dataset: str
    topology: str
    addresses: tuple[str, ...]
    port: int
    seed: int
    steps: int
    limit_s: float
    """Longest time for all steps together."""
    connect_s: float
    """Longest time for the connections."""

    @classmethod
    def from_json(cls, given: dict[str, Any]) -> Self:
        """As `asdict` wrote it."""
        return cls(**{**given, "addresses": tuple(given["addresses"])})

    @property
    def data(self) -> Dataset:
        """The data set by its name."""
        return DATASETS[self.dataset]


@dataclass(frozen=True, slots=True)
class Trained:
    """What one rank did."""

    rank: int
    steps: int
    """Whole steps."""
    seconds: float
    finished: bool
    received_bytes: int
    expected_bytes: int
    """What it receives in a finished run."""
    retransmits: int
    losses: tuple[float, ...] = field(default=())
    """Loss of its batch at each step; a parameter server has none."""

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


class Rank:
    """One member of a job. `listen`, then `connect`, then `train`, then `close`."""

    def __init__(self, job: Job, rank: int) -> None:
        self._job = job
        self._rank = rank
        self._model = Model.of(job.data)
        self._listener: socket.socket | None = None
        self._out: dict[int, socket.socket] = {}
        """rank → connection that we opened"""
        self._in: dict[int, socket.socket] = {}
        """rank → connection that it opened"""

    def listen(self) -> None:
        """Accept connections from now on."""
        self._listener = socket.create_server((self._job.addresses[self._rank], self._job.port))

    def connect(self) -> None:
        """Open our connections and accept those of the others. Errors: OSError when time runs out."""
        deadline_s = monotonic() + self._job.connect_s
        for other in self._calls():
            one = _opened((self._job.addresses[other], self._job.port), deadline_s)
            one.sendall(bytes([self._rank]))
            self._out[other] = prepared(one)
        assert self._listener is not None
        while len(self._in) < self._callers():
            self._listener.settimeout(max(deadline_s - monotonic(), 0.001))
            one, _ = self._listener.accept()
            one.settimeout(max(deadline_s - monotonic(), 0.001))
            said = one.recv(1)
            if not said:
                raise ConnectionResetError("a rank went before it said which one it is")
            self._in[said[0]] = prepared(one)

    def train(self) -> Trained:
        """All steps, or as many as the time allows."""
        began_s = monotonic()
        meter = Meter(began_s + self._job.limit_s)
        losses: list[float] = []
        steps = 0
        try:
            for step in range(self._job.steps):
                losses += self._step(step, meter)
                steps += 1
            self._barrier(meter)
        except (OutOfTime, ConnectionError):  # an end is gone when its rank ran out of time first
            pass
        return Trained(
            rank=self._rank,
            steps=steps,
            seconds=monotonic() - began_s,
            finished=meter.received_bytes == self._expected_bytes(),
            received_bytes=meter.received_bytes,
            expected_bytes=self._expected_bytes(),
            retransmits=sum(map(retransmitted, (*self._out.values(), *self._in.values()))),
            losses=tuple(losses),
        )

    def close(self) -> None:
        """Drop all connections at once."""
        for one in (*self._out.values(), *self._in.values()):
            one.close()
        if self._listener is not None:
            self._listener.close()

    @property
    def parameters(self) -> Floats:
        """The parameters after what was trained so far; of a ps worker those that it pulled last."""
        return self._parameters

    def _step(self, step: int, meter: Meter) -> Sequence[float]:
        job, model = self._job, self._model
        if step == 0:
            self._parameters = model.initial(job.seed)
            self._inbox = np.empty((len(self._in), model.size), np.float32)
        if job.topology == PS:
            if self._rank == 0:
                serve_step(self._parameters, self._callers_in_order(), self._inbox, meter)
                return ()
            worker = self._rank - 1
            return [
                work_step(
                    model, job.data, self._out[0], self._parameters, meter, seed=job.seed, worker=worker, step=step
                )
            ]
        images, labels = batch(job.data, seed=job.seed, worker=self._rank, step=step)
        loss, gradient = model.gradient(self._parameters, images, labels)
        members = len(job.addresses)
        left, right = self._in[(self._rank - 1) % members], self._out[(self._rank + 1) % members]
        all_reduce(gradient, self._rank, members, left=left, right=right, meter=meter)
        self._parameters -= np.float32(LEARNING_RATE / members) * gradient
        return [loss]

    def _barrier(self, meter: Meter) -> None:
        """A ps worker waits for the server's word that the last step counts: only then has the gradient arrived."""
        if self._job.topology != PS:
            return
        word = np.zeros(1, np.float32)
        if self._rank == 0:
            transfer(meter, send=[(one, word) for one in self._callers_in_order()])
        else:
            transfer(meter, receive=[(self._out[0], word)])

    def _callers_in_order(self) -> list[socket.socket]:
        return [one for _, one in sorted(self._in.items())]

    def _calls(self) -> tuple[int, ...]:
        """Ranks to which we open a connection."""
        if self._job.topology == RING:
            return ((self._rank + 1) % len(self._job.addresses),)
        return () if self._rank == 0 else (0,)

    def _callers(self) -> int:
        """How many open a connection to us."""
        if self._job.topology == RING:
            return 1
        return len(self._job.addresses) - 1 if self._rank == 0 else 0

    def _expected_bytes(self) -> int:
        members, size, steps = len(self._job.addresses), 4 * self._model.size, self._job.steps
        if self._job.topology == PS:
            return (members - 1) * size * steps if self._rank == 0 else size * steps + 4
        chunk = [4 * len(part) for part in np.array_split(np.empty(self._model.size), members)]
        # In each half every chunk comes by but one: our own right neighbour's first, then the one we finished.
        added = sum(chunk) - chunk[self._rank]
        handed = sum(chunk) - chunk[(self._rank + 1) % members]
        return steps * (added + handed)


def _opened(address: tuple[str, int], deadline_s: float) -> socket.socket:
    """A connection; the kernel repeats lost handshakes until the deadline. Errors: OSError."""
    left_s = deadline_s - monotonic()
    if left_s <= 0.0:
        raise TimeoutError(f"no connection to {address[0]}:{address[1]}")
    return socket.create_connection(address, timeout=left_s)
