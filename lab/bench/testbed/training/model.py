"""A two-layer network with its gradient by hand: the arithmetic that every topology shares.

Rule: parameters and gradients are one flat vector of float32, which is what travels. The gradient is the *mean* over
the images, so the mean of equally large workers' gradients is the gradient of all their images together.
"""

import msgspec
import numpy as np

from lab.bench.testbed.training.data import CLASSES, Dataset, Floats, Labels

LEARNING_RATE = 0.05


class Model(msgspec.Struct, frozen=True):
    """pixels → hidden units (ReLU) → ten classes (softmax, cross-entropy)."""

    pixels: int
    hidden: int

    @classmethod
    def of(cls, data: Dataset) -> "Model":
        """The model for a data set."""
        return cls(data.pixels, data.hidden)

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
