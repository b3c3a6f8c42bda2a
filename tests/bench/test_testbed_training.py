"""The test bed's training job: the parameter server gives what one process gives, and a cut run says so."""

import socket
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from time import monotonic
from typing import Any

import numpy as np
import pytest

from lab.bench.testbed.training.asynchronous import Server
from lab.bench.testbed.training.data import DATASETS, Floats, batch
from lab.bench.testbed.training.job import ASYNC, PS, TOPOLOGIES, Job, Trained
from lab.bench.testbed.training.model import LEARNING_RATE, Model
from lab.bench.testbed.training.wire import Meter, transfer
from lab.bench.testbed.training.worker import Rank
from lab.testbed.processes.network import free_ports

SEED = 3
STEPS = 4
SMALL = Model(pixels=5, hidden=4)


def job(dataset: str, topology: str, members: int, *, limit_s: float = 20.0, steps: int = STEPS) -> Job:
    (port,) = free_ports(1)
    addresses = tuple(f"127.0.0.{number + 1}" for number in range(members))
    return Job(dataset, topology, addresses, port, SEED, steps, limit_s, connect_s=10.0)


def in_threads(ranks: Sequence[Rank]) -> list[Trained]:
    found: dict[int, Trained] = {}

    def live(number: int) -> None:
        ranks[number].connect()
        barrier.wait(10.0)
        found[number] = ranks[number].train()

    barrier = threading.Barrier(len(ranks))
    for one in ranks:
        one.listen()
    threads = [threading.Thread(target=live, args=(number,)) for number in range(len(ranks))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [found[number] for number in range(len(ranks))]


def trained(given_job: Job) -> tuple[list[Trained], list[Floats]]:
    ranks = [Rank(given_job, number) for number in range(len(given_job.addresses))]
    with ExitStack() as stack:
        for one in ranks:
            stack.callback(one.close)
        return in_threads(ranks), [one.parameters for one in ranks]


def alone(dataset: str, workers: int) -> tuple[Floats, list[float]]:
    """Parameters and losses of one process that takes all workers' images as one batch."""
    sizes = DATASETS[dataset]
    net = Model.of(sizes)
    parameters, losses = net.initial(SEED), []
    for step in range(STEPS):
        parts = [batch(sizes, seed=SEED, worker=one, step=step) for one in range(workers)]
        images, labels = np.concatenate([one for one, _ in parts]), np.concatenate([one for _, one in parts])
        loss, gradient = net.gradient(parameters, images, labels)
        parameters -= np.float32(LEARNING_RATE) * gradient
        losses.append(loss)
    return parameters, losses


def test_the_gradient_is_the_slope_of_the_loss() -> None:
    random = np.random.default_rng(1)
    images, labels = random.standard_normal((7, 5)).astype(np.float32), random.integers(0, 10, 7)
    parameters = SMALL.initial(2)
    _, gradient = SMALL.gradient(parameters, images, labels)
    precise: Any = parameters.astype(np.float64)  # float32 would hide the difference, or step over a kink
    step = 1e-6
    for place in range(SMALL.size):
        moved = [precise.copy(), precise.copy()]
        moved[0][place] += step
        moved[1][place] -= step
        above, below = (SMALL.gradient(one, images, labels)[0] for one in moved)
        assert gradient[place] == pytest.approx((above - below) / (2 * step), abs=1e-4)


@pytest.mark.parametrize("dataset", DATASETS)
def test_as_one_process(dataset: str) -> None:
    results, found = trained(job(dataset, PS, 4))
    want, losses = alone(dataset, 3)
    np.testing.assert_allclose(found[0], want, atol=2e-5)
    np.testing.assert_allclose(np.mean([one.losses for one in results if one.losses], axis=0), losses, rtol=1e-4)
    assert [one.received_bytes for one in results] == [one.expected_bytes for one in results]
    assert all(one.finished and one.steps == STEPS for one in results)


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_a_run_that_is_cut_short_says_so(topology: str) -> None:
    results, _ = trained(job("cifar10", topology, 3, limit_s=0.05, steps=500))
    judged = [one for one in results if one.expected_bytes]
    assert not any(one.finished for one in judged)
    assert all(one.received_bytes < one.expected_bytes for one in judged)


@pytest.mark.parametrize("dataset", DATASETS)
def test_one_asynchronous_worker_is_as_one_process(dataset: str) -> None:
    (server, worker), (found, _) = trained(job(dataset, ASYNC, 2))
    np.testing.assert_allclose(found, alone(dataset, 1)[0], atol=2e-5)
    assert server.staleness == (0,) * STEPS
    assert (server.finished, worker.steps) == (True, STEPS)


def test_an_asynchronous_job_ends_after_its_updates_and_counts_staleness() -> None:
    """Each update is one worker's; the loss still falls, and no update has seen more others than there were."""
    (server, *workers), (found, *_) = trained(job("notmnist", ASYNC, 4, steps=8))
    assert (server.finished, server.steps, len(server.staleness)) == (True, 24, 24)
    assert server.received_bytes == server.expected_bytes
    assert all(0 <= stale <= number for number, stale in enumerate(server.staleness))
    assert sum(one.steps for one in workers) >= 24, "a gradient that comes after the last update counts for nothing"
    sizes = DATASETS["notmnist"]
    net, unseen = Model.of(sizes), batch(sizes, seed=SEED, worker=99, step=0)
    assert net.gradient(found, *unseen)[0] < 0.8 * net.gradient(net.initial(SEED), *unseen)[0]


def test_a_gradient_that_others_overtook_is_stale() -> None:
    """The second worker pulls first and pushes after three updates of the first one: it is three updates late."""
    with ExitStack() as stack:
        pairs = [socket.socketpair() for _ in range(2)]
        for one in (end for pair in pairs for end in pair):
            stack.enter_context(one)
            one.setblocking(False)
        server = Server(np.zeros(4, np.float32))

        def work() -> None:
            meter, pulled, ones = Meter(monotonic() + 20.0), np.empty(4, np.float32), np.ones(4, np.float32)
            (_, fast), (_, slow) = pairs
            transfer(meter, receive=[(slow, pulled)])
            for _ in range(3):
                transfer(meter, receive=[(fast, pulled)])
                transfer(meter, send=[(fast, ones)])
            transfer(meter, receive=[(fast, pulled)])  # the third update is applied by then
            transfer(meter, send=[(slow, ones)])

        thread = threading.Thread(target=work)
        thread.start()
        server.serve([here for here, _ in pairs], Meter(monotonic() + 20.0), updates=4)
        thread.join(10.0)
    assert server.staleness == [0, 0, 0, 3]
