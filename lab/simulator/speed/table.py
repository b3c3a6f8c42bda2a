"""What one training step of a model costs, and what starting and changing a job costs before it trains (again).

Sources: parameters and multiply-adds (MAC) of a forward pass are those of the architectures as published, for the 32 ×
32 inputs of CIFAR-10 where PAPERS K8 trains on it: VGG-16 14.7 M and 0.31 G (the variant with one dense layer),
ResNet-50 23.5 M and 1.30 G, CNN-rand (sentence classification, 300-wide embeddings of 18,800 words) 6.0 M and 21 M.
ResNeXt-110 is no published variant: twice the 1.7 M and 0.25 G of ResNet-110.

Assumptions: a training step is three forward passes, two operations a MAC; a core does 20 GFLOP/s of what the framework
gets out of it in single precision; a step costs 50 ms for any batch. Only ratios between models and between compute and
network matter to a comparison of policies.

A change of the worker count was measured at 40.5 to 41.8 s, nearly all of it serving the request; the checkpoint takes
about 120 ms and more with every worker. `python -m lab.papers` measures a TFJob's here (rows E1 and E3), and a scenario
may have another (`resize_stall_s`). Steps since the last checkpoint, which is made every 10 steps, are repeated.
Assumptions: the three measured changes (3 → 6, 9, 12) are taken as a line in the workers afterwards; a change while the
job still starts costs nothing but the start of the new pods; pods start 10 s after they have a node.
"""

from collections.abc import Mapping
from math import fmod

import msgspec

_CORE_FLOPS = 20e9
_FLOPS_PER_MAC = 6.0
"""Three passes of two operations."""

START_S = 10.0
"""From a pod's node to its first step: pull of a cached image, start, connect."""
CHECKPOINT_STEPS = 10
_LEAST_S, _LEAST_WORKERS = 40.5, 6
_MOST_S, _MOST_WORKERS = 41.8, 12


class Profile(msgspec.Struct, frozen=True):
    """A model's cost per step and sample.

    >>> vgg = PROFILES["vgg16"]
    >>> round(vgg.core_s_per_sample, 3), vgg.gradient_bytes
    (0.093, 58800000)
    """

    name: str
    parameters: int
    macs: float
    """Multiply-adds of one forward pass of one sample."""
    step_s: float = 0.05
    """What a step costs on cores besides its samples."""

    @property
    def gradient_bytes(self) -> int:
        """Bytes of all parameters, or of their gradients, in single precision."""
        return 4 * self.parameters

    @property
    def core_s_per_sample(self) -> float:
        """Core seconds that one sample takes in training."""
        return _FLOPS_PER_MAC * self.macs / _CORE_FLOPS

    def compute_s(self, batch: int, *, cores: float) -> float:
        """Seconds for one step of `batch` samples on this many cores.

        >>> vgg = PROFILES["vgg16"]
        >>> [round(vgg.compute_s(batch, cores=2.0), 2) for batch in (8, 128)]
        [0.42, 6.0]
        """
        return self.step_s + batch * self.core_s_per_sample / max(cores, 0.01)


PROFILES: Mapping[str, Profile] = {
    # name → what it costs
    one.name: one
    for one in (
        Profile("cnn-rand", 6_000_000, 21e6),
        Profile("vgg16", 14_700_000, 0.31e9),
        Profile("resnet50", 23_500_000, 1.30e9),
        Profile("resnext110", 3_400_000, 0.50e9),
    )
}


def profile_of(model: str) -> Profile:
    """The model's profile; ValueError names the known ones.

    >>> profile_of("vgg16").parameters
    14700000
    """
    try:
        return PROFILES[model]
    except KeyError:
        raise ValueError(f"model {model!r} is not one of {', '.join(sorted(PROFILES))}") from None


def resize_stall_s(workers: int) -> float:
    """Seconds without training when a job is changed to this many workers.

    >>> [round(resize_stall_s(workers), 2) for workers in (3, 6, 9, 12)]
    [40.5, 40.5, 41.15, 41.8]
    """
    over = min(max((workers - _LEAST_WORKERS) / (_MOST_WORKERS - _LEAST_WORKERS), 0.0), 1.0)
    return _LEAST_S + over * (_MOST_S - _LEAST_S)


def repeated_samples(trained: float, step_samples: float) -> float:
    """Samples since the last checkpoint, of `trained` in all, when a step takes `step_samples`.

    >>> repeated_samples(1234.0, 8.0)
    34.0
    """
    return fmod(trained, CHECKPOINT_STEPS * step_samples)
