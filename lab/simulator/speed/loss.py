"""How the training loss falls: what the scaling policies of PAPERS E2 look at.

    L ← F(w) + (L − F(w)) · e^(−g·s / scale)        after s more samples

Shapes that E3 reports, and nothing more: synchronous workers make one large batch of theirs, so a step lowers the loss
more with more workers, though by less than in proportion (`g` = 1 / (1 + batch of all / noise batch), the usual form of
the gradient noise scale); asynchronous workers push stale gradients, so with many of them the loss tends to a higher
floor F(w), and at 12 may rise. The numbers are assumptions: floor 0.3 from 2.3 (ten classes, ln 10), 0.35 more at 12
workers and none up to 8.
"""

from math import exp

import msgspec

from lab.simulator.model import Sync

_FLOOR, _START = 0.3, 2.3
_STALE_FROM, _STALE = 8, 0.35 / 16.0


class LossModel(msgspec.Struct, frozen=True):
    """One job's loss over its samples."""

    batch: int
    sync: Sync
    scale: float = 20_000.0
    """Samples in which the distance to the floor falls to its e-th part, with tiny batches."""
    noise_batch: float = 512.0

    @property
    def start(self) -> float:
        """Loss before the first step."""
        return _START

    def floor(self, workers: int) -> float:
        """What the loss tends to with this many workers.

        >>> [round(LossModel(32, sync).floor(12), 2) for sync in (Sync.SYNCHRONOUS, Sync.ASYNCHRONOUS)]
        [0.3, 0.65]
        """
        stale = max(workers - _STALE_FROM, 0) ** 2 * _STALE if self.sync is Sync.ASYNCHRONOUS else 0.0
        return _FLOOR + stale

    def after(self, loss: float, samples: float, workers: int) -> float:
        """The loss after so many more samples.

        >>> job = LossModel(32, Sync.ASYNCHRONOUS)
        >>> round(job.after(0.5, 20_000.0, 9), 3), round(job.after(0.5, 20_000.0, 12), 3)
        (0.391, 0.591)
        """
        together = self.batch * (workers if self.sync is Sync.SYNCHRONOUS else 1)
        gain = 1.0 / (1.0 + together / self.noise_batch)
        floor = self.floor(workers)
        return floor + (loss - floor) * exp(-gain * samples / self.scale)
