"""Synchronous parameter server: rank 0 keeps the parameters, all others compute.

One step: every worker receives the parameters (pull), computes on its own batch and sends the gradient (push); the
server waits for all, takes the mean and moves. One step is over for a worker when its gradient is sent.
"""

from collections.abc import Sequence
from socket import socket

import numpy as np

from lab.bench.testbed.training.data import Dataset, Floats, batch
from lab.bench.testbed.training.model import LEARNING_RATE, Model
from lab.bench.testbed.training.wire import Meter, transfer


def serve_step(parameters: Floats, workers: Sequence[socket], inbox: Floats, meter: Meter) -> None:
    """One step of the server; changes `parameters`. `inbox` has a row for each worker."""
    transfer(meter, send=[(one, parameters) for one in workers])
    transfer(meter, receive=[(one, inbox[row]) for row, one in enumerate(workers)])
    parameters -= np.float32(LEARNING_RATE) * inbox.mean(axis=0)


def work_step(
    model: Model,
    data: Dataset,
    server: socket,
    parameters: Floats,
    meter: Meter,
    *,
    seed: int,
    worker: int,
    step: int,
) -> float:
    """One step of a worker, numbered from 0; gives the loss of its batch. `parameters` is overwritten."""
    transfer(meter, receive=[(server, parameters)])
    loss, gradient = model.gradient(parameters, *batch(data, seed=seed, worker=worker, step=step))
    transfer(meter, send=[(server, gradient)])
    return loss
