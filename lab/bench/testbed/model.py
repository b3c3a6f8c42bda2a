"""A small, real training job: its synthetic images, its model with a gradient by hand, and what each of its ranks gets.

Why made and not loaded: the bed has no way out, and training time depends on sizes and not on what the pictures show.
Rules: batch `step` of `worker` is the same in every process; ten classes, each a fixed pattern under noise, so that a
model can learn them and a loss that does not fall means a defect. Parameters and gradients are one flat vector of
float32, which is what travels. The gradient is the *mean* over the images, so the mean of equally large workers'
gradients is the gradient of all their images together.
"""

from functools import lru_cache
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Labels = NDArray[np.int64]

CLASSES: Final = 10
_PATTERN: Final = 0
"""Stream of the random numbers that make the patterns; batches have their own."""
_BATCH: Final = 1


class Dataset(msgspec.Struct, frozen=True):
    """Sizes of one data set and of the model and batch that are trained on it."""

    name: str
    pixels: int
    """Values per image: width × height × colours."""
    hidden: int
    """Units of the model's hidden layer: decides how many bytes a gradient has."""
    batch: int
    """Images per worker and step: decides how long a step computes."""
    steps: int
    """Steps of one run: so few that five runs of each choice take minutes, and that at 40 Mbit/s all end."""


DATASETS: Final = {
    one.name: one
    for one in (
        Dataset("cifar10", pixels=32 * 32 * 3, hidden=64, batch=64, steps=4),
        Dataset("notmnist", pixels=28 * 28, hidden=32, batch=256, steps=12),
    )
}
"""name → sizes. A gradient has 0.79 MB (cifar10) or 0.10 MB (notmnist)."""


def batch(data: Dataset, *, seed: int, worker: int, step: int) -> tuple[Floats, Labels]:
    """Images, shape (batch, pixels), values −1..1, and their classes. Cost: O(batch × pixels)."""
    random = np.random.default_rng((seed, _BATCH, worker, step))
    labels = random.integers(0, CLASSES, data.batch)
    noise = random.integers(0, 256, (data.batch, data.pixels), dtype=np.uint8)
    images = (noise.astype(np.float32) - 127.5) / 255.0 + _patterns(data.pixels, seed)[labels]
    return images, labels


@lru_cache(maxsize=8)
def _patterns(pixels: int, seed: int) -> Floats:
    """One pattern per class, shape (classes, pixels), values ±0.5."""
    random = np.random.default_rng((seed, _PATTERN))
    return random.choice(np.array([-0.5, 0.5], np.float32), (CLASSES, pixels))


LEARNING_RATE = 0.05


class Model(msgspec.Struct, frozen=True):
    """pixels → hidden units (ReLU) → ten classes (softmax, cross-entropy)."""

    pixels: int
    hidden: int

    @property
    def size(self) -> int:
        """Number of parameters.

        >>> Model(pixels=3072, hidden=64).size
        197322
        """
        return (self.pixels + 1) * self.hidden + (self.hidden + 1) * CLASSES

    def initial(self, seed: int) -> Floats:
        """Parameters to begin with, the same in every process."""
        random = np.random.default_rng(seed)
        first = random.standard_normal((self.pixels + 1) * self.hidden) / np.sqrt(self.pixels)
        second = random.standard_normal((self.hidden + 1) * CLASSES) / np.sqrt(self.hidden)
        return np.concatenate((first, second)).astype(np.float32)

    def gradient(self, parameters: Floats, images: Floats, labels: Labels) -> tuple[float, Floats]:
        """Mean loss of the images and its gradient. Cost: O(images × size)."""
        inner, outer = self._layers(parameters)
        count = len(labels)
        # 1. forwards
        before = images @ inner[:-1] + inner[-1]
        active = np.maximum(before, 0.0)
        logits = active @ outer[:-1] + outer[-1]
        logits -= logits.max(axis=1, keepdims=True)
        exponents = np.exp(logits)
        shares = exponents / exponents.sum(axis=1, keepdims=True)
        loss = float(-np.log(np.maximum(shares[np.arange(count), labels], 1e-30)).mean())
        # 2. backwards
        shares[np.arange(count), labels] -= 1.0
        shares /= count
        behind = (shares @ outer[:-1].T) * (before > 0.0)
        found = np.empty(self.size, np.float32)
        inner_found, outer_found = self._layers(found)
        inner_found[:-1], inner_found[-1] = images.T @ behind, behind.sum(axis=0)
        outer_found[:-1], outer_found[-1] = active.T @ shares, shares.sum(axis=0)
        return loss, found

    def _layers(self, vector: Floats) -> tuple[Floats, Floats]:
        """The two layers as views; the last row of each holds the biases."""
        cut = (self.pixels + 1) * self.hidden
        return vector[:cut].reshape(self.pixels + 1, self.hidden), vector[cut:].reshape(self.hidden + 1, CLASSES)


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

    @property
    def data(self) -> Dataset:
        """The data set by its name."""
        return DATASETS[self.dataset]

    @property
    def updates(self) -> int:
        """Gradients that the workers compute, all together."""
        return self.steps * (len(self.addresses) - 1)
