"""One rank of a training job: connect to the others, train, say how far it came.

Rule: three stages, each started only when all ranks are through with the one before (their parent sees to that),
so that the time of training holds neither process start nor connection set-up. A rank that runs out of time says how
many bytes it had received of how many: a run that is cut short is never taken for a finished one.
"""

import socket
from collections.abc import Sequence
from contextlib import suppress
from time import monotonic

import numpy as np

from lab.bench.testbed.training.asynchronous import Server
from lab.bench.testbed.training.data import Floats
from lab.bench.testbed.training.job import ASYNC, PS, Job, Trained
from lab.bench.testbed.training.model import Model
from lab.bench.testbed.training.ps import serve_step, work_step
from lab.bench.testbed.training.wire import Meter, OutOfTime, prepared, retransmitted, transfer


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
        """Call the server, or take the workers' calls. Errors: OSError when time runs out."""
        deadline_s = monotonic() + self._job.connect_s
        if self._rank != 0:
            one = _opened((self._job.addresses[0], self._job.port), deadline_s)
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
            retransmits=self._retransmits(),
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

    def _serve(self, meter: Meter, began_s: float) -> Trained:
        """Be an asynchronous server; then hang up, which is how the workers learn that it is over."""
        server = Server(self._parameters)
        with suppress(OutOfTime, ConnectionError):  # what was applied until then is said
            server.serve(self._callers_in_order(), meter, updates=self._job.updates)
        seconds, retransmits = monotonic() - began_s, self._retransmits()
        self.close()
        applied, size = len(server.staleness), 4 * self._model.size
        return Trained(
            rank=self._rank,
            steps=applied,
            seconds=seconds,
            finished=applied == self._job.updates,
            received_bytes=applied * size,  # a gradient that came too late, or in part, counts for nothing
            expected_bytes=self._job.updates * size,
            retransmits=retransmits,
            staleness=tuple(server.staleness),
        )

    def _retransmits(self) -> int:
        return sum(map(retransmitted, (*self._out.values(), *self._in.values())))

    def _step(self, step: int, meter: Meter) -> Sequence[float]:
        if self._rank == 0:
            serve_step(self._parameters, self._callers_in_order(), self._inbox, meter)
            return ()
        job, worker = self._job, self._rank - 1
        return [
            work_step(
                self._model, job.data, self._out[0], self._parameters, meter, seed=job.seed, worker=worker, step=step
            )
        ]

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


def _opened(address: tuple[str, int], deadline_s: float) -> socket.socket:
    """A connection; the kernel repeats lost handshakes until the deadline. Errors: OSError."""
    left_s = deadline_s - monotonic()
    if left_s <= 0.0:
        raise TimeoutError(f"no connection to {address[0]}:{address[1]}")
    return socket.create_connection(address, timeout=left_s)
