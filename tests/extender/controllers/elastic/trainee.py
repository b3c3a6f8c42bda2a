"""A pod's stand-in: one worker of a real, small training job (softmax, numpy), as a process of its own.

Index 0 keeps the parameters and reports by `netgang_report`; its standard input says how far to train, `STEPS WORKERS`
a line, and it answers with the loss. Losses depend on seed, step and index alone, so each run has the same.
"""

import json
import os
import sys
from multiprocessing.connection import Client, Connection, Listener
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

import netgang_report

Floats = NDArray[np.float64]
KEY = b"one job"
CLASSES, FEATURES, POINTS, BATCH, RATE = 4, 12, 2000, 32, 0.02


def data() -> tuple[Floats, NDArray[np.int64]]:
    """Points around one centre a class, with noise that no classifier can see through."""
    chance = np.random.default_rng(7)
    labels = chance.integers(CLASSES, size=POINTS)
    centres = chance.normal(size=(CLASSES, FEATURES))
    return centres[labels] + chance.normal(scale=1.5, size=(POINTS, FEATURES)), labels


def gradient(weights: Floats, points: Floats, labels: NDArray[np.int64]) -> tuple[Floats, float]:
    scores = points @ weights
    scores -= scores.max(axis=1, keepdims=True)
    chances = np.exp(scores)
    chances /= chances.sum(axis=1, keepdims=True)
    loss = float(-np.log(chances[np.arange(len(labels)), labels]).mean())
    chances[np.arange(len(labels)), labels] -= 1.0
    return points.T @ chances / len(labels), loss


def batch(step: int, index: int) -> NDArray[np.int64]:
    return np.random.default_rng((step, index)).integers(POINTS, size=BATCH)


def alone(schedule: list[tuple[int, int]]) -> list[float]:
    """The losses after each (steps, workers) of a schedule, computed in one process: what the job must come to."""
    points, labels = data()
    weights, step, losses = np.zeros((FEATURES, CLASSES)), 0, []
    for steps, workers in schedule:
        until = step + steps
        while step < until:
            step += 1
            chosen = [batch(step, index) for index in range(workers)]
            parts = [gradient(weights, points[one], labels[one])[0] for one in chosen]
            weights = weights - RATE * np.mean(parts, axis=0)
        losses.append(gradient(weights, points, labels)[1])
    return losses


def follow(index: int, address: str) -> None:
    points, labels = data()
    with Client(address, authkey=KEY) as link:
        link.send(index)
        while True:
            try:
                asked = link.recv()
            except EOFError:
                return
            step, weights = asked
            chosen = batch(step, index)
            link.send(gradient(weights, points[chosen], labels[chosen])[0])


def lead(address: str) -> None:
    """The first worker: train as standard input says, report each step, and answer with the loss."""
    points, labels = data()
    weights = np.zeros((FEATURES, CLASSES))
    links: dict[int, Connection] = {}
    step, loss = 0, float("nan")
    with Listener(address, authkey=KEY) as listener:
        for line in sys.stdin:
            steps, workers = map(int, line.split())
            for gone in [index for index in links if index >= workers]:
                links.pop(gone).close()
            while len(links) < workers - 1:
                link = listener.accept()
                links[link.recv()] = link
            until = step + steps
            while step < until:
                step += 1
                began_s = perf_counter()
                for index in sorted(links):
                    links[index].send((step, weights))
                chosen = batch(step, 0)
                parts = [gradient(weights, points[chosen], labels[chosen])[0]]
                parts += [links[index].recv() for index in sorted(links)]
                weights = weights - RATE * np.mean(parts, axis=0)
                loss = gradient(weights, points, labels)[1]
                speed = workers * BATCH / max(perf_counter() - began_s, 1e-9)
                netgang_report.report(step=step, loss=loss, samples_per_second=speed, workers=workers)
            netgang_report.flush()
            sys.stdout.write(json.dumps({"step": step, "loss": loss}) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    if sys.argv[1] == "0":
        lead(os.environ["TRAINEE_ADDRESS"])
    else:
        follow(int(sys.argv[1]), os.environ["TRAINEE_ADDRESS"])
