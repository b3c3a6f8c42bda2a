"""A convolutional network in JAX: forward and backward pass by the framework, compiled by XLA for the CPU.

Why beside the one by hand: a framework's step is made of other arithmetic and memory traffic than a matrix product, and
computes longer for each byte that it sends. Two convolutions of 3 × 3 with ReLU and pooling, a hidden layer, ten
classes; with 0.81 MB (cifar10) or 0.11 MB (notmnist) its gradients are about as large as the other model's.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from math import isqrt
from typing import Any, Final

import numpy as np

from lab.bench.testbed.training.data import CLASSES, Dataset, Floats, Labels

_WIDTHS: Final = {"cifar10": (3, 16, 32, 96), "notmnist": (1, 8, 8, 64)}
"""data set → colours, channels of the two convolutions, hidden units"""
_ORDER: Final = ("NHWC", "HWIO", "NHWC")
_TWO: Final = (1, 2, 2, 1)
"""A pooling's window and its steps: height and width."""
_POOLED: Final = 4
"""Pixels of an edge that become one after both poolings."""


@dataclass(frozen=True, slots=True)
class Convolution:
    """The network for one data set."""

    edge: int
    """Pixels of an image's edge."""
    widths: tuple[int, int, int, int]
    _compiled: Callable[[Any, Any, Any], tuple[Any, Any]] | None = field(default=None, repr=False, compare=False)

    @classmethod
    def shaped(cls, data: Dataset) -> "Convolution":
        """The network for a data set, with nothing compiled.

        >>> from lab.bench.testbed.training.data import DATASETS
        >>> [Convolution.shaped(one).size for one in DATASETS.values()]
        [202762, 26466]
        """
        widths = _WIDTHS[data.name]
        return cls(isqrt(data.pixels // widths[0]), widths)

    @classmethod
    def of(cls, data: Dataset) -> "Convolution":
        """The network, compiled for the data set's batch. Cost: a second or two. Errors: ImportError without JAX."""
        import jax

        made = cls.shaped(data)
        made = replace(made, _compiled=jax.jit(jax.value_and_grad(made.loss)))
        made.gradient(made.initial(0), np.zeros((data.batch, data.pixels), np.float32), np.zeros(data.batch, np.int64))
        return made

    @property
    def size(self) -> int:
        """Number of parameters."""
        return sum(int(np.prod(shape)) for shape in _shapes(self.edge, self.widths))

    def initial(self, seed: int) -> Floats:
        """Parameters to begin with, the same in every process: scaled to each layer's inputs (He et al. 2015)."""
        random = np.random.default_rng(seed)
        parts = [
            random.standard_normal(shape) * np.sqrt(2.0 / np.prod(shape[:-1])) if len(shape) > 1 else np.zeros(shape)
            for shape in _shapes(self.edge, self.widths)
        ]
        return np.concatenate([one.ravel() for one in parts]).astype(np.float32)

    def gradient(self, parameters: Floats, images: Floats, labels: Labels) -> tuple[float, Floats]:
        """Mean loss of the images and its gradient; `of` must have made the network."""
        assert self._compiled is not None
        loss, found = self._compiled(parameters, images, labels.astype(np.int32))
        return float(loss), np.array(found)  # a copy: the framework's own is read-only, and a ring adds into it

    def loss(self, parameters: Any, images: Any, labels: Any) -> Any:
        """Mean loss of flat parameters on flat images, for JAX to differentiate."""
        import jax
        import jax.numpy as jnp

        shapes = _shapes(self.edge, self.widths)
        cuts = np.cumsum([int(np.prod(shape)) for shape in shapes])[:-1].tolist()
        parts = [one.reshape(shape) for one, shape in zip(jnp.split(parameters, cuts), shapes, strict=True)]
        seen = images.reshape(-1, self.edge, self.edge, self.widths[0])
        for weights, biases in (parts[0:2], parts[2:4]):
            seen = jax.lax.conv_general_dilated(seen, weights, (1, 1), "SAME", dimension_numbers=_ORDER)
            seen = jax.lax.reduce_window(jax.nn.relu(seen + biases), -jnp.inf, jax.lax.max, _TWO, _TWO, "VALID")
        active = jax.nn.relu(seen.reshape(len(images), -1) @ parts[4] + parts[5])
        logits = active @ parts[6] + parts[7]
        return -jax.nn.log_softmax(logits)[jnp.arange(len(images)), labels].mean()


def _shapes(edge: int, widths: tuple[int, int, int, int]) -> tuple[tuple[int, ...], ...]:
    """Weights and biases, layer by layer."""
    colours, first, second, hidden = widths
    inputs = (edge // _POOLED) ** 2 * second
    return (
        *((3, 3, colours, first), (first,), (3, 3, first, second), (second,)),
        *((inputs, hidden), (hidden,), (hidden, CLASSES), (CLASSES,)),
    )
