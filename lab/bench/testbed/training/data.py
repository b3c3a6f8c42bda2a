"""Synthetic images in the two sizes of the network paper, made batch by batch from a seed.

Why made and not loaded: the bed has no way out, and training time depends on sizes and not on what the pictures show.
Rule: batch `step` of `worker` is the same in every process and topology. Ten classes, each a fixed pattern under noise,
so that a model can learn them and a loss that does not fall means a defect.
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
