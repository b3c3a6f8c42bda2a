"""A Keras callback that reports training progress to netgang; copy it into your training program.

    model.fit(dataset, callbacks=[ReportToNetgang(batch_size=128)])

It uses Keras' callback protocol alone (`on_train_begin`, `on_train_batch_end`, `on_train_end`) and imports no Keras:
give it `keras.callbacks.Callback` as base class if your version wants one. Steps go on over epochs; after a restart say
at which step the checkpoint was (`first_step`). Let one process report, the one whose worker index is 0.
"""

from collections.abc import Mapping
from time import perf_counter
from typing import Any

import netgang


class ReportToNetgang:
    """Reports step, loss, accuracy and samples per second of every `every`-th batch."""

    def __init__(self, *, batch_size: int, workers: int = 1, every: int = 10, first_step: int = 0) -> None:
        self._batch_size = batch_size
        """Of one worker"""
        self._workers = workers
        self._every = every
        self._step = first_step
        self._since = (first_step, perf_counter())
        """Step and moment of the last report"""

    def set_params(self, params: Mapping[str, Any]) -> None:
        """Keras says how it trains; nothing of it is needed."""

    def set_model(self, model: object) -> None:
        """Keras says what it trains; nothing of it is needed."""

    def on_train_begin(self, logs: Mapping[str, Any] | None = None) -> None:
        """Begin to measure."""
        self._since = (self._step, perf_counter())

    def on_train_batch_end(self, batch: int, logs: Mapping[str, Any] | None = None) -> None:
        """One batch is done; `logs` has the running means of the epoch."""
        self._step += 1
        if self._step % self._every or not logs or "loss" not in logs:
            return
        step, at_s = self._since
        self._since = (self._step, perf_counter())
        seconds = max(self._since[1] - at_s, 1e-9)
        netgang.report(
            step=self._step,
            loss=logs["loss"],
            samples_per_second=(self._step - step) * self._batch_size * self._workers / seconds,
            accuracy=logs.get("accuracy"),
        )

    def on_train_end(self, logs: Mapping[str, Any] | None = None) -> None:
        """Let the last points arrive."""
        netgang.flush()

    def __getattr__(self, name: str) -> Any:
        """Everything else that Keras may call (`on_epoch_end`, …) does nothing."""
        if name.startswith("on_"):
            return lambda *_args, **_more: None
        raise AttributeError(name)
