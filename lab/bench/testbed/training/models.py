"""Which program computes the gradients: numpy by hand, or a convolutional network in JAX."""

from functools import lru_cache
from importlib.util import find_spec
from typing import Final, Protocol

from lab.bench.testbed.training.data import Dataset, Floats, Labels
from lab.bench.testbed.training.model import Model

NUMPY: Final = "numpy"
"""Two layers, gradient by hand: computes little beside what it sends."""
JAX: Final = "jax"
"""A convolutional network; needs the extra `bench`."""
MODELS: Final = (NUMPY, JAX)


class Trainable(Protocol):
    """What a rank needs of a model: parameters and gradients are one flat vector of float32."""

    @property
    def size(self) -> int:
        """Number of parameters."""

    def initial(self, seed: int) -> Floats:
        """Parameters to begin with, the same in every process."""

    def gradient(self, parameters: Floats, images: Floats, labels: Labels) -> tuple[float, Floats]:
        """Mean loss of the images and its gradient."""


@lru_cache(maxsize=4)
def model_of(name: str, data: Dataset) -> Trainable:
    """The model for a data set, ready to compute; compiled once in a process.

    Errors: ValueError for an unknown name or a missing package.
    """
    if name == NUMPY:
        return Model.of(data)
    if name != JAX:
        raise ValueError(f"no model {name}: one of {', '.join(MODELS)}")
    if not has_jax():
        raise ValueError("jax is not installed: install the extra `bench`")
    from lab.bench.testbed.training.convolution import Convolution  # takes seconds, so only where it is used

    return Convolution.of(data)


def has_jax() -> bool:
    """Whether JAX is installed."""
    return find_spec("jax") is not None
