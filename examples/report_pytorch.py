"""Report training progress to netgang from a PyTorch loop; copy it into your training program.

    reporter = Reporter(batch_size=128, world_size=dist.get_world_size(), rank=dist.get_rank(), first_step=resumed_at)
    for batch in loader:
        loss = train_step(batch)
        reporter.step(loss)
    reporter.close()

Nothing of torch is imported: a loss is whatever float() takes, and float() of a tensor waits for the GPU, so it is
asked for every `every` steps only. With Lightning call `step` in `on_train_batch_end` and `close` in `on_train_end`.
"""

from time import perf_counter
from typing import SupportsFloat

import netgang


class Reporter:
    """Reports step, loss and samples per second of every `every`-th step; ranks other than 0 report nothing."""

    def __init__(
        self, *, batch_size: int, world_size: int = 1, rank: int = 0, every: int = 10, first_step: int = 0
    ) -> None:
        self._samples_a_step = batch_size * world_size
        self._reports = rank == 0
        self._every = every
        self._step = first_step
        self._since = (first_step, perf_counter())
        """Step and moment of the last report"""

    def step(self, loss: SupportsFloat) -> None:
        """One step of all ranks is done."""
        self._step += 1
        if not self._reports or self._step % self._every:
            return
        step, at_s = self._since
        self._since = (self._step, perf_counter())
        seconds = max(self._since[1] - at_s, 1e-9)
        netgang.report(
            step=self._step,
            loss=float(loss),
            samples_per_second=(self._step - step) * self._samples_a_step / seconds,
        )

    def close(self) -> None:
        """Let the last points arrive."""
        if self._reports:
            netgang.flush()
