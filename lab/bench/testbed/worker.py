"""One rank of a training job: connect to the others, train, say how far it came. TCP sockets carry every gradient.

Rank 0 is the parameter server. A synchronous step: every worker receives the parameters (pull), computes on its own
batch and sends the gradient (push); the server waits for all, takes the mean and moves. Asynchronous: the server moves
by each gradient as it comes and sends that worker the new parameters, so that a slow worker does fewer steps and delays
no other. The price is *staleness*: the updates of others that came between a worker's pull and its push (Dean et al.,
NIPS 2012, "Large Scale Distributed Deep Networks", section 4.1).

Rules: a synchronous server and a single process give the same gradients; what differs between two runs is then the
network alone. Three stages, each started only when all ranks are through with the one before (their parent sees to
it), so that the time of training holds neither process start nor connection set-up. A rank that runs out of time says
how many bytes it had received of how many: a run that is cut short is never taken for a finished one.
"""

import socket
from collections.abc import Iterator, Sequence
from contextlib import suppress
from time import monotonic

import msgspec
import numpy as np

from lab.bench.testbed.model import ASYNC, LEARNING_RATE, PS, Job, Model, batch
from lab.bench.testbed.wire import Flow, Meter, OutOfTime, moved, prepared, transfer


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
    losses: tuple[float, ...] = ()
    """Loss of its batch at each step; a parameter server has none."""
    staleness: tuple[int, ...] = ()
    """Of an asynchronous parameter server: per update, how many others came between the worker's pull and its push."""


class Rank:
    """One member of a job. `listen`, then `connect`, then `train`, then `close`."""

    def __init__(self, job: Job, rank: int) -> None:
        self._job = job
        self._rank = rank
        self._model = Model(job.data.pixels, job.data.hidden)
        self._listener: socket.socket | None = None
        self._out: dict[int, socket.socket] = {}
        """rank → connection that we opened"""
        self._in: dict[int, socket.socket] = {}
        """rank → connection that it opened"""

    def listen(self) -> None:
        """Accept connections from now on."""
        self._listener = socket.create_server((self._job.addresses[self._rank], self._job.port))

    def connect(self) -> None:
        """Call the server, or take the workers' calls. Errors: OSError when time runs out."""
        deadline_s = monotonic() + self._job.connect_s
        if self._rank != 0:
            left_s = max(deadline_s - monotonic(), 0.001)  # the kernel repeats lost handshakes until then
            one = socket.create_connection((self._job.addresses[0], self._job.port), timeout=left_s)
            one.sendall(bytes([self._rank]))
            self._out[0] = prepared(one)
            return
        assert self._listener is not None
        while len(self._in) < len(self._job.addresses) - 1:
            self._listener.settimeout(max(deadline_s - monotonic(), 0.001))
            one, _ = self._listener.accept()
            one.settimeout(max(deadline_s - monotonic(), 0.001))
            said = one.recv(1)
            if not said:
                raise ConnectionResetError("a rank went before it said which one it is")
            self._in[said[0]] = prepared(one)

    def train(self) -> Trained:
        """All steps, or as many as the time allows."""
        job = self._job
        self._parameters = self._model.initial(job.seed)
        self._inbox = np.empty((len(self._in), self._model.size), np.float32)
        began_s = monotonic()
        meter = Meter(began_s + job.limit_s)
        if job.topology == ASYNC and self._rank == 0:
            return self._serve(meter, began_s)
        losses: list[float] = []
        steps = 0
        try:
            # An asynchronous worker goes on until the server has what it wants, and hangs up.
            for step in range(job.updates if job.topology == ASYNC else job.steps):
                losses += self._step(step, meter)
                steps += 1
            self._barrier(meter)
        except (OutOfTime, ConnectionError):  # an end is gone when its rank ran out of time first
            pass
        expected = self._expected_bytes()
        return Trained(
            rank=self._rank,
            steps=steps,
            seconds=monotonic() - began_s,
            finished=job.topology == ASYNC or meter.received_bytes == expected,
            received_bytes=meter.received_bytes,
            expected_bytes=expected,
            losses=tuple(losses),
        )

    def close(self) -> None:
        """Drop all connections at once."""
        for one in (*self._out.values(), *self._in.values()):
            one.close()
        if self._listener is not None:
            self._listener.close()

    def _serve(self, meter: Meter, began_s: float) -> Trained:
        """Be an asynchronous server; then hang up, which is how the workers learn that it is over."""
        staleness: list[int] = []
        with suppress(OutOfTime, ConnectionError):  # what was applied until then is said
            for stale in self._updates(meter):
                staleness.append(stale)
                if len(staleness) == self._job.updates:
                    break
        seconds = monotonic() - began_s
        self.close()
        applied, size = len(staleness), 4 * self._model.size
        return Trained(
            rank=self._rank,
            steps=applied,
            seconds=seconds,
            finished=applied == self._job.updates,
            received_bytes=applied * size,  # a gradient that came too late, or in part, counts for nothing
            expected_bytes=self._job.updates * size,
            staleness=tuple(staleness),
        )

    def _updates(self, meter: Meter) -> Iterator[int]:
        """Move by each gradient as it comes, by a worker's part of a synchronous step; gives each one's staleness."""
        workers = self._callers_in_order()
        inbox = {one: np.empty_like(self._parameters) for one in workers}
        pulled_at = dict.fromkeys(workers, 0)
        rate = np.float32(LEARNING_RATE / len(workers))
        # A copy goes out: the parameters change while a slow worker still receives them.
        flows = {one: Flow.of(send=[self._parameters.copy()], receive=[inbox[one]]) for one in workers}
        for number, one in enumerate(moved(meter, flows)):
            self._parameters -= rate * inbox[one]
            yield number - pulled_at[one]
            pulled_at[one] = number + 1
            flows[one] = Flow.of(send=[self._parameters.copy()], receive=[inbox[one]])

    def _step(self, step: int, meter: Meter) -> Sequence[float]:
        """One step, numbered from 0; a worker gives the loss of its batch."""
        if self._rank == 0:
            workers = self._callers_in_order()
            transfer(meter, send=[(one, self._parameters) for one in workers])
            transfer(meter, receive=[(one, self._inbox[row]) for row, one in enumerate(workers)])
            self._parameters -= np.float32(LEARNING_RATE) * self._inbox.mean(axis=0)
            return ()
        transfer(meter, receive=[(self._out[0], self._parameters)])
        images, labels = batch(self._job.data, seed=self._job.seed, worker=self._rank - 1, step=step)
        loss, gradient = self._model.gradient(self._parameters, images, labels)
        transfer(meter, send=[(self._out[0], gradient)])
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

    def _expected_bytes(self) -> int:
        if self._job.topology == ASYNC:
            return 0  # of a worker; the server counts updates
        members, size, steps = len(self._job.addresses), 4 * self._model.size, self._job.steps
        return (members - 1) * size * steps if self._rank == 0 else size * steps + 4
