"""Callbacks for training frameworks, none of which is imported: each follows its framework's protocol alone.

    model.fit(dataset, callbacks=[KerasCallback(batch_size=128)])                   # Keras
    Trainer(model, args, train_dataset=data, callbacks=[HuggingFaceCallback()])     # Hugging Face
    steps = StepReporter(batch_size=128, world_size=8, rank=rank)                   # a loop of PyTorch's
    for batch in loader:
        steps.step(train_step(batch))
    steps.close()

Steps go on over epochs; after a restart say which step the checkpoint has (`first_step`). One process reports, the one
with index or rank 0.
"""

from time import perf_counter
from typing import Any, Mapping, Optional, SupportsFloat

from netgang_report import DEFAULT, Reporter


class _Steps:
    """Counts steps, and reports some with the speed since the one before: `samples` of each step over the time."""

    def __init__(self, samples: float, *, every: int = 1, first_step: int = 0, reporter: Optional[Reporter]) -> None:
        self._samples, self._every = samples, every
        self._reporter = DEFAULT if reporter is None else reporter
        self._begin(first_step)

    def _begin(self, step: int) -> None:
        self._step = step
        self._since = (step, perf_counter())

    def _next_is_due(self) -> bool:
        self._step += 1
        return self._step % self._every == 0

    def _report(self, loss: SupportsFloat, accuracy: Any = None) -> None:
        step, at_s = self._since
        self._begin(self._step)
        speed = (self._step - step) * self._samples / max(self._since[1] - at_s, 1e-9)
        # float() of a tensor waits for the GPU and may raise: report does it, and never raises
        self._reporter.report(
            step=self._step,
            loss=loss,  # type: ignore[arg-type]
            samples_per_second=speed or None,
            accuracy=accuracy,
        )


class StepReporter(_Steps):
    """Step, loss and samples per second of every `every`-th step of a loop; ranks other than 0 report nothing.

    With Lightning call `step` in `on_train_batch_end` and `close` in `on_train_end`.
    """

    def __init__(
        self,
        *,
        batch_size: int,
        world_size: int = 1,
        rank: int = 0,
        every: int = 10,
        first_step: int = 0,
        reporter: Optional[Reporter] = None,
    ) -> None:
        super().__init__(batch_size * world_size, every=every, first_step=first_step, reporter=reporter)
        self._reports = rank == 0

    def step(self, loss: SupportsFloat) -> None:
        """One step of all ranks is done. A loss is whatever float() takes; it is asked for at reported steps only."""
        if self._next_is_due() and self._reports:
            self._report(loss)

    def close(self) -> None:
        """Let the last points arrive."""
        if self._reports:
            self._reporter.flush()


class _Callback(_Steps):
    """Everything else that a framework may call (`on_epoch_end`, `set_model`, …) does nothing."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith(("on_", "set_")):
            return lambda *_args, **_more: None
        raise AttributeError(name)


class KerasCallback(_Callback):
    """Step, loss, accuracy and samples per second of every `every`-th batch; `batch_size` is of one worker."""

    def __init__(
        self,
        *,
        batch_size: int,
        workers: int = 1,
        every: int = 10,
        first_step: int = 0,
        reporter: Optional[Reporter] = None,
    ) -> None:
        super().__init__(batch_size * workers, every=every, first_step=first_step, reporter=reporter)

    def on_train_begin(self, logs: Optional[Mapping[str, Any]] = None) -> None:
        """Begin to measure."""
        self._begin(self._step)

    def on_train_batch_end(self, batch: int, logs: Optional[Mapping[str, Any]] = None) -> None:
        """One batch is done; `logs` has the running means of the epoch."""
        if self._next_is_due() and logs and "loss" in logs:
            self._report(logs["loss"], logs.get("accuracy"))

    def on_train_end(self, logs: Optional[Mapping[str, Any]] = None) -> None:
        """Let the last points arrive."""
        self._reporter.flush()


class HuggingFaceCallback(_Callback):
    """Step, loss and samples per second whenever Hugging Face's Trainer logs a loss (its `logging_steps`)."""

    def __init__(self, *, reporter: Optional[Reporter] = None) -> None:
        super().__init__(1.0, reporter=reporter)

    def on_train_begin(self, args: Any, state: Any, control: Any, **_more: Any) -> None:
        """Begin to measure, at the checkpoint's step after a restart."""
        self._begin(state.global_step)

    def on_log(
        self, args: Any, state: Any, control: Any, logs: Optional[Mapping[str, Any]] = None, **_more: Any
    ) -> None:
        """A line of the Trainer's log; those of evaluations have no `loss`."""
        if logs and "loss" in logs and state.is_world_process_zero:
            self._samples = args.train_batch_size * args.world_size * args.gradient_accumulation_steps
            self._step = state.global_step
            self._report(logs["loss"])

    def on_train_end(self, args: Any, state: Any, control: Any, **_more: Any) -> None:
        """Let the last points arrive."""
        if state.is_world_process_zero:
            self._reporter.flush()
