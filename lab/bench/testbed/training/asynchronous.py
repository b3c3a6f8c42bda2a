"""Asynchronous parameter server: rank 0 applies each gradient as it comes, and no worker waits for another.

A worker pulls the parameters, computes on its own batch and pushes the gradient; the server moves by it at once and
sends that worker the new parameters. A slow worker therefore does fewer steps and delays no other. The price is
*staleness*: the updates of others that came between a worker's pull and its push (Dean et al., NIPS 2012, "Large Scale
Distributed Deep Networks", section 4.1).
"""

from collections.abc import Sequence
from socket import socket

import numpy as np

from lab.bench.testbed.training.data import Floats
from lab.bench.testbed.training.model import LEARNING_RATE
from lab.bench.testbed.training.wire import Flow, Meter, moved


class Server:
    """The parameters, and the staleness of each update; if `serve` is cut short, those until then."""

    def __init__(self, parameters: Floats) -> None:
        self.parameters = parameters
        self.staleness: list[int] = []
        """Per update: updates of other workers since its worker's pull."""

    def serve(self, workers: Sequence[socket], meter: Meter, *, updates: int) -> None:
        """Apply that many gradients as they arrive. Each moves by a worker's part of a synchronous step.

        Errors: OutOfTime at the deadline; ConnectionError when a worker is gone.
        """
        inbox = {one: np.empty_like(self.parameters) for one in workers}
        pulled_at = dict.fromkeys(workers, 0)
        rate = np.float32(LEARNING_RATE / len(workers))
        # A copy goes out: the parameters change while a slow worker still receives them.
        flows = {one: Flow.of(send=[self.parameters.copy()], receive=[inbox[one]]) for one in workers}
        for one in moved(meter, flows):
            self.parameters -= rate * inbox[one]
            self.staleness.append(len(self.staleness) - pulled_at[one])
            if len(self.staleness) == updates:
                return
            pulled_at[one] = len(self.staleness)
            flows[one] = Flow.of(send=[self.parameters.copy()], receive=[inbox[one]])
