"""Handwritten digits, a small model with a gradient by hand, and one rank's parameters, steps and checkpoints.

The set: the test part of "Optical Recognition of Handwritten Digits" (E. Alpaydin and C. Kaynak, UCI, 1998, CC BY 4.0),
1,797 images of 8 × 8 as in scikit-learn 1.9.1; a file here, so that a pod needs numpy alone. Rules: which images a step
takes depends on seed, step and place alone. A kill at any moment leaves the old checkpoint or the new; after a resume
there is one at every step until an interval is through: at most one interval is repeated, and none twice.
"""

import os
from argparse import Namespace
from collections.abc import Callable
from functools import cache
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from time import monotonic
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Labels = NDArray[np.int64]
INPUTS, CLASSES = 65, 10  # pixels and a constant one, whose weights are the biases; digits
LEARNING_RATE: Final = np.float32(0.05)  # with it twelve stale workers are too many, and nine are not (row E2)


@cache
def digits() -> tuple[Floats, Labels]:
    """All images, shape (1797, INPUTS), values 0..1, and what they show."""
    table = np.loadtxt(Path(__file__).with_name("digits.csv.gz"), delimiter=",", dtype=np.float32)
    return np.column_stack((table[:, :-1] / 16.0, np.ones_like(table[:, 0]))), table[:, -1].astype(np.int64)


def batch(seed: int, step: int, *, place: int, world: int, size: int) -> tuple[Floats, Labels]:
    """The images of worker `place` of `world`, `size` of them; those of all workers together are drawn at random."""
    images, labels = digits()
    mine = np.random.default_rng((seed, step)).integers(0, len(labels), (world, size))[place]
    return images[mine], labels[mine]


def gradient(parameters: Floats, hidden: int, images: Floats, labels: Labels) -> tuple[float, Floats]:
    """Inputs → `hidden` units (ReLU) → ten classes (softmax): mean cross-entropy of the images, and its gradient."""
    inner, outer = parameters[: INPUTS * hidden].reshape(INPUTS, -1), parameters[INPUTS * hidden :].reshape(-1, CLASSES)
    rows, before = np.arange(len(labels)), images @ inner
    active = np.column_stack((np.maximum(before, 0.0), np.ones(len(labels), np.float32)))
    shares = np.exp((logits := active @ outer) - logits.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    loss = float(-np.log(np.maximum(shares[rows, labels], 1e-30)).mean())
    shares = (shares - np.eye(CLASSES, dtype=np.float32)[labels]) / np.float32(len(labels))
    behind = (shares @ outer[:-1].T) * (before > 0.0)
    return loss, np.concatenate(((images.T @ behind).ravel(), (active.T @ shares).ravel()))


def saved(options: Namespace) -> tuple[int, Floats]:
    """The newest checkpoint: its steps and parameters, one vector; without one, what to begin with."""
    try:
        with np.load(options.checkpoint_dir / "checkpoint.npz") as file:
            return int(file["step"]), file["parameters"]
    except FileNotFoundError:
        random, hidden = np.random.default_rng(options.seed), options.hidden
        inner, outer = random.standard_normal(INPUTS * hidden), random.standard_normal((hidden + 1) * CLASSES)
        return 0, np.concatenate((inner / np.sqrt(INPUTS), outer / np.sqrt(hidden))).astype(np.float32)


class Learner:
    """`state` is the parameters after so many steps; `tell` is called with the facts of each; the `keeper` saves."""

    def __init__(self, options: Namespace, tell: Callable[[dict[str, Any]], None], *, keeper: bool) -> None:
        self.options, self._tell, self._keeper = options, tell, keeper
        self.resumed, parameters = saved(options)
        self._size = parameters.size
        more = max(3, options.pad_bytes // 4 - self._size)  # loss and two times follow a gradient
        self.state = self.resumed, np.append(parameters, np.zeros(more, np.float32))
        self.since_s = self._gave_s = monotonic()
        self.newcomers = False

    @property
    def done(self) -> bool:
        """All steps are."""
        return bool(self.state[0] >= self.options.steps)

    def gradient(self, *, place: int, world: int) -> Floats:
        """Of this place's share of the next step's images; the vector that travels."""
        began_s, (step, parameters), options = monotonic(), self.state, self.options
        images, labels = batch(options.seed, step, place=place, world=world, size=options.batch)
        vector, size = np.zeros_like(parameters), self._size
        loss, vector[:size] = gradient(parameters[:size], options.hidden, images, labels)
        gave_s, self._gave_s = self._gave_s, monotonic()
        vector[size : size + 3] = loss, self._gave_s - began_s, self._gave_s - gave_s
        return vector

    def advance(self, mean: Floats, **more: int) -> None:
        """Go one step down the mean gradient, save if it is time, tell."""
        step, new, every = self.state[0] + 1, self.state[1].copy(), self.options.checkpoint_every
        new[: self._size] -= LEARNING_RATE * mean[: self._size]
        self.state = step, new  # one assignment: no signal parts them
        if self._keeper and (step % every == 0 or self.resumed < step <= self.resumed + every):
            self.save()
        self.tell(mean, step=step, **more)

    def tell(self, vector: Floats, **more: int) -> None:
        """The facts of a step: loss and times of all ranks, their mean, or of this one; CPU and memory of its own."""
        loss, compute_s, rank_s = vector[self._size : self._size + 3].tolist()
        used, last_s, self.since_s = getrusage(RUSAGE_SELF), self.since_s, monotonic()
        own = {"cpu_s": used.ru_utime + used.ru_stime, "memory_mib": used.ru_maxrss / 1024.0}
        times = {"seconds": self.since_s - last_s, "compute_s": compute_s, "rank_s": rank_s}
        self._tell({**more, "loss": loss, **times, **own})

    def save(self) -> None:
        """Put a checkpoint in the place of the last one; on return it is on the disk."""
        step, parameters = self.state
        beside = self.options.checkpoint_dir / f".checkpoint.{os.getpid()}"
        with beside.open("wb") as file:
            np.savez(file, step=step, parameters=parameters[: self._size])
            file.flush()
            os.fsync(file.fileno())
        beside.replace(self.options.checkpoint_dir / "checkpoint.npz")
